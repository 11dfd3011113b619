//! A link with an access network, polled when it asks to be.

use emulation::link::{Channel, Disturbance, DropReason, Output, StationGenerators, StationId};
use experiment::resolved::{Access, Cellular, Direction, DropTail, Queue};
use experiment::time::Nanos;

use crate::driver::{Datagram, plain};

pub const UP: usize = 0;
pub const DOWN: usize = 1;

/// A direction with a queue in bytes.
pub fn direction(rate_bps: u64, delay_ns: Nanos, limit_bytes: u64) -> Direction {
    Direction {
        delay_ns,
        queue: Queue::DropTail(DropTail {
            limit_packets: None,
            limit_bytes: Some(limit_bytes),
        }),
        ..plain(Some(rate_bps))
    }
}

/// A packet that has left the link.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    pub station: usize,
    pub at: Nanos,
    pub packet: Datagram,
    pub dropped: Option<DropReason>,
}

pub struct Path {
    pub channel: Channel<Datagram>,
    stations: Vec<StationId>,
    offered: u64,
}

impl Path {
    pub fn new(access: &Access, seed: u64, directions: [&Direction; 2]) -> Self {
        let mut channel = Channel::of_access(access, seed);
        let names = ["forward", "backward"];
        let add = |(direction, name): (&Direction, &str)| {
            let generators = StationGenerators::new(seed, name);
            let station = channel.add_station(direction, generators);
            station.expect("a valid direction")
        };
        Self {
            stations: directions.into_iter().zip(names).map(add).collect(),
            channel,
            offered: 0,
        }
    }

    pub fn cellular(cell: Cellular, seed: u64, rate_bps: u64, delay: Nanos) -> Self {
        let direction = direction(rate_bps, delay, 1_500_000);
        Self::new(&Access::Cellular(cell), seed, [&direction; 2])
    }

    /// Offers a packet. Returns whether the queue took it.
    pub fn offer(&mut self, station: usize, now: Nanos, bytes: u32) -> bool {
        let packet = Datagram {
            id: self.offered,
            bytes,
            flow: 0,
            sent: now,
        };
        self.offered += 1;
        let outcome = self.channel.enqueue(now, self.stations[station], packet);
        outcome == emulation::link::Enqueued::Queued
    }

    /// Returns the next packet that leaves up to `until`.
    pub fn next(&mut self, until: Nanos) -> Option<Left> {
        while let Some(at) = self.channel.next_departure().filter(|at| *at <= until) {
            if let Some(left) = self.poll(at) {
                return Some(left);
            }
        }
        None
    }

    pub fn poll(&mut self, now: Nanos) -> Option<Left> {
        let output = self.channel.poll(now)?;
        let place = |id: StationId| self.stations.iter().position(|one| *one == id);
        Some(match output {
            Output::Delivered {
                station,
                packet,
                at,
            } => Left {
                station: place(station).expect("a station of the link"),
                at,
                packet,
                dropped: None,
            },
            Output::Dropped {
                station,
                packet,
                at,
                reason,
            } => Left {
                station: place(station).expect("a station of the link"),
                at,
                packet,
                dropped: Some(reason),
            },
        })
    }

    /// Returns all packets that leave up to `until`.
    pub fn drain(&mut self, until: Nanos) -> Vec<Left> {
        std::iter::from_fn(|| self.next(until)).collect()
    }

    /// Returns the round-trip time of a packet that the network sends to the device at `now`.
    pub fn ping(&mut self, now: Nanos, bytes: u32) -> Nanos {
        assert!(self.offer(DOWN, now, bytes));
        let there = self.next(Nanos::MAX).expect("a delivery").at;
        assert!(self.offer(UP, there, bytes));
        self.next(Nanos::MAX).expect("a delivery").at - now
    }

    pub fn hand_over(&mut self, now: Nanos, gap: Nanos, forward_queue: bool) {
        let handover = Disturbance::Handover { gap, forward_queue };
        self.channel.disturb(now, self.stations[0], handover);
    }

    /// Panics unless every packet of both stations is accounted for.
    pub fn check_ledger(&self) {
        for station in &self.stations {
            let counters = self.channel.counters(*station);
            let gone = counters.delivered_packets + counters.dropped_in_all();
            let inside = self.channel.queue_packets(*station) + self.channel.in_flight(*station);
            assert_eq!(counters.offered_packets, gone + inside);
        }
    }

    pub fn station(&self, station: usize) -> StationId {
        self.stations[station]
    }
}

/// Returns quantiles, in percent, of values.
pub fn quantiles<const N: usize>(mut values: Vec<Nanos>, percent: [usize; N]) -> [f64; N] {
    values.sort_unstable();
    percent.map(|part| values[(values.len() - 1) * part / 100] as f64)
}

/// Panics unless `found` is within `part` of `expected`.
#[track_caller]
pub fn assert_near(found: f64, expected: f64, part: f64) {
    let is_near = (found - expected).abs() <= part * expected;
    assert!(is_near, "{found}, and {expected} is expected within {part}");
}
