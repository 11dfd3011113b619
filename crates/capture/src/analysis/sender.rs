//! What one end of a subflow sends, and how the other end acknowledges it.
//!
//! Offsets count from the initial sequence number: the SYN is 0, the first byte 1. They are the
//! relative numbers of RFC 8684 without wraparound. If the capture begins later, they count from an
//! origin far enough below, and mappings reveal the offset of the SYN.

use std::net::SocketAddr;

use experiment::time::{NANOS_PER_SECOND, Nanos, seconds};
use mptcp::seq::SeqNr;
use mptcp::wire::checksum::Sum;
use mptcp::wire::{Flags, SackBlock};
use serde::Serialize;

use super::Stamp;
use super::checksums::{Checksums, WrongChecksum};
use super::data_stream::{DataStream, MIDDLE, Novelty};
use super::mappings::{Mapping, Mappings};
use super::pieces::{Divisible, Part, Pieces};
use super::rate::Rate;
use super::silences::{Segment, Silences};
use crate::TcpPacket;
use crate::distribution::Distribution;

/// The shortest time after which Linux considers a segment lost without any sign of loss. RFC 6298
/// has one second.
pub(super) const LEAST_TIMEOUT: Nanos = NANOS_PER_SECOND / 5;
/// The most timeout episodes kept.
const MOST_EPISODES: usize = 1000;

/// The state of a piece of a subflow until it is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    first_at: Nanos,
    last_at: Nanos,
    /// Its position in the data, if it is mapped.
    data: Option<u64>,
    was_resent: bool,
    is_sacked: bool,
}

impl Divisible for Sent {
    fn tail(self, bytes: u64) -> Self {
        Self {
            data: self.data.map(|data| data + bytes),
            ..self
        }
    }
}

/// Counters of one direction of a subflow.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Packets with payload.
    pub segments: u64,
    /// Payload bytes, retransmissions included.
    pub bytes: u64,
    /// Payload bytes whose SSNs were seen or acknowledged before.
    pub retransmitted_bytes: u64,
    /// Segments with such payload.
    pub retransmitted_segments: u64,
    /// Payload bytes seen for the first time after payload with higher numbers.
    pub late_bytes: u64,
    /// Payload bytes without a mapping to the data of the connection.
    pub unmapped_bytes: u64,
    /// Bytes acknowledged but not in the capture.
    pub unseen_bytes: u64,
    /// Retransmissions of SYNs and SYN/ACKs.
    pub syn_retransmissions: u64,
    /// Bytes of IP and TCP headers, options included.
    pub header_bytes: u64,
    /// Bytes of TCP options.
    pub option_bytes: u64,
    /// Bytes of MPTCP options.
    pub mptcp_option_bytes: u64,
    /// MPTCP options that could not be parsed.
    pub options_not_understood: u64,
    /// Packets whose options were captured only in part.
    pub options_cut: u64,
    /// Packets that close the receive window.
    pub zero_windows: u64,
    /// Runs of data sent for the first time on this subflow, between runs on others.
    pub runs: u64,
}

/// Retransmissions after a timeout, until the next acknowledgment.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct TimeoutEpisode {
    /// Time of the first retransmission, since the start of the capture.
    pub at_s: f64,
    /// How long nothing was sent or acknowledged before it.
    pub after_s: f64,
    /// Number of retransmissions of the same bytes.
    pub retries: u32,
    /// Time of the acknowledgment that ended it, if there was one.
    pub end_s: Option<f64>,
}

/// One end of a subflow.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) address: SocketAddr,
    /// The highest sequence number seen, and its offset.
    highest: Option<(SeqNr, u64)>,
    /// Offset of the initial sequence number. 0 if the SYN was captured.
    syn_at: Option<u64>,
    isn: Option<SeqNr>,
    pieces: Pieces<Sent>,
    mappings: Mappings,
    was_mapped: bool,
    pub(super) checksums: Checksums,
    sacked_bytes: u64,
    sacked: [(u64, u64); 4],
    fin_at: Option<u64>,
    last_progress: Nanos,
    srtt: Option<(Nanos, Nanos)>,
    window_scale: Option<u8>,
    pub(super) window_bytes: Option<u64>,
    largest_segment: u64,
    /// Buffer for `send`. Empty between segments.
    new_parts: Vec<NewPart>,
    pub(super) counts: Counts,
    pub(super) rtt: Distribution,
    pub(super) rate: Rate,
    pub(super) timeouts: Vec<TimeoutEpisode>,
    pub(super) silences: Silences,
    pub(super) first_data_at: Option<Nanos>,
    pub(super) is_backup: bool,
}

/// Payload that the subflow had not sent before, and its position in the data.
#[derive(Clone, Copy, Debug)]
struct NewPart {
    start: u64,
    end: u64,
    data: Option<u64>,
}

/// The classification of the payload of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) kind: Kind,
    /// Position of the first byte in the data, if known.
    pub(super) data: Option<u64>,
    /// The silence before it, if it follows a timeout.
    pub(super) timeout_after: Option<Nanos>,
}

/// The kind of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No payload.
    Ack,
    /// Data sent for the first time.
    New,
    /// Data sent before on another subflow, or on the same one with other numbers.
    Reinjection,
    /// Payload that the subflow has sent before.
    Retransmission,
    /// Payload without a mapping.
    Unmapped,
}

impl Kind {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::New => "new",
            Self::Reinjection => "reinjection",
            Self::Retransmission => "retransmission",
            Self::Unmapped => "unmapped",
        }
    }

    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Ack,
        Self::New,
        Self::Reinjection,
        Self::Retransmission,
        Self::Unmapped,
    ];
}

impl Sender {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            highest: None,
            syn_at: None,
            isn: None,
            pieces: Pieces::above(0),
            mappings: Mappings::default(),
            was_mapped: false,
            checksums: Checksums::default(),
            sacked_bytes: 0,
            sacked: [(0, 0); 4],
            fin_at: None,
            last_progress: 0,
            srtt: None,
            window_scale: None,
            window_bytes: None,
            largest_segment: 0,
            new_parts: Vec::new(),
            counts: Counts::default(),
            rtt: Distribution::default(),
            rate: Rate::default(),
            timeouts: Vec::new(),
            silences: Silences::default(),
            first_data_at: None,
            is_backup: false,
        }
    }

    /// Handles a SYN or SYN/ACK with sequence number `seq`. Returns whether it is the first.
    pub(super) fn syn(&mut self, now: Nanos, seq: SeqNr, window_scale: Option<u8>) -> bool {
        if self.isn.is_some() {
            self.counts.syn_retransmissions += 1;
            return false;
        }
        self.isn = Some(seq);
        self.syn_at = Some(0);
        self.highest = Some((seq + 1, 1));
        self.pieces = Pieces::above(1);
        self.window_scale = window_scale;
        self.last_progress = now;
        true
    }

    pub(super) fn isn(&self) -> Option<SeqNr> {
        self.isn
    }

    /// Removes the window scale. It does not apply if the other end sent none (RFC 7323, section
    /// 2.2).
    pub(super) fn forget_window_scale(&mut self) {
        self.window_scale = None;
    }

    pub(super) fn has_window_scale(&self) -> bool {
        self.window_scale.is_some()
    }

    /// Returns the offset of `seq`, which must be close to the numbers seen. `None` before the
    /// first number.
    fn offset_of(&self, seq: SeqNr) -> Option<u64> {
        let (highest_seq, highest) = self.highest?;
        highest.checked_add_signed(i64::from(seq.distance_from(highest_seq)))
    }

    /// Returns the offset of `seq`. The first number begins a stream whose start was not captured.
    fn offset_or_begin(&mut self, seq: SeqNr) -> Option<u64> {
        if self.highest.is_none() {
            self.highest = Some((seq, MIDDLE));
            self.pieces = Pieces::above(MIDDLE);
        }
        self.offset_of(seq)
    }

    /// Records the receive window that this end offers.
    pub(super) fn grant(&mut self, window: u16, is_syn: bool) {
        // In a SYN the window is never scaled. If the SYN was not captured, the scale is unknown.
        let scale = if is_syn {
            Some(0)
        } else {
            self.isn.map(|_| self.window_scale.unwrap_or(0))
        };
        self.window_bytes = scale.map(|scale| u64::from(window) << scale);
        self.counts.zero_windows += u64::from(window == 0 && !is_syn);
    }

    /// Returns whether a packet is a probe that makes the other end tell its receive window: it has
    /// no payload, and begins before what the other end expects.
    pub(super) fn is_probe(&self, packet: &TcpPacket<'_>) -> bool {
        let is_empty = packet.payload_len == 0 && packet.flags == Flags::ACK;
        let before = self.highest.map(|(_, highest)| highest.saturating_sub(1));
        is_empty && before.is_some() && self.offset_of(packet.seq) == before
    }

    /// Records the receive window of the other end.
    pub(super) fn record_receive_window(&mut self, window_bytes: u64) {
        if self.unacknowledged_bytes() + self.largest_segment > window_bytes {
            self.silences.lack_room();
        }
    }

    /// Adds a mapping of `len` bytes from SSN `subflow_seq` on. It was carried by a segment with
    /// `payload_len` bytes from `seq` on.
    pub(super) fn map(
        &mut self,
        seq: SeqNr,
        payload_len: u32,
        subflow_seq: u32,
        len: u64,
        data: u64,
    ) {
        let Some(offset) = self.offset_or_begin(seq) else {
            return;
        };
        if self.syn_at.is_none() {
            self.learn_syn(offset, payload_len, subflow_seq, len);
        }
        let Some(syn_at) = self.syn_at else {
            return;
        };
        let start = offset_near(offset, syn_at, subflow_seq);
        if start > offset + u64::from(payload_len) {
            return;
        }
        self.was_mapped = true;
        self.mappings.add(Mapping {
            start,
            end: start + len,
            data,
        });
    }

    /// Expects the payload of the mapping that [`map`](Self::map) added last to have a checksum,
    /// unless a part of it was sent before. `sum` has the pseudo-header and the checksum.
    pub(super) fn expect_checksum(
        &mut self,
        seq: SeqNr,
        subflow_seq: u32,
        sum: Sum,
        mapping: WrongChecksum,
    ) {
        let (Some(offset), Some(syn_at)) = (self.offset_of(seq), self.syn_at) else {
            return;
        };
        let highest = self.highest.map_or(0, |(_, highest)| highest);
        let start = offset_near(offset, syn_at, subflow_seq);
        if start >= highest || mapping.bytes == 0 {
            self.checksums.expect(start, sum, mapping);
        }
    }

    /// Derives the offset of the SYN from a mapping that covers exactly the segment that carries
    /// it.
    fn learn_syn(&mut self, offset: u64, payload_len: u32, subflow_seq: u32, len: u64) {
        if u64::from(payload_len) == len {
            self.syn_at = Some(offset.wrapping_sub(u64::from(subflow_seq)));
        }
    }

    /// Maps all bytes from SSN `subflow_seq` on, which is close to `seq`, to the data from `data`
    /// on.
    pub(super) fn map_all_from(&mut self, seq: SeqNr, subflow_seq: u32, data: u64) {
        let offset = self.offset_or_begin(seq);
        if let (Some(offset), Some(syn_at)) = (offset, self.syn_at) {
            self.mappings
                .go_on_without(offset_near(offset, syn_at, subflow_seq), data);
        }
    }

    /// Maps each byte to its own offset, for connections without DSNs.
    pub(super) fn map_plainly(&mut self, seq: SeqNr) {
        if let Some(offset) = self.offset_or_begin(seq) {
            self.mappings.go_on_without(offset, offset);
        }
    }

    /// Maps all bytes from `offset` on to the data from `data` on, without mappings.
    pub(super) fn go_on_without_mappings(&mut self, offset: u64, data: u64) {
        self.mappings.go_on_without(offset, data);
    }

    /// Returns whether `seq` directly follows the last mapping.
    pub(super) fn ends_its_mappings_at(&self, seq: SeqNr) -> bool {
        self.mappings.last_end().is_some() && self.mappings.last_end() == self.offset_of(seq)
    }

    /// Maps all bytes after the last mapping without further mappings.
    pub(super) fn go_on_after_last_mapping(&mut self) {
        self.mappings.go_on_after_last();
    }

    pub(super) fn needs_no_mappings(&self) -> bool {
        self.mappings.are_infinite()
    }

    /// Forgets all mappings, because a connection taken for plain TCP turned out to be a subflow.
    pub(super) fn forget_places(&mut self) {
        self.mappings = Mappings::default();
        self.pieces.for_each(|sent| sent.data = None);
    }

    /// Returns whether a mapping ever applied to a byte.
    pub(super) fn was_mapped(&self) -> bool {
        self.was_mapped
    }

    /// Records payload that this end sends.
    pub(super) fn send(
        &mut self,
        stamp: Stamp,
        subflow: usize,
        packet: &TcpPacket<'_>,
        stream: &mut DataStream,
    ) -> Option<Seen> {
        let (now, len) = (stamp.at, packet.payload_len);
        let offset = self.offset_or_begin(packet.seq)?;
        let end = offset + u64::from(len);
        self.first_data_at.get_or_insert(now);
        self.counts.segments += 1;
        self.counts.bytes += u64::from(len);
        self.rate.add(now, u64::from(len));
        self.largest_segment = self.largest_segment.max(u64::from(len));
        let (highest_seq, highest) = self.highest?;
        let acknowledged_at = self.pieces.is_empty().then_some(self.last_progress);
        let mut parts = std::mem::take(&mut self.new_parts);
        let (again, oldest_sent_at) = self.divide(now, offset, end, &mut parts);
        if again > 0 {
            self.counts.retransmitted_bytes += again;
            self.counts.retransmitted_segments += 1;
        }
        let segment = Segment {
            stamp,
            payload_len: len,
            is_new: !parts.is_empty(),
            is_highest: end > highest,
            is_pushed: packet.flags.contains(Flags::PSH) || packet.flags.contains(Flags::FIN),
        };
        self.silences.add(segment, acknowledged_at);
        let mut kind = Kind::Retransmission;
        for part in parts.drain(..) {
            let captured = packet.payload.get((part.start - offset) as usize..);
            self.checksums
                .add(part.start, part.end, captured.unwrap_or_default());
            self.counts.late_bytes += part.end.min(highest).saturating_sub(part.start);
            kind = self.place(now, subflow, part, stream, kind);
        }
        self.new_parts = parts;
        if end > highest {
            self.highest = Some((highest_seq + (end - highest) as u32, end));
        }
        Some(Seen {
            kind,
            data: self.mappings.of(offset, end).0,
            timeout_after: oldest_sent_at.and_then(|last_at| self.record_timeout(now, last_at)),
        })
    }

    /// Divides `offset..end` into bytes sent before and `new` parts. Returns how many bytes were
    /// sent before. Also returns when the oldest unacknowledged bytes were last sent, if they are
    /// among them.
    fn divide(
        &mut self,
        now: Nanos,
        offset: u64,
        end: u64,
        new: &mut Vec<NewPart>,
    ) -> (u64, Option<Nanos>) {
        let (mut again, mut oldest_sent_at) = (0, None);
        let floor = self.pieces.floor();
        let mut at = offset;
        while at < end {
            let (data, until) = self.mappings.of(at, end);
            let sent = |start: u64| Sent {
                first_at: now,
                last_at: now,
                data: data.map(|data| data + (start - at)),
                was_resent: false,
                is_sacked: false,
            };
            self.pieces.send(at, until, sent, |part| match part {
                Part::Below { start, end } => again += end - start,
                Part::New { start, end } => new.push(NewPart {
                    start,
                    end,
                    data: data.map(|data| data + (start - at)),
                }),
                Part::Again { start, end, value } => {
                    again += end - start;
                    if start == floor && !value.is_sacked {
                        oldest_sent_at = Some(value.last_at);
                    }
                    value.was_resent = true;
                    value.last_at = now;
                }
            });
            at = until;
        }
        (again, oldest_sent_at)
    }

    /// Places new payload in the data of the connection. Returns the kind of the segment, given its
    /// kind `so_far`.
    fn place(
        &mut self,
        now: Nanos,
        subflow: usize,
        part: NewPart,
        stream: &mut DataStream,
        so_far: Kind,
    ) -> Kind {
        let len = part.end - part.start;
        let Some(data) = part.data else {
            self.counts.unmapped_bytes += len;
            return if so_far == Kind::Reinjection {
                so_far
            } else {
                Kind::Unmapped
            };
        };
        let is_run = stream.last_subflow() == Some(subflow);
        let novelty = stream.send(now, subflow, data, data + len);
        self.counts.runs += u64::from(novelty == Novelty::New && !is_run);
        match novelty {
            Novelty::New if so_far != Kind::Reinjection => Kind::New,
            _ => Kind::Reinjection,
        }
    }

    /// Records a timeout if the oldest segment is sent again after a silence at least as long as an
    /// RTO. Returns the silence.
    fn record_timeout(&mut self, now: Nanos, last_at: Nanos) -> Option<Nanos> {
        let silent_since = last_at.max(self.last_progress);
        let silence = now.saturating_sub(silent_since);
        // RFC 6298, section 2.3, without the clock granularity.
        let estimate = self.srtt.map_or(0, |(srtt, rttvar)| srtt + 4 * rttvar);
        if self.last_progress > last_at || silence < estimate.max(LEAST_TIMEOUT) {
            return None;
        }
        let kept = self.timeouts.len();
        match self.timeouts.last_mut() {
            Some(episode) if episode.end_s.is_none() => episode.retries += 1,
            _ if kept == MOST_EPISODES => {}
            _ => self.timeouts.push(TimeoutEpisode {
                at_s: seconds(now),
                after_s: seconds(silence),
                retries: 1,
                end_s: None,
            }),
        }
        Some(silence)
    }

    /// Records a FIN after `len` bytes from `seq` on.
    pub(super) fn finish(&mut self, seq: SeqNr, len: u32) {
        let Some(offset) = self.offset_or_begin(seq) else {
            return;
        };
        let at = offset + u64::from(len);
        self.fin_at.get_or_insert(at);
        if let Some((_, highest)) = self.highest.filter(|(_, highest)| *highest <= at) {
            let ahead = (at + 1 - highest) as u32;
            self.highest = self.highest.map(|(seq, _)| (seq + ahead, at + 1));
        }
    }

    /// Records an acknowledgment by the other end. Returns the RTT if it can be measured.
    pub(super) fn acknowledged(
        &mut self,
        now: Nanos,
        subflow: usize,
        ack: SeqNr,
        sack: &[SackBlock],
        stream: &mut DataStream,
    ) -> Option<Nanos> {
        let to = self.offset_or_begin(ack)?;
        let rtt = if to > self.pieces.floor() {
            self.advance(now, subflow, to, stream)
        } else {
            None
        };
        for (index, block) in sack.iter().enumerate() {
            self.handle_sack(now, subflow, index, *block, stream);
        }
        rtt
    }

    fn advance(
        &mut self,
        now: Nanos,
        subflow: usize,
        to: u64,
        stream: &mut DataStream,
    ) -> Option<Nanos> {
        let before = self.pieces.floor();
        let (mut was_resent, mut newest) = (false, None);
        let sacked_bytes = &mut self.sacked_bytes;
        let unseen = self.pieces.acknowledge(to, |start, end, sent| {
            was_resent |= sent.was_resent;
            newest = Some(sent.first_at).filter(|_| !sent.is_sacked);
            if sent.is_sacked {
                *sacked_bytes -= end - start;
            } else if let Some(data) = sent.data {
                stream.deliver(subflow, data, data + (end - start));
            }
        });
        // FIN occupies a number (RFC 9293, section 3.4).
        let fin = u64::from(self.fin_at.is_some_and(|at| before <= at && at < to));
        self.counts.unseen_bytes += unseen.saturating_sub(fin);
        self.mappings.forget_before(to);
        self.progressed(now);
        if let Some((seq, highest)) = self.highest.filter(|(_, highest)| *highest < to) {
            self.highest = Some((seq + (to - highest) as u32, to));
        }
        // Karn's algorithm (RFC 6298, section 3).
        let rtt = now.saturating_sub(newest.filter(|_| !was_resent)?);
        self.rtt.add(rtt);
        self.srtt = Some(match self.srtt {
            None => (rtt, rtt / 2),
            Some((srtt, var)) => (
                srtt - srtt / 8 + rtt / 8,
                var - var / 4 + srtt.abs_diff(rtt) / 4,
            ),
        });
        Some(rtt)
    }

    fn handle_sack(
        &mut self,
        now: Nanos,
        subflow: usize,
        index: usize,
        block: SackBlock,
        stream: &mut DataStream,
    ) {
        let ends = (self.offset_of(block.start), self.offset_of(block.end));
        let (Some(start), Some(end)) = ends else {
            return;
        };
        let highest = self.highest.map_or(0, |(_, highest)| highest);
        if start >= end || end > highest || end <= self.pieces.floor() {
            return;
        }
        // SACK blocks grow, so skip the part that was processed last time.
        let known = self
            .sacked
            .iter()
            .find(|known| known.0 == start && known.1 <= end);
        let from = known.map_or(start, |known| known.1);
        self.sacked[index] = (start, end);
        let (sacked_bytes, mut is_news) = (&mut self.sacked_bytes, false);
        self.pieces.within(from, end, |start, end, sent| {
            if sent.is_sacked {
                return;
            }
            sent.is_sacked = true;
            is_news = true;
            *sacked_bytes += end - start;
            if let Some(data) = sent.data {
                stream.deliver(subflow, data, data + (end - start));
            }
        });
        if is_news {
            self.progressed(now);
        }
    }

    fn progressed(&mut self, now: Nanos) {
        self.last_progress = now;
        if let Some(episode) = self.timeouts.last_mut() {
            episode.end_s.get_or_insert(seconds(now));
        }
    }

    /// Returns the data position that the subflow acknowledgment implies, if no mappings are needed
    /// any more.
    pub(super) fn data_acknowledged(&self) -> Option<u64> {
        let floor = self.pieces.floor();
        let fin = u64::from(self.fin_at.is_some_and(|at| at < floor));
        let data = self.mappings.of(floor, floor + 1).0;
        data.filter(|_| self.needs_no_mappings())
            .map(|data| data - fin)
    }

    /// Returns the bytes neither acknowledged nor selectively acknowledged.
    pub(super) fn unacknowledged_bytes(&self) -> u64 {
        let highest = self.highest.map_or(0, |(_, highest)| highest);
        (highest - self.pieces.floor().min(highest)).saturating_sub(self.sacked_bytes)
    }

    /// Returns the largest payload of a segment.
    pub(super) fn largest_segment(&self) -> u64 {
        self.largest_segment
    }
}

/// Returns the offset of the 32-bit relative number `subflow_seq`, close to offset `near`.
fn offset_near(near: u64, syn_at: u64, subflow_seq: u32) -> u64 {
    let relative = near.wrapping_sub(syn_at);
    let ahead = subflow_seq.wrapping_sub(relative as u32) as i32;
    near.wrapping_add_signed(i64::from(ahead))
}
