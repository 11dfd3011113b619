//! The values of telemetry, all from the kernel. `docs/internals/kernel-telemetry.md` names their
//! sources.

use std::net::SocketAddr;

use experiment::samples::metrics;
use experiment::time::Nanos;

use super::observation::Fallback;
use super::tcp_info::TcpState;
use crate::applications::traffic::StreamEnd;

/// A flow at a sample. Counters include all its connections, even those that are gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTelemetry {
    /// Payload sent, each byte once; `None` if this kernel does not count it (before Linux 6.5).
    pub bytes_sent: Option<u64>,
    /// Payload received in order, each byte once; `None` as above.
    pub bytes_received: Option<u64>,
    /// Payload sent again on the subflow that had lost it.
    pub retransmitted_bytes: u64,
    /// Payload that the connection sent again, on another subflow or on the same one: the bytes
    /// that subflows sent beyond those of the connection.
    pub reinjected_bytes: u64,
    /// The receive window that the receiver announces; the sum if there are several connections.
    pub receive_window_bytes: Option<u64>,
    /// Subflows established since the start, including initial ones.
    pub subflows_opened: usize,
    /// Subflows established and not closed. Stale subflows count, because no socket option shows
    /// which are stale.
    pub subflows_alive: usize,
    /// The ends of connections that are open now or were at the last sample.
    pub connections: Vec<ConnectionState>,
    /// Subflows that are open now or were at the last sample, in order of creation.
    pub subflows: Vec<SubflowState>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionState {
    /// Which end.
    pub end: StreamEnd,
    /// The token of this end (RFC 8684, section 2.2); `None` for TCP.
    pub token: Option<u32>,
    /// Why it is not MPTCP although it was to be.
    pub fallback: Option<Fallback>,
    /// Payload sent or received by this end, each byte once.
    pub bytes: Option<u64>,
    /// Payload written, but not acknowledged by a DATA_ACK of the peer.
    pub unacknowledged_bytes: Option<u64>,
    /// Data sequence number of the next byte expected.
    pub expected_sequence: Option<u64>,
    /// Retransmissions by the timer of MPTCP.
    pub retransmits: Option<u32>,
    /// Payload that the timer of MPTCP sent again.
    pub retransmitted_bytes: Option<u64>,
}

/// A subflow, or a plain TCP connection, as last seen. Values of the sender's socket are `None`
/// where only the receiver's is known, and the other way round.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowState {
    /// Its index among the flow's subflows, in order of creation; failed attempts are counted too.
    pub number: usize,
    /// The kernel's number, from 1 in each connection; 0 for TCP.
    pub kernel_id: Option<u32>,
    /// The data sender's address.
    pub local: SocketAddr,
    /// The data receiver's address.
    pub remote: SocketAddr,
    /// The first sample in which it was established.
    pub opened_ns: Option<Nanos>,
    /// The last sample in which it was open; `None` while it is open.
    pub closed_ns: Option<Nanos>,
    /// Whether it is established and not closed.
    pub is_alive: bool,
    /// Whether one of the two hosts gave it backup priority.
    pub is_backup: Option<bool>,
    /// State of the TCP connection.
    pub tcp_state: TcpState,
    /// Payload that the sender sent for the first time on it.
    pub bytes_sent: Option<u64>,
    /// Payload that the receiver received in order on it.
    pub bytes_received: Option<u64>,
    /// Payload sent again on it.
    pub retransmitted_bytes: Option<u64>,
    /// Segments sent again on it, including the SYN.
    pub retransmitted_segments: Option<u32>,
    /// Congestion window.
    pub cwnd_bytes: Option<u64>,
    /// Slow-start threshold; `None` while it is infinite.
    pub ssthresh_bytes: Option<u64>,
    /// Bytes in flight as far as the sender knows, counted in full segments.
    pub in_flight_bytes: Option<u64>,
    /// Payload of a full segment.
    pub mss_bytes: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt_s: Option<f64>,
    /// Variation of the round-trip time.
    pub rtt_variation_s: Option<f64>,
    /// Smallest round-trip time in the kernel's window.
    pub min_rtt_s: Option<f64>,
    /// Retransmission timeout with its back-off.
    pub rto_s: Option<f64>,
    /// Consecutive timeouts so far.
    pub rto_backoff: Option<u8>,
    /// Timeouts since it was opened, including those of its handshake (since Linux 6.7).
    pub rto_count: Option<u16>,
    /// Recoveries after timeouts (since Linux 6.7).
    pub rto_recoveries: Option<u16>,
    /// Segments marked lost now.
    pub lost_segments: Option<u32>,
    /// Segments acknowledged out of order now.
    pub sacked_segments: Option<u32>,
    /// Segments acknowledged since it was opened.
    pub delivered_segments: Option<u32>,
    /// Payload assigned to it and not sent yet.
    pub unsent_bytes: Option<u32>,
    /// Segments that arrived out of order.
    pub out_of_order_segments: Option<u32>,
}

impl FlowTelemetry {
    /// Returns the known values of [`metrics::STREAM`]. No socket option shows how much waits out
    /// of order.
    pub fn values(&self) -> [Option<f64>; metrics::STREAM.len()] {
        [
            None,
            Some(self.retransmitted_bytes as f64),
            Some(self.reinjected_bytes as f64),
            self.receive_window_bytes.map(|window| window as f64),
            Some(self.subflows_opened as f64),
            Some(self.subflows_alive as f64),
        ]
    }

    /// Returns why a connection of the flow is TCP although it was to be MPTCP.
    pub fn fallback(&self) -> Option<Fallback> {
        let mut ends = self.connections.iter();
        ends.find_map(|connection| connection.fallback)
    }
}

impl SubflowState {
    /// Returns the known values of [`metrics::SUBFLOW`]. Gauges are left out once the subflow is
    /// closed. No socket option shows whether it is stale.
    pub fn values(&self) -> [Option<f64>; metrics::SUBFLOW.len()] {
        let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
        let now = |value: Option<f64>| value.filter(|_| self.is_alive);
        [
            bytes(self.bytes_sent),
            bytes(self.bytes_received),
            bytes(self.retransmitted_bytes),
            self.rto_count.map(f64::from),
            Some(f64::from(u8::from(self.is_alive))),
            now(bytes(self.cwnd_bytes)),
            now(bytes(self.ssthresh_bytes)),
            now(bytes(self.in_flight_bytes)),
            now(self.srtt_s),
            now(self
                .is_backup
                .map(|is_backup| f64::from(u8::from(is_backup)))),
            None,
        ]
    }

    /// Returns the payload that it carried: bytes received, or, where those are unknown, bytes sent
    /// once.
    pub fn bytes(&self) -> u64 {
        self.bytes_received.or(self.bytes_sent).unwrap_or(0)
    }
}
