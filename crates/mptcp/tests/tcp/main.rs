//! The subflow as plain TCP (RFC 9293 and related RFCs): two of them and a wire, in virtual time.

#[path = "../pair/mod.rs"]
mod pair;

mod closing;
mod controls;
mod ecn;
mod handshake;
mod loss;
mod offload;
mod peers;
mod property;
mod reordering;
mod timers;
mod transfer;
mod validation;
mod windows;

use mptcp::time::MILLISECOND;

use pair::wire::Wire;

/// Returns wires of 10 ms in each direction.
fn wires() -> [Wire; 2] {
    [Wire::new(10 * MILLISECOND), Wire::new(10 * MILLISECOND)]
}
