//! A direction of a dish whose packets are computed when they are offered.

use std::collections::VecDeque;

use experiment::time::Nanos;

use super::course::Course;
use super::{Lane, Sending};
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
    /// The first of them. [`Nanos::MAX`] is never.
    next_loss: Nanos,
    taken_out: u64,
    /// When the last packet leaves: its arrival, or its start if it is lost.
    last_departure: Nanos,
}

/// The times of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    start: Nanos,
    finish: Nanos,
    /// If the packet is lost, an instant after its start before which no later packet arrives.
    arrival: Nanos,
    fate: Fate,
}

/// What becomes of a packet.
// As wide as an instant. Padding would be moved together with the packet, at odd addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Fate {
    Arrives,
    IsLost,
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
            next_loss: Nanos::MAX,
            taken_out: 0,
            last_departure: 0,
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
        self.next_loss
    }

    /// Returns when the last packet that was accepted leaves.
    #[inline]
    pub(super) fn last_departure(&self) -> Nanos {
        self.last_departure
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

    #[cold]
    fn push_loss(&mut self, start: Nanos) {
        self.losses.push_back(start);
        self.last_departure = start;
        self.look_at_losses();
    }

    fn look_at_losses(&mut self) {
        self.next_loss = self.losses.front().copied().unwrap_or(Nanos::MAX);
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
        let Sending { finish, arrival } = self.lane.send(start, wire_bytes);
        let (arrival, fate) = match arrival {
            Some(sent) => {
                self.last_arrival = self.last_arrival.max(sent.saturating_add(self.delay));
                self.last_departure = self.last_arrival;
                (self.last_arrival, Fate::Arrives)
            }
            None => {
                self.push_loss(start);
                (self.last_arrival.max(finish), Fate::IsLost)
            }
        };
        Times {
            start,
            finish,
            arrival,
            fate,
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
        if Self::is_lost(times) {
            self.losses.pop_back();
            self.look_at_losses();
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
        times.fate == Fate::IsLost
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
        self.look_at_losses();
        self.taken_out += 1;
    }

    fn losses(&self, now: Nanos) -> (u64, u64) {
        let held = self.losses.partition_point(|start| *start <= now);
        (held as u64, self.taken_out)
    }
}
