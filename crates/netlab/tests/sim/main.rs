//! The simulator, through its public interface.

mod apps;
mod experiments;
mod failures;
mod refusals;
mod tables;
mod topologies;
mod trace;
