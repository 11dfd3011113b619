//! How often mainline repeats an announcement that is not echoed (RFC 8684, section 3.4.1).

use crate::time::Nanos;

/// Announcements in all are one more than this.
pub const TRIES: u32 = 3;

/// How long each try waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddAddressTimer {
    /// The same each time, as in 6.12.
    Fixed,
    /// From the longest retransmission timeout of a subflow, doubled with each try, as in 6.18.
    Adaptive,
}

/// How long each of the tries waits for the echo. `longest_rto` is that of the subflows, if there is one; `timeout` is
/// `net.mptcp.add_addr_timeout`, 120 s by default.
pub fn waits(
    timer: AddAddressTimer,
    longest_rto: Option<Nanos>,
    timeout: Nanos,
) -> impl Iterator<Item = Nanos> {
    let first = longest_rto.map_or(timeout, |rto| rto.min(timeout));
    (0..TRIES).map(move |tries| match timer {
        AddAddressTimer::Fixed => timeout,
        AddAddressTimer::Adaptive => first.saturating_mul(1 << tries),
    })
}
