//! Puts the engine in the place of one host. It receives the peer's packets at their recorded
//! times, and its application repeats the acts of the recorded host. The engine's packets go
//! nowhere: the peer answers those that the kernel had sent.
//!
//! This works as long as the engine's bytes have the same numbers and were sent by the time at
//! which they were acknowledged. So key, nonces and sequence numbers are the recorded ones, and the
//! window is never full.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use mptcp::cc;
use mptcp::connection::{Algorithms, Config, Connection, Event};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView, Profile};
use mptcp::payload::Payload;
use mptcp::pm::AddressPair;
use mptcp::seq::SeqNr;
use mptcp::subflow::CloseReason;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::{Capable, DataNumber, Flags, MptcpOption, Packet, SackBlocks, Segment};

use crate::as_recorded::{Draws, Paths, Schedule};
use crate::recording::{Recorded, Recording, Side};

/// More segments than any capture has in flight.
const WINDOW_SEGMENTS: f64 = 10_000.0;

/// A running replay.
struct Replay {
    recording: &'static Recording,
    side: Side,
    endpoint: Endpoint,
    connection: Option<ConnectionId>,
    /// The engine's ports, by the addresses of their subflows.
    ports: BTreeMap<AddressPair, u16>,
    own_stream: Vec<u8>,
    peer_stream: Vec<u8>,
    written: u64,
    received: usize,
    events: Vec<Event>,
    sent: Vec<Packet>,
}

impl Replay {
    fn new(name: &str, side: Side) -> Self {
        // Leaked, because algorithms own their parts.
        let recording: &'static Recording = Box::leak(Box::new(Recording::load(name)));
        // The first pair has ID 0 for both sides; the others are counted from 1.
        let pairs = recording
            .subflows
            .iter()
            .rev()
            .map(|subflow| subflow.pair(side));
        let network = NetworkView {
            pairs: pairs.collect(),
            ..NetworkView::default()
        };
        let mut endpoint = Endpoint::new(network, Box::new(Draws::new(recording, side)));
        let connection = match side {
            Side::Client => {
                let [local, remote] = recording.subflows[0].ends;
                Some(
                    endpoint
                        .connect(0, local, remote, &profile(recording, side))
                        .unwrap(),
                )
            }
            Side::Server => {
                let port = recording.subflows[0].ends[side as usize].port();
                endpoint.listen(port, profile(recording, side));
                None
            }
        };
        Self {
            side,
            endpoint,
            connection,
            ports: BTreeMap::new(),
            own_stream: recording.stream(side),
            peer_stream: recording.stream(side.other()),
            written: 0,
            received: 0,
            events: Vec::new(),
            sent: Vec::new(),
            recording,
        }
    }

    fn run(&mut self) {
        for recorded in &self.recording.packets {
            match recorded.sender == self.side {
                true => self.act_as(recorded),
                false => self.observe(recorded),
            }
        }
        self.run_timers(Nanos::MAX);
    }

    /// Makes the engine send what the recorded host sent.
    fn act_as(&mut self, recorded: &Recorded) {
        self.run_timers(recorded.at);
        let payload = &recorded.segment().payload;
        if !payload.is_empty() {
            let end = self.recording.offset(recorded) + u64::from(payload.len());
            self.write_to(end);
        }
        if recorded.data_fin().is_some() {
            self.command(Connection::close);
        }
        if has_fast_close(recorded.segment()) {
            self.command(Connection::abort);
        }
        self.drain(recorded.at);
    }

    fn write_to(&mut self, end: u64) {
        if end > self.written {
            let payload = Payload::literal(&self.own_stream[self.written as usize..end as usize]);
            let len = payload.len();
            self.command(|connection| assert_eq!(connection.send(&payload), len));
            self.written = end;
        }
    }

    fn command(&mut self, command: impl FnOnce(&mut Connection)) {
        let id = self
            .connection
            .expect("nothing is done before the connection is there");
        self.endpoint.command(id, command);
    }

    fn observe(&mut self, recorded: &Recorded) {
        self.run_timers(recorded.at.saturating_sub(1));
        let before = self.sent.len();
        let packet = self.readdressed(recorded);
        self.endpoint.handle_packet(recorded.at, &packet);
        self.drain(recorded.at);
        if is_bare(&packet.segment) {
            self.assert_no_repetition(before);
        }
    }

    /// Returns the packet with the engine's port, and with the engine's timestamp of the time at
    /// which the recorded one was created.
    fn readdressed(&self, recorded: &Recorded) -> Packet {
        let mut packet = recorded.packet.clone();
        let pair = AddressPair {
            local: packet.destination,
            remote: packet.source,
        };
        if let Some(port) = self.ports.get(&pair) {
            packet.segment.destination_port = *port;
        }
        if let Some(timestamps) = &mut packet.segment.options.timestamps {
            let is_echoed = |own: &&Recorded| {
                let value = own.segment().options.timestamps.map(|own| own.value);
                own.subflow == recorded.subflow && value == Some(timestamps.echo)
            };
            let echoed = self.recording.of(self.side).find(is_echoed);
            timestamps.echo = echoed.map_or(0, |own| (own.at / MILLISECOND) as u32);
        }
        packet
    }

    /// Checks that a pure acknowledgment is not answered by one without news, which would be a
    /// challenge ACK (RFC 5961, section 5).
    fn assert_no_repetition(&self, before: usize) {
        let (old, new) = self.sent.split_at(before);
        for packet in new.iter().filter(|packet| is_bare(&packet.segment)) {
            let is_of_subflow = |other: &&Packet| ends(other) == ends(packet);
            let last = old
                .iter()
                .rfind(is_of_subflow)
                .map(|packet| acknowledged(&packet.segment));
            assert_ne!(
                last,
                Some(acknowledged(&packet.segment)),
                "an acknowledgment was challenged"
            );
        }
    }

    fn run_timers(&mut self, until: Nanos) {
        while let Some(at) = self.endpoint.poll_timeout().filter(|at| *at <= until) {
            self.endpoint.handle_timeout(at);
            self.drain(at);
            assert!(
                self.endpoint.poll_timeout() != Some(at),
                "what is due at {at} stays due"
            );
        }
    }

    fn drain(&mut self, now: Nanos) {
        loop {
            while let Some(packet) = self.endpoint.poll_transmit(now) {
                self.record_port(&packet);
                self.sent.push(packet);
            }
            let Some((id, event)) = self.endpoint.poll_event() else {
                return;
            };
            self.events.push(event);
            if self.side == Side::Server && self.connection.is_none() {
                self.connection = self
                    .endpoint
                    .accept(self.recording.subflows[0].ends[1].port());
            }
            self.read(id);
        }
    }

    fn record_port(&mut self, packet: &Packet) {
        let pair = AddressPair {
            local: packet.source,
            remote: packet.destination,
        };
        self.ports.insert(pair, packet.segment.source_port);
    }

    fn read(&mut self, id: ConnectionId) {
        while let Some(Some(payload)) = self.endpoint.command(id, Connection::recv) {
            let bytes = payload.to_vec();
            assert!(
                self.peer_stream[self.received..].starts_with(&bytes),
                "wrong bytes at {}",
                self.received
            );
            self.received += bytes.len();
        }
    }

    fn judge(&self, name: &str) {
        let what = format!("{name} as {:?}: {:#?}", self.side, self.events);
        assert_eq!(self.received, self.peer_stream.len(), "{what}");
        assert_eq!(self.written, self.own_stream.len() as u64, "{what}");
        assert_eq!(self.closed(), Some(self.recorded_end()), "{what}");
        assert_eq!(self.joined(), self.recording.subflows.len() - 1, "{what}");
        assert_eq!(self.resets(), self.recorded_resets(), "{what}");
        self.assert_nothing_was_refused();
        let recorded = self.recording.of(self.side).map(Recorded::segment);
        let sent = self.sent.iter().map(|packet| &packet.segment);
        assert_eq!(agreements(sent), agreements(recorded), "{what}");
    }

    fn closed(&self) -> Option<CloseReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { reason } => Some(*reason),
            _ => None,
        })
    }

    /// Returns how the connection ended for this host.
    fn recorded_end(&self) -> CloseReason {
        let aborts = |side| {
            self.recording
                .of(side)
                .any(|recorded| has_fast_close(recorded.segment()))
        };
        match (aborts(self.side), aborts(self.side.other())) {
            (true, _) => CloseReason::Aborted,
            (_, true) => CloseReason::Reset,
            _ => CloseReason::Finished,
        }
    }

    fn joined(&self) -> usize {
        let is_join = |event: &&Event| matches!(event, Event::SubflowEstablished { .. });
        self.events.iter().filter(is_join).count()
    }

    fn resets(&self) -> usize {
        let is_reset = |packet: &&Packet| packet.segment.flags.contains(Flags::RST);
        self.sent.iter().filter(is_reset).count()
    }

    fn recorded_resets(&self) -> usize {
        let is_reset = |recorded: &&Recorded| recorded.segment().flags.contains(Flags::RST);
        self.recording.of(self.side).filter(is_reset).count()
    }

    fn assert_nothing_was_refused(&self) {
        let connection = self.connection.and_then(|id| self.endpoint.connection(id));
        let counters = connection.expect("it is not forgotten").counters();
        let refused = [
            counters.refused_bytes,
            counters.failed_checksums,
            counters.refused_joins,
            counters.refused_announcements,
            counters.unbelievable_acks,
        ];
        assert_eq!(refused, [0; 5], "{counters:?}");
    }
}

fn profile(recording: &'static Recording, side: Side) -> Profile {
    let uses_checksums = recording.options(side).any(|(_, option)| match option {
        MptcpOption::Capable(Capable::Syn { flags, .. } | Capable::SynAck { flags, .. }) => {
            flags & Capable::CHECKSUM_REQUIRED != 0
        }
        _ => false,
    });
    let mut window = cc::Parameters::default();
    window.fixed_cwnd.packets = WINDOW_SEGMENTS;
    Profile {
        config: Arc::new(Config {
            uses_checksums,
            ..Config::default()
        }),
        algorithms: Box::new(move |_| Algorithms {
            congestion_control: cc::by_name("fixed_cwnd").expect("a congestion control")(&window),
            scheduler: Box::new(Schedule::new(recording, side)),
            path_manager: Box::new(Paths::new(recording, side)),
        }),
    }
}

fn has_fast_close(segment: &Segment) -> bool {
    let mut options = segment.options.mptcp.iter();
    options.any(|option| matches!(option, MptcpOption::FastClose { .. }))
}

/// Returns whether a segment only acknowledges.
fn is_bare(segment: &Segment) -> bool {
    let mut options = segment.options.mptcp.iter();
    let only_acknowledges =
        options.all(|option| matches!(option, MptcpOption::Dss(dss) if dss.mapping().is_none()));
    segment.flags == Flags::ACK && segment.payload.is_empty() && only_acknowledges
}

/// Returns what a segment acknowledges, and its receive window.
fn acknowledged(segment: &Segment) -> (SeqNr, u16, SackBlocks, Vec<Option<DataNumber>>) {
    let data_acks = segment.options.mptcp.iter().map(|option| match option {
        MptcpOption::Dss(dss) => dss.data_ack(),
        _ => None,
    });
    (
        segment.ack,
        segment.window,
        segment.options.sack.clone(),
        data_acks.collect(),
    )
}

fn ends(packet: &Packet) -> [SocketAddr; 2] {
    [
        SocketAddr::new(packet.source, packet.segment.source_port),
        SocketAddr::new(packet.destination, packet.segment.destination_port),
    ]
}

/// Returns the options of one host except data and acknowledgments, each once.
fn agreements<'a>(segments: impl Iterator<Item = &'a Segment>) -> Vec<MptcpOption> {
    let mut all = Vec::new();
    for option in segments.flat_map(|segment| &segment.options.mptcp) {
        let option = undetermined(option);
        let is_agreement = !matches!(option, MptcpOption::Dss(_) | MptcpOption::Reset(_));
        if is_agreement && !all.contains(&option) {
            all.push(option);
        }
    }
    all
}

/// Removes what the RFC leaves open: how much the first mapping covers, and whether a SYN/ACK
/// repeats the request for checksums.
fn undetermined(option: &MptcpOption) -> MptcpOption {
    let mut option = option.clone();
    match &mut option {
        MptcpOption::Capable(Capable::Ack { data, .. }) => *data = None,
        MptcpOption::Capable(Capable::SynAck { flags, .. }) => {
            *flags &= !Capable::CHECKSUM_REQUIRED
        }
        _ => {}
    }
    option
}

fn replays(name: &str, side: Side) {
    let mut replay = Replay::new(name, side);
    replay.run();
    replay.judge(name);
}

fn replays_both_sides(name: &str) {
    replays(name, Side::Client);
    replays(name, Side::Server);
}

#[test]
fn a_transfer_over_two_subflows() {
    replays_both_sides("A_basic");
}

#[test]
fn an_announced_address_that_is_joined() {
    replays_both_sides("B_addaddr");
}

/// The client cannot be replayed. Linux closes the subflow of a withdrawn address by FIN, the
/// engine by RST, as the RFC requires (section 3.4.2).
#[test]
fn an_address_that_is_removed() {
    replays("C_rmaddr", Side::Server);
}

#[test]
fn a_subflow_that_becomes_a_backup_one() {
    replays_both_sides("D_prio");
}

/// The server cannot be replayed. Linux sent its byte stream again on the subflow that had
/// acknowledged it, because the DATA_ACK did not arrive; the engine reinjects on another subflow
/// only.
#[test]
fn an_abort() {
    replays("E_linger", Side::Client);
}

#[test]
fn a_transfer_with_checksums() {
    replays_both_sides("F_csum");
}

/// The client cannot be replayed. Linux filled the receive window of the connection beyond that of
/// a subflow, which the RFC does not allow (section 3.3.5); the engine waits.
#[test]
fn large_segments() {
    replays("H_gso", Side::Server);
}

#[test]
fn losses() {
    replays_both_sides("mb_loss");
}
