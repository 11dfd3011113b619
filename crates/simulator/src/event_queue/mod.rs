//! The event queue. Entries are ordered by time, entity and number within the entity, never by
//! insertion.

mod calendar;
mod deadlines;
mod heap;

use std::cmp::Ordering;
use std::str::FromStr;

use experiment::time::Nanos;

pub use calendar::CalendarQueue;
pub use deadlines::Deadlines;
pub use heap::HeapQueue;

/// Something that acts at times of its own: a channel, an application, the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// A time at which an entity acts. Entries are ordered by time, entity, number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the entity acts.
    pub at: Nanos,
    /// The entity that acts.
    pub entity: EntityId,
    /// Number of the entry within its entity, from 0. It wraps after 2^32 entries.
    pub number: u32,
}

impl Entry {
    /// Returns the order of entries as one number, because comparisons dominate the cost of a heap.
    fn key(self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.entity.0) << 32 | u128::from(self.number)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A priority queue of entries. Entries must not be earlier than the last one popped.
pub trait EventQueue: Send {
    /// Adds an entry.
    fn push(&mut self, entry: Entry);

    /// Removes and returns the least entry if it is before `limit`.
    fn pop_before(&mut self, limit: Nanos) -> Option<Entry>;
}

/// The implementations of `EventQueue`. They yield the same order and differ only in speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// `CalendarQueue`: the faster one, especially with many links.
    #[default]
    Calendar,
    /// `HeapQueue`.
    Heap,
}

impl QueueKind {
    /// Returns an empty queue of this kind, for about `entities` entities.
    pub fn build(self, entities: usize) -> Box<dyn EventQueue> {
        match self {
            Self::Calendar => Box::new(CalendarQueue::new(entities)),
            Self::Heap => Box::new(HeapQueue::default()),
        }
    }
}

impl FromStr for QueueKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "calendar" => Ok(Self::Calendar),
            "heap" => Ok(Self::Heap),
            _ => Err(format!(
                "event_queue: found {name:?}, allowed is \"calendar\" or \"heap\""
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Executes pushes and pops and returns the entries popped. A push is a delay after the last
    /// popped entry and an entity.
    fn popped(kind: QueueKind, entities: usize, operations: &[Option<(Nanos, u32)>]) -> Vec<Entry> {
        let mut queue = kind.build(entities);
        let mut now = 0;
        let mut popped = Vec::new();
        for (number, operation) in (0..).zip(operations) {
            match operation {
                Some((delay, entity)) => queue.push(Entry {
                    at: now + delay,
                    entity: EntityId(*entity),
                    number,
                }),
                None => {
                    let limit = now + 10_000_000;
                    let next = queue.pop_before(limit);
                    assert!(next.is_none_or(|entry| entry.at < limit));
                    now = next.map_or(now, |entry| entry.at);
                    popped.extend(next);
                }
            }
        }
        popped.extend(std::iter::from_fn(|| queue.pop_before(Nanos::MAX)));
        popped
    }

    fn delay() -> impl Strategy<Value = Nanos> {
        prop_oneof![
            Just(0),
            0..10_000u64,
            0..50_000_000u64,
            0..100_000_000_000u64
        ]
    }

    proptest! {
        #[test]
        fn both_pop_the_same(
            operations in prop::collection::vec(prop::option::weighted(0.6, (delay(), 0..4u32)), 0..400),
            entities in 0..1_000_000usize,
        ) {
            let of = |kind| popped(kind, entities, &operations);
            prop_assert_eq!(of(QueueKind::Heap), of(QueueKind::Calendar));
        }

        #[test]
        fn what_is_pushed_is_popped_in_order(delays in prop::collection::vec(delay(), 0..200)) {
            let operations: Vec<_> = delays.iter().map(|delay| Some((*delay, 0))).collect();
            let mut sorted = delays.clone();
            sorted.sort_unstable();
            let times: Vec<_> = popped(QueueKind::Calendar, 1, &operations).iter().map(|entry| entry.at).collect();
            prop_assert_eq!(times, sorted);
        }
    }
}
