//! `struct tcp_info` of linux/tcp.h, read by offsets. It has only ever grown at its end, so the
//! length shows which fields a kernel has.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A structure of the kernel, with as many bytes as this kernel returned.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    pub(super) fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    pub(super) fn u16(self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_ne_bytes)
    }

    pub(super) fn u32(self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_ne_bytes)
    }

    pub(super) fn u64(self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_ne_bytes)
    }
}

/// The state of a TCP connection (RFC 9293, section 3.3.2), numbered as in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpState(pub(super) u8);

const STATES: [&str; 13] = [
    "unknown",
    "established",
    "syn_sent",
    "syn_received",
    "fin_wait_1",
    "fin_wait_2",
    "time_wait",
    "closed",
    "close_wait",
    "last_ack",
    "listen",
    "closing",
    "new_syn_received",
];

impl TcpState {
    /// Closed, with no state left.
    pub(super) const CLOSED: Self = Self(7);

    /// Returns its name in RFC 9293, in lower case.
    pub fn name(self) -> &'static str {
        STATES.get(usize::from(self.0)).unwrap_or(&STATES[0])
    }

    /// Returns whether the handshake is in progress.
    pub(super) fn is_opening(self) -> bool {
        matches!(self.0, 2 | 3 | 10 | 12)
    }

    /// Returns the bytes that the kernel counts for a received FIN. A reset connection has none,
    /// but is taken for one that ended.
    fn fins_received(self) -> u64 {
        u64::from(matches!(self.0, 6 | 7 | 8 | 9 | 11))
    }

    /// Returns whether nothing will be exchanged any more.
    pub(super) fn is_closed(self) -> bool {
        matches!(self.0, 0 | 6 | 7)
    }
}

/// What the kernel reports about one TCP connection. Fields that this kernel lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TcpInfo {
    pub(super) state: TcpState,
    /// Whether the handshake was ever completed.
    pub(super) was_established: bool,
    /// Consecutive timeouts so far.
    pub(super) backoff: u8,
    pub(super) rto: Duration,
    pub(super) mss_bytes: u32,
    pub(super) unacked_segments: u32,
    pub(super) sacked_segments: u32,
    pub(super) lost_segments: u32,
    /// Lost segments that were retransmitted and are in flight.
    pub(super) resent_segments: u32,
    /// `None` before the first measurement.
    pub(super) srtt: Option<Duration>,
    pub(super) rtt_variation: Option<Duration>,
    /// `None` while it is infinite.
    pub(super) ssthresh_segments: Option<u32>,
    pub(super) cwnd_segments: u32,
    pub(super) retransmitted_segments: u32,
    /// Payload, in order.
    pub(super) bytes_received: u64,
    pub(super) unsent_bytes: u32,
    pub(super) min_rtt: Option<Duration>,
    pub(super) delivered_segments: Option<u32>,
    /// With retransmissions.
    pub(super) bytes_sent: Option<u64>,
    pub(super) bytes_retransmitted: Option<u64>,
    pub(super) out_of_order_segments: Option<u32>,
    /// The window that the peer announced.
    pub(super) send_window_bytes: Option<u32>,
    /// Since Linux 6.7, including the handshake.
    pub(super) rtos: Option<u16>,
    pub(super) rto_recoveries: Option<u16>,
}

/// `TCP_INFINITE_SSTHRESH`.
const INFINITE: u32 = 0x7fff_ffff;
/// The value of `tcpi_min_rtt` before the first measurement.
const NEVER: u32 = u32::MAX;

impl TcpInfo {
    /// Returns the segments in flight as far as the sender knows (`pipe` of RFC 6675).
    pub(super) fn in_flight_segments(&self) -> u32 {
        let arrived_or_lost = self.sacked_segments.saturating_add(self.lost_segments);
        let sent = self.unacked_segments.saturating_add(self.resent_segments);
        sent.saturating_sub(arrived_or_lost)
    }

    /// Parses the available fields; `None` if even those of Linux 4.6 are missing.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = Fields(bytes);
        let duration = |microseconds: u32| Duration::from_micros(microseconds.into());
        let measured = |at| fields.u32(at).filter(|value| *value != 0).map(duration);
        let state = TcpState(fields.u8(0)?);
        let srtt = measured(68);
        // A connection that failed to open has no round-trip time.
        let was_established = !state.is_opening() && (!state.is_closed() || srtt.is_some());
        Some(Self {
            state,
            was_established,
            backoff: fields.u8(4)?,
            rto: duration(fields.u32(8)?),
            mss_bytes: fields.u32(16)?,
            unacked_segments: fields.u32(24)?,
            sacked_segments: fields.u32(28)?,
            lost_segments: fields.u32(32)?,
            resent_segments: fields.u32(36)?,
            srtt,
            rtt_variation: measured(72),
            ssthresh_segments: fields.u32(76).filter(|segments| *segments < INFINITE),
            cwnd_segments: fields.u32(80)?,
            retransmitted_segments: fields.u32(100)?,
            bytes_received: fields.u64(128)?.saturating_sub(state.fins_received()),
            unsent_bytes: fields.u32(144)?,
            min_rtt: measured(148).filter(|rtt| *rtt != duration(NEVER)),
            delivered_segments: fields.u32(192),
            bytes_sent: fields.u64(200),
            bytes_retransmitted: fields.u64(208),
            out_of_order_segments: fields.u32(224),
            send_window_bytes: fields.u32(228),
            rtos: fields.u16(240),
            rto_recoveries: fields.u16(242),
        })
    }

    /// Takes newer values, but no counter that went back. The kernel clears the counters of a
    /// connection that it disconnects.
    pub(super) fn update(&mut self, newer: Self) {
        let before = std::mem::replace(self, newer);
        self.bytes_received = self.bytes_received.max(before.bytes_received);
        self.bytes_sent = self.bytes_sent.max(before.bytes_sent);
        self.bytes_retransmitted = self.bytes_retransmitted.max(before.bytes_retransmitted);
        self.retransmitted_segments = self
            .retransmitted_segments
            .max(before.retransmitted_segments);
        self.delivered_segments = self.delivered_segments.max(before.delivered_segments);
        self.out_of_order_segments = self.out_of_order_segments.max(before.out_of_order_segments);
        self.rtos = self.rtos.max(before.rtos);
        self.rto_recoveries = self.rto_recoveries.max(before.rto_recoveries);
        self.srtt = self.srtt.or(before.srtt);
        self.was_established |= before.was_established;
    }

    /// Returns the payload sent for the first time.
    pub(super) fn bytes_sent_first(&self) -> Option<u64> {
        Some(self.bytes_sent?.saturating_sub(self.bytes_retransmitted?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length in Linux 6.7.
    const LENGTH: usize = 248;

    fn info(state: u8) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        bytes[0] = state;
        bytes[16..20].copy_from_slice(&1448_u32.to_ne_bytes());
        bytes[68..72].copy_from_slice(&20_500_u32.to_ne_bytes());
        bytes[76..80].copy_from_slice(&INFINITE.to_ne_bytes());
        bytes[80..84].copy_from_slice(&10_u32.to_ne_bytes());
        bytes[128..136].copy_from_slice(&1001_u64.to_ne_bytes());
        bytes[200..208].copy_from_slice(&5000_u64.to_ne_bytes());
        bytes[208..216].copy_from_slice(&2000_u64.to_ne_bytes());
        bytes[240..242].copy_from_slice(&3_u16.to_ne_bytes());
        bytes
    }

    #[test]
    fn numbers_that_no_connection_has_are_survived() {
        let info = TcpInfo::parse(&[0xff; LENGTH]).unwrap();
        assert_eq!(info.in_flight_segments(), 0);
    }

    #[test]
    fn what_a_kernel_does_not_have_is_none() {
        let whole = TcpInfo::parse(&info(1)).unwrap();
        assert_eq!(whole.rtos, Some(3));
        assert_eq!(whole.bytes_sent_first(), Some(3000));
        assert_eq!(whole.ssthresh_segments, None);
        assert_eq!(whole.srtt, Some(Duration::from_micros(20_500)));
        let linux_5 = TcpInfo::parse(&info(1)[..232]).unwrap();
        let older = TcpInfo {
            rtos: None,
            rto_recoveries: None,
            ..whole.clone()
        };
        assert_eq!(linux_5, older);
        assert_eq!(TcpInfo::parse(&info(1)[..192]).unwrap().bytes_sent, None);
        assert_eq!(TcpInfo::parse(&info(1)[..100]), None);
        let newer = [info(1), vec![255; 100]].concat();
        assert_eq!(TcpInfo::parse(&newer), Some(whole));
    }

    #[test]
    fn a_fin_is_no_payload() {
        let received = |state| TcpInfo::parse(&info(state)).unwrap().bytes_received;
        assert_eq!(received(1), 1001);
        assert_eq!(received(8), 1000);
    }

    #[test]
    fn counters_never_go_back() {
        let mut known = TcpInfo::parse(&info(1)).unwrap();
        let mut cleared = vec![0; LENGTH];
        cleared[0] = 7;
        known.update(TcpInfo::parse(&cleared).unwrap());
        assert!(known.state.is_closed());
        assert_eq!(known.bytes_sent_first(), Some(3000));
        assert_eq!(known.bytes_received, 1001);
        assert_eq!(known.rtos, Some(3));
        assert!(known.was_established);
    }
}
