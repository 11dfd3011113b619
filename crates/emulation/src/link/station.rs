//! A station: one direction of one link, with everything that it does not share.

use experiment::resolved::{self, Direction, InvalidDirection, LossPlace};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::computed::{Admission, FixedRate, Interrupted};
use super::counters::Counters;
use super::loss::LossProcess;
use super::pipe::{Pipe, Sizes};
use super::queue::{Discarded, Limit, Queued, Service};
use super::serializer::{RateSerializer, Serializer};
use super::trace::{self, Variation};
use super::wire_size::WireSize;
use super::{DropReason, Packet};

/// The random generators of one station, one for each use.
#[derive(Clone, Debug)]
pub struct StationGenerators {
    seed: u64,
    loss: Generator,
    loss_of_trace: Generator,
    jitter: Generator,
    queue: Generator,
}

impl StationGenerators {
    /// Returns the generators of the run with `seed` for the link direction named by `label`, such
    /// as "wifi/forward".
    pub fn new(seed: u64, label: &str) -> Self {
        let generator = |purpose| Generator::new(seed, &format!("{purpose}/{label}"));
        Self {
            seed,
            loss: generator("loss"),
            loss_of_trace: generator("trace/loss"),
            jitter: generator("jitter"),
            queue: generator("queue"),
        }
    }
}

pub(super) struct Station<P> {
    direction: Direction,
    wire_size: WireSize,
    generators: StationGenerators,
    loss: LossProcess,
    /// Delay and loss over time.
    variation: Option<Variation>,
    /// From when on the first packet of the queue could start if the serializer were free.
    ready: Nanos,
    serializer: Serializer,
    /// Whether every packet arrives, and always after the same delay.
    has_plain_wire: bool,
    pub(super) pipe: Pipe<P>,
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

impl MediumParameters {
    /// Returns the values of a medium.
    ///
    /// # Errors
    /// Fails if the rate is 0 or the overhead exceeds 65535 bytes.
    pub(super) fn new(
        rate_bps: Option<u64>,
        overhead_bytes: u32,
    ) -> Result<Self, InvalidDirection> {
        resolved::validate_rate(rate_bps)?;
        resolved::validate_overhead(overhead_bytes)?;
        Ok(Self {
            rate_bps,
            overhead_bytes,
        })
    }
}

impl<P: Packet> Station<P> {
    pub(super) fn new(
        direction: &Direction,
        medium: Option<MediumParameters>,
        generators: StationGenerators,
    ) -> Self {
        let (serializer, variation) = paced(direction, medium, &generators);
        let service = Service {
            rate_bps: serializer.mean_rate_bps(),
        };
        Self {
            direction: direction.clone(),
            wire_size: wire_size(direction, medium),
            generators,
            loss: LossProcess::new(&direction.loss),
            variation,
            ready: 0,
            has_plain_wire: has_plain_wire(direction),
            serializer,
            pipe: Pipe::new(&direction.queue, service),
            counters: Counters::default(),
            is_up: true,
        }
    }

    /// Returns how the direction sends packets if the fate of a packet does not depend on anything
    /// that happens after it is offered.
    pub(super) fn fixed_rate(&self) -> Option<(FixedRate, Admission)> {
        let queue = &self.direction.queue;
        let is_plain = self.has_plain_wire && matches!(queue, resolved::Queue::DropTail(_));
        let serializer = match &self.serializer {
            Serializer::Infinite => None,
            Serializer::Rate(rate) => Some(*rate),
            Serializer::Trace(_) => return None,
        };
        let rate = FixedRate {
            serializer,
            delay: self.direction.delay_ns,
        };
        let admission = Admission {
            wire_size: self.wire_size,
            limit: Limit::new(queue),
        };
        (self.is_up && is_plain).then_some((rate, admission))
    }

    /// Takes over the packets on the wire and in the queue of a link that was interrupted. Those
    /// that are lost stay behind.
    pub(super) fn take_over<S>(&mut self, interrupted: &mut Interrupted<P, S>) {
        for (arrival, packet) in interrupted.on_wire.drain(..) {
            self.pipe.serve(packet);
            self.pipe.send(arrival);
        }
        if let Some(first) = interrupted.waiting.first() {
            self.ready = first.since;
        }
        for packet in interrupted.waiting.drain(..) {
            self.pipe.restore(packet);
        }
    }

    /// Continues with the rounding of a serializer.
    pub(super) fn set_rate(&mut self, rate: RateSerializer) {
        self.serializer = Serializer::Rate(rate);
    }

    /// Returns whether nothing is queued and nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_backlogged() && self.pipe.in_flight() == 0
    }

    #[inline]
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
        if !self.has_plain_wire && self.loses_next_at(LossPlace::Ingress, now) {
            return Err(DropReason::Loss);
        }
        if !self.is_backlogged() {
            self.ready = now;
            self.serializer.record_arrival(now);
        }
        let wire_bytes = self.wire_size.of(&packet);
        let packet = Queued {
            packet,
            wire_bytes,
            since: now,
        };
        self.pipe
            .enqueue(packet, &mut self.generators.queue, discarded)
    }

    /// Returns whether the next packet, which reaches `place` at `now`, is lost there.
    fn loses_next_at(&mut self, place: LossPlace, now: Nanos) -> bool {
        if self.direction.loss_at != place {
            return false;
        }
        let is_lost = self.loss.loses_next(&mut self.generators.loss);
        let loss_of_trace = self.variation.as_ref().map_or(0.0, |trace| trace.loss(now));
        is_lost || (loss_of_trace > 0.0 && self.generators.loss_of_trace.chance(loss_of_trace))
    }

    #[inline]
    pub(super) fn is_backlogged(&self) -> bool {
        self.pipe.waiting_packets() > 0
    }

    /// Returns when the next packet starts if the serializer is free from `free` on. `None` if
    /// nothing is queued.
    #[inline]
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
        let wire_bytes = self.pipe.serve_next(start, discarded)?.wire_bytes;
        let finish = self.serializer.transmit(start, wire_bytes);
        let lost = self.send(finish);
        Some(Started {
            finish,
            wire_bytes,
            lost,
        })
    }

    /// Puts the next packet of the queue into service at `now`. Returns its sizes, or `None` if
    /// there is none, or the queue dropped all its packets.
    #[inline]
    pub(super) fn serve_next(&mut self, now: Nanos, discarded: &mut Discarded<P>) -> Option<Sizes> {
        self.pipe.serve_next(now, discarded)
    }

    /// Sends the first packet in service, whose last bit has left at `finish`, to the far end, or
    /// returns it if the loss model loses it.
    #[inline]
    pub(super) fn send(&mut self, finish: Nanos) -> Option<P> {
        if self.has_plain_wire {
            self.pipe
                .send(finish.saturating_add(self.direction.delay_ns));
            return None;
        }
        self.send_over_rough_wire(finish)
    }

    fn send_over_rough_wire(&mut self, finish: Nanos) -> Option<P> {
        if self.loses_next_at(LossPlace::Egress, finish) {
            return self.pipe.take_served();
        }
        let jitter = match self.direction.jitter_ns {
            0 => 0,
            bound => self.generators.jitter.below(bound),
        };
        let of_trace = self.variation.as_ref();
        let arrival = finish
            .saturating_add(self.direction.delay_ns)
            .saturating_add(of_trace.map_or(0, |trace| trace.delay_ns(finish)))
            .saturating_add(jitter);
        if self.direction.reorder {
            self.pipe.send_overtaking(arrival);
        } else {
            self.pipe.send(arrival);
        }
        None
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
            (self.serializer, self.variation) = paced(direction, medium, &self.generators);
        }
        if direction.loss != self.direction.loss {
            self.loss = LossProcess::new(&direction.loss);
        }
        let service = Service {
            rate_bps: self.serializer.mean_rate_bps(),
        };
        self.pipe.reconfigure(&direction.queue, service, discarded);
        self.wire_size = wire_size(direction, medium);
        self.has_plain_wire = has_plain_wire(direction);
        // A packet that waited for an opportunity of the old trace cannot start in the past.
        self.ready = now;
        self.direction = direction.clone();
    }

    pub(super) fn set_up(&mut self, now: Nanos, up: bool, discarded: &mut Discarded<P>) {
        self.is_up = up;
        if up {
            return;
        }
        let on_wire = self.pipe.cut(now);
        discarded.extend(on_wire.map(|packet| (packet, DropReason::LinkDown)));
        self.flush(discarded);
    }

    /// Drops all packets of the queue, as with a link that is down.
    pub(super) fn flush(&mut self, discarded: &mut Discarded<P>) {
        let waiting = self.pipe.drain().into_iter();
        discarded.extend(waiting.map(|queued| (queued.packet, DropReason::LinkDown)));
    }

    pub(super) fn may_reorder(&self) -> bool {
        self.direction.reorder
    }

    pub(super) fn queue_packets(&self) -> u64 {
        self.pipe.waiting_packets()
    }

    pub(super) fn queue_bytes(&self) -> u64 {
        self.pipe.waiting_bytes()
    }
}

/// Returns the serializer of a direction, and how its delay and loss vary.
fn paced(
    direction: &Direction,
    medium: Option<MediumParameters>,
    generators: &StationGenerators,
) -> (Serializer, Option<Variation>) {
    let trace = direction.trace.as_ref();
    let start_ns = trace.map_or(0, |trace| trace::start_ns(trace, generators.seed));
    let rate_bps = medium.and_then(|medium| medium.rate_bps);
    (
        Serializer::new(direction, rate_bps, start_ns),
        trace.and_then(|trace| Variation::new(trace, start_ns)),
    )
}

/// Returns whether every packet of a direction arrives, and always after the same delay.
fn has_plain_wire(direction: &Direction) -> bool {
    matches!(direction.loss, resolved::Loss::None {})
        && direction.trace.is_none()
        && direction.jitter_ns == 0
        && !direction.reorder
}

fn wire_size(direction: &Direction, medium: Option<MediumParameters>) -> WireSize {
    match medium {
        Some(medium) => WireSize::plain(medium.overhead_bytes),
        None => WireSize::of_direction(direction),
    }
}
