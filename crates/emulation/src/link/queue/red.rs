//! RED (Floyd and Jacobson, 1993): drops arrivals with a probability that grows with the average
//! queue length in bytes.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::fifo::{Fifo, Limit, Queued};
use super::{Discarded, Discipline, Service};
use crate::link::DropReason;

pub(super) struct RedQueue<P> {
    fifo: Fifo<P>,
    limit: Limit,
    parameters: resolved::Red,
    service: Service,
    average_bytes: f64,
    /// The last arrival or departure. An empty queue lowers the average from then on.
    last_change: Nanos,
    /// Packets accepted since the last drop while the average was between the thresholds.
    since_drop: u64,
}

impl<P> RedQueue<P> {
    pub(super) fn new(parameters: &resolved::Red, limit: Limit, service: Service) -> Self {
        Self {
            fifo: Fifo::new(),
            limit,
            parameters: *parameters,
            service,
            average_bytes: 0.0,
            last_change: 0,
            since_drop: 0,
        }
    }

    fn update_average(&mut self, arriving: &Queued<P>) {
        let keep = 1.0 - self.parameters.weight;
        if self.fifo.packets() > 0 {
            let sample = self.parameters.weight * self.fifo.bytes() as f64;
            self.average_bytes = keep * self.average_bytes + sample;
        } else {
            self.average_bytes *= libm::pow(keep, self.packets_missed(arriving));
        }
        self.last_change = arriving.since;
    }

    /// Returns how many packets of the size of `arriving` could have been sent while the queue was
    /// empty.
    fn packets_missed(&self, arriving: &Queued<P>) -> f64 {
        let Some(rate_bps) = self.service.rate_bps else {
            return f64::INFINITY;
        };
        let idle_ns = arriving.since.saturating_sub(self.last_change) as f64;
        let packet_bits = f64::from(arriving.wire_bytes.max(1)) * 8.0;
        idle_ns * rate_bps / (packet_bits * NANOS_PER_SECOND as f64)
    }

    fn drops_arrival(&mut self, generator: &mut Generator) -> bool {
        let (min, max) = (
            self.parameters.min_bytes as f64,
            self.parameters.max_bytes as f64,
        );
        if self.average_bytes < min {
            self.since_drop = 0;
            return false;
        }
        let share = (self.average_bytes - min) / (max - min);
        let drops = self.average_bytes >= max || generator.chance(self.spread_out(share));
        self.since_drop = if drops { 0 } else { self.since_drop + 1 };
        drops
    }

    /// Returns the probability that makes the gaps between drops uniform instead of geometric.
    fn spread_out(&self, share: f64) -> f64 {
        let probability = self.parameters.max_probability * share;
        let remaining = 1.0 - self.since_drop as f64 * probability;
        if remaining > probability {
            probability / remaining
        } else {
            1.0
        }
    }
}

impl<P: Send> Discipline<P> for RedQueue<P> {
    fn enqueue(
        &mut self,
        packet: Queued<P>,
        generator: &mut Generator,
        _: &mut Discarded<P>,
    ) -> Result<(), DropReason> {
        self.update_average(&packet);
        if self.drops_arrival(generator) {
            return Err(DropReason::Aqm);
        }
        if !self.limit.admits(&self.fifo, &packet) {
            return Err(DropReason::QueueFull);
        }
        self.fifo.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, _: &mut Discarded<P>) -> Option<Queued<P>> {
        self.last_change = now;
        self.fifo.pop()
    }

    fn restore(&mut self, packet: Queued<P>) {
        self.fifo.push(packet);
    }

    fn remove_last(&mut self) -> Option<Queued<P>> {
        self.fifo.pop_last()
    }

    fn set_parameters(&mut self, queue: &resolved::Queue, service: Service) -> bool {
        let resolved::Queue::Red(parameters) = queue else {
            return false;
        };
        self.limit = Limit::new(queue);
        self.parameters = *parameters;
        self.service = service;
        true
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
