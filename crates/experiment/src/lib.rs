//! The resolved experiment and everything that follows from it on every back-end: features,
//! algorithms by name, addresses, traffic, events, the configuration of the engine, and the tables
//! and summaries of a run.
//!
//! Time and randomness are arguments. Only [`run::RunRecord::flush_if_due`] reads a clock.

pub mod addressing;
pub mod algorithms;
pub mod capabilities;
pub mod engine_config;
pub mod features;
pub mod next_hop;
pub mod program;
pub mod resolved;
pub mod rng;
pub mod run;
pub mod samples;
pub mod schedule;
pub mod summary;
pub mod time;
pub mod traffic;
