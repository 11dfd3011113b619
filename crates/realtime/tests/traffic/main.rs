//! Tests applications over the kernel's sockets, between two hosts.

#[path = "../cables/mod.rs"]
mod cables;
mod driver;
mod failures;
mod flows;
mod probes;
mod telemetry;
