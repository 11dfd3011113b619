//! Captures of the Linux kernel talking to itself: their options, their keys, and the engine in the place of either side.

mod as_recorded;
mod codec;
mod keys;
mod recording;
mod replay;
