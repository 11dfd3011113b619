//! The access point: packets that its driver has taken from the queues of the stations, and whose
//! turn it is.

use std::collections::VecDeque;

use experiment::resolved::{AccessCategory, ApFq, ApQueue};
use experiment::time::{NANOS_PER_SECOND, Nanos};

use crate::link::pipe::Sizes;

/// Number of access categories.
pub(super) const CATEGORIES: usize = 4;

pub(super) struct AccessPoint {
    queue: ApQueue,
    stations: Vec<Ring>,
    /// Turns of the stations of each category.
    turns: [Turns; CATEGORIES],
    /// With one queue for all stations: the station of each packet in it, in order of arrival.
    order: VecDeque<u32>,
}

/// Packets for one station that the driver has taken from its queue.
struct Ring {
    category: usize,
    packets: VecDeque<Sizes>,
    bytes: u64,
    /// Air time that the station may still have in this round.
    deficit_ns: i64,
    is_listed: bool,
}

/// Stations with packets. Those that just began go first.
#[derive(Default)]
struct Turns {
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

/// What the driver holds for a station beside its ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Rate at which the station is expected to get its packets.
    pub(super) bps: u64,
}

impl AccessPoint {
    pub(super) fn new(queue: ApQueue, categories: impl Iterator<Item = AccessCategory>) -> Self {
        let ring = |category| Ring {
            category: category as usize,
            packets: VecDeque::new(),
            bytes: 0,
            deficit_ns: 0,
            is_listed: false,
        };
        Self {
            queue,
            stations: categories.map(ring).collect(),
            turns: Default::default(),
            order: VecDeque::new(),
        }
    }

    /// Returns whether the air time of what the driver holds is limited, not the number of packets.
    pub(super) fn is_by_air_time(&self) -> bool {
        matches!(self.queue, ApQueue::Fq(_))
    }

    /// Returns whether the queue takes another packet while it has `queued_packets` in all.
    pub(super) fn has_room(&self, queued_packets: impl FnOnce() -> u64) -> bool {
        match &self.queue {
            ApQueue::Fifo(fifo) => queued_packets() < fifo.limit_packets,
            ApQueue::Fq(_) => true,
        }
    }

    pub(super) fn record_arrival(&mut self, station: usize) {
        if matches!(self.queue, ApQueue::Fifo(_)) {
            self.order.push_back(station as u32);
        }
        self.list(station);
    }

    /// Takes packets from the queues as far as the driver has room. `pending` tells what the driver
    /// holds of a station beside the ring, `serve_next` takes a packet from its queue.
    pub(super) fn refill(
        &mut self,
        pending: &[Pending],
        mut serve_next: impl FnMut(usize) -> Option<Sizes>,
    ) {
        match self.queue {
            ApQueue::Fifo(fifo) => {
                let held = self.stations.iter().zip(pending);
                let mut held: u64 = held
                    .map(|(ring, pending)| ring.packets.len() as u64 + pending.packets)
                    .sum();
                while held < fifo.driver_packets
                    && let Some(station) = self.order.pop_front()
                {
                    if let Some(packet) = serve_next(station as usize) {
                        self.push(station as usize, packet);
                        held += 1;
                    }
                }
            }
            ApQueue::Fq(fq) => self.refill_by_air_time(&fq, pending, serve_next),
        }
    }

    fn refill_by_air_time(
        &mut self,
        fq: &ApFq,
        pending: &[Pending],
        mut serve_next: impl FnMut(usize) -> Option<Sizes>,
    ) {
        let air_time = |ring: &Ring, pending: &Pending| {
            (ring.bytes + pending.bytes) * 8 * NANOS_PER_SECOND / pending.bps
        };
        let rings = self.stations.iter().zip(pending);
        let mut total: Nanos = rings.map(|(ring, pending)| air_time(ring, pending)).sum();
        for (station, pending) in pending.iter().enumerate() {
            loop {
                let of_station = air_time(&self.stations[station], pending);
                let is_high = total < fq.aql_threshold_ns;
                let limit = if is_high {
                    fq.aql_high_ns
                } else {
                    fq.aql_low_ns
                };
                if of_station >= limit {
                    break;
                }
                let Some(packet) = serve_next(station) else {
                    break;
                };
                self.push(station, packet);
                total += air_time(&self.stations[station], pending) - of_station;
            }
        }
    }

    fn push(&mut self, station: usize, packet: Sizes) {
        let ring = &mut self.stations[station];
        ring.bytes += u64::from(packet.ip_bytes);
        ring.packets.push_back(packet);
        self.list(station);
    }

    /// Removes and returns the next packet of a ring.
    pub(super) fn pop(&mut self, station: usize) -> Option<Sizes> {
        let ring = &mut self.stations[station];
        let packet = ring.packets.pop_front()?;
        ring.bytes -= u64::from(packet.ip_bytes);
        Some(packet)
    }

    /// Returns the number of packets in the ring of a station.
    pub(super) fn packets(&self, station: usize) -> u64 {
        self.stations[station].packets.len() as u64
    }

    /// Gives a station its turns, if it has none.
    pub(super) fn list(&mut self, station: usize) {
        let ring = &mut self.stations[station];
        if !ring.is_listed {
            ring.is_listed = true;
            self.turns[ring.category].new.push_back(station);
        }
    }

    /// Returns the station whose turn it is in a category. `can_send` tells whether a station has
    /// packets and can receive them; stations without lose their turns.
    pub(super) fn turn(
        &mut self,
        category: usize,
        can_send: impl Fn(&Self, usize) -> bool,
    ) -> Option<usize> {
        loop {
            let turns = &self.turns[category];
            let is_new = !turns.new.is_empty();
            let station = *turns.new.front().or(turns.old.front())?;
            if !can_send(self, station) {
                self.end_turn(category, is_new, false);
            } else if let ApQueue::Fq(fq) = self.queue
                && self.stations[station].deficit_ns < 0
            {
                self.stations[station].deficit_ns += fq.quantum_ns as i64;
                self.end_turn(category, is_new, true);
            } else {
                if matches!(self.queue, ApQueue::Fifo(_)) {
                    self.end_turn(category, is_new, true);
                }
                return Some(station);
            }
        }
    }

    fn end_turn(&mut self, category: usize, was_new: bool, stays: bool) {
        let turns = &mut self.turns[category];
        let list = if was_new {
            &mut turns.new
        } else {
            &mut turns.old
        };
        let Some(station) = list.pop_front() else {
            return;
        };
        self.stations[station].is_listed = stays;
        if stays {
            turns.old.push_back(station);
        }
    }

    /// Charges a station for air time that it has had, in either direction.
    pub(super) fn charge(&mut self, station: usize, air_time: Nanos) {
        self.stations[station].deficit_ns -= air_time as i64;
    }

    /// Removes all packets of a station.
    pub(super) fn clear(&mut self, station: usize) {
        self.order.retain(|one| *one as usize != station);
        let ring = &mut self.stations[station];
        ring.bytes = 0;
        ring.packets.clear();
    }
}
