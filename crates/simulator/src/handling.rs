//! Handling times of hosts: arrived packets wait until their host handles them, and timers fire
//! late.
//!
//! A host handles packets in order, each after a random time and after it has finished the ones
//! before. Acknowledgments, and the data they release, are therefore delayed randomly. Without
//! these delays, deterministic senders would keep the phase in which they meet a full queue (Floyd
//! and Jacobson, On Traffic Phase Effects in Packet-Switched Gateways, 1992).

use std::collections::VecDeque;

use experiment::resolved::{Experiment, JitterQuantiles};
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::packet::Packet;

/// The packets and timers that each host has yet to handle.
pub(super) struct Handling {
    /// `None` for a host that takes no time.
    of_host: Vec<Option<Backlog>>,
}

/// The packets and timers that one host has yet to handle.
struct Backlog {
    jitter: Jitter,
    /// Arrived packets, with the time at which they are handled.
    arrived: VecDeque<(Nanos, Packet)>,
    /// When it will have handled all arrived packets.
    busy_until: Nanos,
    /// How late its next timer fires.
    lateness: Nanos,
    /// When its next timer fires.
    timer: Option<Nanos>,
}

/// The fate of a packet that arrives at a host.
pub(super) enum Reception {
    /// It is handled at once.
    Now,
    /// It waits behind others.
    Waits,
    /// It waits, and the host acts next at this time.
    Until(Nanos),
}

impl Handling {
    /// Returns the empty backlogs of the hosts of an experiment.
    pub(super) fn new(experiment: &Experiment, seed: u64) -> Self {
        let hosts = experiment.hosts.iter();
        let of_host = hosts.map(|host| {
            let quantiles = host.host_jitter.quantiles()?;
            let jitter = Jitter::new(quantiles, seed, &format!("host_jitter/{}", host.id));
            Some(Backlog::new(jitter))
        });
        Self {
            of_host: of_host.collect(),
        }
    }

    /// Handles the arrival of a packet at a host.
    pub(super) fn receive(&mut self, now: Nanos, host: usize, packet: &Packet) -> Reception {
        let Some(backlog) = &mut self.of_host[host] else {
            return Reception::Now;
        };
        let at = backlog.busy_until.max(now + backlog.jitter.draw());
        backlog.busy_until = at;
        backlog.arrived.push_back((at, *packet));
        match backlog.arrived.len() {
            1 => Reception::Until(backlog.timer.map_or(at, |timer| timer.min(at))),
            _ => Reception::Waits,
        }
    }

    /// Removes and returns the next packet that a host handles now.
    pub(super) fn take_due(&mut self, now: Nanos, host: usize) -> Option<Packet> {
        let arrived = &mut self.of_host[host].as_mut()?.arrived;
        let (at, packet) = *arrived.front()?;
        if at > now {
            return None;
        }
        arrived.pop_front();
        Some(packet)
    }

    /// Returns whether timers of a host fire now. If so, draws the lateness of its next timer.
    pub(super) fn take_timer(&mut self, now: Nanos, host: usize) -> bool {
        let Some(backlog) = &mut self.of_host[host] else {
            return true;
        };
        let fires = backlog.timer.is_some_and(|at| at <= now);
        if fires {
            backlog.lateness = backlog.jitter.draw();
        }
        fires
    }

    /// Returns when a host acts next. Its next timer is due at `timer`.
    pub(super) fn next(&mut self, host: usize, timer: Option<Nanos>) -> Option<Nanos> {
        let Some(backlog) = &mut self.of_host[host] else {
            return timer;
        };
        backlog.timer = timer.map(|at| at.saturating_add(backlog.lateness));
        let handled = backlog.arrived.front().map(|(at, _)| *at);
        handled.into_iter().chain(backlog.timer).min()
    }

    /// Returns how late a timer of an application on a host fires.
    pub(super) fn lateness(&mut self, host: usize) -> Nanos {
        let backlog = &mut self.of_host[host];
        backlog.as_mut().map_or(0, |backlog| backlog.jitter.draw())
    }
}

impl Backlog {
    fn new(mut jitter: Jitter) -> Self {
        Self {
            lateness: jitter.draw(),
            jitter,
            arrived: VecDeque::new(),
            busy_until: 0,
            timer: None,
        }
    }
}

/// Random times with given quantiles.
struct Jitter {
    generator: Generator,
    pieces: [Piece; 4],
}

/// A linear piece of the inverse distribution function.
#[derive(Clone, Copy)]
struct Piece {
    /// The probability at which it ends, in units of 2^-32. It begins where the previous one ends.
    end: u64,
    begin: u64,
    begin_ns: Nanos,
    /// Nanoseconds per unit of probability, in units of 2^-32.
    slope: u64,
}

/// Where the pieces end, in percent.
const PERCENT: [u64; 4] = [50, 90, 99, 100];

impl Jitter {
    fn new(quantiles: JitterQuantiles, seed: u64, label: &str) -> Self {
        let (mut begin, mut begin_ns) = (0, 0);
        let ends = std::iter::zip(PERCENT, quantiles.ascending());
        let mut pieces = ends.map(|(percent, end_ns)| {
            let end = (percent << 32) / 100;
            let slope = ((end_ns - begin_ns) << 32) / (end - begin);
            let piece = Piece {
                end,
                begin,
                begin_ns,
                slope,
            };
            (begin, begin_ns) = (end, end_ns);
            piece
        });
        Self {
            generator: Generator::new(seed, label),
            pieces: std::array::from_fn(|_| pieces.next().expect("as many")),
        }
    }

    fn draw(&mut self) -> Nanos {
        let probability = self.generator.bits() >> 32;
        let mut pieces = self.pieces.iter();
        let piece = pieces.find(|piece| probability < piece.end);
        let piece = piece.expect("the last ends at 1");
        let within = u128::from(probability - piece.begin) * u128::from(piece.slope);
        piece.begin_ns + (within >> 32) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_times_have_the_quantiles_that_were_asked_for() {
        let quantiles = JitterQuantiles {
            p50_ns: 20_000,
            p90_ns: 50_000,
            p99_ns: 140_000,
            max_ns: 350_000,
        };
        let mut jitter = Jitter::new(quantiles, 1, "test");
        let drawn: Vec<_> = (0..1_000_000).map(|_| jitter.draw()).collect();
        for (percent, quantile) in std::iter::zip(PERCENT, quantiles.ascending()) {
            let at_most = drawn.iter().filter(|time| **time <= quantile).count() as f64;
            let found = at_most / drawn.len() as f64;
            let expected = percent as f64 / 100.0;
            // Four standard deviations of the count below the median.
            assert!((found - expected).abs() < 0.002, "p{percent}: {found}");
        }
    }

    #[test]
    fn a_jitter_of_zero_is_none() {
        let quantiles = JitterQuantiles {
            p50_ns: 0,
            p90_ns: 0,
            p99_ns: 0,
            max_ns: 0,
        };
        let mut jitter = Jitter::new(quantiles, 1, "test");
        assert!((0..1000).all(|_| jitter.draw() == 0));
    }
}
