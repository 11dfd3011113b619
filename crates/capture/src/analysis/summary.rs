//! The summary of a capture, as values to print and to write as JSON. Times in seconds count from
//! the start of the capture.

use experiment::time::{NANOS_PER_SECOND, Nanos, seconds};
use serde::Serialize;

use super::checksums::ChecksumCounts;
use super::connection::{Announced, Connection, Ending, Fallback, FallbackCause, Signal};
use super::data_stream::{DataStream, Gap, Order, Reinjected};
use super::rate::Bins;
use super::sender::{Counts, Sender, TimeoutEpisode};
use super::silences::Silence;
use super::subflow::{Proof, Role, Subflow, SubflowEnd, SynCounts};
use super::timeline::EventKind;
use super::{Analysis, FrameCounts, Side};
use crate::Durations;

/// The least number of round trips over which a rate is more than noise.
const LEAST_ROUND_TRIPS: Nanos = 10;
/// The shortest time over which a rate is given if the round trip is unknown.
const SHORTEST_RATED: Nanos = NANOS_PER_SECOND;

/// All connections of a capture.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Summary {
    /// Frames by what they held.
    pub frames: FrameCounts,
    /// Time of the first frame, in seconds since 1970.
    pub start_unix_s: f64,
    /// From the first to the last frame.
    pub duration_s: f64,
    /// The largest step back in time from one frame to the next.
    pub longest_step_back_s: f64,
    /// In the order of their first packets.
    pub connections: Vec<ConnectionSummary>,
}

/// A value for each side of a connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct BySide<T> {
    /// Value of the opener.
    pub client: T,
    /// Value of the acceptor.
    pub server: T,
}

/// One side of a connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SideSummary {
    /// Its address and port on the first subflow.
    pub address: String,
    /// Its key as 16 hexadecimal digits.
    pub key: Option<String>,
    /// Its token as 8 hexadecimal digits.
    pub token: Option<String>,
}

/// A connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct ConnectionSummary {
    /// Index of the connection in this capture.
    pub id: usize,
    /// Version of MPTCP. Null for plain TCP.
    pub version: Option<u8>,
    /// The token with which the client joins, as 8 hexadecimal digits.
    pub token: Option<String>,
    /// The two sides.
    pub sides: BySide<SideSummary>,
    /// Time of the first packet.
    pub start_s: f64,
    /// Time of the last packet.
    pub end_s: f64,
    /// Whether DSS options carry checksums.
    pub checksums: bool,
    /// When and why it fell back to plain TCP.
    pub fallback: Option<FallbackSummary>,
    /// The first packet of each side after the SYNs that has no MPTCP option, on the initial
    /// subflow.
    pub bare_packets: BySide<Option<u64>>,
    /// The first MP_FAIL.
    pub mp_fail: Option<SignalSummary>,
    /// The first MP_FASTCLOSE.
    pub mp_fastclose: Option<SignalSummary>,
    /// The addresses that were announced.
    pub announced: Vec<AddressSummary>,
    /// How it ended, if it did.
    pub ending: Option<Ending>,
    /// Payload on all subflows in both directions, retransmissions included.
    pub bytes: u64,
    /// Data sent again in segments that are new to their subflow, in both directions.
    pub reinjected_bytes: u64,
    /// From the first SYN until a second subflow may carry data.
    pub second_subflow_usable_after_s: Option<f64>,
    /// What each side sent.
    pub data: BySide<DataSummary>,
    /// In the order of their first packets.
    pub subflows: Vec<SubflowSummary>,
    /// Events other than data.
    pub events: Vec<EventSummary>,
    /// Number of events that were left out.
    pub events_left_out: u64,
}

/// The fallback of a connection to plain TCP.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct FallbackSummary {
    /// When it happened.
    pub at_s: f64,
    /// Number of the packet that shows it.
    pub packet: u64,
    /// The side that sent the packet.
    pub from: Side,
    /// Why it happened.
    pub cause: FallbackCause,
    /// The cause in words.
    pub why: &'static str,
}

/// A signal that concerns the whole connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SignalSummary {
    /// When it was sent.
    pub at_s: f64,
    /// Number of the packet.
    pub packet: u64,
    /// The subflow that carried it.
    pub subflow: usize,
    /// The side that sent it.
    pub from: Side,
    /// The offset in the data of the other side that it names, from 0 if the start was captured.
    pub data: Option<i64>,
}

/// An address that a side announced.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct AddressSummary {
    /// Number of the packet that announced it first.
    pub packet: u64,
    /// The side that announced it.
    pub from: Side,
    /// Its ID.
    pub id: u8,
    /// The address.
    pub address: String,
    /// The port, if one was announced.
    pub port: Option<u16>,
    /// Whether the HMAC is that of the keys in the capture. Null if it cannot be checked.
    pub is_hmac_right: Option<bool>,
    /// Whether the other side echoed it.
    pub echoed: bool,
    /// Whether it was withdrawn afterwards.
    pub withdrawn: bool,
    /// Whether a subflow uses it.
    pub joined: bool,
}

/// The data of one side.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct DataSummary {
    /// Bytes, each counted once.
    pub bytes: u64,
    /// Bytes divided by the time from the first to the last segment. Null if that time is shorter
    /// than ten round trips.
    pub goodput_bps: Option<f64>,
    /// Payload that was seen before, on the same subflow or another.
    pub duplicate_bytes: u64,
    /// Bytes acknowledged but not in the capture.
    pub unseen_bytes: u64,
    /// Data reinjected.
    pub reinjected: Reinjected,
    /// The order in which data was sent for the first time.
    pub order: Order,
    /// How long data beyond a gap waited for the missing data, at the point of capture.
    pub head_of_line: Option<Durations>,
    /// From data to its DATA_ACK.
    pub rtt: Option<Durations>,
    /// Time in which the receive window had no room for another segment.
    pub window_limited_s: f64,
    /// Times in which data in flight was not acknowledged.
    pub gaps: Vec<Gap>,
}

/// A subflow.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SubflowSummary {
    /// Index of the subflow in this capture.
    pub id: usize,
    /// Address and port of the client of the connection.
    pub local: String,
    /// Address and port of the server.
    pub remote: String,
    /// How it was assigned to the connection.
    pub role: Role,
    /// The side that opened it, if its SYN was captured.
    pub opened_by: Option<Side>,
    /// Time of the first packet.
    pub start_s: f64,
    /// The SYNs of its opener.
    pub syns: SynCounts,
    /// When its SYN was answered.
    pub answered_s: Option<f64>,
    /// The HMACs of its MP_JOINs.
    pub proofs: BySide<Option<Proof>>,
    /// From the SYN to the third packet of the handshake.
    pub handshake_s: Option<f64>,
    /// When it could carry data.
    pub usable_s: Option<f64>,
    /// Time of the first payload.
    pub first_data_s: Option<f64>,
    /// Time of the last packet.
    pub end_s: f64,
    /// How it ended, if it did.
    pub ended: Option<SubflowEnd>,
    /// Whether a side made it a backup.
    pub backup: bool,
    /// Payload in both directions, retransmissions included.
    pub bytes: u64,
    /// Share of the connection's payload.
    pub share: Option<f64>,
    /// What each side sent on it.
    pub directions: BySide<DirectionSummary>,
}

/// What one side sent on a subflow.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct DirectionSummary {
    /// Counters.
    #[serde(flatten)]
    pub counts: Counts,
    /// From payload to its acknowledgment, at the point of capture.
    pub rtt: Option<Durations>,
    /// Retransmissions after timeouts.
    pub timeouts: Vec<TimeoutEpisode>,
    /// Times in which no new data was captured although there was data to send.
    pub silences: Vec<Silence>,
    /// Mappings with checksums.
    pub checksums: ChecksumCounts,
    /// Payload over time.
    pub rate: Bins,
}

/// An event of a connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct EventSummary {
    /// Number of the frame.
    pub packet: u64,
    /// When it happened.
    pub at_s: f64,
    /// The subflow of the packet.
    pub subflow: usize,
    /// The side that sent the packet.
    pub from: Side,
    /// Its kind.
    pub kind: EventKind,
    /// A description for people.
    pub text: String,
    /// How often it was repeated, the first time included.
    pub times: u32,
    /// When it was last repeated.
    pub last_s: f64,
}

pub(super) fn of(analysis: &Analysis) -> Summary {
    let connections = analysis.connections.iter().enumerate();
    // Connections that turned out to be parts of others have no subflows left.
    let own = connections.filter(|(_, connection)| !connection.subflows.is_empty());
    Summary {
        frames: analysis.counts,
        start_unix_s: seconds(analysis.origin.unwrap_or(0)),
        duration_s: seconds(analysis.last_at),
        longest_step_back_s: seconds(analysis.longest_step_back),
        connections: own
            .map(|(id, connection)| connection_summary(id, connection, &analysis.subflows))
            .collect(),
    }
}

fn connection_summary(id: usize, connection: &Connection, all: &[Subflow]) -> ConnectionSummary {
    let subflows: Vec<&Subflow> = connection
        .subflows
        .iter()
        .map(|index| &all[*index])
        .collect();
    let bytes = subflows.iter().map(|subflow| bytes_of(subflow)).sum();
    let summaries = connection
        .subflows
        .iter()
        .map(|&index| subflow_summary(index, &all[index], bytes));
    let usable = subflows.iter().filter_map(|subflow| subflow.usable_at);
    let mut usable: Vec<Nanos> = usable.collect();
    usable.sort_unstable();
    ConnectionSummary {
        id,
        version: connection.version,
        token: connection.tokens[Side::Server as usize].map(token_text),
        sides: by_side(|side| SideSummary {
            address: subflows[0].ends[side as usize].address.to_string(),
            key: connection.keys[side as usize].map(|key| format!("{key:016x}")),
            token: connection.tokens[side as usize].map(token_text),
        }),
        start_s: seconds(connection.first_at),
        end_s: seconds(connection.last_at),
        checksums: connection.checksums,
        fallback: connection.fallback.map(fallback_summary),
        bare_packets: by_side(|side| connection.bare_packets[side as usize]),
        mp_fail: { connection.failure }.map(|signal| signal_summary(connection, signal)),
        mp_fastclose: { connection.abort }.map(|signal| signal_summary(connection, signal)),
        announced: { connection.announced.iter() }
            .map(|announced| address_summary(announced, &subflows))
            .collect(),
        ending: connection.ending,
        bytes,
        reinjected_bytes: connection
            .streams
            .iter()
            .map(|stream| stream.reinjected.bytes)
            .sum(),
        second_subflow_usable_after_s: usable
            .get(1)
            .filter(|_| connection.version.is_some())
            .map(|at| seconds(at.saturating_sub(connection.first_at))),
        data: by_side(|side| {
            let stream = &connection.streams[side as usize];
            let senders = subflows.iter().map(|subflow| &subflow.ends[side as usize]);
            data_summary(stream, senders, round_trip(&subflows))
        }),
        subflows: summaries.collect(),
        events: connection
            .timeline
            .events()
            .iter()
            .map(event_summary)
            .collect(),
        events_left_out: connection.timeline.left_out(),
    }
}

fn fallback_summary(Fallback { by, cause, why }: Fallback) -> FallbackSummary {
    FallbackSummary {
        at_s: seconds(by.stamp.at),
        packet: by.stamp.packet,
        from: by.from,
        cause,
        why,
    }
}

fn signal_summary(connection: &Connection, Signal { by, position }: Signal) -> SignalSummary {
    let stream = &connection.streams[!by.from as usize];
    SignalSummary {
        at_s: seconds(by.stamp.at),
        packet: by.stamp.packet,
        subflow: by.subflow,
        from: by.from,
        data: position.map(|position| stream.shown(position)),
    }
}

fn address_summary(announced: &Announced, subflows: &[&Subflow]) -> AddressSummary {
    let side = announced.by.from as usize;
    let uses = |subflow: &&Subflow| subflow.ends[side].address.ip() == announced.address;
    AddressSummary {
        packet: announced.by.stamp.packet,
        from: announced.by.from,
        id: announced.id,
        address: announced.address.to_string(),
        port: announced.port,
        is_hmac_right: announced.is_proved,
        echoed: announced.was_echoed,
        withdrawn: announced.was_withdrawn,
        joined: subflows.iter().any(uses),
    }
}

/// Returns the longest round trip of the handshakes, which does not depend on the capture point.
fn round_trip(subflows: &[&Subflow]) -> Option<Nanos> {
    let answered = subflows.iter().filter(|one| one.answered_at.is_some());
    answered
        .filter_map(|one| Some(one.established_at?.saturating_sub(one.first_at)))
        .max()
}

fn data_summary<'a>(
    stream: &DataStream,
    senders: impl Iterator<Item = &'a Sender>,
    round_trip: Option<Nanos>,
) -> DataSummary {
    let shortest = round_trip.map_or(SHORTEST_RATED, |time| {
        LEAST_ROUND_TRIPS.saturating_mul(time)
    });
    let retransmitted: u64 = senders
        .map(|sender| sender.counts.retransmitted_bytes)
        .sum();
    let lasted = stream
        .first_at
        .map(|first| stream.last_at.saturating_sub(first));
    DataSummary {
        bytes: stream.bytes,
        goodput_bps: lasted
            .filter(|lasted| *lasted >= shortest.max(1))
            .map(|lasted| stream.bytes as f64 * 8.0 / seconds(lasted)),
        duplicate_bytes: retransmitted + stream.reinjected.bytes,
        unseen_bytes: stream.unseen_bytes,
        reinjected: stream.reinjected,
        order: stream.order,
        head_of_line: stream.head_of_line.durations(),
        rtt: stream.rtt.durations(),
        window_limited_s: seconds(stream.limited),
        gaps: stream.gaps.clone(),
    }
}

fn subflow_summary(index: usize, subflow: &Subflow, of_bytes: u64) -> SubflowSummary {
    let bytes = bytes_of(subflow);
    let first_data = subflow
        .ends
        .iter()
        .filter_map(|end| end.first_data_at)
        .min();
    let handshake = subflow
        .established_at
        .filter(|_| subflow.answered_at.is_some());
    SubflowSummary {
        id: index,
        local: subflow.ends[Side::Client as usize].address.to_string(),
        remote: subflow.ends[Side::Server as usize].address.to_string(),
        role: subflow.role,
        opened_by: subflow.opener,
        start_s: seconds(subflow.first_at),
        syns: subflow.syns,
        answered_s: subflow.answered_at.map(seconds),
        proofs: by_side(|side| subflow.proofs[side as usize]),
        handshake_s: handshake.map(|at| seconds(at.saturating_sub(subflow.first_at))),
        usable_s: subflow.usable_at.map(seconds),
        first_data_s: first_data.map(seconds),
        end_s: seconds(subflow.last_at),
        ended: subflow.end.clone(),
        backup: subflow.ends.iter().any(|end| end.is_backup),
        bytes,
        share: (of_bytes > 0).then(|| bytes as f64 / of_bytes as f64),
        directions: by_side(|side| {
            let sender = &subflow.ends[side as usize];
            DirectionSummary {
                counts: sender.counts,
                rtt: sender.rtt.durations(),
                timeouts: sender.timeouts.clone(),
                silences: sender.silences.kept().to_vec(),
                checksums: sender.checksums.counts,
                rate: sender.rate.bins(),
            }
        }),
    }
}

fn bytes_of(subflow: &Subflow) -> u64 {
    subflow.ends.iter().map(|end| end.counts.bytes).sum()
}

fn event_summary(event: &super::timeline::Event) -> EventSummary {
    EventSummary {
        packet: event.by.stamp.packet,
        at_s: seconds(event.by.stamp.at),
        subflow: event.by.subflow,
        from: event.by.from,
        kind: event.kind,
        text: event.text.clone(),
        times: event.times,
        last_s: seconds(event.last_at),
    }
}

fn by_side<T>(of: impl Fn(Side) -> T) -> BySide<T> {
    BySide {
        client: of(Side::Client),
        server: of(Side::Server),
    }
}

fn token_text(token: u32) -> String {
    format!("{token:08x}")
}
