//! Two endpoints and a wire between them, in virtual time: what a test says of a wire happens, and nothing else.

pub mod tcp;
pub mod wire;

use mptcp::time::Nanos;
use mptcp::wire::{Ecn, Segment};

use wire::Wire;

/// One end of a wire.
pub trait Endpoint {
    /// A segment arrived.
    fn handle_segment(&mut self, now: Nanos, segment: &Segment, ecn: Ecn);
    /// What is due.
    fn handle_timeout(&mut self, now: Nanos);
    /// What is to be sent, and its ECN field.
    fn poll_transmit(&mut self, now: Nanos) -> Option<(Segment, Ecn)>;
    /// When it has to be called again.
    fn poll_timeout(&self) -> Option<Nanos>;
}

/// Two endpoints. The wires are named by who sends: `wires[0]` carries what `ends[0]` sends.
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

    /// Sends what one end has to send, now.
    fn transmit(&mut self, which: usize) {
        while let Some((segment, ecn)) = self.ends[which].poll_transmit(self.now) {
            self.wires[which].send(self.now, segment, ecn);
        }
    }

    /// When something happens next.
    fn next_wake_up(&self) -> Option<Nanos> {
        let ends = self.ends.iter().filter_map(Endpoint::poll_timeout);
        let wires = self.wires.iter().filter_map(Wire::next_arrival);
        ends.chain(wires).min()
    }

    /// Goes to the next event before `end`, and lets it happen; whether there was one.
    pub fn step(&mut self, end: Nanos) -> bool {
        (0..2).for_each(|which| self.transmit(which));
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

    /// Runs until that instant.
    pub fn run_until(&mut self, end: Nanos) {
        while self.step(end) {}
    }

    /// Runs for so long.
    pub fn run_for(&mut self, duration: Nanos) {
        self.run_until(self.now + duration);
    }

    /// Runs until a condition holds.
    ///
    /// # Panics
    /// It does not before `end`.
    pub fn run_while(&mut self, end: Nanos, mut condition: impl FnMut(&Self) -> bool) {
        while condition(self) {
            assert!(self.step(end), "not within {end} ns");
        }
    }
}
