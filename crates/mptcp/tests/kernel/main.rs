//! Tests against the Linux kernel: the engine communicates with it by MPTCP over TUN devices.
#![cfg(target_os = "linux")]

mod capture;
mod judge;
#[expect(dead_code, reason = "here time is real, and no test asks for it")]
#[path = "../world/middleboxes.rs"]
mod middleboxes;
mod namespace;
mod path;
mod peer;
#[path = "../world/promises.rs"]
mod promises;
#[path = "../world/stack.rs"]
mod stack;
mod witness;

mod addresses;
mod handshake;
mod interference;
mod interoperation;
mod joins;
mod path_mtu;
mod transfer;
