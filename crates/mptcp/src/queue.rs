//! Queues that usually hold at most one item. Every subflow and connection has several of them.

use std::collections::VecDeque;

/// Appends `item` to `queue`. An empty queue without memory first allocates room for one item,
/// because most queues of an idle connection never hold two. The standard library would allocate
/// room for four.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.capacity() == 0 {
        queue.reserve_exact(1);
    }
    queue.push_back(item);
}
