//! Reinjection: data sent again on another subflow, because the first one does not deliver it (RFC
//! 8684, section 3.3.6).

use std::collections::VecDeque;

use super::{Connection, Mode, SubflowContext};
use crate::failure::{FailedAfter, MetaRto, Reinjection, is_worth_reinjecting, remaining_interval};
use crate::sched::Range;
use crate::time::Nanos;

/// Ranges of the local stream to send again, and the timer of the connection.
#[derive(Debug, Default)]
pub(super) struct Reinjections {
    /// In order, without overlaps.
    ranges: VecDeque<Range>,
    /// When the timer expires.
    check_at: Option<Nanos>,
    /// When a DATA_ACK last acknowledged new data.
    progressed_at: Nanos,
    /// Duration of the timer.
    interval: Nanos,
    /// What to send again after the timer has expired.
    repetition: Option<Repetition>,
    /// The out-of-tree kernel's timer, while data is unacknowledged.
    meta_rto: Option<MetaRto>,
}

/// The data that an expiry of the connection's timer sends again: `pieces` pieces from `from` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repetition {
    pub(super) from: u64,
    pub(super) pieces: usize,
}

impl Reinjections {
    pub(super) fn front(&self) -> Option<Range> {
        self.ranges.front().copied()
    }

    pub(super) fn pop(&mut self) {
        self.ranges.pop_front();
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.end_repetition();
    }

    /// Adds a range and joins it with those that it touches.
    pub(super) fn push(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let mut joined = Range { start, len };
        let first = self.ranges.partition_point(|range| end(*range) < start);
        let after = self
            .ranges
            .partition_point(|range| range.start <= start + len);
        for range in self.ranges.drain(first..after.max(first)) {
            let joined_end = end(joined).max(end(range));
            joined.start = joined.start.min(range.start);
            joined.len = joined_end - joined.start;
        }
        self.ranges.insert(first, joined);
    }

    /// Removes a range that was sent.
    pub(super) fn discard(&mut self, sent: Range) {
        let mut kept = VecDeque::new();
        for range in self.ranges.drain(..) {
            let before = end(range).min(sent.start).saturating_sub(range.start);
            let after_start = range.start.max(end(sent));
            let after = end(range).saturating_sub(after_start);
            kept.extend(some(range.start, before));
            kept.extend(some(after_start, after));
        }
        self.ranges = kept;
    }

    /// Removes everything before `offset`, which has arrived.
    pub(super) fn discard_before(&mut self, offset: u64) {
        while let Some(first) = self.ranges.front_mut().filter(|first| first.start < offset) {
            if end(*first) > offset {
                first.len = end(*first) - offset;
                first.start = offset;
                break;
            }
            self.ranges.pop_front();
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        self.check_at
    }

    /// Asks for up to `pieces` pieces from `offset` on to be sent again.
    pub(super) fn repeat(&mut self, offset: u64, pieces: usize) {
        self.repetition = (pieces > 0).then_some(Repetition {
            from: offset,
            pieces,
        });
    }

    /// Sends no further piece again until the timer expires.
    pub(super) fn end_repetition(&mut self) {
        self.repetition = None;
    }

    /// Removes and returns what to send again, if anything.
    pub(super) fn take_repetition(&mut self) -> Option<Repetition> {
        self.repetition.take()
    }

    fn expired(&mut self) {
        if let Some(timer) = &mut self.meta_rto {
            timer.expired();
        }
    }

    /// Records that a DATA_ACK has acknowledged new data.
    pub(super) fn progressed(&mut self, now: Nanos) {
        self.progressed_at = now;
        if let Some(timer) = &mut self.meta_rto {
            timer.progressed();
        }
    }
}

fn end(range: Range) -> u64 {
    range.start + range.len
}

fn some(start: u64, len: u64) -> Option<Range> {
    (len > 0).then_some(Range { start, len })
}

impl Connection {
    /// Records that a segment has arrived on a subflow, which has therefore not failed.
    pub(super) fn record_sign_of_life(&mut self, now: Nanos, subflow: usize) {
        self.last_arrival_at = now;
        let context = &mut self.subflows[subflow];
        context.delivery.received(now);
    }

    /// Handles timeouts of a subflow. With the out-of-tree kernel's behaviour, a subflow has failed
    /// after its first timeout until a segment arrives on it.
    pub(super) fn record_timeouts(&mut self, now: Nanos, subflow: usize) {
        let context = &mut self.subflows[subflow];
        let backoff = context.tcp.backoff();
        let has_expired = backoff > context.seen_backoff;
        context.seen_backoff = backoff;
        self.watch(now);
        if !has_expired || !self.has_other_subflow(subflow) {
            return;
        }
        let fails = self.config.behaviour.failed_after == FailedAfter::FirstRto;
        let has_just_failed = fails && self.subflows[subflow].delivery.fail();
        match self.config.behaviour.reinjection {
            Reinjection::OnRto => self.reinject(subflow),
            Reinjection::OnStale if has_just_failed => self.reinject(subflow),
            _ => {}
        }
    }

    pub(super) fn has_other_subflow(&self, subflow: usize) -> bool {
        let mut subflows = self.subflows.iter().enumerate();
        subflows.any(|(index, context)| index != subflow && context.is_healthy())
    }

    fn reinject(&mut self, subflow: usize) {
        match self.config.behaviour.reinject_whole_queue {
            true => self.reinject_everything(subflow),
            false => self.reinject_from(subflow),
        }
    }

    /// Reinjects the undelivered data of a subflow, sent or queued, that some other working subflow
    /// has not carried.
    pub(super) fn reinject_from(&mut self, subflow: usize) {
        let tcp = &mut self.subflows[subflow].tcp;
        let undelivered: Vec<_> = tcp.queued().chain(tcp.unacked()).collect();
        tcp.take_queue();
        for range in undelivered {
            let others = self
                .subflows
                .iter()
                .enumerate()
                .filter(|(index, context)| *index != subflow && context.is_healthy());
            if is_worth_reinjecting(others.map(|(_, context)| context.holds_all(range))) {
                self.reinjections.push(range.start, range.len);
            }
        }
        let unverified = self.unverified(&self.subflows[subflow]);
        self.reinjections.push(0, unverified);
        self.reinjections.discard_before(self.send.acked());
        self.is_schedulable = true;
    }

    /// Returns how many bytes from the start of the stream the subflow has delivered but the peer
    /// cannot use yet. The first burst is one mapping, whose checksum covers all of it.
    fn unverified(&self, context: &SubflowContext) -> u64 {
        let acked = context.tcp.counters().acked_bytes;
        let is_partly_there =
            context.is_initial && acked < u64::from(self.session.first_checked_bytes());
        if is_partly_there { acked } else { 0 }
    }

    /// Reinjects all data of the connection that was assigned and is not acknowledged.
    fn reinject_everything(&mut self, stale: usize) {
        self.subflows[stale].tcp.take_queue();
        let len = self.send.assigned() - self.send.acked();
        if len > 0 {
            self.reinjections.push(self.send.acked(), len);
        }
        self.is_schedulable = true;
    }

    /// Reinjects the undelivered data of a closed subflow. With [`Reinjection::None`], closes the
    /// connection instead if such data was sent.
    pub(super) fn reinject_closed(&mut self, context: &SubflowContext) {
        let is_hole = |sent: Range| end(sent) > self.send.acked();
        let never = self.config.behaviour.reinjection == Reinjection::None;
        let is_open = self.session.mode == Mode::Multipath && self.closed.is_none();
        if never && is_open && context.tcp.unacked().any(is_hole) {
            self.abort();
            return;
        }
        self.reinjections.push(0, self.unverified(context));
        for range in context.tcp.unacked().chain(context.tcp.queued()) {
            self.reinjections.push(range.start, range.len);
        }
    }

    /// Runs the timer while data is unacknowledged. Also runs it while data waits for a subflow
    /// that can send, because that subflow may no longer work.
    pub(super) fn watch(&mut self, now: Nanos) {
        let waits = self.send.written() > self.send.assigned();
        let has_data = self.send.assigned() > self.send.acked()
            || waits && self.subflows.iter().any(SubflowContext::can_send);
        let is_multipath = self.session.mode == Mode::Multipath && !self.subflows.is_empty();
        if !has_data || !is_multipath {
            self.reinjections.check_at = None;
            self.reinjections.meta_rto = None;
        } else if self.reinjections.check_at.is_none() {
            self.reinjections.interval = self.check_interval(now);
            let due = now + self.reinjections.interval;
            self.reinjections.check_at = Some(self.timer_expiry(now, due));
        }
    }

    /// Returns when a timer of the connection that is set to `at` expires.
    fn timer_expiry(&self, now: Nanos, at: Nanos) -> Nanos {
        let wheel = self.config.subflow.timer_wheel;
        wheel.map_or(at, |wheel| wheel.expiry(now, at))
    }

    /// Returns the duration of the timer. The out-of-tree kernel has a timer of its own. With
    /// mainline's behaviour, the timer runs as long as the latest retransmission timer of the
    /// subflows that have not missed an interval.
    fn check_interval(&mut self, now: Nanos) -> Nanos {
        if self.config.behaviour.failed_after == FailedAfter::FirstRto {
            let rtos = || self.subflows.iter().map(|context| context.tcp.rto());
            let timer = self
                .reinjections
                .meta_rto
                .get_or_insert_with(|| MetaRto::new(rtos()));
            timer.update(rtos());
            return timer.timeout();
        }
        let is_trusted = |context: &&SubflowContext| {
            context.can_send() && context.delivery.missed_intervals() == 0
        };
        let subflows = self.subflows.iter().filter(is_trusted);
        let deadlines = subflows.filter_map(|context| context.tcp.retransmission_at());
        remaining_interval(deadlines.map(|at| at.saturating_sub(now)))
    }

    pub(super) fn handle_reinjection_timeout(&mut self, now: Nanos) {
        if self.reinjections.check_at.is_none_or(|at| at > now) {
            return;
        }
        if self.restart_after_progress(now) {
            return;
        }
        self.reinjections.check_at = None;
        match self.config.behaviour.failed_after {
            FailedAfter::StaleIntervals(intervals) => self.look_for_stale_subflows(intervals),
            FailedAfter::FirstRto => self.reinjections.expired(),
        }
        let pieces = self.pieces_to_repeat();
        self.reinjections.repeat(self.send.acked(), pieces);
        self.watch(now);
    }

    /// Returns the most pieces of the oldest data that an expiry of the connection's timer sends
    /// again: none, one, or one for each subflow (`__mptcp_retrans` of Linux 7.3).
    fn pieces_to_repeat(&self) -> usize {
        let behaviour = &self.config.behaviour;
        if !behaviour.reinjection.repeats_oldest() && !self.is_oldest_with_nobody() {
            return 0;
        }
        match behaviour.repeats_several_pieces {
            true => self.subflows.len().max(1),
            false => 1,
        }
    }

    /// Returns whether no subflow holds the oldest unacknowledged data any more. All subflows have
    /// delivered it, but the ACK with its DATA_ACK was lost, and the next ACK carried another
    /// option. Only sending the data again makes the peer send another DATA_ACK.
    fn is_oldest_with_nobody(&self) -> bool {
        let oldest = self.send.acked();
        let has_it = |context: &SubflowContext| context.tcp.end_of_data_with(oldest).is_some();
        oldest < self.send.assigned() && !self.subflows.iter().any(has_it)
    }

    /// Restarts mainline's timer, which starts again with each DATA_ACK of new data
    /// (`__mptcp_clean_una`). Returns whether such a DATA_ACK came so late that the timer has not
    /// expired yet.
    fn restart_after_progress(&mut self, now: Nanos) -> bool {
        if self.config.behaviour.failed_after == FailedAfter::FirstRto {
            return false;
        }
        let due = self.reinjections.progressed_at + self.reinjections.interval;
        if due > now {
            self.reinjections.check_at = Some(self.timer_expiry(now, due));
            self.reinjections.interval = self.check_interval(now);
        }
        due > now
    }

    fn look_for_stale_subflows(&mut self, intervals: u32) {
        for subflow in 0..self.subflows.len() {
            if self.subflows[subflow].tcp.unacked_bytes() == 0 {
                continue;
            }
            let others = self.subflows.iter().enumerate();
            let others: Vec<_> = others
                .filter(|(index, context)| *index != subflow && context.is_healthy())
                .map(|(_, context)| context.delivery.missed_intervals())
                .collect();
            let context = &mut self.subflows[subflow];
            let received_at = context.tcp.last_received_at();
            let is_new = context
                .delivery
                .timer_expired(received_at, intervals, others.into_iter());
            if is_new && self.config.behaviour.reinjection == Reinjection::OnStale {
                self.reinject(subflow);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(reinjections: &Reinjections) -> Vec<(u64, u64)> {
        reinjections
            .ranges
            .iter()
            .map(|range| (range.start, range.len))
            .collect()
    }

    #[test]
    fn ranges_join_and_go() {
        let mut reinjections = Reinjections::default();
        reinjections.push(10, 10);
        reinjections.push(40, 10);
        reinjections.push(20, 5);
        assert_eq!(ranges(&reinjections), [(10, 15), (40, 10)]);
        reinjections.push(22, 20);
        assert_eq!(ranges(&reinjections), [(10, 40)]);
        reinjections.discard(Range { start: 20, len: 10 });
        assert_eq!(ranges(&reinjections), [(10, 10), (30, 20)]);
        reinjections.discard_before(35);
        assert_eq!(ranges(&reinjections), [(35, 15)]);
    }
}
