//! Queues that mostly hold one thing or nothing, of which each subflow and each connection has several.

use std::collections::VecDeque;

/// Appends to a queue. It takes room for one at first: the standard library would make room for four at once, and most
/// queues of an idle connection never held two.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.capacity() == 0 {
        queue.reserve_exact(1);
    }
    queue.push_back(item);
}
