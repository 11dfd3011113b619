//! Grants: one direction of a device, served in transmission time intervals (TTI).

use experiment::resolved;
use experiment::resolved::Direction;
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::capacity::Capacity;
use super::harq::Harq;
use crate::link::requests::Requests;
use crate::link::stations::Stations;
use crate::link::{AccessCounters, DropReason, Packet, StationId};

/// The packet in service, of which a part may have been sent.
#[derive(Clone, Copy)]
struct Served {
    wire_bytes: u32,
    unsent_bytes: u64,
}

/// One direction of a device.
pub(super) struct Lane {
    station: StationId,
    tti: Nanos,
    capacity: Capacity,
    harq: Harq,
    /// Requests for grants, in the uplink.
    requests: Option<Requests>,
    /// The packet of which a part has been sent.
    partial: Option<Served>,
    /// From when on packets that wait may be served. `None` if none has asked.
    granted_from: Option<Nanos>,
    /// The end of the last TTI that was used.
    free: Nanos,
    /// TTIs that carried something.
    ttis: u64,
    /// Packets sent, and those of them whose block was sent again.
    sent_packets: u64,
    retried_packets: u64,
}

impl Lane {
    pub(super) fn new(
        cell: &resolved::Cellular,
        direction: &Direction,
        station: StationId,
        is_uplink: bool,
        seed: u64,
        generator: impl Fn(&str) -> Generator,
    ) -> Self {
        let requests = is_uplink.then(|| Requests::new(cell.requests, generator("requests")));
        Self {
            station,
            tti: cell.tti_ns,
            harq: Harq::new(cell.harq, generator("harq")),
            capacity: Capacity::new(cell, direction, seed, generator),
            requests,
            partial: None,
            granted_from: None,
            free: 0,
            ttis: 0,
            sent_packets: 0,
            retried_packets: 0,
        }
    }

    pub(super) fn is_uplink(&self) -> bool {
        self.requests.is_some()
    }

    pub(super) fn reconfigure(&mut self, direction: &Direction) {
        self.capacity.reconfigure(direction);
    }

    /// Lowers the rate to a share in millionths, or returns to the whole.
    pub(super) fn set_rate_share(&mut self, ppm: Option<u32>) {
        self.capacity.set_rate_share(ppm);
    }

    /// Returns whether a packet waits, or a part of one.
    pub(super) fn is_backlogged<P: Packet>(&self, stations: &Stations<P>) -> bool {
        self.partial.is_some() || stations.get(self.station).is_backlogged()
    }

    /// Returns the number of packets of which a part has been sent.
    pub(super) fn held_packets(&self) -> u64 {
        u64::from(self.partial.is_some())
    }

    /// Returns the counters of the direction, without those of the device.
    pub(super) fn counters(&self) -> AccessCounters {
        AccessCounters {
            air_time: self.ttis * self.tti,
            exchanges: self.ttis,
            aggregated_packets: self.sent_packets,
            retried_packets: self.retried_packets,
            held_packets: self.held_packets(),
            ..AccessCounters::default()
        }
    }

    /// Returns whether packets wait that have not asked for service.
    pub(super) fn must_ask<P: Packet>(&self, stations: &Stations<P>) -> bool {
        self.granted_from.is_none() && self.is_backlogged(stations)
    }

    /// Asks for service at `now`. A device that must connect first gets its grant with that. What
    /// arrives at the beginning of a TTI is too late for it.
    pub(super) fn ask(&mut self, now: Nanos, is_connected: bool) {
        let granted_from = match &self.requests {
            Some(requests) if is_connected => requests.granted_from(now),
            _ => now.saturating_add(1),
        };
        self.granted_from = Some(granted_from);
    }

    /// Returns the next TTI in which packets are sent, if the device can send and receive from
    /// `ready` on.
    pub(super) fn next_tti(&self, ready: Nanos) -> Option<Nanos> {
        let from = self.granted_from?.max(ready).max(self.free);
        // One TTI ends where the next one begins.
        let begin = match from == self.free {
            true => from,
            false => from.div_ceil(self.tti).saturating_mul(self.tti),
        };
        Some(self.capacity.next_tti(begin))
    }

    /// Sends in the TTI at `at` what fits. A packet leaves with its last byte.
    pub(super) fn serve<P: Packet>(&mut self, at: Nanos, stations: &mut Stations<P>) {
        self.free = at.saturating_add(self.tti);
        let mut bytes = self.capacity.grant(at);
        if bytes > 0 {
            self.ttis += 1;
            let repeats = self.harq.repeats;
            let release = self.harq.release(self.free);
            let sent_before = self.sent_packets;
            while bytes > 0
                && let Some(served) = self.serve_next(at, stations)
            {
                bytes = self.send(at, served, bytes, release, stations);
            }
            stations.record_sent(self.station);
            self.retried_packets +=
                (self.harq.repeats - repeats) * (self.sent_packets - sent_before);
        }
        if !self.is_backlogged(stations) {
            self.granted_from = None;
        }
    }

    fn serve_next<P: Packet>(&mut self, at: Nanos, stations: &mut Stations<P>) -> Option<Served> {
        self.partial.take().or_else(|| {
            let wire_bytes = stations.serve_next(at, self.station)?.wire_bytes;
            Some(Served {
                wire_bytes,
                unsent_bytes: u64::from(wire_bytes),
            })
        })
    }

    /// Sends the packet in service, or as much of it as `bytes` allows. Returns the bytes that are
    /// left.
    fn send<P: Packet>(
        &mut self,
        at: Nanos,
        mut served: Served,
        bytes: u64,
        release: Nanos,
        stations: &mut Stations<P>,
    ) -> u64 {
        if served.unsent_bytes > bytes {
            served.unsent_bytes -= bytes;
            self.partial = Some(served);
            return 0;
        }
        self.sent_packets += 1;
        stations.send(self.station, served.wire_bytes, at, release);
        bytes - served.unsent_bytes
    }

    /// Continues in another cell. What waits has its grant with the handover.
    pub(super) fn hand_over<P: Packet>(
        &mut self,
        now: Nanos,
        lose_queue: bool,
        stations: &mut Stations<P>,
    ) {
        self.capacity.redraw();
        if lose_queue && !self.is_uplink() {
            self.abort(now, stations);
            stations.flush(now, self.station);
        }
        self.granted_from = self.is_backlogged(stations).then_some(now);
    }

    /// Drops the packet of which a part has been sent.
    pub(super) fn abort<P: Packet>(&mut self, now: Nanos, stations: &mut Stations<P>) {
        if self.partial.take().is_some() {
            stations.drop_served(self.station, now, DropReason::LinkDown);
        }
        self.granted_from = None;
    }
}
