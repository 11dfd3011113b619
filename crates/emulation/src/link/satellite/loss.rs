//! Loss in time: while it lasts, everything in service is lost.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

const MILLION: f64 = 1e6;

/// The losses of one direction.
#[derive(Debug)]
pub(super) struct LossInTime {
    parameters: resolved::LossInTime,
    generator: Generator,
    /// The first loss that may not be over.
    start: Nanos,
    end: Nanos,
}

impl LossInTime {
    pub(super) fn new(parameters: &resolved::LossInTime, generator: Generator) -> Self {
        let mut losses = Self {
            parameters: parameters.clone(),
            generator,
            start: 0,
            end: 0,
        };
        losses.draw();
        losses
    }

    /// Returns whether a packet that is in service from `start` to `finish` is lost. Starts never
    /// decrease.
    #[inline]
    pub(super) fn hits(&mut self, start: Nanos, finish: Nanos) -> bool {
        while self.end <= start {
            self.draw();
        }
        self.start < finish
    }

    fn draw(&mut self) {
        let pause = self.generator.exponential(self.parameters.interval_ns);
        self.start = self.end.saturating_add(pause.max(1));
        self.end = self.start.saturating_add(self.duration());
    }

    fn duration(&mut self) -> Nanos {
        let below = self.generator.unit() * MILLION;
        let quantiles = &self.parameters.durations;
        let above = quantiles
            .partition_point(|one| f64::from(one.below_ppm) <= below)
            .clamp(1, quantiles.len() - 1);
        let (low, high) = (quantiles[above - 1], quantiles[above]);
        let width = f64::from(high.below_ppm - low.below_ppm);
        let part = (below - f64::from(low.below_ppm)) / width;
        let (shorter, longer) = (low.duration_ns as f64, high.duration_ns as f64);
        (shorter * libm::pow(longer / shorter, part)) as Nanos
    }
}
