//! The Linux kernel as the judge: the engine speaks Multipath TCP with it over TUN devices.
#![cfg(target_os = "linux")]

mod capture;
mod judge;
mod namespace;
mod path;
mod peer;
#[path = "../world/stack.rs"]
mod stack;

mod addresses;
mod closing;
mod handshake;
mod joins;
mod transfer;
