//! The stations of a channel, and what leaves them.

use std::collections::VecDeque;

use experiment::resolved::{Direction, InvalidDirection};
use experiment::time::Nanos;

use super::queue::{Discarded, Queued};
use super::station::{MediumParameters, Started, Station, StationGenerators};
use super::{Counters, DropReason, Enqueued, Output, Packet, StationId};

/// The stations of a channel with their queues and wires, and the packets that were dropped but not
/// yet reported.
pub(super) struct Stations<P> {
    medium: Option<MediumParameters>,
    list: Vec<Station<P>>,
    dropped: VecDeque<Output<P>>,
    /// Buffer for packets that stations drop. Empty between calls.
    discarded: Discarded<P>,
}

impl<P: Packet> Stations<P> {
    pub(super) fn new(medium: Option<MediumParameters>) -> Self {
        Self {
            medium,
            list: Vec::new(),
            dropped: VecDeque::new(),
            discarded: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<StationId, InvalidDirection> {
        direction.validate()?;
        self.list
            .push(Station::new(direction, self.medium, generators));
        Ok(StationId(self.list.len() as u32 - 1))
    }

    pub(super) fn as_slice(&self) -> &[Station<P>] {
        &self.list
    }

    pub(super) fn get(&self, station: StationId) -> &Station<P> {
        &self.list[station.index()]
    }

    pub(super) fn get_mut(&mut self, station: StationId) -> &mut Station<P> {
        &mut self.list[station.index()]
    }

    /// Returns whether nothing is queued or on a wire, and everything that was dropped is reported.
    pub(super) fn are_empty(&self) -> bool {
        self.dropped.is_empty() && self.list.iter().all(Station::is_empty)
    }

    /// Returns whether the stations are on a medium.
    pub(super) fn are_on_medium(&self) -> bool {
        self.medium.is_some()
    }

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
            .filter(|(_, station)| station.wire.len() == 0 || station.may_reorder())
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
        self.report_discarded(station, now);
    }

    /// Takes the next packet of a station from its queue at `start` and serializes it. Returns
    /// `None` if the queue dropped all its packets.
    pub(super) fn start_next(&mut self, start: Nanos, station: StationId) -> Option<Started<P>> {
        let started = self.list[station.index()].start_next(start, &mut self.discarded);
        self.report_discarded(station, start);
        started
    }

    /// Takes the next packet of a station from its queue at `now`. Returns `None` if the queue is
    /// empty or dropped all its packets.
    pub(super) fn dequeue(&mut self, now: Nanos, station: StationId) -> Option<Queued<P>> {
        let packet = self.list[station.index()].dequeue(now, &mut self.discarded);
        self.report_discarded(station, now);
        packet
    }

    /// Sends a packet that was taken from the queue of a station, whose last bit is sent at `now`
    /// and has left at `finish`, unless it is lost on the way.
    pub(super) fn transmit(
        &mut self,
        station: StationId,
        packet: P,
        wire_bytes: u32,
        now: Nanos,
        finish: Nanos,
    ) {
        self.count_sent(station, wire_bytes);
        if let Some(lost) = self.get_mut(station).send_over(finish, packet) {
            self.report_drop(station, lost, now, DropReason::Loss);
        }
    }

    /// Counts a packet whose last bit has left.
    pub(super) fn count_sent(&mut self, station: StationId, wire_bytes: u32) {
        let counters = &mut self.get_mut(station).counters;
        counters.wire_packets += 1;
        counters.wire_bytes += u64::from(wire_bytes);
    }

    /// Drops at `now` all packets queued at a station.
    pub(super) fn flush(&mut self, now: Nanos, station: StationId) {
        self.list[station.index()].flush(&mut self.discarded);
        self.report_discarded(station, now);
    }

    /// Returns the next packet that was dropped or has arrived up to `now`.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Output<P>> {
        let arrival = self.next_arrival().filter(|(at, _)| *at <= now);
        let dropped = self.first_drop().filter(|at| *at <= now);
        match (dropped, arrival) {
            (Some(dropped), Some((at, station))) if at < dropped => self.deliver(station),
            (Some(_), _) => self.dropped.pop_front(),
            (None, Some((_, station))) => self.deliver(station),
            (None, None) => None,
        }
    }

    /// Returns the instant of the first packet that was dropped and not yet reported.
    pub(super) fn first_drop(&self) -> Option<Nanos> {
        self.dropped.front().map(Output::at)
    }

    /// Returns the first arrival among all stations.
    pub(super) fn next_arrival(&self) -> Option<(Nanos, StationId)> {
        if let [only] = self.list.as_slice() {
            return only.wire.first_arrival().map(|at| (at, StationId(0)));
        }
        self.list
            .iter()
            .enumerate()
            .filter_map(|(index, station)| {
                Some((station.wire.first_arrival()?, StationId(index as u32)))
            })
            .min()
    }

    /// Reports what a station has put into `discarded`.
    fn report_discarded(&mut self, station: StationId, at: Nanos) {
        if self.discarded.is_empty() {
            return;
        }
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

    fn deliver(&mut self, station: StationId) -> Option<Output<P>> {
        let from = self.get_mut(station);
        let (at, packet) = from.wire.pop()?;
        from.counters.delivered_packets += 1;
        Some(Output::Delivered {
            station,
            packet,
            at,
        })
    }
}
