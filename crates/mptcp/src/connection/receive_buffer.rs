//! What arrived for the stream of a connection, in order and not.

use std::collections::{BTreeMap, VecDeque};

use super::Buffer;
use super::receive_tuning::Tuning;
use crate::payload::{Payload, most_pieces};
use crate::queue;
use crate::time::Nanos;

/// Pieces that nobody has read yet become one as long as it is no longer.
const SMALL_BYTES: u32 = 1024;

/// Bytes of the peer's stream, numbered from 0.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    ready: VecDeque<Payload>,
    ready_bytes: u64,
    /// By the offset of their first byte; they neither touch `next` nor overlap.
    out_of_order: BTreeMap<u64, Payload>,
    out_of_order_bytes: u64,
    /// The first byte that is missing.
    next: u64,
    size: Buffer,
    capacity_bytes: u64,
    tuning: Tuning,
    /// The first byte that the peer was never allowed to send; it never moves back (RFC 9293, section 3.8.6).
    edge: u64,
}

/// What became of bytes that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inserted {
    /// Bytes that were not there before.
    pub(super) new_bytes: u64,
    /// Bytes that had arrived before, on this subflow or another.
    pub(super) duplicate_bytes: u64,
    /// Bytes beyond what the peer was allowed to send, or in more pieces than are kept: they have to come again.
    pub(super) refused_bytes: u64,
}

impl ReceiveBuffer {
    pub(super) fn new(size: Buffer) -> Self {
        Self {
            ready: VecDeque::new(),
            ready_bytes: 0,
            out_of_order: BTreeMap::new(),
            out_of_order_bytes: 0,
            next: 0,
            size,
            capacity_bytes: size.initial_bytes(),
            tuning: Tuning::default(),
            edge: 0,
        }
    }

    /// The first byte that is missing: what a DATA_ACK says.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that the application can read.
    pub(super) fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    pub(super) fn out_of_order_bytes(&self) -> u64 {
        self.out_of_order_bytes
    }

    /// What can be taken beyond [`ReceiveBuffer::next`]; never less than the peer was told.
    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes_within(u64::MAX)
    }

    /// The same where no more than `most_bytes` is to be offered.
    pub(super) fn window_bytes_within(&self, most_bytes: u64) -> u64 {
        let free = self.capacity_bytes.saturating_sub(self.ready_bytes);
        free.min(most_bytes).max(self.edge - self.next)
    }

    /// Notes that the peer was told it may send so many bytes beyond [`ReceiveBuffer::next`].
    pub(super) fn offer(&mut self, bytes: u64) {
        self.edge = self.edge.max(self.next + bytes);
    }

    /// The next bytes in order.
    pub(super) fn read(&mut self) -> Option<Payload> {
        let payload = self.ready.pop_front()?;
        self.ready_bytes -= u64::from(payload.len());
        self.tuning.read(payload.len());
        Some(payload)
    }

    /// What it holds at most, in bytes; a window that was offered counts even if it is more.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Whether [`ReceiveBuffer::tune`] can change anything: the longest of these round trips is over, and it may grow.
    pub(super) fn is_due_for_tuning(
        &self,
        now: Nanos,
        round_trips: impl Iterator<Item = Nanos>,
    ) -> bool {
        let may_grow =
            matches!(self.size, Buffer::Auto { max_bytes, .. } if max_bytes > self.capacity_bytes);
        may_grow && self.tuning.is_round_over(now, round_trips)
    }

    /// Grows with what the application has read in a round trip, if that was more than ever before.
    pub(super) fn tune(&mut self, now: Nanos, mss_bytes: u32) {
        if let Some(wanted) = self.tuning.wanted_bytes(now, mss_bytes) {
            self.capacity_bytes = self.size.grown(self.capacity_bytes, wanted);
        }
    }

    /// Takes what has not arrived before. What arrived first stays, whatever comes later for the same place.
    pub(super) fn insert(&mut self, offset: u64, payload: Payload) -> Inserted {
        let total = u64::from(payload.len());
        if self.is_next(offset, total) {
            self.make_ready(payload);
            return Inserted {
                new_bytes: total,
                ..Inserted::default()
            };
        }
        let start = offset.max(self.next).min(offset + total);
        let end = (offset + total).min(self.edge).max(start);
        let mut inserted = Inserted {
            refused_bytes: offset + total - end,
            ..Inserted::default()
        };
        let mut at = start;
        while let Some((from, to)) = self.next_gap(at, end) {
            if from > self.next && !self.has_room_for_a_piece() {
                inserted.refused_bytes += end - from;
                break;
            }
            let part = payload.slice((from - offset) as u32..(to - offset) as u32);
            self.fill(from, part);
            inserted.new_bytes += to - from;
            at = to;
        }
        inserted.duplicate_bytes = total - inserted.refused_bytes - inserted.new_bytes;
        self.put_in_order();
        inserted
    }

    fn has_room_for_a_piece(&self) -> bool {
        self.out_of_order.len() < most_pieces(self.edge - self.next)
    }

    /// Whether so many bytes are what is missing, with nothing behind them and all of them allowed: then there is nothing to be
    /// looked for.
    fn is_next(&self, offset: u64, len: u64) -> bool {
        let is_allowed = len > 0 && offset + len <= self.edge;
        offset == self.next && is_allowed && self.out_of_order.is_empty()
    }

    /// The first part of `at..end` that has not arrived.
    fn next_gap(&self, mut at: u64, end: u64) -> Option<(u64, u64)> {
        if at < end
            && let Some((from, held)) = self.out_of_order.range(..=at).next_back()
        {
            at = at.max(from + u64::from(held.len()));
        }
        while at < end {
            match self.out_of_order.range(at..).next() {
                Some((from, held)) if *from == at => at += u64::from(held.len()),
                Some((from, _)) => return Some((at, end.min(*from))),
                None => return Some((at, end)),
            }
        }
        None
    }

    /// Puts what was missing at its place.
    fn fill(&mut self, offset: u64, payload: Payload) {
        if offset == self.next {
            self.make_ready(payload);
        } else {
            self.out_of_order_bytes += u64::from(payload.len());
            self.out_of_order.insert(offset, payload);
        }
    }

    fn make_ready(&mut self, payload: Payload) {
        let len = u64::from(payload.len());
        self.next += len;
        self.ready_bytes += len;
        match self.ready.back_mut() {
            Some(last) if last.len() + payload.len() <= SMALL_BYTES => last.unite(&payload),
            _ => queue::push(&mut self.ready, payload),
        }
    }

    fn put_in_order(&mut self) {
        while let Some(first) = self.out_of_order.first_entry()
            && *first.key() == self.next
        {
            let payload = first.remove();
            self.out_of_order_bytes -= u64::from(payload.len());
            self.make_ready(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: u32 = 400;

    proptest! {
        #[test]
        fn every_byte_comes_once_and_in_order(
            pieces in proptest::collection::vec((0..LEN, 1..60u32), 0..200)
        ) {
            let mut buffer = ReceiveBuffer::new(Buffer::Fixed(1000));
            buffer.offer(1000);
            let whole = Payload::stream(7, 0, LEN);
            let mut read = Payload::EMPTY;
            let mut new_bytes = 0;
            let all = (0..LEN / 50).map(|index| (index * 50, 50));
            for (from, len) in pieces.into_iter().chain(all) {
                let to = (from + len).min(LEN);
                let inserted = buffer.insert(u64::from(from), whole.slice(from..to));
                new_bytes += inserted.new_bytes;
                prop_assert_eq!(inserted.new_bytes + inserted.duplicate_bytes, u64::from(to - from));
                while let Some(payload) = buffer.read() {
                    read.append(payload);
                }
                prop_assert_eq!(u64::from(read.len()), buffer.next());
            }
            prop_assert_eq!(new_bytes, u64::from(LEN));
            prop_assert_eq!(buffer.out_of_order_bytes(), 0);
            prop_assert_eq!(read, whole);
        }
    }

    #[test]
    fn the_window_never_shrinks_and_bounds_what_is_kept() {
        let mut buffer = ReceiveBuffer::new(Buffer::Fixed(4000));
        assert_eq!(buffer.window_bytes(), 4000);
        buffer.offer(4000);
        let inserted = buffer.insert(2000, Payload::stream(1, 2000, 4000));
        assert_eq!((inserted.new_bytes, inserted.refused_bytes), (2000, 2000));
        buffer.insert(0, Payload::stream(1, 0, 2000));
        assert_eq!(buffer.window_bytes(), 0);
        buffer.read();
        assert_eq!(buffer.window_bytes(), 2000);
    }

    #[test]
    fn what_came_first_stays() {
        let mut buffer = ReceiveBuffer::new(Buffer::Fixed(100));
        buffer.offer(100);
        buffer.insert(10, Payload::stream(1, 10, 10));
        buffer.insert(0, Payload::stream(2, 0, 30));
        let mut read = Payload::EMPTY;
        while let Some(payload) = buffer.read() {
            read.append(payload);
        }
        assert_eq!(read.slice(10..20), Payload::stream(1, 10, 10));
        assert_eq!(read.slice(20..30), Payload::stream(2, 20, 10));
    }
}
