//! The receive buffer of a connection: data in order, and the out-of-order queue.

use std::collections::{BTreeMap, VecDeque};

use super::Buffer;
use super::receive_tuning::{Most, Tuning};
use crate::payload::{Payload, most_pieces};
use crate::queue;
use crate::subflow::segment_memory_bytes;
use crate::time::Nanos;

/// Unread pieces are joined as long as the result is no longer than this.
const SMALL_BYTES: u32 = 1024;

/// Received bytes of the peer's stream, numbered from 0.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    ready: VecDeque<Payload>,
    ready_bytes: u64,
    /// Keyed by the offset of the first byte. The pieces neither touch `next` nor overlap.
    out_of_order: BTreeMap<u64, Payload>,
    out_of_order_bytes: u64,
    rules: Rules,
    memory: Memory,
    /// Offset of the first missing byte.
    next: u64,
    size: Buffer,
    capacity_bytes: u64,
    tuning: Tuning,
    most: Most,
    /// Offset of the first byte that the peer was never allowed to send. It never moves back (RFC
    /// 9293, section 3.8.6).
    edge: u64,
    /// The window last offered, on whatever subflow (Linux: `old_wspace`).
    offered_bytes: u64,
    /// Whether the application has read since the last call to [`ReceiveBuffer::take_was_read`].
    was_read: bool,
}

/// How the out-of-order queue affects the buffer, as in
/// [`Behaviour`](crate::failure::Behaviour).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    pub(super) counts_out_of_order: bool,
    pub(super) prunes_out_of_order: bool,
}

/// Memory of the out-of-order queue.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Memory of all pieces of the out-of-order queue ([`segment_memory_bytes`]).
    out_of_order_bytes: u64,
    /// Length of the longest piece so far. The size of the buffer is the payload of such pieces
    /// that fill it.
    full_sized_bytes: u32,
}

impl Memory {
    fn charge(&mut self, payload_bytes: u32) {
        self.full_sized_bytes = self.full_sized_bytes.max(payload_bytes);
        self.out_of_order_bytes += u64::from(segment_memory_bytes(payload_bytes));
    }

    fn release(&mut self, payload_bytes: u32) {
        self.out_of_order_bytes -= u64::from(segment_memory_bytes(payload_bytes));
    }

    /// Returns the payload of full-sized pieces that would take the same memory.
    fn taken_bytes(&self) -> u64 {
        if self.out_of_order_bytes == 0 {
            return 0;
        }
        let full_sized = segment_memory_bytes(self.full_sized_bytes);
        self.out_of_order_bytes * u64::from(self.full_sized_bytes) / u64::from(full_sized)
    }
}

/// What happened to received bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inserted {
    /// Bytes that the buffer did not have.
    pub(super) new_bytes: u64,
    /// Bytes that had arrived before, on this subflow or another.
    pub(super) duplicate_bytes: u64,
    /// Bytes beyond the offered window, in more pieces than the out-of-order queue holds, or
    /// without room, and bytes that were removed to make room. The peer has to send them again.
    pub(super) refused_bytes: u64,
}

impl ReceiveBuffer {
    /// Creates an empty buffer.
    pub(super) fn new(size: Buffer, rules: Rules) -> Self {
        Self {
            ready: VecDeque::new(),
            ready_bytes: 0,
            out_of_order: BTreeMap::new(),
            out_of_order_bytes: 0,
            rules,
            memory: Memory::default(),
            next: 0,
            size,
            capacity_bytes: size.initial_bytes(),
            tuning: Tuning::default(),
            most: Most::default(),
            edge: 0,
            offered_bytes: 0,
            was_read: false,
        }
    }

    /// Returns the offset of the first missing byte, which a DATA_ACK carries.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of bytes that the application can read.
    pub(super) fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    pub(super) fn out_of_order_bytes(&self) -> u64 {
        self.out_of_order_bytes
    }

    /// Returns the receive window beyond [`ReceiveBuffer::next`]. It never falls below what the
    /// peer was offered.
    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes_within(u64::MAX)
    }

    /// Returns the receive window if no more than `most_bytes` may be newly offered.
    pub(super) fn window_bytes_within(&self, most_bytes: u64) -> u64 {
        self.free_bytes().min(most_bytes).max(self.edge - self.next)
    }

    /// Returns the free room of the buffer, regardless of the offered window.
    pub(super) fn free_bytes(&self) -> u64 {
        let out_of_order = match self.rules.counts_out_of_order {
            true => self.memory.taken_bytes(),
            false => 0,
        };
        let taken = self.ready_bytes + out_of_order;
        self.capacity_bytes.saturating_sub(taken)
    }

    /// Records that the peer was offered `bytes` bytes beyond [`ReceiveBuffer::next`].
    pub(super) fn offer(&mut self, bytes: u64) {
        self.edge = self.edge.max(self.next + bytes);
        self.offered_bytes = bytes;
    }

    /// Returns whether the application has read since the last call.
    pub(super) fn take_was_read(&mut self) -> bool {
        std::mem::take(&mut self.was_read)
    }

    /// Returns whether the buffer holds nothing, neither in order nor out of order.
    pub(super) fn is_empty(&self) -> bool {
        self.ready_bytes == 0 && self.out_of_order.is_empty()
    }

    /// Returns whether the free room is at least twice the window last offered
    /// (`mptcp_cleanup_rbuf`).
    pub(super) fn has_doubled(&self) -> bool {
        let free = self.free_bytes();
        free > 0 && free / 2 >= self.offered_bytes
    }

    /// Returns the next bytes in order.
    pub(super) fn read(&mut self) -> Option<Payload> {
        let payload = self.ready.pop_front()?;
        self.ready_bytes -= u64::from(payload.len());
        self.was_read = true;
        self.tuning.read(payload.len());
        Some(payload)
    }

    /// Returns the size of the buffer in bytes. It holds more if a larger window was offered.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Returns whether [`ReceiveBuffer::tune`] can change anything: the longest of `round_trips` is
    /// over, and the buffer may grow.
    pub(super) fn is_due_for_tuning(
        &self,
        now: Nanos,
        round_trips: impl Iterator<Item = Nanos>,
    ) -> bool {
        let may_grow =
            matches!(self.size, Buffer::Auto { max_bytes, .. } if max_bytes > self.capacity_bytes);
        may_grow && self.tuning.is_round_over(now, round_trips)
    }

    /// Grows the buffer if the application has read more in this round trip than in any before.
    /// Returns the bytes read if the buffer grew.
    pub(super) fn tune(&mut self, now: Nanos, mss_bytes: u32) -> Option<u64> {
        let read = self.tuning.end_round(now);
        let wanted = self.most.wanted_bytes(read, mss_bytes)?;
        let before = self.capacity_bytes;
        self.capacity_bytes = self.size.grown(before, wanted);
        (self.capacity_bytes > before).then_some(read)
    }

    /// Inserts the bytes that have not arrived before. Bytes already present stay, even if others
    /// arrive for the same place.
    pub(super) fn insert(&mut self, offset: u64, payload: Payload) -> Inserted {
        let total = u64::from(payload.len());
        let pruned_bytes = self.make_room(offset);
        if self.is_overfull() {
            return Inserted {
                refused_bytes: pruned_bytes + total,
                ..Inserted::default()
            };
        }
        if self.is_next(offset, total) {
            self.make_ready(payload);
            return Inserted {
                new_bytes: total,
                refused_bytes: pruned_bytes,
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
        inserted.refused_bytes += pruned_bytes;
        self.put_in_order();
        inserted
    }

    /// Returns whether data is to be removed or refused because the buffer holds more than its
    /// size. It may do so, because the window never shrinks (`mptcp_can_ingest`).
    fn is_overfull(&self) -> bool {
        let held = || self.ready_bytes + self.memory.taken_bytes();
        self.rules.prunes_out_of_order && held() > self.capacity_bytes
    }

    /// Removes data at `offset` and beyond from the end of the out-of-order queue while the buffer
    /// is overfull (`mptcp_prune_ofo_queue`). Returns the number of bytes removed.
    fn make_room(&mut self, offset: u64) -> u64 {
        let before = self.out_of_order_bytes;
        while self.is_overfull()
            && let Some(last) = self.out_of_order.last_entry()
            && *last.key() >= offset
        {
            let payload = last.remove();
            self.release(&payload);
        }
        before - self.out_of_order_bytes
    }

    fn has_room_for_a_piece(&self) -> bool {
        self.out_of_order.len() < most_pieces(self.edge - self.next)
    }

    /// Returns whether `len` bytes at `offset` come next, within the offered window and with an
    /// empty out-of-order queue. No gap has to be searched then.
    fn is_next(&self, offset: u64, len: u64) -> bool {
        let is_allowed = len > 0 && offset + len <= self.edge;
        offset == self.next && is_allowed && self.out_of_order.is_empty()
    }

    /// Returns the first part of `at..end` that has not arrived.
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

    /// Puts missing bytes at their place.
    fn fill(&mut self, offset: u64, payload: Payload) {
        if offset == self.next {
            self.make_ready(payload);
        } else {
            self.out_of_order_bytes += u64::from(payload.len());
            self.memory.charge(payload.len());
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
            self.release(&payload);
            self.make_ready(payload);
        }
    }

    /// Gives back the memory of a piece that has left the out-of-order queue.
    fn release(&mut self, piece: &Payload) {
        self.out_of_order_bytes -= u64::from(piece.len());
        self.memory.release(piece.len());
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
            let mut buffer = ReceiveBuffer::new(Buffer::Fixed(1000), Rules::default());
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
        let mut buffer = ReceiveBuffer::new(Buffer::Fixed(4000), Rules::default());
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
    fn what_waits_out_of_order_takes_from_the_window_by_its_memory() {
        let windows = [false, true].map(|counts_out_of_order| {
            let rules = Rules {
                counts_out_of_order,
                ..Rules::default()
            };
            let mut buffer = ReceiveBuffer::new(Buffer::Fixed(20_000), rules);
            buffer.offer(10_000);
            // A full-sized piece takes as much as its payload, and a short one as much memory, 2304
            // bytes.
            buffer.insert(1000, Payload::stream(1, 1000, 1424));
            buffer.insert(9000, Payload::stream(1, 9000, 1000));
            let behind_holes = buffer.free_bytes();
            buffer.insert(0, Payload::stream(1, 0, 1000));
            assert!(buffer.window_bytes() >= buffer.free_bytes());
            while buffer.read().is_some() {}
            (behind_holes, buffer.free_bytes())
        });
        assert_eq!(windows[0], (20_000, 20_000));
        assert_eq!(windows[1], (20_000 - 2 * 1424, 20_000 - 1424));
    }

    #[test]
    fn an_overfull_buffer_gives_up_what_is_furthest_ahead() {
        let kept = [false, true].map(|prunes_out_of_order| {
            let rules = Rules {
                counts_out_of_order: true,
                prunes_out_of_order,
            };
            let mut buffer = ReceiveBuffer::new(Buffer::Fixed(5000), rules);
            buffer.offer(20_000);
            for offset in [2000, 4000, 6000, 8000, 10_000] {
                buffer.insert(offset, Payload::stream(1, offset, 1000));
            }
            let last = buffer.insert(12_000, Payload::stream(1, 12_000, 1000));
            let first = buffer.insert(1000, Payload::stream(1, 1000, 1000));
            (last, first, buffer.out_of_order_bytes())
        });
        let new = Inserted {
            new_bytes: 1000,
            ..Inserted::default()
        };
        assert_eq!(kept[0], (new, new, 7000));
        // Five pieces fill the buffer and the sixth makes it overfull, so that one has to go.
        let in_its_place = Inserted {
            refused_bytes: 1000,
            ..new
        };
        assert_eq!(kept[1], (new, in_its_place, 6000));
    }

    #[test]
    fn what_came_first_stays() {
        let mut buffer = ReceiveBuffer::new(Buffer::Fixed(100), Rules::default());
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
