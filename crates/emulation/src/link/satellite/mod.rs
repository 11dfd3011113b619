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
use super::queue::Queued;
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
    /// Time between two frames, in the uplink.
    frame: Option<Nanos>,
    /// The end of the last service.
    free: Nanos,
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
            frame: (side == parameters.uplink).then_some(parameters.uplink_frame_ns),
            free: 0,
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

    /// Returns when the frame begins that carries a packet whose last bit is ready at `finish`.
    fn sent(&self, finish: Nanos) -> Nanos {
        match self.frame {
            Some(frame) if frame > 0 => finish.div_ceil(frame).saturating_mul(frame),
            _ => finish,
        }
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

    /// Returns when the next packet of a lane starts, unless a stall holds it.
    fn next_start_of(&self, lane: usize) -> Option<Nanos> {
        self.stations.as_slice()[lane].next_start(self.lanes[lane].free)
    }

    fn next_start(&self) -> Option<(Nanos, usize)> {
        let lanes = 0..self.lanes.len();
        lanes
            .filter_map(|lane| Some((self.next_start_of(lane)?, lane)))
            .min()
    }

    /// Sends the next packet of a lane at `start`, or after the stall at that time.
    fn send(&mut self, start: Nanos, lane: usize) {
        let slot = self.slots.at(start);
        if slot.served_from > start {
            self.lanes[lane].free = slot.served_from;
            return;
        }
        let station = StationId(lane as u32);
        let Some(Queued {
            packet, wire_bytes, ..
        }) = self.stations.dequeue(start, station)
        else {
            return;
        };
        let lane = &mut self.lanes[lane];
        let finish = lane.finish(start, wire_bytes, slot.factor);
        lane.free = finish;
        lane.air_time += finish - start;
        lane.sent_packets += 1;
        if lane.losses.hits(start, finish) {
            self.stations.count_sent(station, wire_bytes);
            self.stations
                .report_drop(station, packet, start, DropReason::Loss);
            return;
        }
        let sent = lane.sent(finish).saturating_add(slot.delay);
        self.stations
            .transmit(station, packet, wire_bytes, start, sent);
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
        while let Some((start, lane)) = self.next_start().filter(|(start, _)| *start <= now) {
            self.send(start, lane);
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.stations
            .next_arrival_to_decide(|lane| self.next_start_of(lane))
    }

    fn first_start(&self) -> Option<Nanos> {
        self.next_start().map(|(start, _)| start)
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
