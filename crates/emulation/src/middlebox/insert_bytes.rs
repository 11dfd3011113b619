//! Inserts bytes into the data, as an application-level gateway does when it writes a longer
//! address.

use experiment::resolved::{self, MiddleboxDirection};
use experiment::time::Nanos;
use mptcp::payload::Payload;
use mptcp::seq::SeqNr;
use mptcp::wire::{Flags, Packet};

use super::connections::{Connections, Stream, Streams};
use super::split::piece;
use super::{Heading, Middlebox, Outlet, Passing};

/// The byte that is inserted.
const BYTE: u8 = b'+';

/// Inserts bytes at one offset of each direction of a connection. Shifts the sequence numbers after
/// it, and shifts acknowledgments back, so that TCP notices nothing.
pub(super) struct InsertBytes {
    described: resolved::InsertBytes,
    direction: MiddleboxDirection,
    connections: Connections<Streams>,
}

impl InsertBytes {
    pub(super) fn new(described: resolved::InsertBytes, direction: MiddleboxDirection) -> Self {
        Self {
            described,
            direction,
            connections: Connections::new(),
        }
    }

    /// Translates a number acknowledged by the receiver into the number known to the sender.
    fn acknowledged(&self, stream: &Stream, seq: SeqNr) -> SeqNr {
        let offset = stream.offset(seq);
        let (place, bytes) = (self.described.after_bytes, u64::from(self.described.bytes));
        let beyond = offset.saturating_sub(place);
        stream.number(offset - beyond.min(bytes))
    }

    fn shift_acknowledgments(&self, stream: &Stream, passing: &mut Passing) {
        let segment = &passing.packet().segment;
        if !segment.flags.contains(Flags::ACK)
            || self.acknowledged(stream, segment.ack) == segment.ack
        {
            // SACK blocks are beyond the ACK number and may need a shift even if that number does
            // not.
            if segment.options.sack.is_empty() {
                return;
            }
        }
        let segment = &mut passing.change().segment;
        segment.ack = self.acknowledged(stream, segment.ack);
        for block in &mut segment.options.sack {
            let [start, end] = [block.start, block.end].map(|seq| self.acknowledged(stream, seq));
            (block.start, block.end) = (start, end);
        }
    }

    /// Sends the data before `index`, the inserted bytes, and the data after `index`.
    fn insert(&self, heading: Heading, mut passing: Passing, index: u32, out: &mut Outlet) {
        let whole = passing.packet().clone();
        let len = whole.segment.payload.len();
        if index > 0 {
            out.make(heading, piece(&whole, 0, index));
        }
        out.make(heading, self.inserted(&whole, index));
        let rest = passing.change();
        *rest = piece(&whole, index, len);
        rest.segment.seq += self.described.bytes;
        out.pass(heading, passing);
    }

    fn inserted(&self, whole: &Packet, index: u32) -> Packet {
        let mut packet = piece(whole, index, index);
        packet.segment.payload = Payload::literal(vec![BYTE; self.described.bytes as usize]);
        packet
    }
}

impl Middlebox for InsertBytes {
    fn handle(&mut self, _now: Nanos, heading: Heading, mut passing: Passing, out: &mut Outlet) {
        let streams = self
            .connections
            .of(heading, passing.packet(), Streams::default);
        let stream = streams.record(heading, passing.packet());
        let acknowledged = streams.acknowledged_by(heading);
        if let Some(stream) = acknowledged.filter(|_| heading.back().is_covered_by(self.direction))
        {
            self.shift_acknowledgments(&stream, &mut passing);
        }
        let Some(stream) = stream.filter(|_| heading.is_covered_by(self.direction)) else {
            return out.pass(heading, passing);
        };
        let segment = &passing.packet().segment;
        let start = stream.offset(segment.seq);
        let end = start + u64::from(segment.payload.len());
        let place = self.described.after_bytes;
        if start > place {
            passing.change().segment.seq += self.described.bytes;
        } else if place < end {
            return self.insert(heading, passing, (place - start) as u32, out);
        }
        out.pass(heading, passing);
    }
}
