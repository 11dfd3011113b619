//! Slots: the times between two reassignments of satellites.

use std::sync::Arc;

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::link::fading::standard_normal;

const MILLION: u64 = 1_000_000;

/// What holds within a slot, for one dish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// When the slot begins, in the run.
    begin: Nanos,
    /// When packets start again after a stall at the beginning. The beginning if there is no stall.
    pub(super) served_from: Nanos,
    /// When the next slot begins.
    pub(super) end: Nanos,
    /// The delay over the satellite, one way.
    delay: Nanos,
    /// The logarithm of the rate's factor.
    log_rate: f64,
    /// The rate's factor.
    pub(super) factor: f64,
}

/// The slots of one dish. They begin at the instants of a clock that all dishes of a run share.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    parameters: Arc<resolved::Leo>,
    generator: Generator,
    current: Slot,
    has_begun: bool,
    /// When the first slot of the run begins.
    phase: Nanos,
}

impl Slots {
    pub(super) fn new(parameters: &Arc<resolved::Leo>, seed: u64) -> Self {
        let drawn = || Generator::new(seed, "leo/phase").below(parameters.slot_ns);
        let phase = parameters.phase_ns.unwrap_or_else(drawn);
        let generator = Generator::new(seed, &format!("leo/slots/{}", parameters.link));
        let before = Slot {
            begin: 0,
            served_from: 0,
            end: phase,
            delay: 0,
            log_rate: 0.0,
            factor: 1.0,
        };
        let mut slots = Self {
            parameters: Arc::clone(parameters),
            generator,
            current: before,
            has_begun: false,
            phase,
        };
        // The run begins within a slot.
        let first = slots.drawn(0);
        slots.current = Slot {
            served_from: 0,
            end: phase,
            ..first
        };
        slots
    }

    /// Returns the delay of the slot of the last call to [`Self::at`].
    #[inline]
    pub(super) fn delay(&self) -> Nanos {
        self.current.delay
    }

    /// Returns whether packets wait at `now` for the end of a stall.
    pub(super) fn is_stalled(&self, now: Nanos) -> bool {
        (self.current.begin..self.current.served_from).contains(&now)
    }

    /// Returns the number of slots that have begun up to `now`.
    pub(super) fn begun(&self, now: Nanos) -> u64 {
        let since = now.checked_sub(self.phase);
        since.map_or(0, |since| 1 + since / self.parameters.slot_ns)
    }

    /// Returns the slot at `now`, which never decreases.
    #[inline]
    pub(super) fn at(&mut self, now: Nanos) -> &Slot {
        while self.current.end <= now {
            self.current = self.drawn(self.current.end);
        }
        &self.current
    }

    /// Returns the slot that begins at `start`. Every slot takes the same number of draws.
    fn drawn(&mut self, start: Nanos) -> Slot {
        let resolved::Leo {
            bent_pipe,
            step,
            stall,
            ..
        } = &*self.parameters;
        let away = bent_pipe.sd_ns as f64 * standard_normal(&mut self.generator);
        let delay = (bent_pipe.mean_ns as f64 + away).max(0.0) as Nanos;
        let new = f64::from(step.sd_ppm) * 1e-6 * standard_normal(&mut self.generator);
        let kept = match self.has_begun {
            true => f64::from(step.correlation_ppm) * 1e-6,
            false => 0.0,
        };
        self.has_begun = true;
        let log_rate = kept * self.current.log_rate + libm::sqrt(1.0 - kept * kept) * new;
        let stalls = self.generator.below(MILLION) < u64::from(stall.probability_ppm);
        let stalled = stall.min_ns + self.generator.below(stall.max_ns - stall.min_ns + 1);
        Slot {
            begin: start,
            served_from: start.saturating_add(if stalls { stalled } else { 0 }),
            end: start.saturating_add(self.parameters.slot_ns),
            delay: delay.clamp(bent_pipe.min_ns, bent_pipe.max_ns),
            log_rate,
            factor: libm::exp(log_rate),
        }
    }
}
