//! A channel: one serializer and the stations that share it.

use experiment::resolved::{Access, Direction, InvalidDirection};
use experiment::time::Nanos;

use super::cable::Cable;
use super::carrier::{Carrier, Disturbance};
use super::cellular::Cellular;
use super::computed::{ComputedFifo, FixedRate, Gauges};
use super::satellite::Leo;
use super::station::{MediumParameters, StationGenerators};
use super::turns::Turns;
use super::wifi::WifiAir;
use super::{AccessCounters, Counters, DropReason, Packet};

/// Identifies a station within the channel that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StationId(pub(super) u32);

impl StationId {
    /// Returns the index of the station in its channel, in the order in which stations were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The fate of a packet given to [`Channel::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Enqueued {
    /// The packet was accepted. [`Channel::poll`] later returns it, delivered or dropped.
    Queued,
    /// The packet was dropped at once.
    Dropped(DropReason),
}

/// What [`Channel::poll`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// A packet arrived at the far end.
    Delivered {
        /// The station at which the packet was enqueued.
        station: StationId,
        /// The packet.
        packet: P,
        /// When the packet arrived.
        at: Nanos,
    },
    /// A packet was dropped after it had been accepted.
    Dropped {
        /// The station at which the packet was enqueued.
        station: StationId,
        /// The packet.
        packet: P,
        /// When the packet was dropped.
        at: Nanos,
        /// Why the packet was dropped.
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

/// A carrier of packets, which its stations share: a serializer, packet by packet in round robin,
/// or an access network.
///
/// A direction of a point-to-point link is a channel with one station. A medium or an access
/// network has a station for each direction of each of its links. Time is virtual and lazy: each
/// call first brings the channel to its `now`, which must not decrease between calls. A packet
/// starts at the exact instant at which the carrier becomes free, no matter when the channel is
/// called.
pub struct Channel<P> {
    /// Carries the packets while the link is simple enough. It takes over only when the channel is
    /// empty. Before anything about the link changes, it hands all packets back to `carrier`.
    fixed_rate: Option<ComputedFifo<P, FixedRate>>,
    /// Only a point-to-point link may be that simple.
    is_point_to_point: bool,
    carrier: Box<dyn Carrier<P>>,
    /// Returns the carrier at time 0, without stations.
    new_carrier: Box<dyn Fn() -> Box<dyn Carrier<P>> + Send>,
    /// The initial values of each station.
    initial: Vec<(Direction, StationGenerators)>,
}

impl<P: Packet> Channel<P> {
    /// Returns a channel whose stations each have their own rate and overhead.
    pub fn point_to_point() -> Self {
        Self {
            is_point_to_point: true,
            ..Self::of(|| Box::new(Turns::new(None)))
        }
    }

    /// Returns a medium. `overhead_bytes` replaces the overhead of its stations. `rate_bps`, if
    /// any, replaces their rate.
    ///
    /// # Errors
    /// Fails if the rate is 0 or the overhead exceeds 65535 bytes.
    pub fn medium(rate_bps: Option<u64>, overhead_bytes: u32) -> Result<Self, InvalidDirection> {
        let medium = MediumParameters::new(rate_bps, overhead_bytes)?;
        Ok(Self::of(move || Box::new(Turns::new(Some(medium)))))
    }

    /// Returns the channel of an access network for the run with `seed`. Its stations are added
    /// link by link, forward and backward, in the order of the experiment.
    pub fn of_access(access: &Access, seed: u64) -> Self {
        let access = access.clone();
        Self::of(move || match &access {
            Access::Wifi(wifi) => Box::new(WifiAir::new(wifi, seed)),
            Access::Cellular(cellular) => Box::new(Cellular::new(cellular, seed)),
            Access::Leo(leo) => Box::new(Leo::new(leo, seed)),
            Access::Cable(cable) => Box::new(Cable::new(cable, seed)),
        })
    }

    fn of(new_carrier: impl Fn() -> Box<dyn Carrier<P>> + Send + 'static) -> Self {
        Self {
            fixed_rate: None,
            is_point_to_point: false,
            carrier: new_carrier(),
            new_carrier: Box::new(new_carrier),
            initial: Vec::new(),
        }
    }

    /// Adds a station, up and empty.
    ///
    /// # Errors
    /// Fails if a value of `direction` is outside its range.
    pub fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        self.go_stepwise();
        let station = self.carrier.add_station(direction, generators.clone())?;
        self.initial.push((direction.clone(), generators));
        Ok(station)
    }

    /// Offers a packet to the queue of a station.
    #[inline]
    pub fn enqueue(&mut self, now: Nanos, station: StationId, packet: P) -> Enqueued {
        if let Some(fifo) = &mut self.fixed_rate {
            return fifo.enqueue(now, packet);
        }
        if self.is_point_to_point
            && let Some(fifo) = self.carrier.as_fixed_rate(now)
        {
            return self.fixed_rate.insert(fifo).enqueue(now, packet);
        }
        self.carrier.enqueue(now, station, packet)
    }

    /// Offers a packet to the queue of the only station.
    #[inline]
    pub fn enqueue_alone(&mut self, now: Nanos, packet: P) -> Enqueued {
        self.enqueue(now, StationId(0), packet)
    }

    /// Returns the next instant at which [`Self::poll`] must be called. That call may return
    /// nothing.
    ///
    /// `None` means that no call is needed before the next input. An instant in the past means at
    /// once; it can occur after calls other than `poll`.
    pub fn next_departure(&self) -> Option<Nanos> {
        match &self.fixed_rate {
            Some(fifo) => fifo.next_arrival(),
            None => self.carrier.next_departure(),
        }
    }

    /// Returns whether the next departure is unaffected by a packet offered now, because that
    /// packet would leave after others.
    pub fn is_settled(&self) -> bool {
        self.fixed_rate
            .as_ref()
            .is_some_and(|fifo| !fifo.is_empty())
    }

    /// Returns the next packet that was delivered or dropped up to `now`, in order of time. Call
    /// until it returns `None`.
    pub fn poll(&mut self, now: Nanos) -> Option<Output<P>> {
        let Some(fifo) = &mut self.fixed_rate else {
            return self.carrier.poll(now);
        };
        let (at, packet) = fifo.poll(now)?;
        Some(Output::Delivered {
            station: StationId(0),
            packet,
            at,
        })
    }

    /// Returns the next packet that was delivered up to `now`, if the arrival of each packet is
    /// known when it is offered. If this returns `None`, call [`Self::poll`].
    #[inline]
    pub fn poll_computed(&mut self, now: Nanos) -> Option<P> {
        let (_, packet) = self.fixed_rate.as_mut()?.poll(now)?;
        Some(packet)
    }

    /// Gives a station new values. Packets in service or in the delay line finish as they began.
    /// Queued packets stay, except those beyond a smaller limit. The state of a loss model or queue
    /// discipline is kept if its kind is unchanged.
    ///
    /// # Errors
    /// Fails if a value of `direction` is outside its range. Then nothing has changed.
    pub fn reconfigure(
        &mut self,
        now: Nanos,
        station: StationId,
        direction: &Direction,
    ) -> Result<(), InvalidDirection> {
        self.advance(now);
        self.go_stepwise();
        direction.validate()?;
        self.carrier.advance(now);
        self.carrier.reconfigure(now, station, direction);
        self.carrier.advance(now);
        Ok(())
    }

    /// Cuts or restores the link of a station. A cut drops all packets that are queued, in service
    /// or in the delay line, and all packets offered until the link is restored. Packets that have
    /// arrived before `now` and were not polled stay.
    pub fn set_up(&mut self, now: Nanos, station: StationId, up: bool) {
        self.advance(now);
        self.go_stepwise();
        self.carrier.advance(now);
        if !up {
            self.carrier.abort(now, station);
        }
        self.carrier.stations_mut().set_up(now, station, up);
        self.carrier.advance(now);
    }

    /// Does at `now` what an event makes of the link of a station, given by its first station.
    pub fn disturb(&mut self, now: Nanos, station: StationId, disturbance: Disturbance) {
        self.advance(now);
        self.go_stepwise();
        self.carrier.advance(now);
        self.carrier.disturb(now, station, disturbance);
        self.carrier.advance(now);
    }

    /// Switches to the carrier at the current instant of the channel, and lets it look for what
    /// happens next once more, because its caller is about to change it.
    fn go_stepwise(&mut self) {
        self.carrier.stations_mut().quiet_until = 0;
        match self.fixed_rate.take() {
            Some(fifo) => self.carrier.take_over(fifo),
            None => self.carrier.go_stepwise(),
        }
    }

    /// Returns the channel to time 0: empty, all stations up with their initial values, counters at
    /// 0, generators at their start.
    pub fn reset(&mut self) {
        self.fixed_rate = None;
        self.carrier = (self.new_carrier)();
        for (direction, generators) in &self.initial {
            let added = self.carrier.add_station(direction, generators.clone());
            added.expect("it was valid when it was added");
        }
    }

    /// Brings counters and gauges to `now`. Call it before reading them, because time does not pass
    /// by itself.
    pub fn advance(&mut self, now: Nanos) {
        match &mut self.fixed_rate {
            Some(fifo) => fifo.advance(now),
            None => self.carrier.advance(now),
        }
    }

    /// Returns what is known of a station whose packets are computed when they are offered.
    fn computed(&self, station: StationId) -> Option<&dyn Gauges> {
        match &self.fixed_rate {
            Some(fifo) => Some(fifo),
            None => self.carrier.computed(station),
        }
    }

    /// Returns the counters of a station.
    pub fn counters(&self, station: StationId) -> Counters {
        let mut counters = self.carrier.stations().counters(station).clone();
        if let Some(computed) = self.computed(station) {
            computed.add_to(&mut counters);
        }
        counters
    }

    /// Returns when the last transmission of a station began, if more packets would have joined it
    /// had they waited. `None` if transmissions hold one packet each.
    pub fn last_with_room(&self, station: StationId) -> Option<Nanos> {
        self.carrier.last_with_room(station)
    }

    /// Returns the counters of a station of an access network. `None` for other channels.
    pub fn access_counters(&self, station: StationId) -> Option<AccessCounters> {
        self.carrier.access_counters(station)
    }

    /// Returns the bytes queued at a station, overhead included.
    pub fn queue_bytes(&self, station: StationId) -> u64 {
        match self.computed(station) {
            Some(computed) => computed.queue_bytes(),
            None => self.carrier.stations().get(station).queue_bytes(),
        }
    }

    /// Returns the number of packets queued at a station.
    pub fn queue_packets(&self, station: StationId) -> u64 {
        match self.computed(station) {
            Some(computed) => computed.queue_packets(),
            None => self.carrier.stations().get(station).queue_packets(),
        }
    }

    /// Returns when the next packet queued at a station may start, unless the channel serves
    /// another station first. `None` if no packet is queued.
    pub fn next_start(&self, station: StationId) -> Option<Nanos> {
        let starts = || match self.computed(station) {
            Some(computed) => computed.next_start(),
            None => self.carrier.first_start(),
        };
        (self.queue_packets(station) > 0).then(starts).flatten()
    }

    /// Returns the number of packets of a station in service or in the delay line.
    pub fn in_flight(&self, station: StationId) -> u64 {
        match self.computed(station) {
            Some(computed) => computed.in_flight(),
            None => {
                let on_wire = self.carrier.stations().get(station).pipe.in_flight() as u64;
                on_wire + self.carrier.held_packets(station)
            }
        }
    }
}
