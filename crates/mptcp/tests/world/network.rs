//! Paths with delay, rate, queue and faults.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use mptcp::payload::Payload;
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::wire::{IcmpError, Packet, Problem};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::middleboxes::{Middlebox, Place};

/// A path, the same in both directions.
#[derive(Clone, Debug)]
pub struct PathModel {
    /// Delay of one direction.
    pub delay: Nanos,
    /// Bits per second.
    pub rate_bps: u64,
    /// Bytes that may wait.
    pub queue_bytes: u64,
    /// Larger packets are lost.
    pub mtu_bytes: u64,
    /// Whether the router in the middle of the path reports this to their sender.
    pub tells_mtu: bool,
    /// Whether packets get through.
    pub is_up: bool,
    /// Faults of the path.
    pub faults: Faults,
}

/// Probabilities of faults, per packet.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    /// A packet is late by up to a round-trip time.
    pub reordering: f64,
    /// A byte of the payload grows by one, and the TCP checksum does not detect it. Several changes
    /// in one mapping never cancel out, so the mapping's checksum always detects them.
    pub corruption: f64,
}

impl PathModel {
    /// Creates a path without faults whose queue holds a round-trip time of data, at least 64 kB.
    pub fn new(rate_mbps: u64, delay_ms: u64) -> Self {
        let rate_bps = rate_mbps * 1_000_000;
        let delay = delay_ms * MILLISECOND;
        let round_trip =
            (u128::from(rate_bps / 8) * u128::from(2 * delay) / u128::from(SECOND)) as u64;
        Self {
            delay,
            rate_bps,
            queue_bytes: round_trip.max(64_000),
            mtu_bytes: u64::MAX,
            tells_mtu: false,
            is_up: true,
            faults: Faults::default(),
        }
    }

    /// Sets the faults.
    pub fn with(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }
}

/// What arrives at a host.
pub enum Arrival {
    Packet(Packet),
    Error(IcmpError),
}

/// All paths.
pub struct Network {
    pub paths: Vec<PathModel>,
    /// Packets pass the middleboxes in this order before their path.
    pub middleboxes: Vec<Middlebox>,
    /// The path of each sender's packets.
    path_of: BTreeMap<IpAddr, usize>,
    rng: Xoshiro256PlusPlus,
    /// By path and direction: when the last packet will have left.
    free_at: Vec<[Nanos; 2]>,
    in_flight: BTreeMap<(Nanos, u64), (usize, Arrival)>,
    sent: u64,
}

impl Network {
    pub fn new(
        paths: Vec<PathModel>,
        path_of: BTreeMap<IpAddr, usize>,
        rng: Xoshiro256PlusPlus,
    ) -> Self {
        Self {
            free_at: vec![[0; 2]; paths.len()],
            paths,
            middleboxes: Vec::new(),
            path_of,
            rng,
            in_flight: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Adds senders and the paths of their packets.
    pub fn path_of_more(&mut self, senders: impl Iterator<Item = (IpAddr, usize)>) {
        self.path_of.extend(senders);
    }

    /// Sends a packet of that host.
    pub fn send(&mut self, now: Nanos, from: usize, packet: Packet) {
        let path = self.path_of[&packet.source];
        let place = Place { now, path, from };
        let mut packets = vec![packet];
        for middlebox in &mut self.middleboxes {
            packets = packets
                .into_iter()
                .flat_map(|packet| middlebox(place, packet))
                .collect();
        }
        for packet in packets {
            self.pass(place, packet);
        }
    }

    fn pass(&mut self, place: Place, packet: Packet) {
        let Place { now, path, from } = place;
        let model = self.paths[path].clone();
        let is_lost = self.chance(model.faults.loss);
        let free_at = self.free_at[path][from].max(now);
        let waiting_bits =
            u128::from(free_at - now) * u128::from(model.rate_bps) / u128::from(SECOND);
        let is_full = waiting_bits / 8 > u128::from(model.queue_bytes);
        let len = packet.wire_len() as u64;
        if model.is_up && len > model.mtu_bytes && model.tells_mtu {
            let error = too_big(&packet, model.mtu_bytes);
            self.deliver(now + model.delay, from, Arrival::Error(error));
        }
        if !model.is_up || is_full || len > model.mtu_bytes {
            return;
        }
        let departs = free_at + len * 8 * SECOND / model.rate_bps;
        self.free_at[path][from] = departs;
        if is_lost {
            return;
        }
        let copies = 1 + usize::from(self.chance(model.faults.duplication));
        for _ in 0..copies {
            let late = match self.chance(model.faults.reordering) {
                true => self.below(2 * model.delay),
                false => 0,
            };
            let packet = self.maybe_corrupted(&packet, model.faults.corruption);
            self.deliver(
                departs + model.delay + late,
                1 - from,
                Arrival::Packet(packet),
            );
        }
    }

    fn deliver(&mut self, at: Nanos, to: usize, arrival: Arrival) {
        self.sent += 1;
        self.in_flight.insert((at, self.sent), (to, arrival));
    }

    fn maybe_corrupted(&mut self, packet: &Packet, probability: f64) -> Packet {
        let mut packet = packet.clone();
        if !packet.segment.payload.is_empty() && self.chance(probability) {
            let mut bytes = packet.segment.payload.to_vec();
            let at = self.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes[at..].iter_mut().find(|byte| **byte < u8::MAX) {
                *byte += 1;
            }
            packet.segment.payload = Payload::literal(bytes);
        }
        packet
    }

    /// Returns everything that has arrived by now, and where.
    pub fn arrivals(&mut self, now: Nanos) -> Vec<(usize, Arrival)> {
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

/// Returns a router's error about a packet that its next link does not take.
pub fn too_big(packet: &Packet, mtu_bytes: u64) -> IcmpError {
    let segment = &packet.segment;
    IcmpError {
        problem: Problem::TooBig {
            mtu_bytes: mtu_bytes as u32,
        },
        sender: SocketAddr::new(packet.source, segment.source_port),
        receiver: SocketAddr::new(packet.destination, segment.destination_port),
        seq: segment.seq,
    }
}
