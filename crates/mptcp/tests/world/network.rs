//! Paths with delay, rate, queue and faults.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mptcp::payload::Payload;
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::wire::Packet;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A path, the same in both directions.
#[derive(Clone, Debug)]
pub struct PathModel {
    /// One way.
    pub delay: Nanos,
    /// Bits per second.
    pub rate_bps: u64,
    /// Bytes that may wait.
    pub queue_bytes: u64,
    /// Whether packets get through.
    pub is_up: bool,
    /// What goes wrong.
    pub faults: Faults,
}

/// Probabilities of faults, per packet.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    /// A packet comes later by up to a round-trip time.
    pub reordering: f64,
    /// A byte of the payload is changed, in a way that the TCP checksum does not see.
    pub corruption: f64,
    /// Packets that are lost, counted from 0 in each direction.
    pub lost_packets: Vec<u64>,
}

impl PathModel {
    /// A path without faults that holds a round-trip time of data in its queue, at least 64 kB.
    pub fn new(rate_mbps: u64, delay_ms: u64) -> Self {
        let rate_bps = rate_mbps * 1_000_000;
        let delay = delay_ms * MILLISECOND;
        let round_trip =
            (u128::from(rate_bps / 8) * u128::from(2 * delay) / u128::from(SECOND)) as u64;
        Self {
            delay,
            rate_bps,
            queue_bytes: round_trip.max(64_000),
            is_up: true,
            faults: Faults::default(),
        }
    }

    /// The same with faults.
    pub fn with(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }
}

/// All paths.
pub struct Network {
    pub paths: Vec<PathModel>,
    rng: Xoshiro256PlusPlus,
    /// By path and direction: when the last packet will have left.
    free_at: Vec<[Nanos; 2]>,
    counts: Vec<[u64; 2]>,
    in_flight: BTreeMap<(Nanos, u64), (usize, Packet)>,
    sent: u64,
}

impl Network {
    pub fn new(paths: Vec<PathModel>, rng: Xoshiro256PlusPlus) -> Self {
        Self {
            free_at: vec![[0; 2]; paths.len()],
            counts: vec![[0; 2]; paths.len()],
            paths,
            rng,
            in_flight: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Takes a packet of that side.
    pub fn send(&mut self, now: Nanos, side: usize, packet: Packet) {
        let IpAddr::V4(source) = packet.source else {
            panic!("only IPv4 here")
        };
        let which = usize::from(source.octets()[2]) - 1;
        let path = self.paths[which].clone();
        let number = self.counts[which][side];
        self.counts[which][side] += 1;
        let is_lost = path.faults.lost_packets.contains(&number) || self.chance(path.faults.loss);
        let free_at = self.free_at[which][side].max(now);
        let waiting_bytes = (free_at - now) * path.rate_bps / 8 / SECOND;
        if !path.is_up || waiting_bytes > path.queue_bytes {
            return;
        }
        let departs = free_at + packet.wire_len() as u64 * 8 * SECOND / path.rate_bps;
        self.free_at[which][side] = departs;
        if is_lost {
            return;
        }
        let copies = 1 + usize::from(self.chance(path.faults.duplication));
        for _ in 0..copies {
            let late = match self.chance(path.faults.reordering) {
                true => self.below(2 * path.delay),
                false => 0,
            };
            let packet = self.maybe_corrupted(&packet, path.faults.corruption);
            self.sent += 1;
            let key = (departs + path.delay + late, self.sent);
            self.in_flight.insert(key, (1 - side, packet));
        }
    }

    fn maybe_corrupted(&mut self, packet: &Packet, probability: f64) -> Packet {
        let mut packet = packet.clone();
        if !packet.segment.payload.is_empty() && self.chance(probability) {
            let mut bytes = packet.segment.payload.to_vec();
            let at = self.below(bytes.len() as u64) as usize;
            bytes[at] ^= 0x55;
            packet.segment.payload = Payload::literal(bytes);
        }
        packet
    }

    /// What arrives by now, and where.
    pub fn arrivals(&mut self, now: Nanos) -> Vec<(usize, Packet)> {
        let later = self.in_flight.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut self.in_flight, later);
        due.into_values().collect()
    }

    /// When the next packet arrives.
    pub fn next_arrival(&self) -> Option<Nanos> {
        self.in_flight.keys().next().map(|(at, _)| *at)
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= probability
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }
}
