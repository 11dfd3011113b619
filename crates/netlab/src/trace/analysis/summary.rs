//! What is known of a capture, as values to print and to write as JSON. Seconds count from the start of the capture.

use serde::Serialize;

use super::connection::{Connection, Ending};
use super::data_stream::{DataStream, Gap, Order, Reinjected};
use super::rate::Bins;
use super::sender::{Counts, Sender, TimeoutEpisode};
use super::subflow::{Role, Subflow, SubflowEnd};
use super::timeline::EventKind;
use super::{Analysis, FrameCounts, Side};
use crate::time::{Nanos, seconds};
use crate::trace::Durations;

/// All connections of a capture.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Summary {
    /// Frames by what they held.
    pub frames: FrameCounts,
    /// The first frame, in seconds since 1970.
    pub start_unix_s: f64,
    /// From the first to the last frame.
    pub duration_s: f64,
    /// In the order of their first packets.
    pub connections: Vec<ConnectionSummary>,
}

/// A value for each side of a connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct BySide<T> {
    /// Who opened it.
    pub client: T,
    /// Who accepted.
    pub server: T,
}

/// One side.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SideSummary {
    /// Its end of the first subflow.
    pub address: String,
    /// 16 hexadecimal digits.
    pub key: Option<String>,
    /// 8 hexadecimal digits.
    pub token: Option<String>,
}

/// A connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct ConnectionSummary {
    /// Its number in this capture.
    pub id: usize,
    /// Version of MPTCP; null: plain TCP.
    pub version: Option<u8>,
    /// The token by which the client joins, 8 hexadecimal digits.
    pub token: Option<String>,
    /// Who takes part.
    pub sides: BySide<SideSummary>,
    /// The first packet.
    pub start_s: f64,
    /// The last packet.
    pub end_s: f64,
    /// Whether data sequence signals bear checksums.
    pub checksums: bool,
    /// Why it went on as plain TCP, and since when.
    pub fallback: Option<FallbackSummary>,
    /// How it ended, if it did.
    pub ending: Option<Ending>,
    /// Payload on all subflows in both directions, retransmissions included.
    pub bytes: u64,
    /// Data sent again in segments that are new to their subflow, in both directions.
    pub reinjected_bytes: u64,
    /// From the first SYN until a second subflow may carry data.
    pub second_subflow_usable_after_s: Option<f64>,
    /// What each side sends.
    pub data: BySide<DataSummary>,
    /// In the order of their first packets.
    pub subflows: Vec<SubflowSummary>,
    /// What happened besides data.
    pub events: Vec<EventSummary>,
    /// Events beyond those.
    pub events_left_out: u64,
}

/// The end of Multipath TCP in a connection.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct FallbackSummary {
    /// Since when.
    pub at_s: f64,
    /// Why.
    pub why: &'static str,
}

/// The data of one side.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct DataSummary {
    /// Each byte counted once.
    pub bytes: u64,
    /// Bytes over the time from the first to the last segment.
    pub goodput_bps: Option<f64>,
    /// Payload that had been seen before, on the same subflow or another.
    pub duplicate_bytes: u64,
    /// Bytes acknowledged that are not in the capture.
    pub unseen_bytes: u64,
    /// Data sent again across subflows.
    pub reinjected: Reinjected,
    /// The order in which data was sent for the first time.
    pub order: Order,
    /// How long data behind a hole waited for it at the point of capture.
    pub head_of_line: Option<Durations>,
    /// From data to its DATA_ACK.
    pub rtt: Option<Durations>,
    /// Time in which the receive window had no room for another segment.
    pub window_limited_s: f64,
    /// Times in which data waited in vain to be acknowledged.
    pub gaps: Vec<Gap>,
}

/// A subflow.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SubflowSummary {
    /// Its number in this capture.
    pub id: usize,
    /// Address and port of the client of the connection.
    pub local: String,
    /// Address and port of its server.
    pub remote: String,
    /// How it came to the connection.
    pub role: Role,
    /// Which side opened it, if its SYN was seen.
    pub opened_by: Option<Side>,
    /// The first packet.
    pub start_s: f64,
    /// From the SYN to the third packet of the handshake.
    pub handshake_s: Option<f64>,
    /// When it could carry data.
    pub usable_s: Option<f64>,
    /// The first payload.
    pub first_data_s: Option<f64>,
    /// The last packet.
    pub end_s: f64,
    /// How it ended, if it did.
    pub ended: Option<SubflowEnd>,
    /// Whether a side made it a backup.
    pub backup: bool,
    /// Payload in both directions, retransmissions included.
    pub bytes: u64,
    /// Part of the connection's payload.
    pub share: Option<f64>,
    /// What each side sends on it.
    pub directions: BySide<DirectionSummary>,
}

/// What one side sends on a subflow.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct DirectionSummary {
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// From payload to its acknowledgment, as seen where the capture was made.
    pub rtt: Option<Durations>,
    /// Retransmissions after timeouts.
    pub timeouts: Vec<TimeoutEpisode>,
    /// Payload over time.
    pub rate: Bins,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct EventSummary {
    /// Number of the frame.
    pub packet: u64,
    /// When.
    pub at_s: f64,
    /// The subflow whose packet told it.
    pub subflow: usize,
    /// Who sent that.
    pub from: Side,
    /// Its kind.
    pub kind: EventKind,
    /// What it says.
    pub text: String,
    /// How often it was told.
    pub times: u32,
    /// When it was told last.
    pub last_s: f64,
}

pub(super) fn of(analysis: &Analysis) -> Summary {
    let connections = analysis.connections.iter().enumerate();
    // Those that turned out to be parts of others have no subflows any more.
    let own = connections.filter(|(_, connection)| !connection.subflows.is_empty());
    Summary {
        frames: analysis.counts,
        start_unix_s: seconds(analysis.origin.unwrap_or(0)),
        duration_s: seconds(analysis.last_at),
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
        fallback: connection.fallback.map(|(at, why)| FallbackSummary {
            at_s: seconds(at),
            why,
        }),
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
            data_summary(
                stream,
                subflows.iter().map(|subflow| &subflow.ends[side as usize]),
            )
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

fn data_summary<'a>(stream: &DataStream, senders: impl Iterator<Item = &'a Sender>) -> DataSummary {
    let retransmitted: u64 = senders
        .map(|sender| sender.counts.retransmitted_bytes)
        .sum();
    let lasted = stream
        .first_at
        .map(|first| seconds(stream.last_at.saturating_sub(first)));
    DataSummary {
        bytes: stream.bytes,
        goodput_bps: lasted
            .filter(|lasted| *lasted > 0.0)
            .map(|lasted| stream.bytes as f64 * 8.0 / lasted),
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
