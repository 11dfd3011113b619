//! The plain event queue: a binary heap. It shows that the trace does not depend on the queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Entry, EventQueue};

/// A binary heap: logarithmic in the number of entries, of which there is about one per entity.
#[derive(Debug, Default)]
pub struct HeapQueue(BinaryHeap<Reverse<Entry>>);

impl EventQueue for HeapQueue {
    fn push(&mut self, entry: Entry) {
        self.0.push(Reverse(entry));
    }

    fn peek(&mut self) -> Option<Entry> {
        self.0.peek().map(|Reverse(entry)| *entry)
    }

    fn pop(&mut self) -> Option<Entry> {
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
