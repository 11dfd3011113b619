//! The radio link of one cellular device: queues of its own, grants, HARQ, states of the radio,
//! handovers.
//!
//! Nothing is lost on the air: failed blocks are sent again, and later ones wait for them. Several
//! flows of a device share it, and other devices do not.

mod capacity;
mod gaps;
mod grants;
mod harq;
mod rrc;

use experiment::resolved::{self, Direction, HopDirection, InvalidDirection};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::carrier::{Carrier, Disturbance};
use super::station::StationGenerators;
use super::stations::Stations;
use super::{AccessCounters, Packet, StationId};
use gaps::{Gap, GapProcess};
use grants::Lane;
use rrc::{Rrc, State};

/// The carrier of a link between a cellular device and the network.
pub(super) struct Cellular<P> {
    parameters: resolved::Cellular,
    seed: u64,
    stations: Stations<P>,
    lanes: Vec<Lane>,
    rrc: Rrc,
    handovers: Option<GapProcess>,
    leg_changes: Option<GapProcess>,
    /// Whether the device has no leg of 5G now, which it has at other times.
    is_without_nr: bool,
    /// The end of the last gap in service.
    served_from: Nanos,
    handed_over: u64,
    /// The next TTI in which packets are sent, and its lane. [`Nanos::MAX`] is never.
    next_tti: (Nanos, usize),
    /// The time of the last call.
    now: Nanos,
}

impl<P: Packet> Cellular<P> {
    pub(super) fn new(parameters: &resolved::Cellular, seed: u64) -> Self {
        let link = &parameters.link;
        let generator = |purpose| Generator::new(seed, &format!("{purpose}/{link}"));
        let process = |gaps, purpose| GapProcess::new(gaps, generator(purpose));
        let handovers = parameters.handovers;
        let nr_leg = parameters.nr_leg;
        Self {
            rrc: Rrc::new(parameters.rrc, generator("rrc")),
            handovers: handovers.map(|handovers| process(handovers.gaps, "handover")),
            leg_changes: nr_leg.map(|leg| process(leg.gaps, "nr_leg")),
            is_without_nr: false,
            parameters: parameters.clone(),
            seed,
            stations: Stations::new(None),
            lanes: Vec::new(),
            served_from: 0,
            handed_over: 0,
            next_tti: (Nanos::MAX, 0),
            now: 0,
        }
    }

    fn add_lane(&mut self, station: StationId, direction: &Direction) {
        let side = HopDirection::BOTH[station.index()];
        let (parameters, seed) = (&self.parameters, self.seed);
        let (link, name) = (&parameters.link, side.name());
        let generator = |purpose: &str| Generator::new(seed, &format!("{purpose}/{link}/{name}"));
        let is_uplink = side == parameters.uplink;
        let lane = Lane::new(parameters, direction, station, is_uplink, seed, generator);
        self.lanes.push(lane);
    }

    /// Returns from when on the device can send and receive.
    fn ready(&self) -> Nanos {
        self.served_from.max(self.rrc.active_from())
    }

    /// Looks for the next TTI in which packets are sent.
    fn look_for_tti(&mut self) {
        let ready = self.ready();
        self.next_tti = (Nanos::MAX, 0);
        for (index, lane) in self.lanes.iter().enumerate() {
            if let Some(at) = lane.next_tti(ready)
                && at < self.next_tti.0
            {
                self.next_tti = (at, index);
            }
        }
    }

    /// Does all that happens up to `now` with the packets that have asked for service.
    fn serve_until(&mut self, now: Nanos) {
        loop {
            let (at, lane) = self.next_tti;
            if !self.changes(at.min(now)) {
                if at > now || at == Nanos::MAX {
                    return;
                }
                self.serve(at, lane);
            }
            self.look_for_tti();
        }
    }

    /// Does the first handover or change of legs up to `until`. Returns whether there was one.
    fn changes(&mut self, until: Nanos) -> bool {
        let begin = |process: &Option<GapProcess>| {
            let process = process.as_ref();
            process.map_or(Nanos::MAX, GapProcess::next_begin)
        };
        let [handover, leg_change] = [begin(&self.handovers), begin(&self.leg_changes)];
        if handover.min(leg_change) > until {
            return false;
        }
        if leg_change < handover {
            let gap = self.leg_changes.as_mut().map(GapProcess::take);
            gap.into_iter().for_each(|gap| self.change_legs(gap));
        } else {
            let forward_queue = self.parameters.handovers.is_none_or(|it| it.forward_queue);
            let gap = self.handovers.as_mut().map(GapProcess::take);
            gap.into_iter()
                .for_each(|gap| self.hand_over(gap, forward_queue));
        }
        true
    }

    fn serve(&mut self, at: Nanos, lane: usize) {
        self.lanes[lane].serve(at, &mut self.stations);
        self.rrc
            .record_data(at.saturating_add(self.parameters.tti_ns));
    }

    /// Asks for service for packets that came to an empty queue. Returns whether there are any.
    fn ask(&mut self, now: Nanos) -> bool {
        let mut has_asked = false;
        for lane in &mut self.lanes {
            if lane.must_ask(&self.stations) {
                let is_connected = self.rrc.state(now).is_connected();
                self.rrc.wake(now, lane.is_uplink());
                lane.ask(now, is_connected);
                has_asked = true;
            }
        }
        has_asked
    }

    /// Moves the device to another cell, unless it is idle and only listens to another.
    fn hand_over(&mut self, gap: Gap, forward_queue: bool) {
        if !self.rrc.state(gap.begin).is_connected() {
            return;
        }
        self.handed_over += 1;
        let end = gap.begin.saturating_add(gap.length);
        self.served_from = self.served_from.max(end);
        self.rrc.record_data(self.served_from);
        for lane in &mut self.lanes {
            lane.hand_over(gap.begin, !forward_queue, &mut self.stations);
        }
    }

    /// Adds or releases the leg of 5G. An idle device does so without a gap.
    fn change_legs(&mut self, gap: Gap) {
        self.is_without_nr = !self.is_without_nr;
        let without_ppm = self.parameters.nr_leg.map(|leg| leg.rate_without_ppm);
        let rate_ppm = without_ppm.filter(|_| self.is_without_nr);
        for lane in &mut self.lanes {
            lane.set_rate_share(rate_ppm);
        }
        self.hand_over(gap, true);
    }
}

impl<P: Packet> Carrier<P> for Cellular<P> {
    fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        let station = self.stations.add(direction, generators)?;
        self.add_lane(station, direction);
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
        self.serve_until(now);
        if self.ask(now) {
            self.look_for_tti();
            self.serve_until(now);
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let ready = self.ready();
        self.stations
            .next_arrival_to_decide(|lane| self.lanes[lane].next_tti(ready))
    }

    fn first_start(&self) -> Option<Nanos> {
        let (at, _) = self.next_tti;
        (at < Nanos::MAX).then_some(at)
    }

    fn next_change(&self) -> Option<Nanos> {
        let processes = [&self.handovers, &self.leg_changes].into_iter().flatten();
        let gaps = processes.map(GapProcess::next_begin);
        gaps.chain(self.first_start()).min()
    }

    fn held_packets(&self, station: StationId) -> u64 {
        self.lanes[station.index()].held_packets()
    }

    /// Returns the counters of a direction. The states of the radio are 0, active; 1, discontinuous
    /// reception; 2, idle; 3, between two cells; 4, active without the leg of 5G that it has at
    /// other times; 5, asking for a connection.
    fn access_counters(&self, station: StationId) -> Option<AccessCounters> {
        let radio_state = match self.rrc.state(self.now) {
            _ if self.now < self.served_from => 3,
            State::Active if self.is_without_nr => 4,
            State::Active => 0,
            State::Drx => 1,
            State::Idle => 2,
            State::Promotion => 5,
        };
        Some(AccessCounters {
            radio_state,
            handovers: self.handed_over,
            ..self.lanes[station.index()].counters()
        })
    }

    fn reconfigure(&mut self, now: Nanos, station: StationId, direction: &Direction) {
        self.stations.reconfigure(now, station, direction);
        self.lanes[station.index()].reconfigure(direction);
        self.look_for_tti();
    }

    fn abort(&mut self, now: Nanos, station: StationId) {
        self.lanes[station.index()].abort(now, &mut self.stations);
        self.look_for_tti();
    }

    fn disturb(&mut self, now: Nanos, _station: StationId, disturbance: Disturbance) {
        if let Disturbance::Handover { gap, forward_queue } = disturbance {
            let gap = Gap {
                begin: now,
                length: gap,
            };
            self.hand_over(gap, forward_queue);
            self.look_for_tti();
        }
    }
}
