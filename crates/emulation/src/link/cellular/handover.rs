//! Handovers of one device between cells.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::link::fading::standard_normal;

/// A handover.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handover {
    pub(super) at: Nanos,
    pub(super) gap: Nanos,
    pub(super) forward_queue: bool,
}

/// Handovers at random times.
#[derive(Debug)]
pub(super) struct HandoverProcess {
    parameters: resolved::Handovers,
    generator: Generator,
    next: Handover,
}

impl HandoverProcess {
    pub(super) fn new(parameters: resolved::Handovers, generator: Generator) -> Self {
        let mut process = Self {
            parameters,
            generator,
            next: Handover {
                at: 0,
                gap: 0,
                forward_queue: parameters.forward_queue,
            },
        };
        process.draw();
        process
    }

    /// Returns the next handover up to `now`, once.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Handover> {
        let due = self.next;
        if due.at > now {
            return None;
        }
        self.draw();
        Some(due)
    }

    fn draw(&mut self) {
        let pause = self.generator.exponential(self.parameters.interval_ns);
        let spread = f64::from(self.parameters.gap_sd_ppm) * 1e-6;
        let factor = libm::exp(spread * standard_normal(&mut self.generator));
        // The time between handovers is counted from the end of the one before.
        let end = self.next.at.saturating_add(self.next.gap);
        self.next.at = end.saturating_add(pause.max(1));
        self.next.gap = (self.parameters.gap_median_ns as f64 * factor) as Nanos;
    }
}
