//! Connections that have not named a destination yet. A gateway keeps a limited number for a
//! limited time, so that silent clients do not keep others out.

use std::collections::{BTreeMap, VecDeque};

use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::convert::Incoming;

/// The most connections that may be silent at a time. Beyond it, the oldest is reset. Each takes
/// about 5 kB.
pub(super) const MOST_SILENT: usize = 1024;
/// How long each may be silent. By then a client has retransmitted a lost message three times,
/// after 1, 3 and 7 s (RFC 6298).
pub(super) const LONGEST_SILENCE: Nanos = 10 * NANOS_PER_SECOND;

/// The partial messages of connections, each identified by an `Id`.
pub(super) struct Questions<Id> {
    arriving: BTreeMap<Id, Incoming>,
    /// The deadline of each connection, in order. Answered connections may be included.
    deadlines: VecDeque<(Nanos, Id)>,
}

impl<Id: Copy + Ord> Questions<Id> {
    pub(super) fn new() -> Self {
        Self {
            arriving: BTreeMap::new(),
            deadlines: VecDeque::new(),
        }
    }

    /// Waits for the message of a connection.
    pub(super) fn await_from(&mut self, now: Nanos, id: Id) {
        self.arriving.insert(id, Incoming::default());
        self.deadlines.push_back((now + LONGEST_SILENCE, id));
    }

    pub(super) fn of(&mut self, id: Id) -> Option<&mut Incoming> {
        self.arriving.get_mut(&id)
    }

    /// Stops waiting for a connection.
    pub(super) fn settle(&mut self, id: Id) {
        self.arriving.remove(&id);
        while let Some((_, first)) = self.deadlines.front() {
            if self.arriving.contains_key(first) {
                return;
            }
            self.deadlines.pop_front();
        }
    }

    /// Removes and returns the next connection that is overdue, or the oldest if there are too
    /// many.
    pub(super) fn take_overdue(&mut self, now: Nanos) -> Option<Id> {
        let (at, id) = *self.deadlines.front()?;
        let has_to_go = at <= now || self.arriving.len() > MOST_SILENT;
        has_to_go.then(|| {
            self.settle(id);
            id
        })
    }

    /// Returns when the next connection is overdue.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_has_to_go_in_time() {
        let mut questions = Questions::new();
        questions.await_from(0, 1);
        questions.await_from(5, 2);
        assert_eq!(questions.next_deadline(), Some(LONGEST_SILENCE));
        assert_eq!(questions.take_overdue(LONGEST_SILENCE - 1), None);
        questions.settle(1);
        assert_eq!(questions.next_deadline(), Some(LONGEST_SILENCE + 5));
        assert_eq!(questions.take_overdue(LONGEST_SILENCE + 4), None);
        assert_eq!(questions.take_overdue(LONGEST_SILENCE + 5), Some(2));
        assert_eq!((questions.next_deadline(), questions.of(2)), (None, None));
    }

    #[test]
    fn the_oldest_of_too_many_has_to_go() {
        let mut questions = Questions::new();
        for id in 0..MOST_SILENT {
            questions.await_from(0, id);
            assert_eq!(questions.take_overdue(0), None);
        }
        questions.settle(0);
        questions.settle(7);
        for id in [MOST_SILENT, MOST_SILENT + 1] {
            questions.await_from(0, id);
            assert_eq!(questions.take_overdue(0), None);
        }
        questions.await_from(0, MOST_SILENT + 2);
        assert_eq!(questions.take_overdue(0), Some(1));
        assert_eq!(questions.take_overdue(0), None);
    }
}
