//! What one device may send or receive in a transmission time interval (TTI).

use experiment::resolved::{self, Direction};
use experiment::rng::Generator;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use crate::link::fading::Fading;
use crate::link::trace::{self, RunOpportunities};

/// The rate is drawn anew this often.
const STEP: Nanos = 10_000_000;

/// A fraction of a byte.
const FRACTION: u32 = 16;
const WHOLE_PPM: u32 = 1_000_000;

/// The capacity of one direction.
#[derive(Debug)]
pub(super) struct Capacity {
    tti: Nanos,
    seed: u64,
    source: Source,
    /// The part of the rate that is there, in millionths.
    rate_share_ppm: u32,
    fading: Option<Fading>,
    neighbours: Option<Neighbours>,
    /// When the step ends for which `per_tti` is.
    until: Nanos,
    /// Bytes of a TTI, as a fixed-point number.
    per_tti: u64,
    /// The part of a byte that earlier TTIs left.
    rest: u64,
}

#[derive(Debug)]
enum Source {
    Rate(u64),
    Trace {
        opportunities: RunOpportunities,
        opportunity_bytes: u32,
    },
}

impl Source {
    fn new(direction: &Direction, seed: u64) -> Self {
        match (&direction.trace, direction.rate_bps) {
            (Some(trace), _) => Self::Trace {
                opportunities: RunOpportunities::new(trace, trace::start_ns(trace, seed)),
                opportunity_bytes: trace.opportunity_bytes,
            },
            (None, rate_bps) => Self::Rate(rate_bps.unwrap_or(0)),
        }
    }
}

impl Capacity {
    /// Returns the capacity of a direction. `generator` returns the generator of a purpose. A trace
    /// has its fading and its neighbours in it.
    pub(super) fn new(
        cell: &resolved::Cellular,
        direction: &Direction,
        seed: u64,
        generator: impl Fn(&str) -> Generator,
    ) -> Self {
        Self {
            tti: cell.tti_ns,
            seed,
            source: Source::new(direction, seed),
            rate_share_ppm: WHOLE_PPM,
            fading: Fading::of_signal(&cell.signal, STEP, generator("signal")),
            neighbours: Neighbours::new(&cell.neighbours, generator("neighbours")),
            until: 0,
            per_tti: 0,
            rest: 0,
        }
    }

    /// Takes the rate or the trace of a direction.
    pub(super) fn reconfigure(&mut self, direction: &Direction) {
        self.source = Source::new(direction, self.seed);
        self.until = 0;
    }

    /// Lowers the rate to a share in millionths, or returns to the whole. A trace stays as it is.
    pub(super) fn set_rate_share(&mut self, ppm: Option<u32>) {
        self.rate_share_ppm = ppm.unwrap_or(WHOLE_PPM);
        self.until = 0;
    }

    /// Takes the capacity of another cell.
    pub(super) fn redraw(&mut self) {
        if let Some(fading) = &mut self.fading {
            fading.redraw();
        }
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.redraw();
        }
        self.until = 0;
    }

    /// Returns the first TTI that can carry something, `first` or a later one.
    #[inline]
    pub(super) fn next_tti(&self, first: Nanos) -> Nanos {
        match &self.source {
            Source::Rate(_) => first,
            Source::Trace { opportunities, .. } => {
                let next = opportunities.instant(opportunities.first_from(first, 0));
                first.max(next - next % self.tti)
            }
        }
    }

    /// Returns the bytes that the TTI at `at` carries.
    pub(super) fn grant(&mut self, at: Nanos) -> u64 {
        if let Source::Trace {
            opportunities,
            opportunity_bytes,
        } = &self.source
        {
            let [first, after] = [at, at + self.tti].map(|at| opportunities.first_from(at, 0));
            return (after - first) * u64::from(*opportunity_bytes);
        }
        self.update(at);
        let bytes = self.per_tti + self.rest;
        self.rest = bytes & ((1 << FRACTION) - 1);
        bytes >> FRACTION
    }

    fn update(&mut self, at: Nanos) {
        if at < self.until {
            return;
        }
        let Source::Rate(rate_bps) = self.source else {
            return;
        };
        let step = at / STEP;
        self.until = (step + 1).saturating_mul(STEP);
        let rate_bps = u128::from(rate_bps) * u128::from(self.rate_share_ppm);
        let rate_bps = rate_bps / u128::from(WHOLE_PPM);
        let whole = (rate_bps * u128::from(self.tti)) << FRACTION;
        let whole = (whole / (8 * u128::from(NANOS_PER_SECOND))) as u64;
        let fading = self.fading.as_mut().map_or(1.0, |fading| fading.factor(at));
        let share = self
            .neighbours
            .as_mut()
            .map_or(1, |one| 1 + one.count(step));
        self.per_tti = (whole as f64 * fading / share as f64) as u64;
    }
}

/// Other devices of the cell that are busy. Their number is a birth-death process.
#[derive(Debug)]
struct Neighbours {
    mean: f64,
    /// Mean time for which a device is busy, in steps.
    busy_steps: f64,
    count: u64,
    step: u64,
    generator: Generator,
}

impl Neighbours {
    fn new(parameters: &resolved::BusyNeighbours, generator: Generator) -> Option<Self> {
        if parameters.mean_ppm == 0 {
            return None;
        }
        let mut neighbours = Self {
            mean: f64::from(parameters.mean_ppm) * 1e-6,
            busy_steps: parameters.busy_ns as f64 / STEP as f64,
            count: 0,
            step: 0,
            generator,
        };
        neighbours.redraw();
        Some(neighbours)
    }

    fn redraw(&mut self) {
        self.count = self.poisson(self.mean);
    }

    /// Returns the number of busy devices at a step, which never decreases.
    fn count(&mut self, step: u64) -> u64 {
        if step > self.step {
            let stays = libm::exp(-((step - self.step) as f64) / self.busy_steps);
            let staying = (0..self.count).filter(|_| self.generator.chance(stays));
            let staying = staying.count() as u64;
            self.count = staying + self.poisson(self.mean * (1.0 - stays));
            self.step = step;
        }
        self.count
    }

    /// Returns a Poisson number (Knuth's method).
    fn poisson(&mut self, mean: f64) -> u64 {
        let limit = libm::exp(-mean);
        let mut product = self.generator.unit();
        let mut count = 0;
        while product > limit {
            product *= self.generator.unit();
            count += 1;
        }
        count
    }
}
