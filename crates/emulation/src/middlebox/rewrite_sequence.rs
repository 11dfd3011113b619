//! Rewrites sequence numbers, as firewalls do that do not trust the initial sequence number of the
//! sender.

use experiment::resolved::MiddleboxDirection;
use experiment::rng::Generator;
use experiment::time::Nanos;
use mptcp::wire::Flags;

use super::connections::Connections;
use super::{Heading, Middlebox, Outlet, Passing};

/// Adds a shift to the sequence numbers of a sender, and subtracts it from acknowledgments and SACK
/// blocks sent back.
pub(super) struct RewriteSequence {
    direction: MiddleboxDirection,
    random: Generator,
    /// The shift added to sequence numbers, by heading.
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
                if heading.is_covered_by(direction) {
                    shift
                } else {
                    0
                }
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
