//! The subflow as plain TCP (RFC 9293 and its kin): two of them and a wire, in virtual time.

#[path = "../pair/mod.rs"]
mod pair;

mod closing;
mod controls;
mod ecn;
mod handshake;
mod loss;
mod peers;
mod property;
mod reordering;
mod timers;
mod transfer;
mod validation;
mod windows;

use mptcp::time::MILLISECOND;

use pair::wire::Wire;

/// 10 ms each way.
fn wires() -> [Wire; 2] {
    [Wire::new(10 * MILLISECOND), Wire::new(10 * MILLISECOND)]
}
