//! Captures of a connection between two Linux kernels: their options, their keys, and the engine in
//! the place of either host.

mod as_recorded;
mod codec;
mod keys;
mod recording;
mod replay;
