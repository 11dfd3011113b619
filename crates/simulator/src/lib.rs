//! The simulator: hosts, network and schedule in virtual time.
//!
//! A run covers the times from 0 up to, but not including, its duration. Its trace depends on the
//! experiment, the seed, and the injected actions with their times. It does not depend on the event
//! queue, the sampling interval, or the steps in which the run is advanced.

mod capabilities;
mod captures;
mod check;
mod datagrams;
mod event_queue;
mod flows;
mod handling;
mod hosts;
mod network;
mod packet;
mod program;
mod sampling;
mod simulation;
mod stall;
mod summary;
mod trace_hash;

pub use capabilities::capabilities;
pub use captures::CapturesError;
pub use check::check;
pub use event_queue::QueueKind;
pub use program::main;
pub use simulation::{Simulation, SimulationError};
pub use summary::Summary;
