//! Changes bytes of the payload.

use experiment::resolved::{self, MiddleboxDirection};
use experiment::rng::Generator;
use experiment::time::Nanos;
use mptcp::payload::Payload;
use mptcp::wire::Packet;

use super::connections::{Connections, Streams};
use super::{Heading, Middlebox, Outlet, Passing};

/// The bit that distinguishes upper from lower case in ASCII.
const CHANGED_BITS: u8 = 0x20;

/// Changes one byte in each direction of a connection, or bytes at random.
pub(super) struct ChangeBytes {
    described: resolved::ChangeBytes,
    direction: MiddleboxDirection,
    random: Generator,
    connections: Connections<Streams>,
}

impl ChangeBytes {
    pub(super) fn new(
        described: resolved::ChangeBytes,
        direction: MiddleboxDirection,
        random: Generator,
    ) -> Self {
        Self {
            described,
            direction,
            random,
            connections: Connections::new(),
        }
    }

    /// Returns the index of the payload byte to change, if any.
    fn index(&mut self, heading: Heading, packet: &Packet) -> Option<u32> {
        let len = packet.segment.payload.len();
        let streams = self.connections.of(heading, packet, Streams::default);
        let stream = streams.record(heading, packet);
        if len == 0 || !heading.is_covered_by(self.direction) {
            return None;
        }
        if let Some(probability) = self.described.probability {
            let index = self.random.below(u64::from(len)) as u32;
            return self.random.chance(probability).then_some(index);
        }
        let start = stream?.offset(packet.segment.seq);
        let index = self.described.after_bytes?.checked_sub(start)?;
        (index < u64::from(len)).then_some(index as u32)
    }
}

impl Middlebox for ChangeBytes {
    fn handle(&mut self, _now: Nanos, heading: Heading, mut passing: Passing, out: &mut Outlet) {
        if let Some(index) = self.index(heading, passing.packet()) {
            let payload = &mut passing.change().segment.payload;
            *payload = with_byte_changed(payload, index);
        }
        out.pass(heading, passing);
    }
}

fn with_byte_changed(payload: &Payload, index: u32) -> Payload {
    let mut changed = payload.slice(0..index);
    changed.append(Payload::literal([payload.byte(index) ^ CHANGED_BITS]));
    changed.append(payload.slice(index + 1..payload.len()));
    changed
}
