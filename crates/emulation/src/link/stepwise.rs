//! One serializer and its stations, simulated packet by packet, whatever the stations do.

use std::collections::VecDeque;

use experiment::resolved::{self, Direction, InvalidDirection};
use experiment::time::Nanos;

use super::fixed_rate::FixedRateFifo;
use super::queue::Discarded;
use super::station::{MediumParameters, Started, Station, StationGenerators};
use super::{Counters, DropReason, Enqueued, Output, Packet, StationId};

/// The state of a [`Channel`](super::Channel), and its behaviour unless a [`FixedRateFifo`]
/// replaces it.
pub(super) struct Stepwise<P> {
    medium: Option<MediumParameters>,
    stations: Vec<Station<P>>,
    /// The initial values of each station, for `reset`.
    initial: Vec<(Direction, StationGenerators)>,
    in_service: Option<InService<P>>,
    /// From when on the serializer is free: the finish of the packet in service, if there is one.
    free: Nanos,
    /// The station that is served next at a tie.
    turn: usize,
    dropped: VecDeque<Output<P>>,
    /// Buffer for packets that stations drop. Empty between calls.
    discarded: Discarded<P>,
}

struct InService<P> {
    station: StationId,
    wire_bytes: u32,
    lost: Option<P>,
}

impl<P: Packet> Stepwise<P> {
    pub(super) fn medium(
        rate_bps: Option<u64>,
        overhead_bytes: u32,
    ) -> Result<Self, InvalidDirection> {
        resolved::validate_rate(rate_bps)?;
        resolved::validate_overhead(overhead_bytes)?;
        Ok(Self::new(Some(MediumParameters {
            rate_bps,
            overhead_bytes,
        })))
    }

    pub(super) fn new(medium: Option<MediumParameters>) -> Self {
        Self {
            medium,
            stations: Vec::new(),
            initial: Vec::new(),
            in_service: None,
            free: 0,
            turn: 0,
            dropped: VecDeque::new(),
            discarded: Vec::new(),
        }
    }

    pub(super) fn add_station(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        direction.validate()?;
        self.stations
            .push(Station::new(direction, self.medium, generators.clone()));
        self.initial.push((direction.clone(), generators));
        Ok(StationId(self.stations.len() as u32 - 1))
    }

    /// Returns the replacement of this channel if the link is simple enough and empty.
    pub(super) fn as_fixed_rate(&mut self, now: Nanos) -> Option<FixedRateFifo<P>> {
        if self.medium.is_some() || self.stations.len() != 1 {
            return None;
        }
        let fixed_rate = self.stations[0].fixed_rate()?;
        self.advance(now);
        let is_idle = self.in_service.is_none() && self.dropped.is_empty();
        let is_empty = is_idle && self.stations[0].is_empty();
        is_empty.then(|| FixedRateFifo::new(fixed_rate, self.free))
    }

    /// Continues where `fifo` stopped.
    pub(super) fn take_over(&mut self, fifo: FixedRateFifo<P>) {
        let station = &mut self.stations[0];
        fifo.add_to(&mut station.counters);
        let interrupted = fifo.interrupt();
        self.free = interrupted.free;
        self.in_service = interrupted
            .wire_bytes_in_service
            .map(|wire_bytes| InService {
                station: StationId(0),
                wire_bytes,
                lost: None,
            });
        station.take_over(interrupted);
    }

    pub(super) fn enqueue(&mut self, now: Nanos, station: StationId, packet: P) -> Enqueued {
        self.advance(now);
        let outcome = self.stations[station.index()].enqueue(now, packet, &mut self.discarded);
        self.report_discarded(station, now);
        match outcome {
            Ok(()) => {
                self.advance(now);
                Enqueued::Queued
            }
            Err(reason) => {
                self.stations[station.index()].counters.count_drop(reason);
                Enqueued::Dropped(reason)
            }
        }
    }

    pub(super) fn next_departure(&self) -> Option<Nanos> {
        let dropped = self.dropped.front().map(Output::at);
        let arrival = self.next_arrival().map(|(at, _)| at);
        earlier(dropped, earlier(arrival, self.next_service_wakeup()))
    }

    pub(super) fn poll(&mut self, now: Nanos) -> Option<Output<P>> {
        self.advance(now);
        let arrival = self.next_arrival().filter(|(at, _)| *at <= now);
        let dropped = self.dropped.front().map(Output::at).filter(|at| *at <= now);
        match (dropped, arrival) {
            (Some(dropped), Some((at, station))) if at < dropped => self.deliver(station),
            (Some(_), _) => self.dropped.pop_front(),
            (None, Some((_, station))) => self.deliver(station),
            (None, None) => None,
        }
    }

    pub(super) fn reconfigure(
        &mut self,
        now: Nanos,
        station: StationId,
        direction: &Direction,
    ) -> Result<(), InvalidDirection> {
        direction.validate()?;
        self.advance(now);
        self.stations[station.index()].reconfigure(
            now,
            direction,
            self.medium,
            &mut self.discarded,
        );
        self.report_discarded(station, now);
        self.advance(now);
        Ok(())
    }

    pub(super) fn set_up(&mut self, now: Nanos, station: StationId, up: bool) {
        self.advance(now);
        if !up {
            self.abort_service_of(station, now);
        }
        self.stations[station.index()].set_up(up, &mut self.discarded);
        self.report_discarded(station, now);
        self.advance(now);
    }

    pub(super) fn reset(&mut self) {
        let initial = std::mem::take(&mut self.initial);
        *self = Self::new(self.medium);
        for (direction, generators) in initial {
            self.stations
                .push(Station::new(&direction, self.medium, generators.clone()));
            self.initial.push((direction, generators));
        }
    }

    pub(super) fn advance(&mut self, now: Nanos) {
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

    pub(super) fn counters(&self, station: StationId) -> &Counters {
        &self.stations[station.index()].counters
    }

    pub(super) fn queue_bytes(&self, station: StationId) -> u64 {
        self.stations[station.index()].queue_bytes()
    }

    pub(super) fn queue_packets(&self, station: StationId) -> u64 {
        self.stations[station.index()].queue_packets()
    }

    pub(super) fn in_flight(&self, station: StationId) -> u64 {
        let doomed = self
            .in_service
            .as_ref()
            .is_some_and(|service| service.station == station && service.lost.is_some());
        self.stations[station.index()].wire.len() as u64 + u64::from(doomed)
    }

    /// Returns the first start among all stations. At a tie, the station whose turn is next starts.
    fn next_start(&self) -> Option<(Nanos, StationId)> {
        if let [only] = self.stations.as_slice() {
            return only
                .next_start(self.free)
                .map(|start| (start, StationId(0)));
        }
        let count = self.stations.len();
        let in_turn = (self.turn..count).chain(0..self.turn);
        in_turn
            .filter_map(|index| {
                let start = self.stations[index].next_start(self.free)?;
                Some((start, StationId(index as u32)))
            })
            .min_by_key(|(start, _)| *start)
    }

    /// Returns when the next packet starts, at any station.
    pub(super) fn first_start(&self) -> Option<Nanos> {
        self.next_start().map(|(start, _)| start)
    }

    fn start_service(&mut self, start: Nanos, station: StationId) {
        let started = self.stations[station.index()].start_next(start, &mut self.discarded);
        self.report_discarded(station, start);
        let Some(Started {
            finish,
            wire_bytes,
            lost,
        }) = started
        else {
            return;
        };
        self.in_service = Some(InService {
            station,
            wire_bytes,
            lost,
        });
        self.free = finish;
        self.turn = if station.index() + 1 < self.stations.len() {
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
        let counters = &mut self.stations[station.index()].counters;
        counters.wire_packets += 1;
        counters.wire_bytes += u64::from(wire_bytes);
        if let Some(packet) = lost {
            self.report_drop(station, packet, self.free, DropReason::Loss);
        }
    }

    /// Ends the service of a packet whose link is cut, so that other stations do not wait for it.
    fn abort_service_of(&mut self, station: StationId, now: Nanos) {
        if let Some(service) = self
            .in_service
            .take_if(|service| service.station == station)
        {
            self.free = now;
            if let Some(packet) = service.lost {
                self.report_drop(station, packet, now, DropReason::LinkDown);
            }
        }
    }

    fn report_discarded(&mut self, station: StationId, at: Nanos) {
        if self.discarded.is_empty() {
            return;
        }
        for (packet, reason) in std::mem::take(&mut self.discarded) {
            self.report_drop(station, packet, at, reason);
        }
    }

    fn report_drop(&mut self, station: StationId, packet: P, at: Nanos, reason: DropReason) {
        self.stations[station.index()].counters.count_drop(reason);
        self.dropped.push_back(Output::Dropped {
            station,
            packet,
            at,
            reason,
        });
    }

    /// Returns the first arrival among all stations.
    fn next_arrival(&self) -> Option<(Nanos, StationId)> {
        if let [only] = self.stations.as_slice() {
            return only.wire.first_arrival().map(|at| (at, StationId(0)));
        }
        self.stations
            .iter()
            .enumerate()
            .filter_map(|(index, station)| {
                Some((station.wire.first_arrival()?, StationId(index as u32)))
            })
            .min()
    }

    /// Returns when the serializer must be examined even if nothing arrives, because a start or a
    /// loss may come first.
    fn next_service_wakeup(&self) -> Option<Nanos> {
        match &self.in_service {
            Some(service) if service.lost.is_some() => Some(self.free),
            // A single station that keeps the order delivers nothing before the packets already in
            // its delay line.
            Some(_) if self.stations.len() == 1 && !self.stations[0].may_reorder() => None,
            _ => self.next_start().map(|(start, _)| start),
        }
    }

    fn deliver(&mut self, station: StationId) -> Option<Output<P>> {
        let from = &mut self.stations[station.index()];
        let (at, packet) = from.wire.pop()?;
        from.counters.delivered_packets += 1;
        Some(Output::Delivered {
            station,
            packet,
            at,
        })
    }
}

fn earlier(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
