//! Experiments in real time on Linux: the link model of `netlab` between hosts in network namespaces.
//!
//! Everything that a run makes is held by descriptors and threads of this process and ends with it.
#![cfg(target_os = "linux")]

mod clock;
mod error;
mod namespace;
mod sys;
pub mod traffic;

pub use clock::Clock;
pub use error::LiveError;
pub use namespace::NetworkNamespace;
