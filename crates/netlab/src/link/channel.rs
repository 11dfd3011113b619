//! A channel: one serializer and the stations that share it.

use super::fixed_rate::FixedRateFifo;
use super::station::StationGenerators;
use super::stepwise::Stepwise;
use super::{Counters, DropReason, Packet};
use crate::resolved::{Direction, InvalidDirection};
use crate::time::Nanos;

/// A station of the channel that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StationId(pub(super) u32);

impl StationId {
    /// Its place among the stations of its channel, in the order in which they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What became of a packet given to [`Channel::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Enqueued {
    /// It was accepted; [`Channel::poll`] gives it back some time, delivered or dropped.
    Queued,
    /// It is gone.
    Dropped(DropReason),
}

/// What comes out of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// A packet arrived at the far end.
    Delivered {
        /// Where it was enqueued.
        station: StationId,
        /// The packet.
        packet: P,
        /// When it arrived.
        at: Nanos,
    },
    /// A packet that had been accepted was dropped.
    Dropped {
        /// Where it was enqueued.
        station: StationId,
        /// The packet.
        packet: P,
        /// When it was dropped.
        at: Nanos,
        /// Why.
        reason: DropReason,
    },
}

impl<P> Output<P> {
    pub(super) fn at(&self) -> Nanos {
        match self {
            Self::Delivered { at, .. } | Self::Dropped { at, .. } => *at,
        }
    }
}

/// One serializer, shared packet by packet in round robin by its stations.
///
/// A direction of a point-to-point link is a channel with one station; a medium has a station for each direction of each of its links.
/// Time is virtual and lazy: each call first brings the channel to its `now`, which must not go back between calls.
/// A packet starts at the very instant at which the serializer is free, whenever the channel is called.
pub struct Channel<P> {
    /// What carries the packets of a link that is simple enough. It takes over when nothing is under way, and gives all that is
    /// under way back before anything about the link changes.
    fixed_rate: Option<FixedRateFifo<P>>,
    stepwise: Box<Stepwise<P>>,
}

impl<P: Packet> Channel<P> {
    /// A channel whose stations each have their own rate and overhead.
    pub fn point_to_point() -> Self {
        Self::of(Stepwise::new(None))
    }

    /// A medium. Its overhead replaces that of its stations; its rate in bit/s, if there is one, replaces theirs.
    ///
    /// # Errors
    /// A rate of 0, an overhead beyond 65535 bytes.
    pub fn medium(rate_bps: Option<u64>, overhead_bytes: u32) -> Result<Self, InvalidDirection> {
        Ok(Self::of(Stepwise::medium(rate_bps, overhead_bytes)?))
    }

    fn of(stepwise: Stepwise<P>) -> Self {
        Self {
            fixed_rate: None,
            stepwise: Box::new(stepwise),
        }
    }

    /// Adds a station, up and empty.
    ///
    /// # Errors
    /// A direction with a value outside its range.
    pub fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        self.go_stepwise();
        self.stepwise.add_station(direction, generators)
    }

    /// Offers a packet to a station's queue.
    pub fn enqueue(&mut self, now: Nanos, station: StationId, packet: P) -> Enqueued {
        if self.fixed_rate.is_none() {
            self.fixed_rate = self.stepwise.as_fixed_rate(now);
        }
        match &mut self.fixed_rate {
            Some(fifo) => fifo.enqueue(now, packet),
            None => self.stepwise.enqueue(now, station, packet),
        }
    }

    /// The next instant at which [`Self::poll`] must be called; it may then also return nothing.
    /// `None`: not before the next input. An instant in the past, possible after other calls than `poll`, means at once.
    pub fn next_departure(&self) -> Option<Nanos> {
        match &self.fixed_rate {
            Some(fifo) => fifo.next_arrival(),
            None => self.stepwise.next_departure(),
        }
    }

    /// Whether the next departure stays as it is when a packet is offered: this one comes after others.
    pub fn is_settled(&self) -> bool {
        self.fixed_rate
            .as_ref()
            .is_some_and(|fifo| !fifo.is_empty())
    }

    /// The next packet that arrived or was dropped up to `now`, in the order of these instants. Call until `None`.
    pub fn poll(&mut self, now: Nanos) -> Option<Output<P>> {
        let Some(fifo) = &mut self.fixed_rate else {
            return self.stepwise.poll(now);
        };
        let (at, packet) = fifo.poll(now)?;
        Some(Output::Delivered {
            station: StationId(0),
            packet,
            at,
        })
    }

    /// Gives a station new values. What is in service or on the wire goes on as it began; what waits stays, except
    /// what exceeds a smaller limit. The state of a loss model or of a queue discipline of unchanged kind is kept.
    ///
    /// # Errors
    /// A direction with a value outside its range; then nothing has changed.
    pub fn reconfigure(
        &mut self,
        now: Nanos,
        station: StationId,
        direction: &Direction,
    ) -> Result<(), InvalidDirection> {
        self.advance(now);
        self.go_stepwise();
        self.stepwise.reconfigure(now, station, direction)
    }

    /// Cuts a station's link or mends it. A cut drops what is queued, in service and on the wire, and all that is offered later.
    pub fn set_up(&mut self, now: Nanos, station: StationId, up: bool) {
        self.advance(now);
        self.go_stepwise();
        self.stepwise.set_up(now, station, up);
    }

    /// Lets everything happen step by step, from the instant to which the channel was brought.
    fn go_stepwise(&mut self) {
        if let Some(fifo) = self.fixed_rate.take() {
            self.stepwise.take_over(fifo);
        }
    }

    /// Back to time 0: empty, all stations up with their first values, counters at 0, generators at their start.
    pub fn reset(&mut self) {
        self.fixed_rate = None;
        self.stepwise.reset();
    }

    /// Brings counters and gauges to `now`; needed before they are read, as time does not pass by itself.
    pub fn advance(&mut self, now: Nanos) {
        match &mut self.fixed_rate {
            Some(fifo) => fifo.advance(now),
            None => self.stepwise.advance(now),
        }
    }

    /// Counters of a station.
    pub fn counters(&self, station: StationId) -> Counters {
        let mut counters = self.stepwise.counters(station).clone();
        if let Some(fifo) = &self.fixed_rate {
            fifo.add_to(&mut counters);
        }
        counters
    }

    /// Bytes, overhead counted, that wait at a station.
    pub fn queue_bytes(&self, station: StationId) -> u64 {
        match &self.fixed_rate {
            Some(fifo) => fifo.queue_bytes(),
            None => self.stepwise.queue_bytes(station),
        }
    }

    /// Packets that wait at a station.
    pub fn queue_packets(&self, station: StationId) -> u64 {
        match &self.fixed_rate {
            Some(fifo) => fifo.queue_packets(),
            None => self.stepwise.queue_packets(station),
        }
    }

    /// When the next packet that waits at a station may start, unless another station of the channel is served first; `None` if
    /// none waits.
    pub fn next_start(&self, station: StationId) -> Option<Nanos> {
        let starts = || match &self.fixed_rate {
            Some(fifo) => fifo.next_start(),
            None => self.stepwise.first_start(),
        };
        (self.queue_packets(station) > 0).then(starts).flatten()
    }

    /// Packets of a station in service or on the wire.
    pub fn in_flight(&self, station: StationId) -> u64 {
        match &self.fixed_rate {
            Some(fifo) => fifo.in_flight(),
            None => self.stepwise.in_flight(station),
        }
    }
}
