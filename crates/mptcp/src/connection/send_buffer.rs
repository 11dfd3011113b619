//! What the application wrote and the peer has not acknowledged at the level of the connection.

use std::collections::VecDeque;

use super::Buffer;
use crate::payload::Payload;
use crate::queue;
use crate::sched::Range;

/// Bytes of the stream, numbered from 0.
#[derive(Debug)]
pub(super) struct SendBuffer {
    /// In order and without gaps; the first holds `acked`.
    pieces: VecDeque<(u64, Payload)>,
    acked: u64,
    assigned: u64,
    written: u64,
    size: Buffer,
    capacity_bytes: u64,
}

impl SendBuffer {
    pub(super) fn new(size: Buffer) -> Self {
        Self {
            pieces: VecDeque::new(),
            acked: 0,
            assigned: 0,
            written: 0,
            size,
            capacity_bytes: size.initial_bytes(),
        }
    }

    /// The first byte that the peer has not acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// The first byte that no subflow was given.
    pub(super) fn assigned(&self) -> u64 {
        self.assigned
    }

    /// Where the next byte of the application goes.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes
            .saturating_sub(self.written - self.acked)
    }

    /// Grows with what the subflows can have under way, if it may; whether that makes room where there was none.
    pub(super) fn grow(&mut self, subflow_buffers: impl Iterator<Item = u32>) -> bool {
        if matches!(self.size, Buffer::Fixed(_)) {
            return false;
        }
        let was_full = self.free_bytes() == 0;
        let wanted = subflow_buffers.map(u64::from).sum();
        self.capacity_bytes = self.size.grown(self.capacity_bytes, wanted);
        was_full && self.free_bytes() > 0
    }

    /// Takes as much as there is room for, and says how much.
    pub(super) fn write(&mut self, payload: &Payload) -> u32 {
        let room = self.free_bytes().min(u64::from(payload.len())) as u32;
        if room > 0 {
            queue::push(&mut self.pieces, (self.written, payload.slice(0..room)));
            self.written += u64::from(room);
        }
        room
    }

    /// Notes that the next `bytes` were given to a subflow.
    pub(super) fn assign(&mut self, bytes: u64) {
        self.assigned += bytes;
        debug_assert!(self.assigned <= self.written);
    }

    /// Notes that everything before `offset` has arrived; whether that is new.
    pub(super) fn acknowledge(&mut self, offset: u64) -> bool {
        if offset <= self.acked || offset > self.assigned {
            return false;
        }
        self.acked = offset;
        while self
            .pieces
            .front()
            .is_some_and(|piece| end(piece) <= offset)
        {
            self.pieces.pop_front();
        }
        true
    }

    /// The part of a range that is still held.
    pub(super) fn unacked_part(&self, range: Range) -> Range {
        self.part_from(self.acked, range)
    }

    /// The part of a range that no subflow was given.
    pub(super) fn unassigned_part(&self, range: Range) -> Range {
        self.part_from(self.assigned, range)
    }

    fn part_from(&self, first: u64, range: Range) -> Range {
        let start = range.start.max(first);
        let end = (range.start + range.len).min(self.written);
        Range {
            start,
            len: end.saturating_sub(start),
        }
    }

    /// The bytes of a range.
    ///
    /// # Panics
    /// They were not written, or have been acknowledged.
    pub(super) fn slice(&self, range: Range) -> Payload {
        let mut taken = Payload::EMPTY;
        let mut at = range.start;
        let range_end = range.start + range.len;
        let first = self.pieces.partition_point(|piece| end(piece) <= at);
        for piece in self.pieces.range(first..) {
            if at == range_end {
                break;
            }
            let from = (at - piece.0) as u32;
            let to = (range_end.min(end(piece)) - piece.0) as u32;
            taken.append(piece.1.slice(from..to));
            at = piece.0 + u64::from(to);
        }
        assert_eq!(at, range_end, "{range:?} is not in the send buffer");
        taken
    }
}

fn end(piece: &(u64, Payload)) -> u64 {
    piece.0 + u64::from(piece.1.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_makes_room() {
        let mut buffer = SendBuffer::new(Buffer::Fixed(100));
        assert_eq!(buffer.write(&Payload::stream(1, 0, 80)), 80);
        assert_eq!(buffer.write(&Payload::stream(1, 80, 80)), 20);
        buffer.assign(100);
        assert!(buffer.acknowledge(50));
        assert!(!buffer.acknowledge(50), "not new");
        assert!(!buffer.acknowledge(101), "never sent");
        assert_eq!(buffer.free_bytes(), 50);
        let range = Range { start: 60, len: 40 };
        assert_eq!(buffer.slice(range), Payload::stream(1, 60, 40));
        let part = buffer.unacked_part(Range { start: 40, len: 20 });
        assert_eq!(part, Range { start: 50, len: 10 });
    }

    #[test]
    fn it_grows_to_its_limit_and_never_shrinks() {
        let mut buffer = SendBuffer::new(Buffer::Auto {
            initial_bytes: 100,
            max_bytes: 300,
        });
        buffer.write(&Payload::stream(1, 0, 100));
        assert!(!buffer.grow([40, 50].into_iter()));
        assert!(buffer.grow([100, 50].into_iter()));
        assert_eq!(buffer.free_bytes(), 50);
        assert!(!buffer.grow([400].into_iter()), "there was room");
        assert_eq!(buffer.free_bytes(), 200);
        buffer.grow([10].into_iter());
        assert_eq!(buffer.free_bytes(), 200);
    }
}
