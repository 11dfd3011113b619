//! The link of one dish to satellites in low Earth orbit.
//!
//! Delay and rate are those of a slot. All dishes of a run change slots at the same instants, so
//! that two such paths fail together. A stall at the beginning of a slot holds packets, and losses
//! have durations.

mod loss;
mod slots;

use experiment::resolved::{self, Direction, HopDirection, InvalidDirection};
use experiment::rng::Generator;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::carrier::Carrier;
use super::fading::Fading;
use super::station::StationGenerators;
use super::stations::Stations;
use super::{AccessCounters, DropReason, Packet, StationId};
use loss::LossInTime;
use slots::Slots;

/// The rate within a slot is drawn anew this often.
const STEP: Nanos = 100_000_000;

/// The carrier of a link between a dish and the network.
pub(super) struct Leo<P> {
    parameters: resolved::Leo,
    seed: u64,
    stations: Stations<P>,
    lanes: Vec<Lane>,
    slots: Slots,
    /// The time of the last call.
    now: Nanos,
}

/// One direction.
struct Lane {
    rate_bps: u64,
    fading: Option<Fading>,
    losses: LossInTime,
    frames: Option<Frames>,
    /// The end of the last service.
    free: Nanos,
    /// When the next packet starts, unless a stall holds it, as of the last call to `advance`.
    /// [`Nanos::MAX`] is never.
    next_start: Nanos,
    /// Time in which packets were sent, and their number.
    air_time: Nanos,
    sent_packets: u64,
}

impl Lane {
    fn new(
        parameters: &resolved::Leo,
        direction: &Direction,
        side: HopDirection,
        seed: u64,
    ) -> Self {
        let (link, name) = (&parameters.link, side.name());
        let generator = |purpose| Generator::new(seed, &format!("{purpose}/{link}/{name}"));
        Self {
            rate_bps: direction.rate_bps.unwrap_or(1),
            fading: Fading::of_satellite(&parameters.fade, STEP, generator("fade")),
            losses: LossInTime::new(&parameters.loss, generator("loss_in_time")),
            frames: Frames::new(parameters).filter(|_| side == parameters.uplink),
            free: 0,
            next_start: Nanos::MAX,
            air_time: 0,
            sent_packets: 0,
        }
    }

    /// Returns when a packet has left that starts at `start`, if the slot changes the rate by
    /// `factor`.
    fn finish(&mut self, start: Nanos, wire_bytes: u32, factor: f64) -> Nanos {
        let fading = self.fading.as_mut().map_or(1.0, |one| one.factor(start));
        let bits = f64::from(wire_bytes) * 8.0;
        let duration = bits * NANOS_PER_SECOND as f64 / (self.rate_bps as f64 * factor * fading);
        start.saturating_add(duration as Nanos)
    }

    /// Returns when a packet is sent whose last bit is ready at `finish`.
    fn sent(&mut self, finish: Nanos) -> Nanos {
        let frames = self.frames.as_mut();
        frames.map_or(finish, |frames| frames.first_from(finish))
    }
}

/// The frames of the uplink. What is ready when one begins is sent in it.
struct Frames {
    interval: Nanos,
    /// When the frame begins of the last call.
    begin: Nanos,
}

impl Frames {
    /// Returns the frames of a link. `None` if it sends at any time.
    fn new(parameters: &resolved::Leo) -> Option<Self> {
        let interval = parameters.uplink_frame_ns;
        (interval > 0).then_some(Self { interval, begin: 0 })
    }

    /// Returns when the first frame begins at or after `now`.
    fn first_from(&mut self, now: Nanos) -> Nanos {
        let is_same = now <= self.begin && self.begin - now < self.interval;
        if !is_same {
            self.begin = now.div_ceil(self.interval).saturating_mul(self.interval);
        }
        self.begin
    }
}

impl<P: Packet> Leo<P> {
    pub(super) fn new(parameters: &resolved::Leo, seed: u64) -> Self {
        Self {
            parameters: parameters.clone(),
            seed,
            stations: Stations::new(None),
            lanes: Vec::new(),
            slots: Slots::new(parameters, seed),
            now: 0,
        }
    }

    /// Looks when the next packet of a lane starts.
    fn look_at(&mut self, lane: usize) {
        let free = self.lanes[lane].free;
        let start = self.stations.as_slice()[lane].next_start(free);
        self.lanes[lane].next_start = start.unwrap_or(Nanos::MAX);
    }

    /// Returns the next start and its lane. At a tie the first lane goes first.
    fn next_start(&self) -> (Nanos, usize) {
        let mut first = (Nanos::MAX, 0);
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.next_start < first.0 {
                first = (lane.next_start, index);
            }
        }
        first
    }

    /// Sends the next packet of a lane at `start`, or after the stall at that time.
    fn send(&mut self, start: Nanos, lane: usize) {
        let slot = self.slots.at(start);
        if slot.served_from > start {
            self.lanes[lane].free = slot.served_from;
            return;
        }
        let station = StationId(lane as u32);
        let Some(wire_bytes) = self.stations.serve_next(start, station) else {
            return;
        };
        let lane = &mut self.lanes[lane];
        let finish = lane.finish(start, wire_bytes, slot.factor);
        lane.free = finish;
        lane.air_time += finish - start;
        lane.sent_packets += 1;
        if lane.losses.hits(start, finish) {
            self.stations.count_sent(station, wire_bytes);
            self.stations.drop_served(station, start, DropReason::Loss);
            return;
        }
        let sent = lane.sent(finish).saturating_add(slot.delay);
        self.stations.send(station, wire_bytes, start, sent);
    }
}

impl<P: Packet> Carrier<P> for Leo<P> {
    fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        let station = self.stations.add(direction, generators)?;
        let side = HopDirection::BOTH[station.index()];
        let lane = Lane::new(&self.parameters, direction, side, self.seed);
        self.lanes.push(lane);
        Ok(station)
    }

    fn stations(&self) -> &Stations<P> {
        &self.stations
    }

    fn stations_mut(&mut self) -> &mut Stations<P> {
        &mut self.stations
    }

    fn advance(&mut self, now: Nanos) {
        self.now = now;
        (0..self.lanes.len()).for_each(|lane| self.look_at(lane));
        loop {
            let (start, lane) = self.next_start();
            if start > now || start == Nanos::MAX {
                return;
            }
            self.send(start, lane);
            self.look_at(lane);
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.stations
            .next_arrival_to_decide(|lane| instant(self.lanes[lane].next_start))
    }

    fn first_start(&self) -> Option<Nanos> {
        instant(self.next_start().0)
    }

    /// Returns the counters of a direction. The states of the radio are 0, in service, and 1, in a
    /// stall.
    fn access_counters(&self, station: StationId) -> Option<AccessCounters> {
        let lane = &self.lanes[station.index()];
        Some(AccessCounters {
            air_time: lane.air_time,
            exchanges: lane.sent_packets,
            aggregated_packets: lane.sent_packets,
            radio_state: u8::from(self.slots.is_stalled(self.now)),
            handovers: self.slots.begun(self.now),
            ..AccessCounters::default()
        })
    }

    fn reconfigure(&mut self, now: Nanos, station: StationId, direction: &Direction) {
        self.stations.reconfigure(now, station, direction);
        self.lanes[station.index()].rate_bps = direction.rate_bps.unwrap_or(1);
    }

    fn abort(&mut self, now: Nanos, station: StationId) {
        let lane = &mut self.lanes[station.index()];
        lane.free = lane.free.min(now);
    }
}

/// Returns an instant, or `None` if it is never.
fn instant(at: Nanos) -> Option<Nanos> {
    (at < Nanos::MAX).then_some(at)
}
