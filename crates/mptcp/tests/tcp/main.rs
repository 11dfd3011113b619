//! The subflow as plain TCP (RFC 9293 and its kin): two of them and a wire, in virtual time.

#[path = "../pair/mod.rs"]
mod pair;

mod loss;
mod property;
mod transfer;

use mptcp::time::MILLISECOND;

use pair::wire::Wire;

/// 10 ms each way.
fn wires() -> [Wire; 2] {
    [Wire::new(10 * MILLISECOND), Wire::new(10 * MILLISECOND)]
}
