//! Two endpoints and a wire between them, in virtual time. Only what a test sets happens on the
//! wire.

pub mod tcp;
pub mod wire;

use mptcp::time::Nanos;
use mptcp::wire::{Ecn, Segment};

use wire::Wire;

/// One end of a wire.
pub trait Endpoint {
    /// Handles a segment that arrived.
    fn handle_segment(&mut self, now: Nanos, segment: &Segment, ecn: Ecn);
    /// Does what is due.
    fn handle_timeout(&mut self, now: Nanos);
    /// Returns the next segment to send, and its ECN field.
    fn poll_transmit(&mut self, now: Nanos) -> Option<(Segment, Ecn)>;
    /// Returns when it has to be called again.
    fn poll_timeout(&self) -> Option<Nanos>;
}

/// Two endpoints. The wires are named by their senders: `wires[0]` carries the segments of
/// `ends[0]`.
pub struct Pair<E> {
    pub now: Nanos,
    pub ends: [E; 2],
    pub wires: [Wire; 2],
}

impl<E: Endpoint> Pair<E> {
    pub fn new(ends: [E; 2], wires: [Wire; 2]) -> Self {
        Self {
            now: 0,
            ends,
            wires,
        }
    }

    /// Sends everything that one end has to send.
    fn transmit(&mut self, end: usize) {
        while let Some((segment, ecn)) = self.ends[end].poll_transmit(self.now) {
            self.wires[end].send(self.now, segment, ecn);
        }
    }

    /// Returns when something happens next.
    fn next_wake_up(&self) -> Option<Nanos> {
        let ends = self.ends.iter().filter_map(Endpoint::poll_timeout);
        let wires = self.wires.iter().filter_map(Wire::next_arrival);
        ends.chain(wires).min()
    }

    /// Advances to the next event before `end` and handles it. Returns whether there was one.
    pub fn step(&mut self, end: Nanos) -> bool {
        (0..2).for_each(|end| self.transmit(end));
        let Some(next) = self.next_wake_up().filter(|next| *next <= end) else {
            self.now = self.now.max(end.min(Nanos::MAX - 1));
            return false;
        };
        self.now = self.now.max(next);
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some((segment, ecn)) = self.wires[from].take_arrived(self.now) {
                self.ends[to].handle_segment(self.now, &segment, ecn);
                self.transmit(to);
            }
            self.ends[to].handle_timeout(self.now);
            self.transmit(to);
        }
        true
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Nanos) {
        while self.step(end) {}
    }

    /// Runs for `duration`.
    pub fn run_for(&mut self, duration: Nanos) {
        self.run_until(self.now + duration);
    }

    /// Runs while a condition holds.
    ///
    /// # Panics
    /// The condition still holds at `end`.
    pub fn run_while(&mut self, end: Nanos, mut condition: impl FnMut(&Self) -> bool) {
        while condition(self) {
            assert!(self.step(end), "not within {end} ns");
        }
    }
}
