//! Retransmission of announcements that are not echoed, as in mainline Linux (RFC 8684, section
//! 3.4.1).

use crate::time::Nanos;

/// Maximum number of retransmissions of an announcement without an echo. Linux's name is
/// `ADD_ADDR_RETRANS_MAX`.
pub const TRIES: u32 = 3;

/// How long the sender of an announcement waits for the echo before it retransmits the
/// announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddAddressTimer {
    /// Always the configured timeout, as in Linux 6.12.
    Fixed,
    /// The longest RTO of the subflows, at most the configured timeout. The time doubles with each
    /// retransmission, as in Linux 6.18.
    Adaptive,
}

/// Returns [`TRIES`] durations in nanoseconds: the wait before each retransmission of an
/// announcement.
///
/// `longest_rto` is the longest RTO of the connection's subflows; `None` if there are no subflows.
/// `timeout` is `net.mptcp.add_addr_timeout` (Linux's default: 120 s).
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
