//! Retransmission of announcements that are not echoed, as in mainline Linux (RFC 8684, section
//! 3.4.1).

use crate::time::Nanos;

/// Number of retransmissions. The announcement is sent once more than this.
pub const TRIES: u32 = 3;

/// How long mainline waits for an echo before it retransmits an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddAddressTimer {
    /// Always the configured timeout, as in 6.12.
    Fixed,
    /// The longest RTO of a subflow, doubled with each retransmission, as in 6.18.
    Adaptive,
}

/// Returns how long each of the [`TRIES`] waits for the echo.
///
/// `longest_rto` is the longest RTO of the subflows, if there are any. `timeout` is
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
