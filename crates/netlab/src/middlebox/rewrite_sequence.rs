//! Other sequence numbers than the sender chose, as firewalls write them that do not trust its choice.

use mptcp::wire::Flags;

use super::connections::Connections;
use super::{Heading, Middlebox, Outlet, Passing};
use crate::resolved::MiddleboxDirection;
use crate::rng::Generator;
use crate::time::Nanos;

/// Adds to the numbers of a sender what it takes off the acknowledgments, selective ones included, that come back.
pub(super) struct RewriteSequence {
    direction: MiddleboxDirection,
    random: Generator,
    /// By heading, what is added to sequence numbers.
    shifts: Connections<[u32; 2]>,
}

impl RewriteSequence {
    pub(super) fn new(direction: MiddleboxDirection, random: Generator) -> Self {
        Self {
            direction,
            random,
            shifts: Connections::new(),
        }
    }
}

impl Middlebox for RewriteSequence {
    fn handle(&mut self, _now: Nanos, heading: Heading, mut passing: Passing, out: &mut Outlet) {
        let (direction, random) = (self.direction, &mut self.random);
        let shifts = self.shifts.of(heading, passing.packet(), || {
            [Heading::Leaving, Heading::Arriving].map(|heading| {
                let shift = random.bits() as u32;
                if direction.covers(heading) { shift } else { 0 }
            })
        });
        let [own, others] = [heading, heading.back()].map(|heading| shifts[heading as usize]);
        let segment = &mut passing.change().segment;
        segment.seq += own;
        if segment.flags.contains(Flags::ACK) {
            segment.ack = segment.ack - others;
        }
        for block in &mut segment.options.sack {
            (block.start, block.end) = (block.start - others, block.end - others);
        }
        out.pass(heading, passing);
    }
}
