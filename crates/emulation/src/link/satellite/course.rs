//! What a direction of a dish meets over time, whether it sends packets or not.

use std::sync::Arc;

use experiment::resolved::{self, Direction, HopDirection};
use experiment::rng::Generator;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::loss::LossInTime;
use super::slots::Slots;
use crate::link::fading::Fading;

/// The rate within a slot is drawn anew this often.
const STEP: Nanos = 100_000_000;

/// Slots, rate and losses of one direction, at the start of a packet.
#[derive(Clone)]
pub(super) struct Course {
    rate_bps: u64,
    slots: Slots,
    fading: Option<Fading>,
    losses: LossInTime,
    /// Until when nothing of this changes.
    until: Nanos,
    /// The rate now.
    varied_bps: f64,
}

impl Course {
    pub(super) fn new(
        parameters: &Arc<resolved::Leo>,
        direction: &Direction,
        side: HopDirection,
        seed: u64,
    ) -> Self {
        let (link, name) = (&parameters.link, side.name());
        let generator = |purpose| Generator::new(seed, &format!("{purpose}/{link}/{name}"));
        let mut course = Self {
            rate_bps: 0,
            slots: Slots::new(parameters, seed),
            fading: Fading::of_satellite(&parameters.fade, STEP, generator("fade")),
            losses: LossInTime::new(&parameters.loss, generator("loss_in_time")),
            until: 0,
            varied_bps: 0.0,
        };
        course.set_rate(direction);
        course
    }

    /// Takes the median rate of a direction.
    pub(super) fn set_rate(&mut self, direction: &Direction) {
        self.rate_bps = direction.rate_bps.unwrap_or(1);
        self.until = 0;
    }

    /// Returns whether a packet that starts at `start` meets the same as the one before it.
    #[inline]
    pub(super) fn covers(&self, start: Nanos) -> bool {
        start < self.until
    }

    /// Returns `start`, or the end of the stall in which it lies. Starts never decrease.
    #[inline]
    pub(super) fn unstalled(&mut self, mut start: Nanos) -> Nanos {
        while !self.covers(start) {
            let served_from = self.slots.at(start).served_from;
            if served_from <= start {
                break;
            }
            start = served_from;
        }
        start
    }

    /// Goes to `start`, which is in no stall.
    #[inline]
    pub(super) fn go_to(&mut self, start: Nanos) {
        if !self.covers(start) {
            self.change(start);
        }
    }

    fn change(&mut self, start: Nanos) {
        let slot = *self.slots.at(start);
        let fading = self.fading.as_mut().map_or(1.0, |one| one.factor(start));
        self.losses.go_to(start);
        self.varied_bps = self.rate_bps as f64 * slot.factor * fading;
        let faded_until = self.fading.as_ref().map_or(Nanos::MAX, Fading::until);
        self.until = slot.end.min(faded_until).min(self.losses.end());
    }

    /// Returns when a packet has left that starts now.
    #[inline]
    pub(super) fn finish(&self, start: Nanos, wire_bytes: u32) -> Nanos {
        let bits = f64::from(wire_bytes) * 8.0;
        let duration = bits * NANOS_PER_SECOND as f64 / self.varied_bps;
        start.saturating_add(duration as Nanos)
    }

    /// Returns whether a packet is lost that starts now and has left at `finish`.
    #[inline]
    pub(super) fn loses(&self, finish: Nanos) -> bool {
        self.losses.hits(finish)
    }

    /// Returns the delay over the satellite.
    #[inline]
    pub(super) fn delay(&self) -> Nanos {
        self.slots.delay()
    }

    /// Returns whether packets wait at `now` for the end of the stall of this slot.
    pub(super) fn is_stalled(&self, now: Nanos) -> bool {
        self.slots.is_stalled(now)
    }

    /// Returns the number of slots that have begun up to `now`.
    pub(super) fn slots_begun(&self, now: Nanos) -> u64 {
        self.slots.begun(now)
    }
}
