//! A Wi-Fi network with stations, and sources that keep their queues full.

use std::collections::HashMap;

use emulation::link::{AccessCounters, Channel, Enqueued, Output, StationGenerators, StationId};
use experiment::resolved::{Access, Direction, Wifi};
use experiment::time::Nanos;

use crate::driver::{Datagram, plain};

pub const UPLINK: usize = 0;
pub const DOWNLINK: usize = 1;
/// Flows from this number on are probes.
pub const PROBES: u64 = 1000;

/// A network in use, and what arrived.
pub struct Cell {
    pub channel: Channel<Datagram>,
    pub stations: Vec<StationId>,
    pub now: Nanos,
    pub arrived_bytes: Vec<u64>,
    /// For each direction, how long its packets took.
    pub delays: Vec<Vec<Nanos>>,
    /// The same of probes alone.
    pub probes: Vec<Vec<Nanos>>,
    /// Packets that a direction is kept supplied with, and their size.
    supply: HashMap<usize, u32>,
    offered: u64,
    /// Times at which the channel was called without an output: starts of transmissions.
    pub rounds: u64,
}

impl Cell {
    pub fn new(wifi: &Wifi, direction: impl Fn(usize) -> Direction) -> Self {
        let mut channel = Channel::of_access(&Access::Wifi(wifi.clone()), 1);
        let count = 2 * wifi.stations.len();
        let add = |index: usize| {
            let generators = StationGenerators::new(1, &format!("station/{index}"));
            let added = channel.add_station(&direction(index), generators);
            added.expect("a valid direction")
        };
        Self {
            stations: (0..count).map(add).collect(),
            channel,
            now: 0,
            arrived_bytes: vec![0; count],
            delays: vec![Vec::new(); count],
            probes: vec![Vec::new(); count],
            supply: HashMap::new(),
            offered: 0,
            rounds: 0,
        }
    }

    pub fn plain(wifi: &Wifi) -> Self {
        Self::new(wifi, |_| plain(None))
    }

    /// Offers a packet now. Its flow is its direction.
    pub fn offer(&mut self, direction: usize, bytes: u32) -> Enqueued {
        self.offer_flow(direction, bytes, direction as u64)
    }

    pub fn offer_flow(&mut self, direction: usize, bytes: u32, flow: u64) -> Enqueued {
        self.offered += 1;
        let packet = Datagram {
            id: self.offered,
            bytes,
            flow,
            sent: self.now,
        };
        self.channel
            .enqueue(self.now, self.stations[direction], packet)
    }

    /// Keeps `packets` of this size in a direction until the end.
    pub fn keep_supplied(&mut self, direction: usize, packets: usize, bytes: u32) {
        self.supply.insert(direction, bytes);
        for _ in 0..packets {
            assert_eq!(self.offer(direction, bytes), Enqueued::Queued);
        }
    }

    pub fn run_until(&mut self, end: Nanos) {
        while let Some(at) = self.channel.next_departure().filter(|at| *at <= end) {
            self.now = at;
            let mut outputs = 0;
            while let Some(output) = self.channel.poll(at) {
                self.take(output);
                outputs += 1;
            }
            self.rounds += u64::from(outputs == 0);
        }
        self.now = end;
        self.channel.advance(end);
    }

    fn take(&mut self, output: Output<Datagram>) {
        let (station, is_delivered, packet) = match output {
            Output::Delivered {
                station,
                packet,
                at,
                ..
            } => {
                assert_eq!(at, self.now, "a delivery is never late");
                (station, true, packet)
            }
            Output::Dropped {
                station, packet, ..
            } => (station, false, packet),
        };
        let direction = station.index();
        if is_delivered {
            self.arrived_bytes[direction] += u64::from(packet.bytes);
            self.delays[direction].push(self.now - packet.sent);
            if packet.flow >= PROBES {
                self.probes[direction].push(self.now - packet.sent);
            }
        }
        if let Some(bytes) = self.supply.get(&direction) {
            _ = self.offer(direction, *bytes);
        }
    }

    pub fn access(&self, direction: usize) -> AccessCounters {
        let counters = self.channel.access_counters(self.stations[direction]);
        counters.expect("an access network")
    }

    /// Returns the rate at which IP bytes arrived, each packet counted less by `headers`.
    pub fn mbps(&self, direction: usize, headers: u64) -> f64 {
        let packets = self.delays[direction].len() as u64;
        let payload = self.arrived_bytes[direction] - headers * packets;
        8.0 * payload as f64 / (self.now as f64 / 1000.0)
    }

    /// Returns how long the median probe took.
    pub fn median_of_probes(&mut self, direction: usize) -> Nanos {
        let delays = &mut self.probes[direction];
        delays.sort_unstable();
        delays[delays.len() / 2]
    }
}

/// Runs a network whose stations all send packets of this size, as fast as they can.
pub fn saturated_uplinks(wifi: &Wifi, bytes: u32, duration: Nanos) -> Cell {
    let mut cell = Cell::plain(wifi);
    for station in 0..wifi.stations.len() {
        cell.keep_supplied(2 * station + UPLINK, 10, bytes);
    }
    cell.run_until(duration);
    cell
}
