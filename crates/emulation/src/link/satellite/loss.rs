//! Loss in time: while it lasts, everything in service is lost.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

const MILLION: f64 = 1e6;

/// The losses of one direction.
#[derive(Clone, Debug)]
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

    /// Goes to the first loss that is not over at `start`, which never decreases.
    pub(super) fn go_to(&mut self, start: Nanos) {
        while self.end <= start {
            self.draw();
        }
    }

    /// Returns when this loss is over.
    pub(super) fn end(&self) -> Nanos {
        self.end
    }

    /// Returns whether this loss hits a packet that is in service until `finish`, and starts before
    /// the loss is over.
    #[inline]
    pub(super) fn hits(&self, finish: Nanos) -> bool {
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
