//! The link of a cable modem (DOCSIS): the network grants the uplink, and sends the downlink at
//! once.

use experiment::resolved::{self, Direction, HopDirection, InvalidDirection};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::carrier::Carrier;
use super::requests::Requests;
use super::station::{Started, StationGenerators};
use super::stations::Stations;
use super::{AccessCounters, DropReason, Packet, StationId};

/// The carrier of a link between a cable modem and the network.
pub(super) struct Cable<P> {
    stations: Stations<P>,
    uplink: HopDirection,
    requests: Requests,
    /// From when on packets of the uplink may be sent. `None` if none has asked for a grant.
    granted_from: Option<Nanos>,
    lanes: Vec<Lane>,
}

/// One direction.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// The end of the last service.
    free: Nanos,
    air_time: Nanos,
    sent_packets: u64,
}

impl<P: Packet> Cable<P> {
    pub(super) fn new(parameters: &resolved::Cable, seed: u64) -> Self {
        let label = format!("requests/{}", parameters.link);
        Self {
            stations: Stations::new(None),
            uplink: parameters.uplink,
            requests: Requests::new(parameters.requests, Generator::new(seed, &label)),
            granted_from: None,
            lanes: Vec::new(),
        }
    }

    fn is_uplink(&self, lane: usize) -> bool {
        HopDirection::BOTH[lane] == self.uplink
    }

    /// Returns when the next packet of a lane starts.
    fn next_start_of(&self, lane: usize) -> Option<Nanos> {
        let granted_from = if self.is_uplink(lane) {
            self.granted_from?
        } else {
            0
        };
        let free = self.lanes[lane].free.max(granted_from);
        self.stations.as_slice()[lane].next_start(free)
    }

    fn next_start(&self) -> Option<(Nanos, usize)> {
        let lanes = 0..self.lanes.len();
        lanes
            .filter_map(|lane| Some((self.next_start_of(lane)?, lane)))
            .min()
    }

    /// Sends the next packet of a lane at `start`.
    fn send(&mut self, start: Nanos, index: usize) {
        let station = StationId(index as u32);
        if let Some(Started {
            finish,
            wire_bytes,
            lost,
        }) = self.stations.start_next(start, station)
        {
            let lane = &mut self.lanes[index];
            lane.free = finish;
            lane.air_time += finish - start;
            lane.sent_packets += 1;
            self.stations.count_sent(station, wire_bytes);
            if let Some(packet) = lost {
                self.stations
                    .report_drop(station, packet, start, DropReason::Loss);
            }
        }
        // While packets wait, requests travel with the data.
        if self.is_uplink(index) && !self.stations.get(station).is_backlogged() {
            self.granted_from = None;
        }
    }
}

impl<P: Packet> Carrier<P> for Cable<P> {
    fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        let station = self.stations.add(direction, generators)?;
        self.lanes.push(Lane::default());
        Ok(station)
    }

    fn stations(&self) -> &Stations<P> {
        &self.stations
    }

    fn stations_mut(&mut self) -> &mut Stations<P> {
        &mut self.stations
    }

    fn record_arrival(&mut self, now: Nanos, station: StationId) -> bool {
        if self.is_uplink(station.index()) && self.granted_from.is_none() {
            self.granted_from = Some(self.requests.granted_from(now));
        }
        self.stations.get(station).queue_packets() == 1
    }

    fn advance(&mut self, now: Nanos) {
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

    fn access_counters(&self, station: StationId) -> Option<AccessCounters> {
        let lane = &self.lanes[station.index()];
        Some(AccessCounters {
            air_time: lane.air_time,
            exchanges: lane.sent_packets,
            aggregated_packets: lane.sent_packets,
            ..AccessCounters::default()
        })
    }

    fn abort(&mut self, now: Nanos, station: StationId) {
        let index = station.index();
        self.lanes[index].free = self.lanes[index].free.min(now);
        if self.is_uplink(index) {
            self.granted_from = None;
        }
    }
}
