//! What carries the packets of a channel: the part that decides which packet goes when.

use experiment::resolved::{Action, Direction, InvalidDirection};
use experiment::time::Nanos;

use super::computed::{ComputedFifo, FixedRate, Gauges};
use super::stations::Stations;
use super::{AccessCounters, Enqueued, Output, Packet, StationGenerators, StationId};

/// What an event does to the station of an access network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A cellular device moves to another cell.
    Handover {
        /// How long the link carries nothing.
        gap: Nanos,
        /// Whether the queue of the old cell is forwarded. Otherwise it is lost.
        forward_queue: bool,
    },
    /// A Wi-Fi station moves to another access point.
    Roam {
        /// How long the station sends and receives nothing.
        gap: Nanos,
    },
    /// A Wi-Fi station gets another mean signal.
    Signal {
        /// The signal-to-noise ratio in thousandths of a dB.
        mean_mdb: i64,
    },
}

impl Disturbance {
    /// Returns what an action makes of its link, if it is one for access networks.
    pub fn of(action: &Action) -> Option<Self> {
        match *action {
            Action::Handover {
                gap_ns: gap,
                forward_queue,
                ..
            } => Some(Self::Handover { gap, forward_queue }),
            Action::Roam { gap_ns: gap, .. } => Some(Self::Roam { gap }),
            Action::SetSignal { mean_mdb, .. } => Some(Self::Signal { mean_mdb }),
            _ => None,
        }
    }
}

/// Serves the stations of a channel in virtual time.
///
/// Time is lazy: [`Self::advance`] does all that happens up to an instant, at the instants at which
/// it happens, no matter when it is called. All randomness comes from generators of the carrier's
/// own, so that the same packets at the same instants have the same fate.
pub(super) trait Carrier<P: Packet>: Send {
    /// Adds a station, up and empty.
    ///
    /// # Errors
    /// Fails if a value of `direction` is outside its range.
    fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection>;

    /// Offers a packet to the queue of a station.
    fn enqueue(&mut self, now: Nanos, station: StationId, packet: P) -> Enqueued {
        self.enqueue_stepwise(now, station, packet)
    }

    /// Offers a packet to the queue of a station whose packets are not computed ahead.
    #[inline]
    fn enqueue_stepwise(&mut self, now: Nanos, station: StationId, packet: P) -> Enqueued {
        self.advance_unless_quiet(now);
        if !self.has_room(station) {
            return self.stations_mut().refuse(station);
        }
        let outcome = self.stations_mut().enqueue(now, station, packet);
        if outcome == Enqueued::Queued && self.record_arrival(now, station) {
            self.advance_and_look_ahead(now);
        }
        outcome
    }

    /// Returns the next packet that was delivered or dropped up to `now`, in order of time.
    fn poll(&mut self, now: Nanos) -> Option<Output<P>> {
        self.poll_stepwise(now)
    }

    /// Returns the next packet that left up to `now` if none is computed ahead.
    #[inline]
    fn poll_stepwise(&mut self, now: Nanos) -> Option<Output<P>> {
        self.advance_unless_quiet(now);
        self.stations_mut().poll(now)
    }

    /// Returns the next instant at which [`Self::poll`] must be called. `None` if no call is needed
    /// before the next input.
    fn next_departure(&self) -> Option<Nanos> {
        self.next_departure_stepwise()
    }

    /// Returns the next instant at which [`Self::poll`] must be called if no packet is computed
    /// ahead.
    #[inline]
    fn next_departure_stepwise(&self) -> Option<Nanos> {
        let stations = self.stations();
        let first = earlier(stations.first_drop(), stations.next_arrival());
        earlier(first, self.next_wakeup())
    }

    /// Brings the carrier to `now`, unless nothing has happened since the last time.
    fn advance_unless_quiet(&mut self, now: Nanos) {
        if now >= self.stations().quiet_until {
            self.advance_and_look_ahead(now);
        }
    }

    /// Brings the carrier to `now`, and looks until when nothing happens.
    fn advance_and_look_ahead(&mut self, now: Nanos) {
        self.advance(now);
        self.stations_mut().quiet_until = self.next_change().unwrap_or(Nanos::MAX);
    }

    /// Returns the stations.
    fn stations(&self) -> &Stations<P>;

    /// Returns the stations.
    fn stations_mut(&mut self) -> &mut Stations<P>;

    /// Returns whether a packet may enter the queue of a station, which may refuse it all the same.
    fn has_room(&self, _station: StationId) -> bool {
        true
    }

    /// Records that a packet has entered the queue of a station at `now`. Returns whether something
    /// may happen earlier because of it. Then [`Self::advance`] follows.
    fn record_arrival(&mut self, _now: Nanos, station: StationId) -> bool {
        self.stations().get(station).queue_packets() == 1
    }

    /// Does all that happens up to `now`, which never decreases.
    fn advance(&mut self, now: Nanos);

    /// Returns when something happens next if no packet arrives before. `None` if nothing does.
    fn next_change(&self) -> Option<Nanos> {
        self.first_start()
    }

    /// Returns when [`Self::advance`] must be called even if no packet arrives before, because it
    /// may decide something that the outside sees. `None` means not before the next input.
    fn next_wakeup(&self) -> Option<Nanos>;

    /// Returns when the next queued packet starts, at any station. `None` if none is queued.
    fn first_start(&self) -> Option<Nanos>;

    /// Returns the number of packets of a station that have left its queue, are not on its wire and
    /// were not dropped yet.
    fn held_packets(&self, _station: StationId) -> u64 {
        0
    }

    /// Returns when the last transmission of a station began, if more packets would have joined it
    /// had they waited. `None` for carriers whose transmissions hold one packet each.
    fn last_with_room(&self, _station: StationId) -> Option<Nanos> {
        None
    }

    /// Returns the counters of a station of an access network. `None` for other channels.
    fn access_counters(&self, _station: StationId) -> Option<AccessCounters> {
        None
    }

    /// Gives a station new values at `now`.
    fn reconfigure(&mut self, now: Nanos, station: StationId, direction: &Direction) {
        self.stations_mut().reconfigure(now, station, direction);
    }

    /// Drops at `now` what the carrier holds of a station whose link is cut. The station itself
    /// drops what is queued or on the wire.
    fn abort(&mut self, now: Nanos, station: StationId);

    /// Does at `now` what an event makes of a station. Carriers ignore disturbances of other media.
    fn disturb(&mut self, _now: Nanos, _station: StationId, _disturbance: Disturbance) {}

    /// Returns what is known of a station whose packets the carrier computes when they are offered.
    fn computed(&self, _station: StationId) -> Option<&dyn Gauges> {
        None
    }

    /// Lets all packets that are computed ahead continue step by step, as of the last call.
    fn go_stepwise(&mut self) {}

    /// Returns a replacement if the link is simple enough and empty.
    fn as_fixed_rate(&mut self, _now: Nanos) -> Option<ComputedFifo<P, FixedRate>> {
        None
    }

    /// Continues where the replacement stopped that [`Self::as_fixed_rate`] returned.
    fn take_over(&mut self, _fifo: ComputedFifo<P, FixedRate>) {
        unreachable!("the carrier has no replacement");
    }
}

/// Returns the earlier of two, where `None` is never.
#[inline]
pub(super) fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
