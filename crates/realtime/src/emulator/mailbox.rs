//! A queue between two threads, with a descriptor that is readable while the queue has items.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

/// The queue. A writer wakes the reader only if the queue was empty, so a busy queue costs no
/// system calls.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    waiting: Mutex<Waiting<T>>,
    capacity: usize,
    wake_up: OwnedFd,
}

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<T>,
    is_closed: bool,
}

impl<T> Mailbox<T> {
    /// Creates a queue that takes `capacity` items, not counting those of [`Self::put_always`].
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                is_closed: false,
            }),
            capacity,
            wake_up: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Adds an item. Returns whether there was room.
    pub(crate) fn put(&self, item: T) -> bool {
        let waiting = self.waiting();
        let has_room = waiting.items.len() < self.capacity;
        if has_room {
            self.add(waiting, [item]);
        }
        has_room
    }

    /// Adds an item that must not be lost.
    pub(crate) fn put_always(&self, item: T) {
        self.add(self.waiting(), [item]);
    }

    /// Moves as many of the first items into the queue as there is room for.
    pub(crate) fn put_from(&self, items: &mut VecDeque<T>) {
        if items.is_empty() {
            return;
        }
        let waiting = self.waiting();
        let room = self.capacity.saturating_sub(waiting.items.len());
        self.add(waiting, items.drain(..room.min(items.len())));
    }

    fn add(&self, mut waiting: MutexGuard<'_, Waiting<T>>, more: impl IntoIterator<Item = T>) {
        if waiting.is_closed {
            return;
        }
        let was_empty = waiting.items.is_empty();
        waiting.items.extend(more);
        let is_first = was_empty && !waiting.items.is_empty();
        drop(waiting);
        if is_first {
            // Fails only if the reader has been woken already.
            let _ = write(&self.wake_up, &1_u64.to_ne_bytes());
        }
    }

    /// Moves all items to the end of `items`.
    pub(crate) fn take_into(&self, items: &mut VecDeque<T>) {
        // Done first, so that a writer that adds an item from now on wakes the reader again.
        let _ = read(&self.wake_up, &mut [0; 8]);
        items.append(&mut self.waiting().items);
    }

    /// Closes the queue for its reader. Drops its items and all later ones.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        waiting.items.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_up.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(mailbox: &Mailbox<u8>) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut descriptors = [PollFd::new(mailbox, PollFlags::IN)];
        poll(&mut descriptors, Some(&at_once)).unwrap() > 0
    }

    #[test]
    fn what_is_put_in_wakes_the_reader_and_comes_out_in_order() {
        let mailbox = Mailbox::new(3).unwrap();
        assert!(!is_readable(&mailbox));
        assert!(mailbox.put(1));
        assert!(is_readable(&mailbox));
        let mut more = VecDeque::from([2, 3, 4]);
        mailbox.put_from(&mut more);
        assert_eq!(more, [4]);
        assert!(!mailbox.put(5));
        mailbox.put_always(6);
        let mut taken = VecDeque::from([0]);
        mailbox.take_into(&mut taken);
        assert_eq!(taken, [0, 1, 2, 3, 6]);
        assert!(!is_readable(&mailbox));
        mailbox.put_from(&mut more);
        assert!(is_readable(&mailbox));
    }

    #[test]
    fn a_closed_one_keeps_nothing() {
        let mailbox = Mailbox::new(1).unwrap();
        mailbox.put_always(1);
        mailbox.close();
        assert!(mailbox.put(2));
        let mut taken = VecDeque::new();
        mailbox.take_into(&mut taken);
        assert!(taken.is_empty());
    }
}
