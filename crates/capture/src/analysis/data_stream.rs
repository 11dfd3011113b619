//! The data that one side of a connection sends, over all its subflows.
//!
//! Positions count from the initial DSN, so that the first byte is 1. If the capture begins later,
//! they count from an origin far enough below. For plain TCP, positions are those of the only
//! subflow.

use experiment::time::{NANOS_PER_SECOND, Nanos, seconds};
use mptcp::seq::DataSeq;
use mptcp::wire::DataNumber;
use serde::Serialize;

use super::pieces::{Divisible, Part, Pieces};
use crate::distribution::Distribution;

/// Position of a stream whose start was not captured.
pub(super) const MIDDLE: u64 = 1 << 40;
/// A number farther than this from all numbers seen does not belong to the connection, because no
/// window is as large.
const FARTHEST: u64 = 1 << 32;
/// A wait for acknowledgments is reported if it exceeds the round trip by this (the shortest RTO of
/// Linux).
const GAP: Nanos = NANOS_PER_SECOND / 5;
/// The most gaps kept.
const MOST_GAPS: usize = 1000;

/// The state of a piece of data until it is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    first_at: Nanos,
    subflow: u32,
    /// Copies beyond the first that are not yet known to be useful or redundant.
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
    /// After it was sent on another subflow, or acknowledged.
    Reinjected,
    /// After it was sent on the same subflow with other SSNs.
    Remapped,
}

/// Bytes sent again at the level of the connection, in addition to the retransmissions of subflows.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Reinjected {
    /// Bytes whose DSNs were sent or acknowledged before, in a segment that is new to its subflow.
    pub bytes: u64,
    /// Of these, bytes acknowledged on their subflow before the first copy was.
    pub useful_bytes: u64,
    /// Of these, bytes of which another copy was acknowledged first.
    pub redundant_bytes: u64,
    /// Of these, bytes sent again on the same subflow.
    pub same_subflow_bytes: u64,
}

/// A time in which data was in flight and none of it was acknowledged.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Gap {
    /// When it began, since the start of the capture.
    pub at_s: f64,
    /// How long it lasted.
    pub seconds: f64,
    /// The subflow of the last acknowledgments before it, if there were any.
    pub from_subflow: Option<usize>,
    /// The subflow whose acknowledgment ended it.
    pub to_subflow: usize,
    /// Bytes in flight when it ended.
    pub waiting_bytes: u64,
}

/// The visible choices of a scheduler: data sent for the first time, in the order of the capture.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq)]
pub struct Order {
    /// Segments with data sent for the first time.
    pub segments: u64,
    /// Of these, segments that start where the last one ended.
    pub in_order_segments: u64,
    /// How often a segment used another subflow than the one before.
    pub switches: u64,
    /// Segments captured before data that precedes them in the stream.
    pub early_segments: u64,
    /// The largest distance in bytes between such a segment and the missing data.
    pub farthest_bytes: u64,
}

/// The data of one side.
#[derive(Debug)]
pub(super) struct DataStream {
    /// The DSN at position 0.
    origin: Option<DataSeq>,
    /// Whether `origin` follows from the initial DSN. Otherwise it was chosen because the capture
    /// begins later.
    pub(super) begins_at_first: bool,
    pieces: Pieces<Sent>,
    highest: u64,
    /// All data before this position was seen.
    contiguous: u64,
    fin_at: Option<u64>,
    last_subflow: Option<u32>,
    last_ack: Option<(Nanos, usize)>,
    /// When data in flight began to wait for an acknowledgment.
    waiting_since: Option<Nanos>,
    rtt_estimate: Option<Nanos>,
    limited_since: Option<Nanos>,
    /// Since when the receive window is closed and no data is in flight.
    closed_since: Option<Nanos>,
    pub(super) first_at: Option<Nanos>,
    pub(super) last_at: Nanos,
    /// Bytes of data seen, each counted once.
    pub(super) bytes: u64,
    pub(super) reinjected: Reinjected,
    /// Bytes acknowledged but not seen, because the capture lacks subflows or packets.
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
            closed_since: None,
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
    /// Returns a stream whose first byte has position 1.
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

    /// Restarts as a stream without DSNs, before any data was sent.
    pub(super) fn begin_plain(&mut self) {
        *self = Self::from_first(None);
    }

    /// Returns a position as it is displayed: the first byte is 0 if the start of the stream was
    /// captured.
    pub(super) fn shown(&self, position: u64) -> i64 {
        let origin = if self.begins_at_first { 1 } else { MIDDLE };
        position.wrapping_sub(origin) as i64
    }

    /// Returns whether a number of the stream is known, from a key or from data sent.
    pub(super) fn has_origin(&self) -> bool {
        self.origin.is_some()
    }

    /// Returns the position of a DSN. `None` if no number of the stream is known yet, or if
    /// `number` is farther away than any window.
    pub(super) fn position(&self, number: DataNumber) -> Option<u64> {
        let origin = self.origin?;
        let full = number.expand(origin + self.highest);
        let ahead = full.distance_from(origin + self.highest);
        if ahead.unsigned_abs() > FARTHEST {
            return None;
        }
        self.highest.checked_add_signed(ahead)
    }

    /// Returns the DSN of a position, if a number of the stream is known.
    pub(super) fn number_at(&self, position: u64) -> Option<DataSeq> {
        Some(self.origin? + position)
    }

    /// Uses `number` to place a stream whose start was not captured.
    pub(super) fn begin_at(&mut self, number: DataSeq) {
        if self.origin.is_none() {
            self.origin = Some(number - MIDDLE);
        }
    }

    /// Returns the distance of `number` from the highest number sent, if numbers of the stream are
    /// known.
    pub(super) fn distance_to(&self, number: DataSeq) -> Option<u64> {
        let highest = self.origin? + self.highest;
        Some(number.distance_from(highest).unsigned_abs())
    }

    /// Records that a subflow sent `start..end` in a segment that is new to it.
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
            self.record_order(subflow, new_start);
            self.waiting_since.get_or_insert(now);
        }
        self.highest = self.highest.max(end);
        self.advance_contiguous(now);
        novelty
    }

    /// Returns the subflow that last sent data for the first time.
    pub(super) fn last_subflow(&self) -> Option<usize> {
        self.last_subflow.map(|subflow| subflow as usize)
    }

    fn record_order(&mut self, subflow: u32, start: u64) {
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

    /// Ends the head-of-line waits for data that is now contiguous.
    fn advance_contiguous(&mut self, now: Nanos) {
        let waits = &mut self.head_of_line;
        let from = self.contiguous.max(self.pieces.floor());
        self.contiguous = self.pieces.contiguous_from(from, |sent| {
            if sent.first_at < now {
                waits.add(now - sent.first_at);
            }
        });
    }

    /// Records that `subflow` delivered `start..end` to the receiver.
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

    /// Records that the receiver acknowledged all data before position `to`, on `subflow`. Returns
    /// the RTT if it can be measured.
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
        // DATA_FIN occupies a number (RFC 8684, section 3.3.3).
        let fin = u64::from(self.fin_at.is_some_and(|at| before <= at && at < to));
        self.unseen_bytes += unseen.saturating_sub(fin);
        self.highest = self.highest.max(to);
        self.contiguous = self.contiguous.max(to);
        self.record_gap(now, subflow, waiting_bytes);
        self.last_ack = Some((now, subflow));
        self.waiting_since = (!self.pieces.is_empty()).then_some(now);
        let newest = newest.filter(|sent| !sent.was_resent)?;
        let rtt = now.saturating_sub(newest.first_at);
        self.rtt.add(rtt);
        // Smoothed as in RFC 6298, section 2.3.
        self.rtt_estimate = Some(self.rtt_estimate.map_or(rtt, |old| old - old / 8 + rtt / 8));
        Some(rtt)
    }

    fn record_gap(&mut self, now: Nanos, to_subflow: usize, waiting_bytes: u64) {
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

    /// Records that a mapping ends the data at position `at`. Returns whether it is the first.
    pub(super) fn finish(&mut self, at: u64) -> bool {
        let is_first = self.fin_at.is_none();
        self.fin_at.get_or_insert(at);
        is_first
    }

    /// Records whether the receive window leaves no room for another segment.
    pub(super) fn record_window(&mut self, now: Nanos, window_bytes: u64, segment_bytes: u64) {
        let waiting = self.highest - self.pieces.floor();
        let is_closed = window_bytes == 0 && waiting == 0;
        let is_probed = self.closed_since.is_some() && self.limited_since.is_some();
        let is_limited = if is_closed {
            is_probed
        } else {
            waiting > 0 && waiting + segment_bytes > window_bytes
        };
        if let Some(since) = self.limited_since {
            self.limited += now.saturating_sub(since);
        }
        self.limited_since = is_limited.then_some(now);
        let since = self.closed_since.unwrap_or(now);
        self.closed_since = is_closed.then_some(since);
    }

    /// Records a zero-window probe (RFC 9293, section 3.8.6.1). Only a sender that has data to send
    /// probes a closed window, so it had to wait since the window closed.
    pub(super) fn record_window_probe(&mut self) {
        self.limited_since = self.limited_since.or(self.closed_since);
    }
}

/// The two streams of a connection, indexed by sender.
pub(super) type Streams = [DataStream; 2];
