//! Reconstructs from captured packets alone what MPTCP did.
//!
//! Packets are added one by one, in the order of the capture. The memory for a connection grows
//! with its data in flight, not with the capture. A packet is assigned to its
//! [`Subflow`](subflow::Subflow) by addresses and ports. A subflow is assigned to its
//! [`Connection`](connection::Connection) by keys and tokens ([`handshake`]) or, if those are not
//! in the capture, by DSNs ([`adoption`]). Each direction of a subflow is a
//! [`Sender`](sender::Sender). It places its payload by [`mappings`] in the
//! [`DataStream`](data_stream::DataStream) of its side.

mod adoption;
mod checksums;
mod connection;
mod data_stream;
mod handshake;
mod mappings;
mod options;
mod pieces;
mod rate;
mod sender;
mod signals;
mod silences;
mod subflow;
mod summary;
mod timeline;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Not;

use experiment::time::{Nanos, seconds};
use mptcp::wire::{DataNumber, Dss, Flags, Token};
use serde::Serialize;

use super::reader::Frame;
use super::tcp_packet::{NoTcp, TcpPacket};
use connection::Connection;
use options::Options;
use subflow::{Role, Subflow};

pub use checksums::{ChecksumCounts, WrongChecksum};
pub use connection::{Ending, FallbackCause};
pub use data_stream::{Gap, Order, Reinjected};
pub use rate::Bins;
pub use sender::{Counts, Kind, TimeoutEpisode};
pub use silences::{Silence, SilenceSign};
pub use subflow::{Proof, SubflowEnd, SynCounts};
pub use summary::{
    AddressSummary, ConnectionSummary, DirectionSummary, EventSummary, FallbackSummary,
    SideSummary, SignalSummary, SubflowSummary, Summary,
};
pub use timeline::EventKind;

/// A side of a connection: the opener or the acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The opener.
    Client,
    /// The acceptor.
    Server,
}

impl Not for Side {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The largest shift count of a window scale (RFC 7323, section 2.3).
const LARGEST_WINDOW_SCALE: u32 = 14;

/// The number of a packet, and its time since the start of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    packet: u64,
    at: Nanos,
}

/// The source of an observation: packet, subflow and sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Teller {
    stamp: Stamp,
    subflow: usize,
    from: Side,
}

impl Teller {
    fn on_the_other_side(self) -> Self {
        Self {
            from: !self.from,
            ..self
        }
    }
}

/// A packet with its subflow and its parsed options.
struct Arrival<'a> {
    stamp: Stamp,
    subflow: usize,
    packet: &'a TcpPacket<'a>,
    options: Options,
}

/// Counts of frames by what they held.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct FrameCounts {
    /// All frames.
    pub frames: u64,
    /// TCP packets that could be analyzed.
    pub tcp: u64,
    /// Frames of other protocols.
    pub other: u64,
    /// Fragments of IP packets, which are not reassembled.
    pub fragments: u64,
    /// Frames of which too little was captured.
    pub cut: u64,
    /// TCP packets with contradictory headers.
    pub malformed: u64,
    /// Frames of unknown link types.
    pub unknown_link: u64,
    /// Frames whose time is before that of the preceding frame.
    pub out_of_order: u64,
}

/// One TCP packet, for series over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Number of the frame.
    pub packet: u64,
    /// Time since the start of the capture.
    pub at: Nanos,
    /// Index of the connection.
    pub connection: usize,
    /// Index of the subflow.
    pub subflow: usize,
    /// The side that sent it.
    pub from: Side,
    /// What its payload was.
    pub kind: Kind,
    /// Payload in bytes.
    pub len: u32,
    /// Offset of the first byte in the data of its side, from 0, if known.
    pub data: Option<i64>,
    /// Offset in the data of the other side before which all is acknowledged.
    pub data_ack: Option<i64>,
    /// RTT measured by its acknowledgment, on the subflow.
    pub rtt: Option<Nanos>,
    /// RTT measured by its DATA_ACK.
    pub data_rtt: Option<Nanos>,
    /// Bytes of its sender that are not acknowledged on the subflow.
    pub unacknowledged: u64,
    /// The receive window it offers, if the window scale is known.
    pub window: Option<u64>,
}

/// The two endpoints of a TCP connection, the smaller first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FlowKey {
    addresses: [u128; 2],
    ports: [u16; 2],
}

impl FlowKey {
    fn of(packet: &TcpPacket<'_>) -> Self {
        let ends = [packet.source, packet.destination].map(|end| (number_of(end.ip()), end.port()));
        let [first, second] = if ends[0] <= ends[1] {
            ends
        } else {
            [ends[1], ends[0]]
        };
        Self {
            addresses: [first.0, second.0],
            ports: [first.1, second.1],
        }
    }
}

fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The state of all connections of a capture.
#[derive(Default)]
pub struct Analysis {
    /// The newest subflow between two endpoints.
    flows: HashMap<FlowKey, usize>,
    latest_flow: Option<(FlowKey, usize)>,
    subflows: Vec<Subflow>,
    connections: Vec<Connection>,
    /// The connection and side that each token identifies.
    tokens: HashMap<Token, (usize, Side)>,
    counts: FrameCounts,
    /// When the capture begins, since 1970.
    origin: Option<Nanos>,
    last_at: Nanos,
    /// The time of the last frame, since 1970.
    previous_at: Nanos,
    /// The largest step back in time from one frame to the next.
    longest_step_back: Nanos,
}

impl Analysis {
    /// Returns an analysis without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next frame, which has number `number`. Returns a row if it is a TCP packet.
    pub fn frame(&mut self, number: u64, frame: &Frame<'_>) -> Option<Row> {
        let origin = *self.origin.get_or_insert(frame.at);
        let stamp = Stamp {
            packet: number,
            at: frame.at.saturating_sub(origin),
        };
        self.last_at = self.last_at.max(stamp.at);
        self.record_order(frame.at);
        self.counts.frames += 1;
        let counter = match TcpPacket::of(frame.link, frame.bytes) {
            Ok(packet) => {
                self.counts.tcp += 1;
                return Some(self.packet(stamp, &packet));
            }
            Err(NoTcp::Other) => &mut self.counts.other,
            Err(NoTcp::Fragment) => &mut self.counts.fragments,
            Err(NoTcp::Link(_)) => &mut self.counts.unknown_link,
            Err(NoTcp::Cut) => &mut self.counts.cut,
            Err(NoTcp::Malformed) => &mut self.counts.malformed,
        };
        *counter += 1;
        None
    }

    /// Records the time of a frame, which is usually not before that of the preceding one.
    fn record_order(&mut self, at: Nanos) {
        if let Some(step_back) = self.previous_at.checked_sub(at).filter(|step| *step > 0) {
            self.counts.out_of_order += 1;
            self.longest_step_back = self.longest_step_back.max(step_back);
        }
        self.previous_at = at;
    }

    /// Returns the MPTCP version of a connection, if it uses MPTCP.
    pub fn version_of(&self, connection: usize) -> Option<u8> {
        self.connections.get(connection)?.version
    }

    /// Returns the summary of all packets so far.
    pub fn summary(&self) -> Summary {
        summary::of(self)
    }

    fn packet(&mut self, stamp: Stamp, packet: &TcpPacket<'_>) -> Row {
        let arrival = self.arrival(stamp, packet);
        self.record_packet(&arrival);
        if packet.flags.contains(Flags::SYN) {
            self.synchronize(&arrival);
        } else {
            self.advance_handshake(&arrival);
            self.notice_bare_packet(&arrival);
        }
        self.handle_signals(&arrival);
        self.adopt(&arrival);
        let rtt = self.handle_ack(&arrival);
        let seen = self.handle_payload(&arrival);
        let data_ack = self.handle_data_ack(&arrival);
        self.handle_end(&arrival);
        self.record_window(&arrival);

        let (subflow, connection, Teller { from, .. }) = self.places_of(&arrival);
        let sender = &subflow.ends[from as usize];
        let stream = &connection.streams[from as usize];
        Row {
            packet: stamp.packet,
            at: stamp.at,
            connection: subflow.connection,
            subflow: arrival.subflow,
            from,
            kind: seen.map_or(Kind::Ack, |seen| seen.kind),
            len: packet.payload_len,
            data: seen
                .and_then(|seen| seen.data)
                .map(|data| stream.shown(data)),
            data_ack: data_ack.place,
            rtt,
            data_rtt: data_ack.rtt,
            unacknowledged: sender.unacknowledged_bytes(),
            window: sender.window_bytes,
        }
    }

    /// Parses the options of a packet and finds its subflow, or creates it.
    fn arrival<'a>(&mut self, stamp: Stamp, packet: &'a TcpPacket<'a>) -> Arrival<'a> {
        let key = FlowKey::of(packet);
        let known = match self.latest_flow {
            Some((latest, subflow)) if latest == key => Some(subflow),
            _ => self.flows.get(&key).copied(),
        };
        let known = known.filter(|subflow| self.continues(*subflow, packet));
        let version = known.and_then(|subflow| self.version_of(self.subflows[subflow].connection));
        let options = Options::of(packet, version);
        let subflow = known.unwrap_or_else(|| {
            let subflow = self.open(stamp, packet, &options);
            self.flows.insert(key, subflow);
            subflow
        });
        self.latest_flow = Some((key, subflow));
        Arrival {
            stamp,
            subflow,
            packet,
            options,
        }
    }

    /// Returns the subflow and the connection of a packet, and the source of its observations.
    fn places_of(&mut self, arrival: &Arrival<'_>) -> (&mut Subflow, &mut Connection, Teller) {
        let subflow = &mut self.subflows[arrival.subflow];
        let connection = &mut self.connections[subflow.connection];
        let by = Teller {
            stamp: arrival.stamp,
            subflow: arrival.subflow,
            from: subflow.side_of(arrival.packet.source),
        };
        (subflow, connection, by)
    }

    /// Returns whether a packet belongs to a subflow, and not to a later one with the same
    /// addresses and ports. A SYN with another number begins a new subflow.
    fn continues(&self, index: usize, packet: &TcpPacket<'_>) -> bool {
        if !packet.flags.contains(Flags::SYN) {
            return true;
        }
        let subflow = &self.subflows[index];
        match subflow.ends[subflow.side_of(packet.source) as usize].isn() {
            Some(isn) => isn == packet.seq,
            None => subflow.end.is_none() && !subflow.has_data(),
        }
    }

    fn record_packet(&mut self, arrival: &Arrival<'_>) {
        let (packet, options) = (arrival.packet, &arrival.options);
        let (subflow, connection, Teller { from, stamp, .. }) = self.places_of(arrival);
        subflow.last_at = subflow.last_at.max(stamp.at);
        connection.last_at = connection.last_at.max(stamp.at);
        let counts = &mut subflow.ends[from as usize].counts;
        counts.packets += 1;
        counts.header_bytes += u64::from(packet.header_len);
        counts.option_bytes += u64::from(packet.options_len);
        counts.mptcp_option_bytes += u64::from(options.mptcp_len);
        counts.options_not_understood += u64::from(options.not_understood);
        counts.options_cut += u64::from(packet.are_options_cut);
    }

    /// Handles the acknowledgment of the subflow. Returns the RTT if it can be measured.
    fn handle_ack(&mut self, arrival: &Arrival<'_>) -> Option<Nanos> {
        let (packet, sack) = (arrival.packet, &arrival.options.sack);
        if !packet.flags.contains(Flags::ACK) || packet.flags.contains(Flags::RST) {
            return None;
        }
        let (subflow, connection, by) = self.places_of(arrival);
        let to = !by.from as usize;
        let stream = &mut connection.streams[to];
        subflow.ends[to].acknowledged(by.stamp.at, by.subflow, packet.ack, sack, stream)
    }

    fn handle_payload(&mut self, arrival: &Arrival<'_>) -> Option<sender::Seen> {
        self.handle_mapping(arrival);
        let packet = arrival.packet;
        if packet.payload_len == 0 || packet.flags.contains(Flags::RST) {
            return None;
        }
        let (subflow, connection, by) = self.places_of(arrival);
        let stream = &mut connection.streams[by.from as usize];
        let sender = &mut subflow.ends[by.from as usize];
        let seen = sender.send(by.stamp, by.subflow, packet, stream)?;
        if let Some(silence) = seen.timeout_after {
            let silence_s = seconds(silence);
            let text = format!("sent again after {silence_s:.3} s without an answer");
            connection.note(by, EventKind::Timeout, text);
        }
        Some(seen)
    }

    /// Handles the acknowledgment of the connection's data.
    fn handle_data_ack(&mut self, arrival: &Arrival<'_>) -> DataAck {
        let told = arrival.options.dss().and_then(Dss::data_ack);
        let (subflow, connection, by) = self.places_of(arrival);
        let to = !by.from as usize;
        let stream = &mut connection.streams[to];
        let position = match told {
            Some(number) => stream.position(number),
            None => subflow.ends[to].data_acknowledged(),
        };
        let Some(position) = position else {
            return DataAck::default();
        };
        DataAck {
            rtt: stream.acknowledge(by.stamp.at, by.subflow, position),
            place: Some(stream.shown(position)),
        }
    }

    fn record_window(&mut self, arrival: &Arrival<'_>) {
        let packet = arrival.packet;
        if packet.flags.contains(Flags::RST) {
            return;
        }
        let (subflow, connection, by) = self.places_of(arrival);
        let (from, to) = (by.from as usize, !by.from as usize);
        subflow.ends[from].grant(packet.window, packet.flags.contains(Flags::SYN));
        let window = subflow.ends[from].window_bytes;
        let widest = u64::from(packet.window) << LARGEST_WINDOW_SCALE;
        subflow.ends[to].record_receive_window(window.unwrap_or(widest));
        if subflow.ends[from].is_probe(packet) {
            connection.streams[from].record_window_probe();
        }
        if let Some(window) = window {
            let largest_segment = subflow.ends[to].largest_segment();
            connection.streams[to].record_window(by.stamp.at, window, largest_segment);
        }
    }

    fn new_connection(&mut self, now: Nanos) -> usize {
        self.connections.push(Connection::new(now));
        self.connections.len() - 1
    }

    fn new_subflow(
        &mut self,
        now: Nanos,
        connection: usize,
        sides: [SocketAddr; 2],
        opener: Option<Side>,
        role: Role,
    ) -> usize {
        let index = self.subflows.len();
        self.subflows
            .push(Subflow::new(now, connection, sides, opener, role));
        self.connections[connection].subflows.push(index);
        index
    }
}

/// The acknowledgment of a connection's data by a packet.
#[derive(Clone, Copy, Debug, Default)]
struct DataAck {
    /// The offset after the last byte acknowledged, from 0.
    place: Option<i64>,
    rtt: Option<Nanos>,
}

/// Returns the full number if the option carries all 64 bits.
fn full(number: DataNumber) -> Option<mptcp::seq::DataSeq> {
    match number {
        DataNumber::Long(full) => Some(full),
        DataNumber::Short(_) => None,
    }
}

/// Returns the meaning of the reason of a reset (RFC 8684, section 3.6).
pub fn reset_reason(code: u8) -> &'static str {
    match code {
        0 => "unspecified",
        1 => "MPTCP-specific error",
        2 => "lack of resources",
        3 => "administratively prohibited",
        4 => "too much outstanding data",
        5 => "unacceptable performance",
        6 => "middlebox interference",
        _ => "not defined",
    }
}
