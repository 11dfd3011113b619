//! The plain event queue: a binary heap. It serves to show that the trace does not depend on the
//! queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use experiment::time::Nanos;

use super::{Entry, EventQueue};

/// A binary heap. Its cost is logarithmic in the number of entries, about one per entity.
#[derive(Debug, Default)]
pub struct HeapQueue(BinaryHeap<Reverse<Entry>>);

impl HeapQueue {
    /// Returns the least entry.
    pub(super) fn first(&self) -> Option<&Entry> {
        self.0.peek().map(|Reverse(entry)| entry)
    }
}

impl EventQueue for HeapQueue {
    fn push(&mut self, entry: Entry) {
        self.0.push(Reverse(entry));
    }

    fn pop_before(&mut self, limit: Nanos) -> Option<Entry> {
        self.first().filter(|entry| entry.at < limit)?;
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
