//! Duplicates packets.

use experiment::resolved::{self, MiddleboxDirection};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::{Heading, Middlebox, Outlet, Passing};

/// Sends packets twice, at random.
pub(super) struct Duplicate {
    described: resolved::Duplicate,
    direction: MiddleboxDirection,
    random: Generator,
}

impl Duplicate {
    pub(super) fn new(
        described: resolved::Duplicate,
        direction: MiddleboxDirection,
        random: Generator,
    ) -> Self {
        Self {
            described,
            direction,
            random,
        }
    }
}

impl Middlebox for Duplicate {
    fn handle(&mut self, _now: Nanos, heading: Heading, passing: Passing, out: &mut Outlet) {
        let is_twice =
            heading.is_covered_by(self.direction) && self.random.chance(self.described.probability);
        let copy = is_twice.then(|| passing.packet().clone());
        out.pass(heading, passing);
        if let Some(copy) = copy {
            out.make(heading, copy);
        }
    }
}
