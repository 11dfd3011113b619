//! Gaps in the service of one device at random times: handovers, and changes between 4G and 5G.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::link::fading::standard_normal;

/// A time in which the link carries nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) begin: Nanos,
    pub(super) length: Nanos,
}

/// Gaps at random times.
#[derive(Debug)]
pub(super) struct GapProcess {
    parameters: resolved::Gaps,
    generator: Generator,
    next: Gap,
}

impl GapProcess {
    pub(super) fn new(parameters: resolved::Gaps, generator: Generator) -> Self {
        let next = Gap {
            begin: 0,
            length: 0,
        };
        let mut process = Self {
            parameters,
            generator,
            next,
        };
        process.draw();
        process
    }

    /// Returns when the next gap begins.
    pub(super) fn next_begin(&self) -> Nanos {
        self.next.begin
    }

    /// Returns the next gap, once.
    pub(super) fn take(&mut self) -> Gap {
        let due = self.next;
        self.draw();
        due
    }

    fn draw(&mut self) {
        let pause = self.generator.exponential(self.parameters.interval_ns);
        let spread = f64::from(self.parameters.gap_sd_ppm) * 1e-6;
        let factor = libm::exp(spread * standard_normal(&mut self.generator));
        // The time between gaps is counted from the end of the one before.
        let end = self.next.begin.saturating_add(self.next.length);
        self.next.begin = end.saturating_add(pause.max(1));
        self.next.length = (self.parameters.gap_median_ns as f64 * factor) as Nanos;
    }
}
