//! The send buffer of a connection.

use std::collections::VecDeque;

use super::Buffer;
use crate::payload::Payload;
use crate::queue;
use crate::sched::Range;

/// Written and unacknowledged bytes of the stream, numbered from 0.
#[derive(Debug)]
pub(super) struct SendBuffer {
    /// In order and without gaps. The first piece contains `acked`.
    pieces: VecDeque<(u64, Payload)>,
    acked: u64,
    assigned: u64,
    written: u64,
    size: Buffer,
    capacity_bytes: u64,
    /// Whether the application had more data than there was room for, and has not been notified of
    /// room since.
    is_awaited: bool,
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
            is_awaited: false,
        }
    }

    /// Returns the offset of the first byte that the peer has not acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Returns the offset of the first byte that is assigned to no subflow.
    pub(super) fn assigned(&self) -> u64 {
        self.assigned
    }

    /// Returns the offset of the next byte that the application writes.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes
            .saturating_sub(self.written - self.acked)
    }

    /// Returns whether the application waits for room.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Changes the size.
    pub(super) fn resize(&mut self, size: Buffer) {
        self.size = size;
        self.capacity_bytes = size.initial_bytes();
    }

    /// Grows an automatic buffer to the sum of the subflows' limits.
    pub(super) fn grow(&mut self, subflow_buffers: impl Iterator<Item = u32>) {
        if let Buffer::Auto { max_bytes, .. } = self.size {
            let wanted = subflow_buffers.map(|bytes| u64::from(bytes).min(max_bytes));
            self.capacity_bytes = self.capacity_bytes.max(wanted.sum());
        }
    }

    /// Returns whether to report room to a waiting application now. This happens when a
    /// third of the buffer is free, as in Linux (`sk_stream_write_space`), so that it writes rarely
    /// and much at once.
    pub(super) fn reports_room(&mut self) -> bool {
        let used = self.written - self.acked;
        let reports = self.is_awaited && self.free_bytes() >= used.div_ceil(2);
        self.is_awaited &= !reports;
        reports
    }

    /// Takes as much of `payload` as there is room for. Returns the number of bytes taken.
    pub(super) fn write(&mut self, payload: &Payload) -> u32 {
        let room = self.free_bytes().min(u64::from(payload.len())) as u32;
        self.is_awaited |= room < payload.len();
        if room > 0 {
            queue::push(&mut self.pieces, (self.written, payload.slice(0..room)));
            self.written += u64::from(room);
        }
        room
    }

    /// Records that the next `bytes` bytes were assigned to a subflow.
    pub(super) fn assign(&mut self, bytes: u64) {
        self.assigned += bytes;
        debug_assert!(self.assigned <= self.written);
    }

    /// Records that everything before `offset` is acknowledged. Returns whether that is new.
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

    /// Returns the part of a range that is not acknowledged.
    pub(super) fn unacked_part(&self, range: Range) -> Range {
        self.part_from(self.acked, range)
    }

    /// Returns the part of a range that is assigned to no subflow.
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

    /// Returns the bytes of a range.
    ///
    /// # Panics
    /// If they were not written or have been acknowledged.
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
        buffer.grow([40, 50].into_iter());
        assert_eq!(buffer.free_bytes(), 0);
        buffer.grow([100, 50].into_iter());
        assert_eq!(buffer.free_bytes(), 50);
        buffer.grow([400, 10].into_iter());
        assert_eq!(buffer.free_bytes(), 210, "300 is for each subflow");
        buffer.grow([10].into_iter());
        assert_eq!(buffer.free_bytes(), 210);
    }

    #[test]
    fn who_waits_is_told_when_a_third_is_free() {
        let mut buffer = SendBuffer::new(Buffer::Fixed(90));
        buffer.write(&Payload::stream(1, 0, 90));
        buffer.assign(90);
        buffer.acknowledge(40);
        assert!(!buffer.reports_room(), "nobody waits");
        buffer.write(&Payload::stream(1, 90, 90));
        assert!(buffer.is_awaited());
        buffer.acknowledge(69);
        assert!(!buffer.reports_room(), "29 of 90 are free");
        buffer.acknowledge(70);
        assert!(buffer.reports_room());
        assert!(!buffer.reports_room(), "it was told");
    }
}
