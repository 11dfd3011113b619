//! Tests applications over the kernel's sockets, between two hosts.

mod driver;
mod failures;
mod flows;
mod probes;
mod telemetry;
