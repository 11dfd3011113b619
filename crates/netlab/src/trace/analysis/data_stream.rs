//! The data that one side of a connection sends, over all its subflows.
//!
//! Positions count from the initial data sequence number, so that the first byte is 1; where the capture begins later, from an
//! origin far enough below. Plain TCP is a stream whose positions are those of its one subflow.

use mptcp::seq::DataSeq;
use mptcp::wire::DataNumber;
use serde::Serialize;

use super::pieces::{Divisible, Part, Pieces};
use crate::time::{NANOS_PER_SECOND, Nanos, seconds};
use crate::trace::distribution::Distribution;

/// Where a stream is when the capture begins in its middle.
pub(super) const MIDDLE: u64 = 1 << 40;
/// Numbers farther from all that was seen than any window are none of this connection.
const FARTHEST: u64 = 1 << 32;
/// A wait for acknowledgments is told when it is longer by this than the round trip (the shortest timeout of Linux).
const GAP: Nanos = NANOS_PER_SECOND / 5;
/// Gaps that are kept.
const MOST_GAPS: usize = 1000;

/// What is known of a piece of data until it is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    first_at: Nanos,
    subflow: u32,
    /// Copies beyond the first of which it is not yet known whether they were needed.
    undecided: u16,
    is_delivered: bool,
    was_resent: bool,
}

impl Divisible for Sent {
    fn tail(self, _bytes: u64) -> Self {
        self
    }
}

/// How a part of a stream was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// For the first time.
    New,
    /// Sent before on another subflow, or acknowledged before.
    Reinjected,
    /// Sent before on the same subflow, with other subflow sequence numbers.
    Remapped,
}

/// Bytes sent again at the level of the connection, beside the retransmissions of subflows.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Reinjected {
    /// Bytes whose data sequence numbers were sent before, or acknowledged before, in a segment that is new to its subflow.
    pub bytes: u64,
    /// Of these, those acknowledged by their subflow before the first copy was.
    pub useful_bytes: u64,
    /// Those of which another copy had been acknowledged first.
    pub redundant_bytes: u64,
    /// Those sent again on the same subflow.
    pub same_subflow_bytes: u64,
}

/// A time in which data was under way and nothing of it acknowledged.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Gap {
    /// When it began, since the start of the capture.
    pub at_s: f64,
    /// How long it lasted.
    pub seconds: f64,
    /// The subflow whose acknowledgments came before it, if there were any.
    pub from_subflow: Option<usize>,
    /// The subflow whose acknowledgments ended it.
    pub to_subflow: usize,
    /// Bytes that waited when it ended.
    pub waiting_bytes: u64,
}

/// A scheduler's choices, as far as they show: data sent for the first time, in the order of the capture.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq)]
pub struct Order {
    /// Segments sent for the first time.
    pub segments: u64,
    /// Of these, those that continue the data where the last one sent ended.
    pub in_order_segments: u64,
    /// How often the next segment went over another subflow.
    pub switches: u64,
    /// Those that reached the point of capture before data in front of them.
    pub early_segments: u64,
    /// The largest distance between such a segment and the data that were missing, in bytes.
    pub farthest_bytes: u64,
}

/// The data of one side.
#[derive(Debug)]
pub(super) struct DataStream {
    /// The data sequence number at position 0.
    origin: Option<DataSeq>,
    /// Whether that is the initial number of the side, and not one made up for a capture that begins later.
    pub(super) begins_at_first: bool,
    pieces: Pieces<Sent>,
    highest: u64,
    /// All before it was seen.
    contiguous: u64,
    fin_at: Option<u64>,
    last_subflow: Option<u32>,
    last_ack: Option<(Nanos, usize)>,
    /// Since when something has been waiting to be acknowledged.
    waiting_since: Option<Nanos>,
    rtt_estimate: Option<Nanos>,
    limited_since: Option<Nanos>,
    pub(super) first_at: Option<Nanos>,
    pub(super) last_at: Nanos,
    /// Data seen, each byte once.
    pub(super) bytes: u64,
    pub(super) reinjected: Reinjected,
    /// Acknowledged without having been seen: the capture has not all subflows, or not all packets.
    pub(super) unseen_bytes: u64,
    pub(super) order: Order,
    pub(super) rtt: Distribution,
    pub(super) head_of_line: Distribution,
    pub(super) gaps: Vec<Gap>,
    pub(super) limited: Nanos,
}

impl Default for DataStream {
    fn default() -> Self {
        Self {
            origin: None,
            begins_at_first: false,
            pieces: Pieces::above(MIDDLE),
            highest: MIDDLE,
            contiguous: MIDDLE,
            fin_at: None,
            last_subflow: None,
            last_ack: None,
            waiting_since: None,
            rtt_estimate: None,
            limited_since: None,
            first_at: None,
            last_at: 0,
            bytes: 0,
            reinjected: Reinjected::default(),
            unseen_bytes: 0,
            order: Order::default(),
            rtt: Distribution::default(),
            head_of_line: Distribution::default(),
            gaps: Vec::new(),
            limited: 0,
        }
    }
}

impl DataStream {
    /// A stream whose first byte has position 1.
    pub(super) fn from_first(origin: Option<DataSeq>) -> Self {
        Self {
            origin,
            begins_at_first: true,
            pieces: Pieces::above(1),
            highest: 1,
            contiguous: 1,
            ..Self::default()
        }
    }

    /// Nothing was sent yet, and what will be bears no data sequence numbers.
    pub(super) fn begin_plain(&mut self) {
        *self = Self::from_first(None);
    }

    /// A position as it is shown: the first byte of a stream that was seen to begin is 0.
    pub(super) fn shown(&self, position: u64) -> i64 {
        let origin = if self.begins_at_first { 1 } else { MIDDLE };
        position.wrapping_sub(origin) as i64
    }

    /// Whether it has numbers yet, from a key or from what was sent.
    pub(super) fn has_origin(&self) -> bool {
        self.origin.is_some()
    }

    /// The position of a data sequence number; `None` if no number is known yet and only its low half is told, or if it lies
    /// farther away than any window.
    pub(super) fn position(&self, number: DataNumber) -> Option<u64> {
        let origin = self.origin?;
        let full = number.expand(origin + self.highest);
        let ahead = full.distance_from(origin + self.highest);
        if ahead.unsigned_abs() > FARTHEST {
            return None;
        }
        self.highest.checked_add_signed(ahead)
    }

    /// Takes a number as the first of a stream that was not seen to begin.
    pub(super) fn begin_at(&mut self, number: DataSeq) {
        if self.origin.is_none() {
            self.origin = Some(number - MIDDLE);
        }
    }

    /// How far a number lies from what was last sent, if numbers of this stream are known.
    pub(super) fn distance_to(&self, number: DataSeq) -> Option<u64> {
        let highest = self.origin? + self.highest;
        Some(number.distance_from(highest).unsigned_abs())
    }

    /// A subflow sends `start..end` in a segment that is new to it.
    pub(super) fn send(&mut self, now: Nanos, subflow: usize, start: u64, end: u64) -> Novelty {
        self.first_at.get_or_insert(now);
        self.last_at = now;
        let subflow = subflow as u32;
        let sent = Sent {
            first_at: now,
            subflow,
            undecided: 0,
            is_delivered: false,
            was_resent: false,
        };
        let mut novelty = Novelty::New;
        let (reinjected, bytes) = (&mut self.reinjected, &mut self.bytes);
        let mut new_start = None;
        self.pieces.send(
            start,
            end,
            |_| sent,
            |part| match part {
                Part::New { start, end } => {
                    *bytes += end - start;
                    new_start.get_or_insert(start);
                }
                Part::Below { start, end } => {
                    reinjected.bytes += end - start;
                    reinjected.redundant_bytes += end - start;
                    novelty = Novelty::Reinjected;
                }
                Part::Again { start, end, value } => {
                    let len = end - start;
                    reinjected.bytes += len;
                    value.was_resent = true;
                    if value.is_delivered {
                        reinjected.redundant_bytes += len;
                    } else {
                        value.undecided = value.undecided.saturating_add(1);
                    }
                    let is_same = value.subflow == subflow;
                    reinjected.same_subflow_bytes += if is_same { len } else { 0 };
                    novelty = if is_same {
                        Novelty::Remapped
                    } else {
                        Novelty::Reinjected
                    };
                }
            },
        );
        if let Some(new_start) = new_start {
            self.note_order(subflow, new_start);
            self.waiting_since.get_or_insert(now);
        }
        self.highest = self.highest.max(end);
        self.advance_contiguous(now);
        novelty
    }

    /// Over which subflow data was last sent for the first time.
    pub(super) fn last_subflow(&self) -> Option<usize> {
        self.last_subflow.map(|subflow| subflow as usize)
    }

    fn note_order(&mut self, subflow: u32, start: u64) {
        let order = &mut self.order;
        order.segments += 1;
        order.in_order_segments += u64::from(start == self.highest);
        let last = self.last_subflow.replace(subflow);
        order.switches += u64::from(last.is_some_and(|last| last != subflow));
        if start > self.contiguous {
            order.early_segments += 1;
            order.farthest_bytes = order.farthest_bytes.max(start - self.contiguous);
        }
    }

    /// What had waited for data before it waits no longer.
    fn advance_contiguous(&mut self, now: Nanos) {
        let waits = &mut self.head_of_line;
        let from = self.contiguous.max(self.pieces.floor());
        self.contiguous = self.pieces.contiguous_from(from, |sent| {
            if sent.first_at < now {
                waits.add(now - sent.first_at);
            }
        });
    }

    /// The receiver has `start..end` by what that subflow carried.
    pub(super) fn deliver(&mut self, subflow: usize, start: u64, end: u64) {
        let reinjected = &mut self.reinjected;
        self.pieces.within(start, end, |start, end, sent| {
            if sent.is_delivered {
                return;
            }
            sent.is_delivered = true;
            let (len, copies) = (end - start, u64::from(sent.undecided));
            if sent.subflow as usize == subflow {
                reinjected.redundant_bytes += copies * len;
            } else {
                reinjected.useful_bytes += copies.min(1) * len;
                reinjected.redundant_bytes += copies.saturating_sub(1) * len;
            }
        });
    }

    /// The receiver acknowledges all before position `to`; `subflow` carried that. Returns the round trip, where it can be told.
    pub(super) fn acknowledge(&mut self, now: Nanos, subflow: usize, to: u64) -> Option<Nanos> {
        let before = self.pieces.floor();
        if to <= before {
            return None;
        }
        let waiting_bytes = self.highest.saturating_sub(before);
        let mut newest = None;
        let unseen = self
            .pieces
            .acknowledge(to, |_, _, sent| newest = Some(sent));
        // DATA_FIN takes a number (RFC 8684, section 3.3.3).
        let fin = u64::from(self.fin_at.is_some_and(|at| before <= at && at < to));
        self.unseen_bytes += unseen.saturating_sub(fin);
        self.highest = self.highest.max(to);
        self.contiguous = self.contiguous.max(to);
        self.note_gap(now, subflow, waiting_bytes);
        self.last_ack = Some((now, subflow));
        self.waiting_since = (!self.pieces.is_empty()).then_some(now);
        let newest = newest.filter(|sent| !sent.was_resent)?;
        let rtt = now.saturating_sub(newest.first_at);
        self.rtt.add(rtt);
        // Smoothed as in RFC 6298, section 2.3.
        self.rtt_estimate = Some(self.rtt_estimate.map_or(rtt, |old| old - old / 8 + rtt / 8));
        Some(rtt)
    }

    fn note_gap(&mut self, now: Nanos, to_subflow: usize, waiting_bytes: u64) {
        let Some(since) = self.waiting_since else {
            return;
        };
        let waited = now.saturating_sub(since);
        if waited <= self.rtt_estimate.unwrap_or(0) + GAP || self.gaps.len() == MOST_GAPS {
            return;
        }
        self.gaps.push(Gap {
            at_s: seconds(since),
            seconds: seconds(waited),
            from_subflow: self.last_ack.map(|(_, subflow)| subflow),
            to_subflow,
            waiting_bytes,
        });
    }

    /// A mapping ends the data at that position.
    pub(super) fn finish(&mut self, at: u64) -> bool {
        let is_first = self.fin_at.is_none();
        self.fin_at.get_or_insert(at);
        is_first
    }

    /// Notes whether the window that the receiver grants leaves no room for another segment.
    pub(super) fn note_window(&mut self, now: Nanos, window_bytes: u64, segment_bytes: u64) {
        let waiting = self.highest - self.pieces.floor();
        let is_limited = waiting > 0 && waiting + segment_bytes > window_bytes;
        if let Some(since) = self.limited_since {
            self.limited += now.saturating_sub(since);
        }
        self.limited_since = is_limited.then_some(now);
    }
}

/// The two streams of a connection, by who sends.
pub(super) type Streams = [DataStream; 2];
