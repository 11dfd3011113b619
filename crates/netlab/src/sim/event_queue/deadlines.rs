//! One lazy deadline per entity over an event queue.

use super::{EntityId, Entry, EventQueue};
use crate::time::Nanos;

/// When each entity next wants to act. A deadline that moves leaves its old entry behind, which is skipped when it comes up.
pub struct Deadlines {
    queue: Box<dyn EventQueue>,
    entities: Vec<Deadline>,
}

#[derive(Clone, Default)]
struct Deadline {
    at: Option<Nanos>,
    /// The entry that counts: never later than `at`.
    queued: Option<Entry>,
    next_number: u64,
}

impl Deadlines {
    /// No deadlines for any of `count` entities.
    pub fn new(queue: Box<dyn EventQueue>, count: usize) -> Self {
        Self {
            queue,
            entities: vec![Deadline::default(); count],
        }
    }

    /// Replaces the deadline of an entity; `None`: it waits for others.
    pub fn set(&mut self, entity: EntityId, at: Option<Nanos>) {
        let deadline = &mut self.entities[entity.0 as usize];
        deadline.at = at;
        if let Some(at) = at
            && deadline.queued.is_none_or(|queued| at < queued.at)
        {
            self.enter(entity, at);
        }
    }

    /// The first deadline.
    pub fn peek(&mut self) -> Option<(Nanos, EntityId)> {
        loop {
            let entry = self.queue.peek()?;
            let deadline = &mut self.entities[entry.entity.0 as usize];
            if deadline.queued == Some(entry) && deadline.at == Some(entry.at) {
                return Some((entry.at, entry.entity));
            }
            self.queue.pop();
            if deadline.queued == Some(entry) {
                deadline.queued = None;
                if let Some(at) = deadline.at {
                    self.enter(entry.entity, at);
                }
            }
        }
    }

    /// Takes the first deadline; its entity then has none.
    pub fn pop(&mut self) -> Option<(Nanos, EntityId)> {
        let (at, entity) = self.peek()?;
        self.queue.pop();
        let deadline = &mut self.entities[entity.0 as usize];
        deadline.at = None;
        deadline.queued = None;
        Some((at, entity))
    }

    fn enter(&mut self, entity: EntityId, at: Nanos) {
        let deadline = &mut self.entities[entity.0 as usize];
        let number = deadline.next_number;
        deadline.next_number += 1;
        let entry = Entry { at, entity, number };
        deadline.queued = Some(entry);
        self.queue.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::super::QueueKind;
    use super::*;

    const A: EntityId = EntityId(0);
    const B: EntityId = EntityId(1);

    fn deadlines() -> Deadlines {
        Deadlines::new(QueueKind::Calendar.build(), 2)
    }

    #[test]
    fn the_last_deadline_counts() {
        let mut deadlines = deadlines();
        for at in [50, 10, 90, 40, 70] {
            deadlines.set(A, Some(at));
        }
        deadlines.set(B, Some(60));
        assert_eq!(deadlines.pop(), Some((60, B)));
        assert_eq!(deadlines.pop(), Some((70, A)));
        assert_eq!(deadlines.pop(), None);
    }

    #[test]
    fn a_cleared_deadline_never_comes() {
        let mut deadlines = deadlines();
        deadlines.set(A, Some(10));
        deadlines.set(A, None);
        deadlines.set(B, Some(20));
        assert_eq!(deadlines.pop(), Some((20, B)));
        assert_eq!(deadlines.peek(), None);
    }

    #[test]
    fn the_lower_entity_goes_first_whoever_came_first() {
        let mut deadlines = deadlines();
        deadlines.set(B, Some(10));
        deadlines.set(A, Some(10));
        assert_eq!(deadlines.pop(), Some((10, A)));
        assert_eq!(deadlines.pop(), Some((10, B)));
    }
}
