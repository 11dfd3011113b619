//! The simulator, and the link model and experiment model that all back-ends share.
//!
//! Everything here runs in virtual time. Time and randomness are arguments.

pub mod capabilities;
pub mod fault;
pub mod features;
pub mod first_hop;
pub mod flows;
pub mod link;
pub mod links;
pub mod lookup;
pub mod middlebox;
pub mod next_hop;
pub mod pacing;
pub mod parameters;
pub mod places;
mod program;
pub mod registry;
pub mod resolved;
pub mod rng;
pub mod samples;
pub mod schedule;
pub mod sim;
pub mod stack;
pub mod summary;
pub mod time;
pub mod trace;

pub use program::main;
