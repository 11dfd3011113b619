//! Data that goes out again on another path, as the one it was given to does not deliver it (RFC 8684, section 3.3.6).

use std::collections::VecDeque;

use super::path::Path;
use super::{Connection, Mode, Reinjection};
use crate::sched::Range;
use crate::time::{MILLISECOND, Nanos};

/// The shortest time between two looks at a connection with data outstanding: the least RTO of Linux.
const LEAST_INTERVAL: Nanos = 200 * MILLISECOND;

/// Data that an idle path repeats at a time, in bytes: as much as a fragment of Linux's send queue.
const LARGEST_REPETITION_BYTES: u64 = 32 << 10;

/// Ranges of our stream that wait to be sent again.
#[derive(Debug, Default)]
pub(super) struct Reinjections {
    /// In order, without overlaps.
    ranges: VecDeque<Range>,
    /// When the paths are looked at again.
    check_at: Option<Nanos>,
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
    }

    /// Adds a range, joined with those it touches.
    pub(super) fn push(&mut self, start: u64, len: u64) {
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

    /// Takes a range out: it was sent.
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

    /// Takes out what has arrived.
    pub(super) fn discard_before(&mut self, offset: u64) {
        self.discard(Range {
            start: 0,
            len: offset,
        });
    }

    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        self.check_at
    }
}

fn end(range: Range) -> u64 {
    range.start + range.len
}

fn some(start: u64, len: u64) -> Option<Range> {
    (len > 0).then_some(Range { start, len })
}

impl Connection {
    /// Something arrived on a path: whatever was thought of it, it lives.
    pub(super) fn note_sign_of_life(&mut self, which: usize) {
        let path = &mut self.paths[which];
        path.is_stale = false;
        path.silent_checks = 0;
    }

    /// The out-of-tree kernel gives up on a path at its first timeout, until something arrives on it.
    pub(super) fn note_timeouts(&mut self, now: Nanos, which: usize) {
        let path = &mut self.paths[which];
        let backoff = path.subflow.backoff();
        let has_expired = backoff > path.seen_backoff;
        path.seen_backoff = backoff;
        self.watch(now);
        if has_expired
            && self.config.reinjection == Reinjection::OnRto
            && self.has_other_path(which)
        {
            self.give_up_on(which);
        }
    }

    fn has_other_path(&self, which: usize) -> bool {
        let mut paths = self.paths.iter().enumerate();
        paths.any(|(index, path)| index != which && path.can_send() && !path.is_stale)
    }

    fn give_up_on(&mut self, which: usize) {
        let path = &mut self.paths[which];
        path.is_stale = true;
        for chunk in path.subflow.unacked() {
            self.reinjections
                .push(chunk.offset, u64::from(chunk.payload.len()));
        }
        for chunk in path.subflow.take_queue() {
            self.reinjections
                .push(chunk.offset, u64::from(chunk.payload.len()));
        }
        self.reinjections.discard_before(self.send.acked());
        self.is_schedulable = true;
    }

    /// Looks at the paths regularly as long as something is outstanding.
    pub(super) fn watch(&mut self, now: Nanos) {
        let has_data = self.send.assigned() > self.send.acked();
        let is_outstanding = has_data || self.session.fins.local_to_send().is_some();
        let is_multipath = self.session.mode == Mode::Multipath && !self.paths.is_empty();
        if !is_outstanding || !is_multipath {
            self.reinjections.check_at = None;
        } else if self.reinjections.check_at.is_none() {
            self.reinjections.check_at = Some(now + self.check_interval(now));
        }
    }

    /// The longest that any path that is not stale still waits for an acknowledgment (Linux, `mptcp_timeout_from_subflow`).
    fn check_interval(&self, now: Nanos) -> Nanos {
        let paths = self.paths.iter().filter(|path| !path.is_stale);
        let waits = paths.filter_map(|path| path.subflow.retransmission_at());
        let longest = waits.max().unwrap_or(now);
        longest.saturating_sub(now).max(LEAST_INTERVAL)
    }

    pub(super) fn handle_reinjection_timeout(&mut self, now: Nanos) {
        if self.reinjections.check_at.is_none_or(|at| at > now) {
            return;
        }
        self.reinjections.check_at = None;
        if self.session.fins.local_to_send().is_some() {
            self.say_data_fin();
        }
        if self.config.reinjection == Reinjection::OnStale {
            self.look_for_stale_paths();
        }
        self.repeat_oldest_on_idle_path();
        self.watch(now);
    }

    fn look_for_stale_paths(&mut self) {
        for which in 0..self.paths.len() {
            let path = &mut self.paths[which];
            if path.subflow.unacked_bytes() == 0 || path.is_stale {
                continue;
            }
            path.silent_checks += 1;
            if path.silent_checks > self.config.stale_after_checks && self.has_livelier_path(which)
            {
                self.give_up_on(which);
                self.reinjections
                    .push(self.send.acked(), self.send.assigned() - self.send.acked());
            }
        }
    }

    /// Whether another path has been heard of lately (Linux, `mptcp_subflow_active` in `__mptcp_retransmit_pending_data`).
    fn has_livelier_path(&self, which: usize) -> bool {
        let limit = self.config.stale_after_checks.saturating_sub(1).max(1);
        let mut others = self
            .paths
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != which);
        others.any(|(_, path)| path.can_send() && !path.is_stale && path.silent_checks < limit)
    }

    /// A path with nothing to do carries the oldest data once more. It may have been acknowledged where it was sent, and yet
    /// not be there: what does not fit into the receive buffer is dropped.
    fn repeat_oldest_on_idle_path(&mut self) {
        let is_idle =
            |path: &Path| path.can_send() && !path.is_stale && path.subflow.unacked_bytes() == 0;
        if let Some(oldest) = self
            .oldest_unacked()
            .filter(|_| self.paths.iter().any(is_idle))
        {
            let len = oldest.len.min(LARGEST_REPETITION_BYTES);
            self.reinjections.push(oldest.start, len);
            self.is_schedulable = true;
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
