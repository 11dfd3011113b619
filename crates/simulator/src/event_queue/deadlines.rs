//! One deadline per entity over an event queue, updated lazily.

use experiment::time::Nanos;

use super::{EntityId, Entry, EventQueue, QueueKind};

/// When each entity acts next. A deadline that moves leaves its old entry in the queue, which is
/// skipped when it is popped.
pub struct Deadlines {
    queue: Box<dyn EventQueue>,
    entities: Vec<Deadline>,
}

/// No deadline or no entry: a time that no run reaches.
const NEVER: Nanos = Nanos::MAX;

#[derive(Clone)]
struct Deadline {
    at: Nanos,
    /// Time of the valid entry, never later than `at`. Older entries of the same time have other
    /// numbers.
    entered_at: Nanos,
    number: u32,
}

impl Deadlines {
    /// Returns an empty set for `count` entities.
    pub fn new(queue: QueueKind, count: usize) -> Self {
        let none = Deadline {
            at: NEVER,
            entered_at: NEVER,
            number: 0,
        };
        Self {
            queue: queue.build(count),
            entities: vec![none; count],
        }
    }

    /// Replaces the deadline of an entity. With `None` the entity waits for others.
    pub fn set(&mut self, entity: EntityId, at: Option<Nanos>) {
        let deadline = &mut self.entities[entity.0 as usize];
        deadline.at = at.unwrap_or(NEVER);
        if deadline.at < deadline.entered_at {
            self.enter(entity);
        }
    }

    /// Removes and returns the first deadline before `limit`, with its entity.
    pub fn pop_before(&mut self, limit: Nanos) -> Option<(Nanos, EntityId)> {
        loop {
            // An entry is never later than the deadline it stands for.
            let entry = self.queue.pop_before(limit)?;
            let deadline = &mut self.entities[entry.entity.0 as usize];
            if entry.at != deadline.entered_at || entry.number != deadline.number {
                continue;
            }
            deadline.entered_at = NEVER;
            if deadline.at == entry.at {
                deadline.at = NEVER;
                return Some((entry.at, entry.entity));
            }
            if deadline.at != NEVER {
                self.enter(entry.entity);
            }
        }
    }

    fn enter(&mut self, entity: EntityId) {
        let deadline = &mut self.entities[entity.0 as usize];
        deadline.entered_at = deadline.at;
        deadline.number = deadline.number.wrapping_add(1);
        self.queue.push(Entry {
            at: deadline.at,
            entity,
            number: deadline.number,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: EntityId = EntityId(0);
    const B: EntityId = EntityId(1);

    fn deadlines() -> Deadlines {
        Deadlines::new(QueueKind::Calendar, 2)
    }

    #[test]
    fn the_last_deadline_counts() {
        let mut deadlines = deadlines();
        for at in [50, 10, 90, 40, 70] {
            deadlines.set(A, Some(at));
        }
        deadlines.set(B, Some(60));
        assert_eq!(deadlines.pop_before(100), Some((60, B)));
        assert_eq!(deadlines.pop_before(100), Some((70, A)));
        assert_eq!(deadlines.pop_before(100), None);
    }

    #[test]
    fn what_is_not_before_the_limit_stays() {
        let mut deadlines = deadlines();
        deadlines.set(A, Some(50));
        assert_eq!(deadlines.pop_before(50), None);
        assert_eq!(deadlines.pop_before(51), Some((50, A)));
    }

    #[test]
    fn a_cleared_deadline_never_comes() {
        let mut deadlines = deadlines();
        deadlines.set(A, Some(10));
        deadlines.set(A, None);
        deadlines.set(B, Some(20));
        assert_eq!(deadlines.pop_before(100), Some((20, B)));
        assert_eq!(deadlines.pop_before(100), None);
    }

    #[test]
    fn the_lower_entity_goes_first_whoever_came_first() {
        let mut deadlines = deadlines();
        deadlines.set(B, Some(10));
        deadlines.set(A, Some(10));
        assert_eq!(deadlines.pop_before(100), Some((10, A)));
        assert_eq!(deadlines.pop_before(100), Some((10, B)));
    }
}
