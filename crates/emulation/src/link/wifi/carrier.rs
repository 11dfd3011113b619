//! The air as the carrier of a channel.

use experiment::resolved::{Direction, InvalidDirection};
use experiment::time::Nanos;

use super::WifiAir;
use crate::link::carrier::{Carrier, Disturbance};
use crate::link::stations::Stations;
use crate::link::{AccessCounters, DropReason, Packet, StationGenerators, StationId};

impl<P: Packet> Carrier<P> for WifiAir<P> {
    fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        self.stations.add(direction, generators)
    }

    fn stations(&self) -> &Stations<P> {
        &self.stations
    }

    fn stations_mut(&mut self) -> &mut Stations<P> {
        &mut self.stations
    }

    fn has_room(&self, station: StationId) -> bool {
        let lane = &self.lanes[station.index()];
        let stations = self.stations.as_slice();
        let queued = || {
            let lanes = self.lanes.iter().zip(stations);
            let of_ap = lanes.filter(|(lane, _)| !lane.is_uplink);
            of_ap.map(|(_, station)| station.queue_packets()).sum()
        };
        lane.is_uplink || self.access_point.has_room(queued)
    }

    fn record_arrival(&mut self, now: Nanos, station: StationId) -> bool {
        if self.next.is_none() {
            self.catch_up(now);
        }
        let lane = &self.lanes[station.index()];
        let (contender, client, is_uplink) = (lane.contender, lane.client, lane.is_uplink);
        let of = &mut self.clients[client];
        of.presence.record_arrival(now, is_uplink);
        let at = if is_uplink {
            Some(of.presence.next(now, true))
        } else {
            let category = of.category;
            self.access_point.record_arrival(client);
            self.refill(now);
            self.next_receiver(now, category)
        };
        let has_changed = self.set_ready(now, contender, at);
        if has_changed {
            self.plan();
        }
        has_changed
    }

    fn advance(&mut self, now: Nanos) {
        self.clock = self.clock.max(now);
        loop {
            if let Some(on_air) = &self.on_air {
                if on_air.finish > now {
                    return;
                }
                self.finish();
            }
            match self.next {
                Some(start) if start <= now => {
                    self.begin(start);
                    self.plan();
                }
                _ => return,
            }
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        match &self.on_air {
            Some(on_air) if !on_air.drops.is_empty() => Some(on_air.finish),
            _ => self.next,
        }
    }

    fn first_start(&self) -> Option<Nanos> {
        self.next
    }

    fn next_change(&self) -> Option<Nanos> {
        self.on_air
            .as_ref()
            .map(|on_air| on_air.finish)
            .or(self.next)
    }

    fn held_packets(&self, station: StationId) -> u64 {
        let index = station.index();
        let lane = &self.lanes[index];
        let in_ring = match lane.is_uplink {
            true => 0,
            false => self.access_point.packets(lane.client),
        };
        let drops = self.on_air.iter().flat_map(|on_air| &on_air.drops);
        let doomed = drops.filter(|(lane, ..)| *lane == index).count() as u64;
        lane.window.packets() + in_ring + doomed
    }

    fn last_with_room(&self, station: StationId) -> Option<Nanos> {
        self.lanes[station.index()].last_with_room
    }

    fn access_counters(&self, station: StationId) -> Option<AccessCounters> {
        let lane = &self.lanes[station.index()];
        let counters = lane.counters;
        let presence = &self.clients[lane.client].presence;
        Some(AccessCounters {
            held_packets: self.held_packets(station),
            radio_state: presence.state(self.clock) as u8,
            ..counters
        })
    }

    fn abort(&mut self, now: Nanos, station: StationId) {
        let index = station.index();
        let lane = &mut self.lanes[index];
        let (client, contender, is_uplink) = (lane.client, lane.contender, lane.is_uplink);
        lane.window.clear();
        if !is_uplink {
            self.access_point.clear(client);
        }
        if let Some(on_air) = self.on_air.take_if(|on_air| on_air.lane == index) {
            self.contention.release(now);
            self.txop = None;
            for (lane, packet, reason) in on_air.drops {
                let station = StationId(lane as u32);
                let reason = if lane == index {
                    DropReason::LinkDown
                } else {
                    reason
                };
                self.stations.report_drop(station, packet, now, reason);
            }
        }
        self.stations
            .drop_served(station, now, DropReason::LinkDown);
        if is_uplink {
            self.contention.clear_ready(contender);
        } else {
            self.update_ready(now, contender);
        }
        self.plan();
    }

    fn disturb(&mut self, now: Nanos, station: StationId, disturbance: Disturbance) {
        match disturbance {
            Disturbance::Roam { gap } => self.roam(now, station, gap),
            Disturbance::Signal { mean_mdb } => {
                let client = self.lanes[station.index()].client;
                self.clients[client].signal.set_mean(mean_mdb);
            }
            Disturbance::Handover { .. } => {}
        }
    }
}

impl<P: Packet> WifiAir<P> {
    /// Moves a station, which leaves at the old access point what is queued for it there.
    fn roam(&mut self, now: Nanos, station: StationId, gap: Nanos) {
        let pair = [station.index(), station.index() + 1];
        let downlink = pair.into_iter().find(|lane| !self.lanes[*lane].is_uplink);
        let downlink = downlink.expect("one of both directions leads to the station");
        self.abort(now, StationId(downlink as u32));
        self.stations.flush(now, StationId(downlink as u32));
        self.lanes[downlink].counters.handovers += 1;
        let client = self.lanes[downlink].client;
        self.clients[client].presence.roam(now, gap);
        for lane in pair {
            self.update_ready(now, self.lanes[lane].contender);
        }
        self.plan();
    }
}
