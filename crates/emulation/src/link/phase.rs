//! Instants that repeat with a period.

use experiment::rng::Generator;
use experiment::time::Nanos;

/// A period with an offset of its own, such as the paging occasions of one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    period: Nanos,
    offset: Nanos,
}

impl Phase {
    /// Returns a period whose offset `generator` draws.
    pub(super) fn drawn(period: Nanos, generator: &mut Generator) -> Self {
        Self {
            period,
            offset: generator.below(period),
        }
    }

    /// Returns the first instant of the period at or after `now`.
    pub(super) fn next(self, now: Nanos) -> Nanos {
        let Some(since) = now.checked_sub(self.offset) else {
            return self.offset;
        };
        self.offset
            .saturating_add(since.div_ceil(self.period).saturating_mul(self.period))
    }
}
