//! A direction of a dish whose packets are computed when they are offered.

use std::collections::VecDeque;

use experiment::time::Nanos;

use super::Lane;
use super::course::Course;
use crate::link::computed::{Sent, Service};

/// A direction ahead of the present, and how it comes back.
pub(super) struct Ahead {
    lane: Lane,
    /// The delay behind the satellite.
    delay: Nanos,
    /// No later packet arrives before this instant, because packets keep their order.
    last_arrival: Nanos,
    /// Courses before the one of the lane, each with the start of the first packet that it did not
    /// cover. None is over.
    earlier: VecDeque<(Nanos, Course)>,
    /// The starts of lost packets that were not taken out.
    losses: VecDeque<Nanos>,
    taken_out: u64,
}

/// The times of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    start: Nanos,
    finish: Nanos,
    /// If the packet is lost, an instant after its start before which no later packet arrives.
    arrival: Nanos,
    is_lost: bool,
}

impl Times {
    /// Returns how long the packet is in service.
    pub(super) fn duration(&self) -> Nanos {
        self.finish - self.start
    }
}

impl Ahead {
    /// Returns a direction with nothing on its way.
    pub(super) fn new(lane: Lane, delay: Nanos) -> Self {
        Self {
            lane,
            delay,
            last_arrival: 0,
            earlier: VecDeque::new(),
            losses: VecDeque::new(),
            taken_out: 0,
        }
    }

    /// Returns the direction behind the last packet that was accepted.
    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Returns the courses from the present on.
    pub(super) fn courses(&self) -> impl Iterator<Item = &Course> {
        let earlier = self.earlier.iter().map(|(_, course)| course);
        earlier.chain([&self.lane.course])
    }

    /// Returns when the next packet is lost. [`Nanos::MAX`] is never.
    #[inline]
    pub(super) fn next_loss(&self) -> Nanos {
        self.losses.front().copied().unwrap_or(Nanos::MAX)
    }

    /// Returns the direction, which is free from `free` on, and the starts of the packets that are
    /// lost.
    pub(super) fn stop(mut self, free: Nanos) -> (Lane, VecDeque<Nanos>) {
        self.lane.free = free;
        (self.lane, self.losses)
    }

    /// Goes to the first instant from `start` on at which packets are sent, and returns it.
    #[cold]
    fn change_course(&mut self, now: Nanos, start: Nanos) -> Nanos {
        let before = self.lane.course.clone();
        let start = self.lane.course.unstalled(start);
        self.lane.course.go_to(start);
        while self.earlier.front().is_some_and(|(until, _)| *until <= now) {
            self.earlier.pop_front();
        }
        self.earlier.push_back((start, before));
        start
    }
}

impl Service for Ahead {
    type Times = Times;

    #[inline]
    fn send(&mut self, now: Nanos, free: Nanos, wire_bytes: u32) -> Times {
        let mut start = free.max(now);
        if !self.lane.course.covers(start) {
            start = self.change_course(now, start);
        }
        let sending = self.lane.send(start, wire_bytes);
        let arrival = match sending.arrival {
            Some(sent) => {
                self.last_arrival = self.last_arrival.max(sent.saturating_add(self.delay));
                self.last_arrival
            }
            None => {
                self.losses.push_back(start);
                self.last_arrival.max(sending.finish)
            }
        };
        Times {
            start,
            finish: sending.finish,
            arrival,
            is_lost: sending.arrival.is_none(),
        }
    }

    fn take_back(&mut self, times: &Times, _: u32, _: Nanos) {
        self.lane.uncount(times);
        let is_undone = |(from, _): &(Nanos, Course)| *from >= times.start;
        if self.earlier.back().is_some_and(is_undone)
            && let Some((_, course)) = self.earlier.pop_back()
        {
            self.lane.course = course;
        }
        if times.is_lost {
            self.losses.pop_back();
        }
    }

    #[inline]
    fn finish(times: &Times) -> Nanos {
        times.finish
    }

    #[inline]
    fn arrival(&self, times: &Times) -> Nanos {
        times.arrival
    }

    fn is_lost(times: &Times) -> bool {
        times.is_lost
    }

    fn begun<P>(packets: &Sent<P, Times>, now: Nanos) -> usize {
        packets.partition_point(|sent| sent.times.start <= now)
    }

    /// Packets count as sent when they start.
    fn counted<P>(packets: &Sent<P, Times>, now: Nanos) -> usize {
        Self::begun(packets, now)
    }

    fn start<P>(packets: &Sent<P, Times>, begun: usize) -> Option<Nanos> {
        packets.get(begun).map(|sent| sent.times.start)
    }

    fn take_loss(&mut self) {
        self.losses.pop_front();
        self.taken_out += 1;
    }

    fn losses(&self, now: Nanos) -> (u64, u64) {
        let held = self.losses.partition_point(|start| *start <= now);
        (held as u64, self.taken_out)
    }
}
