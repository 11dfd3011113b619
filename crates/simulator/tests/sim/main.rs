//! The simulator, through its public interface.

mod access;
mod algorithms;
mod apps;
#[path = "../../../experiment/tests/complete/mod.rs"]
mod complete;
mod experiments;
mod failures;
mod first_hop;
mod host_jitter;
mod middleboxes;
mod next_hops;
mod random_faults;
mod refusals;
mod reroutes;
mod streams;
mod tables;
mod topologies;
mod trace;
mod video;
