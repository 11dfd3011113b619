//! The protocol engine of Multipath TCP (RFC 8684), sans-IO.
//!
//! It does no input or output, reads no clock, owns no thread and draws no randomness of its own: time and a generator are
//! arguments. The parts, from the wire upwards:
//!
//! - [`wire`]: packets as bytes and as values.
//! - [`endpoint`]: all connections of a host.
//! - [`connection`]: a Multipath TCP connection.
//! - [`subflow`]: one TCP connection.
//! - [`cc`], [`sched`], [`pm`]: congestion controls, packet schedulers, path managers, one file each.
//! - [`failure`]: when a subflow counts as failed, and what is sent again.
//! - [`seq`], [`payload`], [`time`]: what all of them count in.

pub mod cc;
pub mod connection;
pub mod endpoint;
pub mod failure;
pub mod payload;
pub mod pm;
pub mod sched;
pub mod seq;
pub mod subflow;
pub mod time;
pub mod wire;
