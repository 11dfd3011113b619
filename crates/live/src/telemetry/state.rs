//! What telemetry tells. Every figure is the kernel's own; docs/kernel-telemetry.md names its source.

use std::net::SocketAddr;

use netlab::time::Nanos;

use super::observation::Fallback;
use super::tcp_info::TcpState;
use crate::traffic::StreamEnd;

/// A flow at a sample. Counters are of all its connections, also of those that are gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTelemetry {
    /// Payload sent, each byte once; `None` if this kernel does not count it (before Linux 6.5).
    pub bytes_sent: Option<u64>,
    /// Payload received in order, each byte once; `None` as above.
    pub bytes_received: Option<u64>,
    /// Payload sent again on the subflow that had lost it.
    pub retransmitted_bytes: u64,
    /// Payload sent again on another subflow: what subflows sent beyond what the connection did.
    pub reinjected_bytes: u64,
    /// The window that the receiver announces; of several connections their sum.
    pub receive_window_bytes: Option<u64>,
    /// Subflows established since the start, the first ones included.
    pub subflows_opened: usize,
    /// Subflows established and not closed. A stale one counts: no socket option tells which are.
    pub subflows_alive: usize,
    /// The ends of connections that were there now or at the last sample.
    pub connections: Vec<ConnectionState>,
    /// Subflows that were there now or at the last sample, in order of creation.
    pub subflows: Vec<SubflowState>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionState {
    /// Which end.
    pub end: StreamEnd,
    /// The token of this end (RFC 8684, section 2.2); `None` for TCP.
    pub token: Option<u32>,
    /// Why it is not Multipath TCP although it was meant to be.
    pub fallback: Option<Fallback>,
    /// Payload sent or received by this end, each byte once.
    pub bytes: Option<u64>,
    /// Payload written but not acknowledged by the peer's Multipath TCP.
    pub unacknowledged_bytes: Option<u64>,
    /// Data sequence number of the next byte expected.
    pub expected_sequence: Option<u64>,
    /// Retransmissions by the timer of Multipath TCP.
    pub retransmits: Option<u32>,
    /// Payload that the timer of Multipath TCP sent again.
    pub retransmitted_bytes: Option<u64>,
}

/// A subflow, or a plain TCP connection, as last seen. What the sender's socket says is `None` where only the receiver's is known, and the other way round.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowState {
    /// Its place among those of the flow, in order of creation; attempts that failed have one too.
    pub number: usize,
    /// The kernel's number, from 1 in each connection; 0 for TCP.
    pub kernel_id: Option<u32>,
    /// The data sender's address.
    pub local: SocketAddr,
    /// The data receiver's address.
    pub remote: SocketAddr,
    /// The first sample in which it was established.
    pub opened_ns: Option<Nanos>,
    /// The last sample in which it was open, if that is past.
    pub closed_ns: Option<Nanos>,
    /// Whether it is established and not closed.
    pub is_alive: bool,
    /// Whether one of the two ends made it a backup one.
    pub is_backup: Option<bool>,
    /// State of the TCP connection.
    pub tcp_state: TcpState,
    /// Payload that the sender sent for the first time on it.
    pub bytes_sent: Option<u64>,
    /// Payload that the receiver received in order on it.
    pub bytes_received: Option<u64>,
    /// Payload sent again on it.
    pub retransmitted_bytes: Option<u64>,
    /// Segments sent again on it, SYN included.
    pub retransmitted_segments: Option<u32>,
    /// Congestion window.
    pub cwnd_bytes: Option<u64>,
    /// Slow-start threshold; `None` while it is infinite.
    pub ssthresh_bytes: Option<u64>,
    /// On the way as far as the sender knows, in full segments.
    pub in_flight_bytes: Option<u64>,
    /// Payload of a full segment.
    pub mss_bytes: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt_s: Option<f64>,
    /// Variation of the round-trip time.
    pub rtt_variation_s: Option<f64>,
    /// Smallest round-trip time in the kernel's window.
    pub min_rtt_s: Option<f64>,
    /// Retransmission timeout, backed off.
    pub rto_s: Option<f64>,
    /// Timeouts in a row so far.
    pub rto_backoff: Option<u8>,
    /// Timeouts since it was opened, those of its handshake included (since Linux 6.7).
    pub rto_count: Option<u16>,
    /// Recoveries after timeouts (since Linux 6.7).
    pub rto_recoveries: Option<u16>,
    /// Segments taken for lost now.
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
    /// Names of what [`Self::values`] gives.
    pub const METRICS: [&'static str; 5] = [
        "retransmitted_bytes",
        "reinjected_bytes",
        "receive_window_bytes",
        "subflows_opened",
        "subflows_alive",
    ];

    /// What is known, for the sample table. The payload is not in it: who sends and receives it knows it better.
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        let values = [
            Some(self.retransmitted_bytes as f64),
            Some(self.reinjected_bytes as f64),
            self.receive_window_bytes.map(|window| window as f64),
            Some(self.subflows_opened as f64),
            Some(self.subflows_alive as f64),
        ];
        known(&Self::METRICS, &values)
    }

    /// Why a connection of the flow is TCP although it was meant to be Multipath TCP.
    pub fn fallback(&self) -> Option<Fallback> {
        let mut ends = self.connections.iter();
        ends.find_map(|connection| connection.fallback)
    }
}

impl SubflowState {
    /// Names of what [`Self::values`] gives.
    pub const METRICS: [&'static str; 10] = [
        "bytes_sent",
        "bytes_received",
        "retransmitted_bytes",
        "rto_count",
        "alive",
        "cwnd_bytes",
        "ssthresh_bytes",
        "in_flight_bytes",
        "srtt_s",
        "backup",
    ];

    /// What is known, for the sample table. What has a value only now is left out once it is closed.
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
        let now = |value: Option<f64>| value.filter(|_| self.is_alive);
        let values = [
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
        ];
        known(&Self::METRICS, &values)
    }

    /// Payload that it carried: what the receiver received, or where that is not known what the sender sent once.
    pub fn bytes(&self) -> u64 {
        self.bytes_received.or(self.bytes_sent).unwrap_or(0)
    }
}

fn known(metrics: &[&'static str], values: &[Option<f64>]) -> Vec<(&'static str, f64)> {
    let values = metrics.iter().zip(values);
    values
        .filter_map(|(metric, value)| Some((*metric, (*value)?)))
        .collect()
}
