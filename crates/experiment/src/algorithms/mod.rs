//! The algorithms that flows can name, with their parameters: those of the engine, and a user's own.

mod fault;
pub mod parameters;
mod registry;

pub use fault::Fault;
pub use registry::{MakeControl, MakePathManager, MakeScheduler, Registry};
