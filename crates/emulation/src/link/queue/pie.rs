//! PIE (RFC 8033): drops arrivals with a probability that a controller adjusts to hold the queue
//! delay at its target.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::fifo::{Fifo, Limit, Queued};
use super::{Discarded, Discipline, Service};
use crate::link::DropReason;

/// Gain on the difference between the delay and its target, per second (RFC 8033, section 4.2).
const ALPHA: f64 = 0.125;
/// Gain on the change of the delay, per second (RFC 8033, section 4.2).
const BETA: f64 = 1.25;
/// Below each probability, changes are divided by the factor beside it, to avoid dropping too much
/// at a light load (RFC 8033, section 4.2).
const TUNING: [(f64, f64); 6] = [
    (0.000_001, 2048.0),
    (0.000_01, 512.0),
    (0.000_1, 128.0),
    (0.001, 32.0),
    (0.01, 8.0),
    (0.1, 2.0),
];
/// From this probability on, one update adds at most `LARGEST_STEP` (RFC 8033, section 5.5).
const CAPPED_FROM: f64 = 0.1;
const LARGEST_STEP: f64 = 0.02;
/// Factor applied to the probability by an update without any delay (RFC 8033, section 4.2).
const IDLE_DECAY: f64 = 0.98;
/// Nothing is dropped below this probability while the delay is short (RFC 8033, section 4.1).
const SAFE_PROBABILITY: f64 = 0.2;
/// Nothing is dropped while at most two packets of this size are queued (RFC 8033, section 4.1).
const MEAN_PACKET_BYTES: u64 = 1024;
/// Sum of probabilities since the last drop below which no drop follows. From `DROP_CERTAIN_SUM` on
/// a drop is certain (RFC 8033, section 5.4).
const DROP_FREE_SUM: f64 = 0.85;
const DROP_CERTAIN_SUM: f64 = 8.5;

pub(super) struct PieQueue<P> {
    fifo: Fifo<P>,
    limit: Limit,
    parameters: resolved::Pie,
    controller: Controller,
    next_update: Nanos,
    /// The sojourn time of the packet that left last.
    last_sojourn: Nanos,
    /// Sum of the probabilities of the arrivals since the last drop.
    accumulated: f64,
}

/// The state that an update changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Controller {
    drop_probability: f64,
    delay: Nanos,
    burst_allowance: Nanos,
}

impl<P> PieQueue<P> {
    pub(super) fn new(parameters: &resolved::Pie, limit: Limit) -> Self {
        Self {
            fifo: Fifo::new(),
            limit,
            parameters: *parameters,
            controller: Controller {
                drop_probability: 0.0,
                delay: 0,
                burst_allowance: parameters.max_burst_ns,
            },
            next_update: parameters.update_ns,
            last_sojourn: 0,
            accumulated: 0.0,
        }
    }

    /// Performs the updates due before `now`. No packet arrived or left since they were due.
    fn catch_up(&mut self, now: Nanos) {
        let period = self.parameters.update_ns;
        let delay = if self.fifo.packets() == 0 {
            0
        } else {
            self.last_sojourn
        };
        while self.next_update < now {
            let before = self.controller;
            self.controller.update(delay, &self.parameters);
            self.next_update = self.next_update.saturating_add(period);
            if before == self.controller && self.next_update < now {
                // In equilibrium: further updates change nothing.
                let skipped = (now - self.next_update).div_ceil(period);
                self.next_update = self
                    .next_update
                    .saturating_add(skipped.saturating_mul(period));
            }
        }
    }

    fn drops_arrival(&mut self, generator: &mut Generator) -> bool {
        let probability = self.controller.drop_probability;
        if self.controller.burst_allowance > 0 || self.is_harmless() {
            return false;
        }
        if probability == 0.0 {
            self.accumulated = 0.0;
            return false;
        }
        self.accumulated += probability;
        let drops = self.accumulated >= DROP_CERTAIN_SUM
            || (self.accumulated >= DROP_FREE_SUM && generator.chance(probability));
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }

    fn is_harmless(&self) -> bool {
        let is_short = self.controller.delay < self.parameters.target_ns / 2;
        (is_short && self.controller.drop_probability < SAFE_PROBABILITY)
            || self.fifo.bytes() <= 2 * MEAN_PACKET_BYTES
    }
}

impl Controller {
    fn update(&mut self, delay: Nanos, parameters: &resolved::Pie) {
        let change = self.change(delay, parameters.target_ns);
        self.drop_probability = (self.drop_probability + change).clamp(0.0, 1.0);
        if delay == 0 && self.delay == 0 {
            self.drop_probability *= IDLE_DECAY;
        }
        let short = parameters.target_ns / 2;
        let is_calm = self.drop_probability == 0.0 && delay < short && self.delay < short;
        self.burst_allowance = if is_calm {
            parameters.max_burst_ns
        } else {
            self.burst_allowance.saturating_sub(parameters.update_ns)
        };
        self.delay = delay;
    }

    fn change(&self, delay: Nanos, target: Nanos) -> f64 {
        let change =
            ALPHA * seconds_between(target, delay) + BETA * seconds_between(self.delay, delay);
        let tuning = TUNING
            .iter()
            .find(|(below, _)| self.drop_probability < *below);
        let change = change / tuning.map_or(1.0, |(_, divisor)| *divisor);
        if self.drop_probability >= CAPPED_FROM {
            change.min(LARGEST_STEP)
        } else {
            change
        }
    }
}

fn seconds_between(from: Nanos, to: Nanos) -> f64 {
    (to as f64 - from as f64) / NANOS_PER_SECOND as f64
}

impl<P: Send> Discipline<P> for PieQueue<P> {
    fn enqueue(
        &mut self,
        packet: Queued<P>,
        generator: &mut Generator,
        _: &mut Discarded<P>,
    ) -> Result<(), DropReason> {
        self.catch_up(packet.since);
        if !self.limit.admits(&self.fifo, &packet) {
            return Err(DropReason::QueueFull);
        }
        if self.drops_arrival(generator) {
            return Err(DropReason::Aqm);
        }
        self.fifo.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, _: &mut Discarded<P>) -> Option<Queued<P>> {
        self.catch_up(now);
        let packet = self.fifo.pop()?;
        self.last_sojourn = now.saturating_sub(packet.since);
        Some(packet)
    }

    fn restore(&mut self, packet: Queued<P>) {
        self.fifo.push(packet);
    }

    fn remove_last(&mut self) -> Option<Queued<P>> {
        self.fifo.pop_last()
    }

    fn set_parameters(&mut self, queue: &resolved::Queue, _: Service) -> bool {
        let resolved::Queue::Pie(parameters) = queue else {
            return false;
        };
        self.limit = Limit::new(queue);
        self.parameters = *parameters;
        true
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
