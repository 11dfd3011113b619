//! The stations of a channel, and what leaves them.

use std::collections::VecDeque;

use experiment::resolved::{Direction, InvalidDirection};
use experiment::time::Nanos;

use super::pipe::Sizes;
use super::queue::Discarded;
use super::station::{MediumParameters, Started, Station, StationGenerators};
use super::{Counters, DropReason, Enqueued, Output, Packet, StationId};

/// The stations of a channel with their queues and wires, and the packets that were dropped but not
/// yet reported.
pub(super) struct Stations<P> {
    medium: Option<MediumParameters>,
    list: Vec<Station<P>>,
    dropped: VecDeque<Output<P>>,
    /// When the first packet arrives from each station. [`Nanos::MAX`] is never.
    arrivals: Vec<Nanos>,
    /// The earliest of these instants, and the first station that has it.
    next_arrival: (Nanos, usize),
    /// The carrier has nothing to do before this instant, unless a packet arrives.
    pub(super) quiet_until: Nanos,
    /// Buffer for packets that stations drop. Empty between calls.
    discarded: Discarded<P>,
}

impl<P: Packet> Stations<P> {
    pub(super) fn new(medium: Option<MediumParameters>) -> Self {
        Self {
            medium,
            list: Vec::new(),
            dropped: VecDeque::new(),
            arrivals: Vec::new(),
            next_arrival: (Nanos::MAX, 0),
            quiet_until: 0,
            discarded: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        direction.validate()?;
        let station = Station::new(direction, self.medium, generators);
        self.list.push(station);
        self.arrivals.push(Nanos::MAX);
        Ok(StationId(self.list.len() as u32 - 1))
    }

    pub(super) fn as_slice(&self) -> &[Station<P>] {
        &self.list
    }

    pub(super) fn get(&self, station: StationId) -> &Station<P> {
        &self.list[station.index()]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, station: StationId) -> &mut Station<P> {
        &mut self.list[station.index()]
    }

    /// Returns whether nothing is queued or on a wire, and everything that was dropped is reported.
    pub(super) fn are_empty(&self) -> bool {
        self.dropped.is_empty() && self.list.iter().all(Station::is_empty)
    }

    #[inline]
    pub(super) fn enqueue(&mut self, now: Nanos, station: StationId, packet: P) -> Enqueued {
        let outcome = self.list[station.index()].enqueue(now, packet, &mut self.discarded);
        self.report_discarded(station, now);
        match outcome {
            Ok(()) => Enqueued::Queued,
            Err(reason) => {
                self.list[station.index()].counters.count_drop(reason);
                Enqueued::Dropped(reason)
            }
        }
    }

    /// Returns the earliest of the instants that `next` gives for the stations of which no packet is
    /// on its way. Before a packet that is, no later one arrives, unless it may overtake.
    pub(super) fn next_arrival_to_decide(
        &self,
        next: impl Fn(usize) -> Option<Nanos>,
    ) -> Option<Nanos> {
        let stations = self.list.iter().enumerate();
        stations
            .filter(|(_, station)| station.pipe.in_flight() == 0 || station.may_reorder())
            .filter_map(|(index, _)| next(index))
            .min()
    }

    /// Drops a packet that a station was offered, because the queue behind it is full.
    pub(super) fn refuse(&mut self, station: StationId) -> Enqueued {
        let counters = &mut self.list[station.index()].counters;
        counters.offered_packets += 1;
        counters.count_drop(DropReason::QueueFull);
        Enqueued::Dropped(DropReason::QueueFull)
    }

    pub(super) fn reconfigure(&mut self, now: Nanos, station: StationId, direction: &Direction) {
        self.list[station.index()].reconfigure(now, direction, self.medium, &mut self.discarded);
        self.report_discarded(station, now);
    }

    pub(super) fn set_up(&mut self, now: Nanos, station: StationId, up: bool) {
        self.list[station.index()].set_up(now, up, &mut self.discarded);
        self.look_at_arrivals(station);
        self.report_discarded(station, now);
    }

    /// Takes the next packet of a station from its queue at `start` and serializes it. Returns
    /// `None` if the queue dropped all its packets.
    pub(super) fn start_next(&mut self, start: Nanos, station: StationId) -> Option<Started<P>> {
        let started = self.list[station.index()].start_next(start, &mut self.discarded);
        self.record_sent(station);
        self.report_discarded(station, start);
        started
    }

    /// Puts the next packet of a station into service at `now`. Returns its sizes, or `None` if the
    /// queue is empty or dropped all its packets.
    #[inline]
    pub(super) fn serve_next(&mut self, now: Nanos, station: StationId) -> Option<Sizes> {
        let sizes = self.list[station.index()].serve_next(now, &mut self.discarded);
        self.report_discarded(station, now);
        sizes
    }

    /// Sends the packet of a station that is in service, whose last bit is sent at `now` and has
    /// left at `finish`, unless it is lost on the way. [`Self::record_sent`] must follow.
    #[inline]
    pub(super) fn send(&mut self, station: StationId, wire_bytes: u32, now: Nanos, finish: Nanos) {
        let from = self.get_mut(station);
        from.counters.count_sent(wire_bytes);
        if let Some(lost) = from.send(finish) {
            self.report_drop(station, lost, now, DropReason::Loss);
        }
    }

    /// Drops at `now` the packets of a station that are in service.
    pub(super) fn drop_served(&mut self, station: StationId, now: Nanos, reason: DropReason) {
        while let Some(packet) = self.get_mut(station).pipe.take_served() {
            self.report_drop(station, packet, now, reason);
        }
    }

    /// Records that a packet of a station may have been sent.
    #[inline]
    pub(super) fn record_sent(&mut self, station: StationId) {
        let index = station.index();
        if let Some(first) = self.list[index].pipe.first_arrival() {
            self.arrivals[index] = first;
            self.next_arrival = self.next_arrival.min((first, index));
        }
    }

    /// Looks when the first packet arrives from a station that has fewer packets in flight.
    #[inline]
    fn look_at_arrivals(&mut self, station: StationId) {
        let first = self.list[station.index()].pipe.first_arrival();
        let first = first.unwrap_or(Nanos::MAX);
        self.arrivals[station.index()] = first;
        // Packets that were sent together arrive together.
        if first > self.next_arrival.0 {
            let arrivals = self.arrivals.iter().copied().zip(0..);
            self.next_arrival = arrivals.fold((Nanos::MAX, 0), Ord::min);
        }
    }

    /// Counts a packet whose last bit has left.
    #[inline]
    pub(super) fn count_sent(&mut self, station: StationId, wire_bytes: u32) {
        self.get_mut(station).counters.count_sent(wire_bytes);
    }

    /// Drops at `now` all packets queued at a station.
    pub(super) fn flush(&mut self, now: Nanos, station: StationId) {
        self.list[station.index()].flush(&mut self.discarded);
        self.report_discarded(station, now);
    }

    /// Returns the next packet that was dropped or has arrived up to `now`.
    #[inline]
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Output<P>> {
        let (arrival, _) = self.next_arrival;
        match self.first_drop().filter(|at| *at <= now) {
            Some(dropped) if dropped <= arrival => self.dropped.pop_front(),
            _ if arrival <= now => self.deliver(),
            _ => None,
        }
    }

    /// Returns the instant of the first packet that was dropped and not yet reported.
    pub(super) fn first_drop(&self) -> Option<Nanos> {
        self.dropped.front().map(Output::at)
    }

    /// Returns when the first packet arrives, at any station.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        let (arrival, _) = self.next_arrival;
        (arrival < Nanos::MAX).then_some(arrival)
    }

    /// Reports what a station has put into `discarded`.
    #[inline]
    fn report_discarded(&mut self, station: StationId, at: Nanos) {
        if !self.discarded.is_empty() {
            self.report_all_discarded(station, at);
        }
    }

    #[cold]
    fn report_all_discarded(&mut self, station: StationId, at: Nanos) {
        for (packet, reason) in std::mem::take(&mut self.discarded) {
            self.report_drop(station, packet, at, reason);
        }
    }

    pub(super) fn report_drop(
        &mut self,
        station: StationId,
        packet: P,
        at: Nanos,
        reason: DropReason,
    ) {
        self.list[station.index()].counters.count_drop(reason);
        self.report_counted_drop(station, packet, at, reason);
    }

    /// Reports a packet that was dropped at `at` and counted then.
    pub(super) fn report_counted_drop(
        &mut self,
        station: StationId,
        packet: P,
        at: Nanos,
        reason: DropReason,
    ) {
        self.dropped.push_back(Output::Dropped {
            station,
            packet,
            at,
            reason,
        });
    }

    pub(super) fn counters(&self, station: StationId) -> &Counters {
        &self.get(station).counters
    }

    /// Returns the packet that arrives next. At a tie the first station goes first.
    #[inline]
    fn deliver(&mut self) -> Option<Output<P>> {
        let station = StationId(self.next_arrival.1 as u32);
        let from = self.get_mut(station);
        let (at, packet) = from.pipe.pop()?;
        from.counters.delivered_packets += 1;
        self.look_at_arrivals(station);
        Some(Output::Delivered {
            station,
            packet,
            at,
        })
    }
}
