//! HARQ: blocks that fail are sent again, and are handed up in order.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

const MILLION: u64 = 1_000_000;

/// The blocks of one direction.
#[derive(Debug)]
pub(super) struct Harq {
    parameters: resolved::Harq,
    generator: Generator,
    /// When the last block was handed up.
    released: Nanos,
    /// Transmissions beyond the first of each block.
    pub(super) repeats: u64,
}

impl Harq {
    pub(super) fn new(parameters: resolved::Harq, generator: Generator) -> Self {
        Self {
            parameters,
            generator,
            released: 0,
            repeats: 0,
        }
    }

    /// Returns when a block is handed up whose first transmission ends at `sent`: when it is
    /// decoded, but not before the blocks before it.
    pub(super) fn release(&mut self, sent: Nanos) -> Nanos {
        let delay = match self.fails(self.parameters.first_error_ppm) {
            false => 0,
            true => self.recovery(),
        };
        self.released = self.released.max(sent.saturating_add(delay));
        self.released
    }

    /// Returns the time until a block is decoded whose first transmission failed.
    fn recovery(&mut self) -> Nanos {
        let mut delay: Nanos = 0;
        for _ in 1..self.parameters.tries {
            delay = delay.saturating_add(self.parameters.round_trip_ns);
            self.repeats += 1;
            if !self.fails(self.parameters.repeat_error_ppm) {
                return delay;
            }
        }
        delay.saturating_add(self.parameters.rlc_ns)
    }

    fn fails(&mut self, ppm: u32) -> bool {
        self.generator.below(MILLION) < u64::from(ppm)
    }
}
