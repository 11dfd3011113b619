//! The delay line: packets in flight, ordered by arrival.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use experiment::time::Nanos;

/// Packets in flight. They leave in the order in which they entered, except those pushed with
/// `push_overtaking`.
#[derive(Debug)]
pub(super) struct DelayLine<P> {
    in_order: VecDeque<(Nanos, P)>,
    overtaking: BinaryHeap<Flight<P>>,
    last_arrival: Nanos,
    entered: u64,
}

impl<P> DelayLine<P> {
    pub(super) fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            last_arrival: 0,
            entered: 0,
        }
    }

    /// Adds a packet that arrives at `arrival`, or with the last packet already in flight if that
    /// arrives later.
    pub(super) fn push(&mut self, arrival: Nanos, packet: P) {
        self.last_arrival = self.last_arrival.max(arrival);
        self.in_order.push_back((self.last_arrival, packet));
    }

    /// Adds a packet that arrives at `arrival`, regardless of the packets already in flight.
    pub(super) fn push_overtaking(&mut self, arrival: Nanos, packet: P) {
        self.last_arrival = self.last_arrival.max(arrival);
        self.entered += 1;
        self.overtaking.push(Flight {
            arrival,
            entered: self.entered,
            packet,
        });
    }

    pub(super) fn first_arrival(&self) -> Option<Nanos> {
        let in_order = self.in_order.front().map(|(arrival, _)| *arrival);
        let overtaking = self.overtaking.peek().map(|flight| flight.arrival);
        match (in_order, overtaking) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Removes and returns the packet that arrives first, with its arrival.
    pub(super) fn pop(&mut self) -> Option<(Nanos, P)> {
        let first = self.first_arrival()?;
        // At a tie the overtaking packet goes first, because a packet pushed in order afterwards
        // must not pass it.
        match self.overtaking.peek() {
            Some(flight) if flight.arrival == first => self
                .overtaking
                .pop()
                .map(|flight| (flight.arrival, flight.packet)),
            _ => self.in_order.pop_front(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }

    /// Removes and returns the packets that have not arrived before `now`, in the order of their
    /// arrivals. They do not delay later ones.
    pub(super) fn cut(&mut self, now: Nanos) -> impl Iterator<Item = P> {
        let mut arrived: VecDeque<_> = std::iter::from_fn(|| self.pop()).collect();
        let count = arrived.partition_point(|(arrival, _)| *arrival < now);
        let lost = arrived.split_off(count);
        self.in_order = arrived;
        self.last_arrival = 0;
        lost.into_iter().map(|(_, packet)| packet)
    }
}

#[derive(Debug)]
struct Flight<P> {
    arrival: Nanos,
    entered: u64,
    packet: P,
}

impl<P> Ord for Flight<P> {
    /// Reversed, because the heap returns the greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.arrival, other.entered).cmp(&(self.arrival, self.entered))
    }
}

impl<P> PartialOrd for Flight<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flight<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flight<P> {}
