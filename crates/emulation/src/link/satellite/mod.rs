//! The link of one dish to satellites in low Earth orbit.
//!
//! Delay and rate are those of a slot. All dishes of a run change slots at the same instants, so
//! that two such paths fail together. A stall at the beginning of a slot holds packets, and losses
//! have durations.

mod ahead;
mod course;
mod loss;
mod slots;

use std::sync::Arc;

use experiment::resolved::{self, Direction, HopDirection, InvalidDirection};
use experiment::time::Nanos;

use super::carrier::Carrier;
use super::computed::{ComputedFifo, Gauges};
use super::pipe::Sizes;
use super::station::StationGenerators;
use super::stations::Stations;
use super::{AccessCounters, DropReason, Enqueued, Output, Packet, StationId};
use ahead::{Ahead, Times};
use course::Course;

/// The carrier of a link between a dish and the network.
///
/// While both queues are drop-tail and nothing else is in the way, the fate of a packet is computed
/// when it is offered.
pub(super) struct Leo<P> {
    parameters: Arc<resolved::Leo>,
    seed: u64,
    stations: Stations<P>,
    /// By station. Empty while packets are computed ahead.
    lanes: Vec<Lane>,
    /// By station. Empty while packets are sent step by step.
    ahead: Vec<ComputedFifo<P, Ahead>>,
    /// When the next packet of each of these leaves. [`Nanos::MAX`] is never.
    next_ahead: [Nanos; HopDirection::BOTH.len()],
    /// The time of the last call to `advance`.
    now: Nanos,
}

/// One direction.
struct Lane {
    course: Course,
    frames: Option<Frames>,
    /// The end of the last service.
    free: Nanos,
    /// When the next packet starts, unless a stall holds it, as of the last call to `advance`.
    /// [`Nanos::MAX`] is never.
    next_start: Nanos,
    /// Time in which packets were sent, and their number.
    air_time: Nanos,
    sent_packets: u64,
}

/// What becomes of a packet that starts.
struct Sending {
    finish: Nanos,
    /// When the packet arrives behind the satellite. `None` if it is lost.
    arrival: Option<Nanos>,
}

impl Lane {
    fn new(
        parameters: &Arc<resolved::Leo>,
        direction: &Direction,
        side: HopDirection,
        seed: u64,
    ) -> Self {
        Self {
            course: Course::new(parameters, direction, side, seed),
            frames: Frames::new(parameters).filter(|_| side == parameters.uplink),
            free: 0,
            next_start: Nanos::MAX,
            air_time: 0,
            sent_packets: 0,
        }
    }

    /// Sends a packet at `start`, at which the course is.
    #[inline]
    fn send(&mut self, start: Nanos, wire_bytes: u32) -> Sending {
        let finish = self.course.finish(start, wire_bytes);
        self.air_time += finish - start;
        self.sent_packets += 1;
        let arrival = (!self.course.loses(finish)).then(|| {
            let frames = self.frames.as_mut();
            let sent = frames.map_or(finish, |frames| frames.first_from(finish));
            sent.saturating_add(self.course.delay())
        });
        Sending { finish, arrival }
    }

    /// Takes a packet out of the counters that has not started.
    fn uncount(&mut self, times: &Times) {
        self.air_time -= times.duration();
        self.sent_packets -= 1;
    }
}

/// The frames of the uplink. What is ready when one begins is sent in it.
struct Frames {
    interval: Nanos,
    /// When the frame begins of the last call.
    begin: Nanos,
}

impl Frames {
    /// Returns the frames of a link. `None` if it sends at any time.
    fn new(parameters: &resolved::Leo) -> Option<Self> {
        let interval = parameters.uplink_frame_ns;
        (interval > 0).then_some(Self { interval, begin: 0 })
    }

    /// Returns when the first frame begins at or after `now`.
    fn first_from(&mut self, now: Nanos) -> Nanos {
        let is_same = now <= self.begin && self.begin - now < self.interval;
        if !is_same {
            self.begin = now.div_ceil(self.interval).saturating_mul(self.interval);
        }
        self.begin
    }
}

impl<P: Packet> Leo<P> {
    pub(super) fn new(parameters: &resolved::Leo, seed: u64) -> Self {
        Self {
            parameters: Arc::new(parameters.clone()),
            seed,
            stations: Stations::new(None),
            lanes: Vec::new(),
            ahead: Vec::new(),
            next_ahead: [Nanos::MAX; HopDirection::BOTH.len()],
            now: 0,
        }
    }

    /// Looks when the next packet of a lane starts.
    fn look_at(&mut self, lane: usize) {
        let free = self.lanes[lane].free;
        let start = self.stations.as_slice()[lane].next_start(free);
        self.lanes[lane].next_start = start.unwrap_or(Nanos::MAX);
    }

    /// Returns the next start and its lane. At a tie the first lane goes first.
    fn next_start(&self) -> (Nanos, usize) {
        let mut first = (Nanos::MAX, 0);
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.next_start < first.0 {
                first = (lane.next_start, index);
            }
        }
        first
    }

    /// Sends the next packet of a lane at `start`, or after the stall at that time.
    fn send(&mut self, start: Nanos, lane: usize) {
        let station = StationId(lane as u32);
        let lane = &mut self.lanes[lane];
        let unstalled = lane.course.unstalled(start);
        if unstalled > start {
            lane.free = unstalled;
            return;
        }
        let Some(Sizes { wire_bytes, .. }) = self.stations.serve_next(start, station) else {
            return;
        };
        lane.course.go_to(start);
        let sending = lane.send(start, wire_bytes);
        lane.free = sending.finish;
        match sending.arrival {
            Some(sent) => {
                self.stations.send(station, wire_bytes, start, sent);
                self.stations.record_sent(station);
            }
            None => {
                self.stations.count_sent(station, wire_bytes);
                self.stations.drop_served(station, start, DropReason::Loss);
            }
        }
    }

    /// Begins to compute packets ahead if the link is simple enough and empty. Returns whether it
    /// does.
    fn goes_ahead(&mut self) -> bool {
        if !self.stations.are_empty() {
            return false;
        }
        let simple = self.stations.as_slice().iter().map(|one| one.fixed_rate());
        let Some(simple) = simple.collect::<Option<Vec<_>>>() else {
            return false;
        };
        let lanes = self.lanes.drain(..).zip(simple);
        self.ahead.extend(lanes.map(|(lane, (rate, admission))| {
            let free = lane.free;
            ComputedFifo::new(Ahead::new(lane, rate.delay), admission, free)
        }));
        true
    }

    /// Looks when the next packet leaves of those that a lane has computed ahead.
    #[inline]
    fn look_ahead(&mut self, lane: usize) {
        let fifo = &self.ahead[lane];
        let arrival = fifo.next_arrival().unwrap_or(Nanos::MAX);
        self.next_ahead[lane] = arrival.min(fifo.service.next_loss());
    }

    /// Returns the next packet that left up to `now` of those that are computed ahead. At a tie the
    /// first lane goes first.
    #[inline]
    fn poll_ahead(&mut self, now: Nanos) -> Option<Output<P>> {
        let [first, second] = self.next_ahead;
        let (at, lane) = (first.min(second), usize::from(second < first));
        if at > now || at == Nanos::MAX {
            return None;
        }
        let station = StationId(lane as u32);
        let fifo = &mut self.ahead[lane];
        if fifo.service.next_loss() == at {
            return self.poll_lost(at, lane);
        }
        let (at, packet) = fifo.poll(at)?;
        self.look_ahead(lane);
        Some(Output::Delivered {
            station,
            packet,
            at,
        })
    }

    /// Returns the packet of a lane that is lost at `at`.
    #[cold]
    fn poll_lost(&mut self, at: Nanos, lane: usize) -> Option<Output<P>> {
        let packet = self.ahead[lane].take_lost()?;
        self.look_ahead(lane);
        Some(Output::Dropped {
            station: StationId(lane as u32),
            packet,
            at,
            reason: DropReason::Loss,
        })
    }

    /// Returns the time in which packets of a station were sent up to now, and their number.
    fn sent(&self, station: StationId) -> (Nanos, u64) {
        let index = station.index();
        let Some(fifo) = self.ahead.get(index) else {
            let lane = &self.lanes[index];
            return (lane.air_time, lane.sent_packets);
        };
        let lane = fifo.service.lane();
        let unsent: Nanos = fifo.waiting().map(Times::duration).sum();
        (
            lane.air_time - unsent,
            lane.sent_packets - fifo.queue_packets(),
        )
    }

    /// Returns what both directions meet from now on, as far as it is known.
    fn courses(&self) -> impl Iterator<Item = &Course> {
        let ahead = self.ahead.iter().flat_map(|fifo| fifo.service.courses());
        ahead.chain(self.lanes.iter().map(|lane| &lane.course))
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

    fn enqueue(&mut self, now: Nanos, station: StationId, packet: P) -> Enqueued {
        if self.ahead.is_empty() && !self.goes_ahead() {
            return self.enqueue_stepwise(now, station, packet);
        }
        let fifo = &mut self.ahead[station.index()];
        let outcome = fifo.enqueue(now, packet);
        if outcome == Enqueued::Queued {
            let next = &mut self.next_ahead[station.index()];
            *next = (*next).min(fifo.service.last_departure());
        }
        outcome
    }

    fn poll(&mut self, now: Nanos) -> Option<Output<P>> {
        match self.ahead.is_empty() {
            true => self.poll_stepwise(now),
            false => self.poll_ahead(now),
        }
    }

    fn next_departure(&self) -> Option<Nanos> {
        match self.ahead.is_empty() {
            true => self.next_departure_stepwise(),
            false => self.next_ahead.into_iter().min().and_then(instant),
        }
    }

    fn computed(&self, station: StationId) -> Option<&dyn Gauges> {
        let fifo = self.ahead.get(station.index())?;
        Some(fifo)
    }

    fn go_stepwise(&mut self) {
        let mut lost = Vec::new();
        self.next_ahead = [Nanos::MAX; HopDirection::BOTH.len()];
        for (fifo, number) in std::mem::take(&mut self.ahead).into_iter().zip(0..) {
            let station = StationId(number);
            let of = self.stations.get_mut(station);
            fifo.add_to(&mut of.counters);
            let mut interrupted = fifo.interrupt();
            of.take_over(&mut interrupted);
            let (lane, losses) = interrupted.service.stop(interrupted.free);
            self.lanes.push(lane);
            self.stations.record_sent(station);
            let packets = losses.into_iter().zip(interrupted.lost);
            lost.extend(packets.map(|(at, packet)| (at, station, packet)));
        }
        lost.sort_by_key(|(at, station, _)| (*at, *station));
        for (at, station, packet) in lost {
            self.stations
                .report_counted_drop(station, packet, at, DropReason::Loss);
        }
    }

    fn advance(&mut self, now: Nanos) {
        self.now = now;
        self.ahead.iter_mut().for_each(|fifo| fifo.advance(now));
        (0..self.lanes.len()).for_each(|lane| self.look_at(lane));
        loop {
            let (start, lane) = self.next_start();
            if start > now || start == Nanos::MAX {
                return;
            }
            self.send(start, lane);
            self.look_at(lane);
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.stations
            .next_arrival_to_decide(|lane| instant(self.lanes[lane].next_start))
    }

    fn first_start(&self) -> Option<Nanos> {
        instant(self.next_start().0)
    }

    /// Returns the counters of a direction. The states of the radio are 0, in service, and 1, in a
    /// stall.
    fn access_counters(&self, station: StationId) -> Option<AccessCounters> {
        let (air_time, sent_packets) = self.sent(station);
        let mut courses = self.courses();
        let slots_begun = self.courses().next().map(|one| one.slots_begun(self.now));
        Some(AccessCounters {
            air_time,
            exchanges: sent_packets,
            aggregated_packets: sent_packets,
            radio_state: u8::from(courses.any(|course| course.is_stalled(self.now))),
            handovers: slots_begun.unwrap_or(0),
            ..AccessCounters::default()
        })
    }

    fn reconfigure(&mut self, now: Nanos, station: StationId, direction: &Direction) {
        self.stations.reconfigure(now, station, direction);
        self.lanes[station.index()].course.set_rate(direction);
    }

    fn abort(&mut self, now: Nanos, station: StationId) {
        let lane = &mut self.lanes[station.index()];
        lane.free = lane.free.min(now);
    }
}

/// Returns an instant, or `None` if it is never.
fn instant(at: Nanos) -> Option<Nanos> {
    (at < Nanos::MAX).then_some(at)
}
