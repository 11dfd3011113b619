//! One serializer that its stations share packet by packet, simulated stepwise.

use experiment::resolved::{Direction, InvalidDirection};
use experiment::time::Nanos;

use super::carrier::Carrier;
use super::computed::{ComputedFifo, FixedRate, Gauges as _};
use super::station::{MediumParameters, Started, StationGenerators};
use super::stations::Stations;
use super::{DropReason, Packet, StationId};

/// The carrier of point-to-point links, and of media without a model of their own, unless a
/// [`ComputedFifo`] replaces it.
pub(super) struct Turns<P> {
    stations: Stations<P>,
    in_service: Option<InService<P>>,
    /// From when on the serializer is free: the finish of the packet in service, if there is one.
    free: Nanos,
    /// The station that is served next at a tie.
    turn: usize,
}

struct InService<P> {
    station: StationId,
    wire_bytes: u32,
    lost: Option<P>,
}

impl<P: Packet> Turns<P> {
    pub(super) fn new(medium: Option<MediumParameters>) -> Self {
        Self {
            stations: Stations::new(medium),
            in_service: None,
            free: 0,
            turn: 0,
        }
    }

    /// Returns the first start among all stations. At a tie, the station whose turn is next starts.
    fn next_start(&self) -> Option<(Nanos, StationId)> {
        let stations = self.stations.as_slice();
        if let [only] = stations {
            return only
                .next_start(self.free)
                .map(|start| (start, StationId(0)));
        }
        let in_turn = (self.turn..stations.len()).chain(0..self.turn);
        in_turn
            .filter_map(|index| {
                let start = stations[index].next_start(self.free)?;
                Some((start, StationId(index as u32)))
            })
            .min_by_key(|(start, _)| *start)
    }

    fn start_service(&mut self, start: Nanos, station: StationId) {
        let Some(Started {
            finish,
            wire_bytes,
            lost,
        }) = self.stations.start_next(start, station)
        else {
            return;
        };
        self.in_service = Some(InService {
            station,
            wire_bytes,
            lost,
        });
        self.free = finish;
        self.turn = if station.index() + 1 < self.stations.as_slice().len() {
            station.index() + 1
        } else {
            0
        };
    }

    fn finish_service(&mut self) {
        let Some(InService {
            station,
            wire_bytes,
            lost,
        }) = self.in_service.take()
        else {
            return;
        };
        self.stations.count_sent(station, wire_bytes);
        if let Some(packet) = lost {
            self.stations
                .report_drop(station, packet, self.free, DropReason::Loss);
        }
    }
}

impl<P: Packet> Carrier<P> for Turns<P> {
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

    fn advance(&mut self, now: Nanos) {
        loop {
            if self.in_service.is_some() {
                if self.free > now {
                    return;
                }
                self.finish_service();
            }
            match self.next_start() {
                Some((start, station)) if start <= now => self.start_service(start, station),
                _ => return,
            }
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let stations = self.stations.as_slice();
        match &self.in_service {
            Some(service) if service.lost.is_some() => Some(self.free),
            // A single station that keeps the order delivers nothing before the packets already in
            // its delay line.
            Some(_) if stations.len() == 1 && !stations[0].may_reorder() => None,
            _ => self.first_start(),
        }
    }

    fn first_start(&self) -> Option<Nanos> {
        self.next_start().map(|(start, _)| start)
    }

    fn next_change(&self) -> Option<Nanos> {
        match &self.in_service {
            Some(_) => Some(self.free),
            None => self.first_start(),
        }
    }

    fn held_packets(&self, station: StationId) -> u64 {
        let is_doomed = self
            .in_service
            .as_ref()
            .is_some_and(|service| service.station == station && service.lost.is_some());
        u64::from(is_doomed)
    }

    /// Ends the service of a packet whose link is cut, so that other stations do not wait for it.
    fn abort(&mut self, now: Nanos, station: StationId) {
        if let Some(service) = self
            .in_service
            .take_if(|service| service.station == station)
        {
            self.free = now;
            if let Some(packet) = service.lost {
                self.stations
                    .report_drop(station, packet, now, DropReason::LinkDown);
            }
        }
    }

    fn as_fixed_rate(&mut self, now: Nanos) -> Option<ComputedFifo<P, FixedRate>> {
        let [only] = self.stations.as_slice() else {
            return None;
        };
        let (rate, admission) = only.fixed_rate()?;
        self.advance(now);
        let is_empty = self.in_service.is_none() && self.stations.are_empty();
        is_empty.then(|| ComputedFifo::new(rate, admission, self.free))
    }

    fn take_over(&mut self, fifo: ComputedFifo<P, FixedRate>) {
        let station = self.stations.get_mut(StationId(0));
        fifo.add_to(&mut station.counters);
        let mut interrupted = fifo.interrupt();
        self.free = interrupted.free;
        self.in_service = interrupted
            .wire_bytes_in_service
            .map(|wire_bytes| InService {
                station: StationId(0),
                wire_bytes,
                lost: None,
            });
        station.take_over(&mut interrupted);
        if let Some(rate) = interrupted.service.serializer {
            station.set_rate(rate);
        }
        self.stations.record_sent(StationId(0));
    }
}
