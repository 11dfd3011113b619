//! A station: one direction of one link, with everything that it does not share.

use experiment::resolved::{self, Direction, LossPlace};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::counters::Counters;
use super::delay_line::DelayLine;
use super::fixed_rate::{FixedRate, Interrupted};
use super::loss::LossProcess;
use super::queue::{self, Discarded, Discipline, Limit, Queued, Service};
use super::serializer::Serializer;
use super::{DropReason, Packet};

/// The random generators of one station, one for each use.
#[derive(Clone, Debug)]
pub struct StationGenerators {
    loss: Generator,
    jitter: Generator,
    queue: Generator,
}

impl StationGenerators {
    /// Returns the generators of the run with `seed` for the link direction named by `label`, such
    /// as "wifi/forward".
    pub fn new(seed: u64, label: &str) -> Self {
        let generator = |purpose| Generator::new(seed, &format!("{purpose}/{label}"));
        Self {
            loss: generator("loss"),
            jitter: generator("jitter"),
            queue: generator("queue"),
        }
    }
}

pub(super) struct Station<P> {
    direction: Direction,
    overhead_bytes: u32,
    generators: StationGenerators,
    loss: LossProcess,
    queue: Box<dyn Discipline<P>>,
    /// From when on the first packet of the queue could start if the serializer were free.
    ready: Nanos,
    serializer: Serializer,
    pub(super) wire: DelayLine<P>,
    pub(super) counters: Counters,
    is_up: bool,
}

/// A packet whose serialization has begun.
pub(super) struct Started<P> {
    pub(super) finish: Nanos,
    pub(super) wire_bytes: u32,
    /// The packet, if it will be lost when its last bit has left.
    pub(super) lost: Option<P>,
}

/// The values of a medium that replace those of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct MediumParameters {
    pub(super) rate_bps: Option<u64>,
    pub(super) overhead_bytes: u32,
}

impl<P: Packet> Station<P> {
    pub(super) fn new(
        direction: &Direction,
        medium: Option<MediumParameters>,
        generators: StationGenerators,
    ) -> Self {
        let serializer = Serializer::new(direction, medium.and_then(|medium| medium.rate_bps));
        let service = Service {
            rate_bps: serializer.mean_rate_bps(),
        };
        Self {
            direction: direction.clone(),
            overhead_bytes: medium.map_or(direction.overhead_bytes, |medium| medium.overhead_bytes),
            generators,
            loss: LossProcess::new(&direction.loss),
            queue: queue::new_discipline(&direction.queue, service),
            ready: 0,
            serializer,
            wire: DelayLine::new(),
            counters: Counters::default(),
            is_up: true,
        }
    }

    /// Returns the parameters of the direction if the arrival of a packet does not depend on
    /// anything that happens after it is offered.
    pub(super) fn fixed_rate(&self) -> Option<FixedRate> {
        let Direction { loss, queue, .. } = &self.direction;
        let is_plain = matches!(loss, resolved::Loss::None {})
            && matches!(queue, resolved::Queue::DropTail(_))
            && self.direction.jitter_ns == 0
            && !self.direction.reorder;
        let serializer = match &self.serializer {
            Serializer::Infinite => None,
            Serializer::Rate(rate) => Some(*rate),
            Serializer::Trace(_) => return None,
        };
        (self.is_up && is_plain).then(|| FixedRate {
            serializer,
            overhead_bytes: self.overhead_bytes,
            delay: self.direction.delay_ns,
            limit: Limit::new(queue),
        })
    }

    /// Takes over the packets of a `FixedRateFifo`.
    pub(super) fn take_over(&mut self, interrupted: Interrupted<P>) {
        for (arrival, packet) in interrupted.on_wire {
            self.wire.push(arrival, packet);
        }
        for packet in interrupted.waiting {
            self.queue.restore(packet);
        }
        if let Some(rate) = interrupted.serializer {
            self.serializer = Serializer::Rate(rate);
        }
    }

    /// Returns whether nothing is queued and nothing is in the delay line.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_backlogged() && self.wire.len() == 0
    }

    pub(super) fn enqueue(
        &mut self,
        now: Nanos,
        packet: P,
        discarded: &mut Discarded<P>,
    ) -> Result<(), DropReason> {
        self.counters.offered_packets += 1;
        if !self.is_up {
            return Err(DropReason::LinkDown);
        }
        if self.loses_next_at(LossPlace::Ingress) {
            return Err(DropReason::Loss);
        }
        if !self.is_backlogged() {
            self.ready = now;
        }
        let wire_bytes = packet.ip_bytes().saturating_add(self.overhead_bytes);
        let packet = Queued {
            packet,
            wire_bytes,
            since: now,
        };
        self.queue
            .enqueue(packet, &mut self.generators.queue, discarded)
    }

    fn loses_next_at(&mut self, place: LossPlace) -> bool {
        self.direction.loss_at == place && self.loss.loses_next(&mut self.generators.loss)
    }

    pub(super) fn is_backlogged(&self) -> bool {
        self.queue.packets() > 0
    }

    /// Returns when the next packet starts if the serializer is free from `free` on. `None` if
    /// nothing is queued.
    pub(super) fn next_start(&self, free: Nanos) -> Option<Nanos> {
        self.is_backlogged()
            .then(|| self.serializer.earliest_start(free.max(self.ready)))
    }

    /// Takes the next packet from the queue at `start`. Returns `None` if the queue dropped all its
    /// packets.
    pub(super) fn start_next(
        &mut self,
        start: Nanos,
        discarded: &mut Discarded<P>,
    ) -> Option<Started<P>> {
        let Queued {
            packet, wire_bytes, ..
        } = self.dequeue(start, discarded)?;
        let finish = self.serializer.transmit(start, wire_bytes);
        let lost = if self.loses_next_at(LossPlace::Egress) {
            Some(packet)
        } else {
            self.put_on_wire(finish, packet);
            None
        };
        Some(Started {
            finish,
            wire_bytes,
            lost,
        })
    }

    /// Takes the next packet from the queue at `now`. Returns `None` if there is none, or the queue
    /// dropped all its packets.
    pub(super) fn dequeue(
        &mut self,
        now: Nanos,
        discarded: &mut Discarded<P>,
    ) -> Option<Queued<P>> {
        self.queue.dequeue(now, discarded)
    }

    /// Sends a packet whose last bit has left at `finish` to the far end.
    pub(super) fn put_on_wire(&mut self, finish: Nanos, packet: P) {
        let jitter = match self.direction.jitter_ns {
            0 => 0,
            bound => self.generators.jitter.below(bound),
        };
        let arrival = finish
            .saturating_add(self.direction.delay_ns)
            .saturating_add(jitter);
        if self.direction.reorder {
            self.wire.push_overtaking(arrival, packet);
        } else {
            self.wire.push(arrival, packet);
        }
    }

    pub(super) fn reconfigure(
        &mut self,
        now: Nanos,
        direction: &Direction,
        medium: Option<MediumParameters>,
        discarded: &mut Discarded<P>,
    ) {
        if direction.rate_bps != self.direction.rate_bps || direction.trace != self.direction.trace
        {
            self.serializer = Serializer::new(direction, medium.and_then(|medium| medium.rate_bps));
        }
        if direction.loss != self.direction.loss {
            self.loss = LossProcess::new(&direction.loss);
        }
        let service = Service {
            rate_bps: self.serializer.mean_rate_bps(),
        };
        queue::reconfigure(&mut self.queue, &direction.queue, service, discarded);
        self.overhead_bytes =
            medium.map_or(direction.overhead_bytes, |medium| medium.overhead_bytes);
        // A packet that waited for an opportunity of the old trace cannot start in the past.
        self.ready = now;
        self.direction = direction.clone();
    }

    pub(super) fn set_up(&mut self, up: bool, discarded: &mut Discarded<P>) {
        self.is_up = up;
        if up {
            return;
        }
        let on_wire = std::iter::from_fn(|| self.wire.pop()).map(|(_, packet)| packet);
        discarded.extend(on_wire.map(|packet| (packet, DropReason::LinkDown)));
        let waiting = queue::drain(self.queue.as_mut()).into_iter();
        discarded.extend(waiting.map(|queued| (queued.packet, DropReason::LinkDown)));
        self.wire.forget_order();
    }

    pub(super) fn may_reorder(&self) -> bool {
        self.direction.reorder
    }

    pub(super) fn queue_packets(&self) -> u64 {
        self.queue.packets()
    }

    pub(super) fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }
}
