//! A flow's connections and subflows over time. Keeps those that are gone, and joins the reports of
//! both ends about a subflow.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use experiment::time::Nanos;

use super::mptcp_info::{MptcpInfo, SubflowInfo};
use super::observation::{Fallback, Observation};
use super::state::{ConnectionState, FlowTelemetry, SubflowState};
use super::tcp_info::TcpInfo;
use crate::applications::traffic::StreamEnd;

/// `remote_key` in the flags of `struct mptcp_info`: the MPTCP handshake was completed.
pub(super) const IS_MULTIPATH: u32 = 2;

/// The state of one flow.
#[derive(Default)]
pub(super) struct Tracker {
    now: Nanos,
    /// In order of creation; a subflow's number is its index here.
    subflows: Vec<Subflow>,
    /// Indices of subflows that some socket still reports.
    open: Vec<usize>,
    /// By the cookies of their sockets, those of both ends.
    connections: BTreeMap<u64, Connection>,
    gone: Totals,
}

/// Counters of connections that are gone.
#[derive(Default)]
struct Totals {
    bytes_sent: u64,
    bytes_received: u64,
    reinjected_bytes: u64,
    retransmitted_bytes: u64,
}

struct Subflow {
    /// The addresses as the sender sees them.
    local: SocketAddr,
    remote: SocketAddr,
    sender: Option<Side>,
    receiver: Option<Side>,
    opened_ns: Option<Nanos>,
    last_alive_ns: Option<Nanos>,
    is_alive: bool,
}

/// The report of one end about a subflow.
struct Side {
    cookie: u64,
    id: Option<u32>,
    /// `None` if this end does not know it.
    is_backup: Option<bool>,
    tcp: TcpInfo,
    seen_ns: Nanos,
}

/// One end of a connection.
struct Connection {
    end: StreamEnd,
    seen_ns: Nanos,
    mptcp: Option<MptcpInfo>,
    was_multipath: bool,
    fallback: Option<Fallback>,
    /// Payload sent or received, each byte once; `None` if this kernel does not count it.
    bytes: Option<u64>,
    /// Payload that subflows now gone sent for the first time, or received.
    closed_bytes: u64,
    reinjected_bytes: u64,
    /// The value from the last sample alone. It is an upper bound, because subflows are read just
    /// after their connection, which may send in between.
    reinjected_at_most: u64,
}

impl Side {
    fn new(cookie: u64, info: SubflowInfo, now: Nanos) -> Self {
        Self {
            cookie,
            id: info.id,
            is_backup: info.is_backup,
            tcp: info.tcp,
            seen_ns: now,
        }
    }
}

impl Subflow {
    fn side(&mut self, end: StreamEnd) -> &mut Option<Side> {
        match end {
            StreamEnd::Sender => &mut self.sender,
            StreamEnd::Receiver => &mut self.receiver,
        }
    }

    /// Returns the sender's report, or the receiver's where no sender's socket is known.
    fn leading(&self) -> Option<&Side> {
        self.sender.as_ref().or(self.receiver.as_ref())
    }

    fn was_seen_at(&self, now: Nanos) -> bool {
        let sides = [&self.sender, &self.receiver];
        sides.into_iter().flatten().any(|side| side.seen_ns == now)
    }

    fn settle(&mut self, now: Nanos) {
        let Some(side) = self.leading() else { return };
        let was_established = side.tcp.was_established;
        self.is_alive = side.seen_ns == now && was_established && !side.tcp.state.is_closed();
        if was_established {
            self.opened_ns.get_or_insert(now);
        }
        if self.is_alive {
            self.last_alive_ns = Some(now);
        }
    }

    fn is(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.local == local && self.remote == remote
    }
}

impl Tracker {
    /// Begins a sample.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Takes the report of a socket. In a sample, those of senders come before those of receivers.
    pub(super) fn observe(&mut self, end: StreamEnd, is_mptcp: bool, observation: Observation) {
        let Observation {
            cookie,
            mptcp,
            was_made_tcp,
            subflows,
        } = observation;
        let is_plain = mptcp.is_none();
        for info in subflows {
            self.observe_subflow(end, cookie, is_plain, info);
        }
        let now = self.now;
        let connection = self.connections.entry(cookie).or_insert(Connection {
            end,
            seen_ns: now,
            mptcp: None,
            was_multipath: false,
            fallback: None,
            bytes: None,
            closed_bytes: 0,
            reinjected_bytes: 0,
            reinjected_at_most: 0,
        });
        connection.seen_ns = now;
        match &mptcp {
            Some(info) => connection.was_multipath |= info.flags & IS_MULTIPATH != 0,
            None if was_made_tcp => connection.fallback = Some(Fallback::NotAsked),
            None if is_mptcp && connection.was_multipath => {
                connection.fallback = Some(Fallback::Later);
            }
            None if is_mptcp => connection.fallback = Some(Fallback::AtHandshake),
            None => {}
        }
        if mptcp.is_some() {
            connection.mptcp = mptcp;
        }
        self.count(cookie);
    }

    fn observe_subflow(&mut self, end: StreamEnd, cookie: u64, is_plain: bool, info: SubflowInfo) {
        let (local, remote) = match end {
            StreamEnd::Sender => (info.local, info.remote),
            StreamEnd::Receiver => (info.remote, info.local),
        };
        let now = self.now;
        // A connection that fell back to plain TCP no longer has the number that it had as a
        // subflow, and kernels before 6.5 number none.
        let is_told_by_addresses = is_plain || info.id.is_none();
        let is_known = |subflow: &mut Subflow| {
            let is_same = is_told_by_addresses && subflow.is(local, remote);
            match subflow.side(end) {
                Some(side) if side.cookie != cookie => false,
                Some(side) => is_same || (info.id.is_some() && side.id == info.id),
                None => false,
            }
        };
        let known = self
            .open
            .iter()
            .copied()
            .find(|place| is_known(&mut self.subflows[*place]));
        // A socket that the kernel has disconnected lacks an address.
        let has_addresses = local.port() != 0 && remote.port() != 0;
        if let Some(place) = known
            && (!has_addresses || self.subflows[place].is(local, remote))
        {
            let side = self.subflows[place].side(end);
            let side = side.as_mut().expect("it was just found");
            side.tcp.update(info.tcp);
            side.is_backup = info.is_backup;
            side.id = info.id;
            side.seen_ns = now;
            return;
        }
        if !has_addresses {
            return;
        }
        let told_by_other = self.open.iter().copied().find(|place| {
            let subflow = &mut self.subflows[*place];
            subflow.is(local, remote) && subflow.side(end).is_none()
        });
        let place = told_by_other.unwrap_or_else(|| self.add(local, remote));
        *self.subflows[place].side(end) = Some(Side::new(cookie, info, now));
    }

    fn add(&mut self, local: SocketAddr, remote: SocketAddr) -> usize {
        let place = self.subflows.len();
        self.subflows.push(Subflow {
            local,
            remote,
            sender: None,
            receiver: None,
            opened_ns: None,
            last_alive_ns: None,
            is_alive: false,
        });
        self.open.push(place);
        place
    }

    /// Updates the counters of a connection from those of its subflows.
    fn count(&mut self, cookie: u64) {
        let Some(connection) = self.connections.get_mut(&cookie) else {
            return;
        };
        let end = connection.end;
        let now = self.now;
        let sides = self.open.iter().filter_map(|place| {
            let subflow = &self.subflows[*place];
            let side = match end {
                StreamEnd::Sender => subflow.sender.as_ref(),
                StreamEnd::Receiver => subflow.receiver.as_ref(),
            };
            side.filter(|side| side.cookie == cookie)
        });
        let closed = connection.closed_bytes;
        let (mut sent, mut received) = (Some(closed), closed);
        let mut assigned = closed;
        for side in sides {
            let first = side.tcp.bytes_sent_first();
            sent = sent.zip(first).map(|(sum, first)| sum + first);
            received += side.tcp.bytes_received;
            let is_open = side.seen_ns == now && !side.tcp.state.is_closed();
            let unsent = if is_open { side.tcp.unsent_bytes } else { 0 };
            assigned += first.unwrap_or(0) + u64::from(unsent);
        }
        let is_plain = connection.mptcp.is_none() || connection.fallback.is_some();
        let counted = match (&connection.mptcp, end) {
            (_, StreamEnd::Sender) if is_plain => sent,
            (_, StreamEnd::Receiver) if is_plain => Some(received),
            (Some(info), StreamEnd::Sender) => info.bytes_sent,
            (Some(info), StreamEnd::Receiver) => info.bytes_received,
            (None, _) => None,
        };
        connection.bytes = connection.bytes.max(counted);
        let once = connection.mptcp.as_ref().and_then(|info| info.bytes_sent);
        if let (StreamEnd::Sender, Some(once), false) = (end, once, is_plain) {
            let at_most = assigned.saturating_sub(once);
            let certain = at_most.min(connection.reinjected_at_most);
            connection.reinjected_bytes = connection.reinjected_bytes.max(certain);
            connection.reinjected_at_most = at_most;
        }
    }

    /// Ends a sample and returns the flow's state, with the subflows that are open or were at the
    /// last sample.
    pub(super) fn end(
        &mut self,
        is_backup: impl Fn(SocketAddr, SocketAddr) -> Option<bool>,
    ) -> FlowTelemetry {
        let now = self.now;
        for place in &self.open {
            self.subflows[*place].settle(now);
        }
        let told = self.open.iter().map(|place| {
            let subflow = &self.subflows[*place];
            let told = subflow.sender.as_ref().and_then(|side| side.is_backup);
            let backup = told.or_else(|| is_backup(subflow.local, subflow.remote));
            subflow.state(*place, backup.filter(|_| subflow.is_alive))
        });
        let subflows = told.filter(|state| state.opened_ns.is_some()).collect();
        let telemetry = FlowTelemetry {
            subflows,
            subflows_opened: self.opened().count(),
            ..self.summed()
        };
        self.forget_what_is_gone();
        telemetry
    }

    /// Returns the addresses of the subflows that senders have open.
    pub(super) fn pairs_of_senders(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let subflows = self.open.iter().map(|place| &self.subflows[*place]);
        subflows
            .filter(|subflow| {
                let sender = subflow.sender.as_ref();
                sender.is_some_and(|side| {
                    side.seen_ns == self.now
                        && side.tcp.was_established
                        && !side.tcp.state.is_closed()
                })
            })
            .map(|subflow| (subflow.local, subflow.remote))
            .collect()
    }

    fn opened(&self) -> impl Iterator<Item = (usize, &Subflow)> {
        let all = self.subflows.iter().enumerate();
        all.filter(|(_, subflow)| subflow.opened_ns.is_some())
    }

    /// Leaves out the bytes of an end whose program is not observed, because unknown is not 0.
    fn forget_the_end_not_seen(&self, sum: &mut FlowTelemetry) {
        let is_seen = |end| {
            self.connections
                .values()
                .any(|connection| connection.end == end)
        };
        let sender = self.gone.bytes_sent > 0 || is_seen(StreamEnd::Sender);
        let receiver = self.gone.bytes_received > 0 || is_seen(StreamEnd::Receiver);
        sum.bytes_sent = sum.bytes_sent.filter(|_| sender || !receiver);
        sum.bytes_received = sum.bytes_received.filter(|_| receiver || !sender);
    }

    fn summed(&self) -> FlowTelemetry {
        let mut sum = FlowTelemetry {
            bytes_sent: Some(self.gone.bytes_sent),
            bytes_received: Some(self.gone.bytes_received),
            reinjected_bytes: self.gone.reinjected_bytes,
            retransmitted_bytes: self.gone.retransmitted_bytes,
            ..FlowTelemetry::default()
        };
        for connection in self.connections.values() {
            let total = match connection.end {
                StreamEnd::Sender => &mut sum.bytes_sent,
                StreamEnd::Receiver => &mut sum.bytes_received,
            };
            *total = total.zip(connection.bytes).map(|(sum, bytes)| sum + bytes);
            sum.reinjected_bytes += connection.reinjected_bytes;
            sum.connections.push(connection.state());
        }
        self.forget_the_end_not_seen(&mut sum);
        let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
        for place in &self.open {
            let subflow = &self.subflows[*place];
            sum.subflows_alive += usize::from(subflow.is_alive);
            let Some(side) = &subflow.sender else {
                continue;
            };
            sum.retransmitted_bytes += side.tcp.bytes_retransmitted.unwrap_or(0);
            if let (true, Some(window)) = (subflow.is_alive, side.tcp.send_window_bytes) {
                let largest = windows.entry(side.cookie).or_default();
                *largest = u64::from(window).max(*largest);
            }
        }
        sum.receive_window_bytes = (!windows.is_empty()).then(|| windows.values().sum());
        sum
    }

    fn forget_what_is_gone(&mut self) {
        let now = self.now;
        let (closed, open) = self
            .open
            .iter()
            .partition::<Vec<_>, _>(|place| !self.subflows[**place].was_seen_at(now));
        self.open = open;
        for place in closed {
            let Subflow {
                sender, receiver, ..
            } = &self.subflows[place];
            if let Some(side) = sender {
                self.gone.retransmitted_bytes += side.tcp.bytes_retransmitted.unwrap_or(0);
                if let Some(connection) = self.connections.get_mut(&side.cookie) {
                    connection.closed_bytes += side.tcp.bytes_sent_first().unwrap_or(0);
                }
            }
            if let Some(side) = receiver
                && let Some(connection) = self.connections.get_mut(&side.cookie)
            {
                connection.closed_bytes += side.tcp.bytes_received;
            }
        }
        let gone = &mut self.gone;
        self.connections.retain(|_, connection| {
            let stays = connection.seen_ns == now;
            if !stays {
                let bytes = connection.bytes.unwrap_or(0);
                match connection.end {
                    StreamEnd::Sender => gone.bytes_sent += bytes,
                    StreamEnd::Receiver => gone.bytes_received += bytes,
                }
                gone.reinjected_bytes += connection.reinjected_bytes;
            }
            stays
        });
    }

    /// Returns all subflows that were ever established, as last seen.
    pub(super) fn all(&self) -> Vec<SubflowState> {
        let states = self.opened();
        states
            .map(|(number, subflow)| subflow.state(number, None))
            .collect()
    }
}

impl Subflow {
    fn state(&self, number: usize, is_backup: Option<bool>) -> SubflowState {
        let sender = self.sender.as_ref().map(|side| &side.tcp);
        let receiver = self.receiver.as_ref().map(|side| &side.tcp);
        let leading = self.leading();
        let of_segments =
            |segments: u32| sender.map(|tcp| u64::from(segments) * u64::from(tcp.mss_bytes));
        let seconds = |duration: std::time::Duration| duration.as_secs_f64();
        SubflowState {
            number,
            kernel_id: leading.and_then(|side| side.id),
            local: self.local,
            remote: self.remote,
            opened_ns: self.opened_ns,
            closed_ns: self.last_alive_ns.filter(|_| !self.is_alive),
            is_alive: self.is_alive,
            is_backup,
            tcp_state: leading.map(|side| side.tcp.state).unwrap_or_default(),
            bytes_sent: sender.and_then(TcpInfo::bytes_sent_first),
            bytes_received: receiver.map(|tcp| tcp.bytes_received),
            retransmitted_bytes: sender.and_then(|tcp| tcp.bytes_retransmitted),
            retransmitted_segments: sender.map(|tcp| tcp.retransmitted_segments),
            cwnd_bytes: sender.and_then(|tcp| of_segments(tcp.cwnd_segments)),
            ssthresh_bytes: sender.and_then(|tcp| of_segments(tcp.ssthresh_segments?)),
            in_flight_bytes: sender.and_then(|tcp| of_segments(tcp.in_flight_segments())),
            mss_bytes: sender.map(|tcp| tcp.mss_bytes),
            srtt_s: sender.and_then(|tcp| tcp.srtt).map(seconds),
            rtt_variation_s: sender.and_then(|tcp| tcp.rtt_variation).map(seconds),
            min_rtt_s: sender.and_then(|tcp| tcp.min_rtt).map(seconds),
            rto_s: sender.map(|tcp| seconds(tcp.rto)),
            rto_backoff: sender.map(|tcp| tcp.backoff),
            rto_count: sender.and_then(|tcp| tcp.rtos),
            rto_recoveries: sender.and_then(|tcp| tcp.rto_recoveries),
            lost_segments: sender.map(|tcp| tcp.lost_segments),
            sacked_segments: sender.map(|tcp| tcp.sacked_segments),
            delivered_segments: sender.and_then(|tcp| tcp.delivered_segments),
            unsent_bytes: sender.map(|tcp| tcp.unsent_bytes),
            out_of_order_segments: receiver.and_then(|tcp| tcp.out_of_order_segments),
        }
    }
}

impl Connection {
    fn state(&self) -> ConnectionState {
        let info = self.mptcp.as_ref();
        ConnectionState {
            end: self.end,
            token: info.map(|info| info.token),
            fallback: self.fallback,
            bytes: self.bytes,
            unacknowledged_bytes: info
                .map(|info| info.write_sequence.wrapping_sub(info.acknowledged_sequence)),
            expected_sequence: info.map(|info| info.expected_sequence),
            retransmits: info.and_then(|info| info.retransmits),
            retransmitted_bytes: info.and_then(|info| info.bytes_retransmitted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(mptcp: Option<MptcpInfo>, id: u32, bytes_received: u64) -> Observation {
        let tcp = TcpInfo {
            was_established: true,
            bytes_received,
            ..TcpInfo::default()
        };
        let subflow = SubflowInfo {
            id: Some(id),
            local: SocketAddr::from(([10, 1, 1, 2], 5001)),
            remote: SocketAddr::from(([10, 1, 1, 1], 40_000)),
            is_backup: None,
            tcp,
        };
        Observation {
            cookie: 7,
            mptcp,
            was_made_tcp: false,
            subflows: vec![subflow],
        }
    }

    #[test]
    fn without_numbers_the_addresses_tell_subflows_apart() {
        let mut tracker = Tracker::default();
        for now in 1..4 {
            tracker.begin(now);
            let mut both = seen(Some(MptcpInfo::default()), 1, 1000 * now);
            let mut other = both.subflows[0].clone();
            other.local.set_ip([10, 1, 2, 2].into());
            other.tcp.bytes_received = now;
            both.subflows.push(other);
            for subflow in &mut both.subflows {
                subflow.id = None;
            }
            tracker.observe(StreamEnd::Receiver, true, both);
            tracker.end(|_, _| None);
        }
        let all = tracker.all();
        let carried: Vec<_> = all.iter().map(|subflow| subflow.bytes_received).collect();
        assert_eq!(carried, [Some(3000), Some(3)]);
    }

    #[test]
    fn a_connection_that_becomes_plain_tcp_keeps_its_one_subflow_and_counts_its_bytes_once() {
        let multipath = MptcpInfo {
            flags: IS_MULTIPATH,
            bytes_received: Some(1000),
            ..MptcpInfo::default()
        };
        let mut tracker = Tracker::default();
        let mut told = None;
        // The kernel numbers subflows from 1; a plain socket has 0.
        for (now, mptcp, id, bytes) in [(1, Some(multipath), 1, 1000), (2, None, 0, 5000)] {
            tracker.begin(now);
            tracker.observe(StreamEnd::Receiver, true, seen(mptcp, id, bytes));
            told = Some(tracker.end(|_, _| None));
        }
        let told = told.expect("two samples");
        assert_eq!(told.fallback(), Some(Fallback::Later));
        assert_eq!(told.bytes_received, Some(5000));
        let all = tracker.all();
        let carried: Vec<_> = all.iter().map(|subflow| subflow.bytes_received).collect();
        assert_eq!(carried, [Some(5000)]);
    }
}
