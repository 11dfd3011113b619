//! Trains: what packets meet that come after a pause, in place of the opportunities under load.
//!
//! The idea is CellReplay's (Sentosa et al., NSDI 2025): a link that was idle treats the first
//! packets of a burst otherwise than the later ones.

use experiment::resolved::{self, Trace};
use experiment::time::Nanos;

/// The trains of a run.
#[derive(Debug)]
pub(super) struct Trains {
    parameters: resolved::Trains,
    period_ns: Nanos,
    /// Instant of the trace at which the run begins.
    start_ns: Nanos,
    opportunity_bytes: u32,
    current: Option<Train>,
    /// When the last packet left.
    last_departure: Option<Nanos>,
}

/// The train under way.
#[derive(Debug)]
struct Train {
    begin: Nanos,
    /// Index of what it meets.
    probe: usize,
    /// Index of the next opportunity, and the bytes that it still carries.
    next: usize,
    free_bytes: u32,
}

impl Trains {
    /// Returns the trains of a trace, of which `start_ns` is the start of the run. `None` if it has
    /// none.
    pub(super) fn new(trace: &Trace, start_ns: Nanos) -> Option<Self> {
        Some(Self {
            parameters: trace.trains.clone()?,
            period_ns: trace.period_ns,
            start_ns,
            opportunity_bytes: trace.opportunity_bytes,
            current: None,
            last_departure: None,
        })
    }

    /// Records that a packet comes to an empty queue at `now`, which begins a train after a pause.
    pub(super) fn record_arrival(&mut self, now: Nanos) {
        let is_after_pause = self
            .last_departure
            .is_none_or(|last| now >= last.saturating_add(self.parameters.pause_ns));
        if is_after_pause {
            self.current = Some(Train {
                begin: now,
                probe: self.latest(now),
                next: 0,
                free_bytes: self.opportunity_bytes,
            });
        }
    }

    /// Returns the index of the last probe up to `now` in the trace, or of the first one.
    fn latest(&self, now: Nanos) -> usize {
        let instant = now.saturating_add(self.start_ns) % self.period_ns;
        let probes = &self.parameters.probes;
        let later = probes.partition_point(|probe| probe.at_ns <= instant);
        later.saturating_sub(1)
    }

    /// Returns the index and the instant of the first opportunity of the train at or after `ready`.
    fn next_opportunity(&self, ready: Nanos) -> Option<(usize, Nanos)> {
        let train = self.current.as_ref()?;
        let offsets = &self.parameters.probes[train.probe].opportunities_ns;
        let instants = offsets
            .iter()
            .map(|offset| train.begin.saturating_add(*offset));
        let mut left = instants.enumerate().skip(train.next);
        left.find(|(_, instant)| *instant >= ready)
    }

    /// Returns the first instant at or after `ready` at which the train carries a packet.
    pub(super) fn earliest_start(&self, ready: Nanos) -> Option<Nanos> {
        self.next_opportunity(ready).map(|(_, instant)| instant)
    }

    /// Sends as much of a packet as the train carries from `start` on. Returns when its last part
    /// leaves, and the bytes that are left.
    pub(super) fn transmit(&mut self, start: Nanos, bytes: u32) -> (Nanos, u32) {
        let (mut at, mut unsent) = (start, bytes);
        while let Some((index, instant)) = self.next_opportunity(at) {
            let Some(train) = &mut self.current else {
                break;
            };
            if index != train.next {
                (train.next, train.free_bytes) = (index, self.opportunity_bytes);
            }
            let sent = unsent.min(train.free_bytes);
            unsent -= sent;
            train.free_bytes -= sent;
            if train.free_bytes == 0 {
                (train.next, train.free_bytes) = (index + 1, self.opportunity_bytes);
            }
            at = instant;
            if unsent == 0 {
                return (at, 0);
            }
        }
        // Until the next pause.
        self.current = None;
        (at, unsent)
    }

    pub(super) fn record_departure(&mut self, finish: Nanos) {
        self.last_departure = Some(finish);
    }
}
