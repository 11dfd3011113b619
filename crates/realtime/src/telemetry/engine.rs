//! The state of a connection of the engine, in the form in which a kernel's socket reports it.

use std::time::Duration;

use experiment::time::Nanos;
use mptcp::connection::{Connection, Mode, SubflowState};
use mptcp::pm::FourTuple;
use mptcp::subflow::Counters;

use super::mptcp_info::{MptcpInfo, SubflowInfo};
use super::observation::Observation;
use super::tcp_info::{TcpInfo, TcpState};
use super::tracker::IS_MULTIPATH;

/// A closed subflow with its counters.
#[derive(Clone, Debug)]
pub(crate) struct ClosedSubflow {
    pub(crate) id: u32,
    pub(crate) four: FourTuple,
    pub(crate) was_established: bool,
    pub(crate) counters: Counters,
}

impl Observation {
    /// Observes a connection, and the subflows closed since the last observation. `cookie`
    /// identifies the connection and differs from that of every socket. The application has written
    /// and read `written` and `read` bytes.
    pub(crate) fn of_engine(
        cookie: u64,
        connection: &Connection,
        [written, read]: [u64; 2],
        closed: Vec<ClosedSubflow>,
    ) -> Self {
        let mut subflows: Vec<_> = closed.iter().map(closed_subflow).collect();
        subflows.extend(connection.subflows().map(|state| subflow(&state)));
        let is_plain = connection.mode() == Mode::Plain;
        Self {
            cookie,
            mptcp: (!is_plain).then(|| mptcp_info(connection, written, read)),
            was_made_tcp: false,
            subflows,
        }
    }
}

/// Sequence numbers count from the first byte of each byte stream.
fn mptcp_info(connection: &Connection, written: u64, read: u64) -> MptcpInfo {
    let counters = connection.counters();
    let open: u64 = connection
        .subflows()
        .map(|subflow| subflow.counters.sent_bytes)
        .sum();
    let sent = open + counters.closed_subflows.sent_bytes;
    let received = read + connection.unread_bytes();
    MptcpInfo {
        flags: match connection.mode() {
            Mode::Multipath => IS_MULTIPATH,
            Mode::Negotiating | Mode::Plain => 0,
        },
        token: connection.local_token(),
        write_sequence: written,
        acknowledged_sequence: written - connection.unacked_bytes(),
        expected_sequence: received,
        retransmits: None,
        bytes_retransmitted: None,
        bytes_sent: Some(sent.saturating_sub(counters.reinjected_bytes)),
        bytes_received: Some(received),
    }
}

fn subflow(state: &SubflowState) -> SubflowInfo {
    let window = &state.window;
    let segments = |bytes: f64| (bytes / f64::from(window.mss_bytes)) as u32;
    let ssthresh = window.ssthresh_bytes;
    SubflowInfo {
        id: Some(state.id),
        local: state.four.local,
        remote: state.four.remote,
        is_backup: Some(state.is_backup),
        tcp: TcpInfo {
            state: TcpState(state.state.linux_number()),
            was_established: state.established_at.is_some(),
            mss_bytes: window.mss_bytes,
            unacked_segments: segments(f64::from(window.in_flight_bytes)),
            srtt: window.srtt.map(duration),
            min_rtt: window.min_rtt.map(duration),
            cwnd_segments: segments(window.cwnd_bytes),
            ssthresh_segments: ssthresh.is_finite().then(|| segments(ssthresh)),
            ..counted(&state.counters)
        },
    }
}

fn closed_subflow(closed: &ClosedSubflow) -> SubflowInfo {
    SubflowInfo {
        id: Some(closed.id),
        local: closed.four.local,
        remote: closed.four.remote,
        is_backup: None,
        tcp: TcpInfo {
            state: TcpState::CLOSED,
            was_established: closed.was_established,
            ..counted(&closed.counters)
        },
    }
}

fn counted(counters: &Counters) -> TcpInfo {
    TcpInfo {
        retransmitted_segments: narrow(counters.retransmitted_segments),
        bytes_received: counters.received_bytes,
        bytes_sent: Some(counters.sent_bytes + counters.retransmitted_bytes),
        bytes_retransmitted: Some(counters.retransmitted_bytes),
        rtos: Some(u16::try_from(counters.timeouts).unwrap_or(u16::MAX)),
        ..TcpInfo::default()
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time)
}
