//! A Wi-Fi network with stations, and sources that keep their queues full.

use std::collections::HashMap;

use emulation::link::{AccessCounters, Channel, Enqueued, Output, StationGenerators, StationId};
use experiment::resolved::{
    Access, AccessCategory, Aggregation, ApFifo, ApFq, ApQueue, Direction, Edca, HopDirection, Snr,
    SnrPoint, Wifi, WifiRate, WifiStandard, WifiStation,
};
use experiment::time::Nanos;

use crate::driver::{Datagram, plain};

pub const UPLINK: usize = 0;
pub const DOWNLINK: usize = 1;
/// Flows from this number on are probes.
pub const PROBES: u64 = 1000;

/// The access parameters of best effort in each standard, for all categories.
fn edca(standard: WifiStandard) -> [Edca; 4] {
    let cw_min = if standard == WifiStandard::B { 31 } else { 15 };
    let aifsn = if standard.has_qos() { 3 } else { 2 };
    [Edca {
        aifsn,
        cw_min,
        cw_max: 1023,
        txop_limit_ns: 0,
    }; 4]
}

pub fn fixed(mcs: u32) -> WifiRate {
    WifiRate::Fixed { mcs }
}

/// The usual queue of Linux for each station.
pub fn fair_queue() -> ApQueue {
    ApQueue::Fq(ApFq {
        quantum_ns: 300_000,
        aql_low_ns: 5_000_000,
        aql_high_ns: 12_000_000,
        aql_threshold_ns: 24_000_000,
    })
}

/// The queue of Linux before 4.11 with the driver of ath9k.
pub fn one_queue() -> ApQueue {
    ApQueue::Fifo(ApFifo {
        limit_packets: 1000,
        driver_packets: 123,
    })
}

/// A network of stations with the same good signal, each at its rate.
pub fn network(standard: WifiStandard, rates: &[WifiRate]) -> Wifi {
    let station = |(index, rate): (usize, &WifiRate)| WifiStation {
        link: format!("station{index}"),
        uplink: HopDirection::Forward,
        access_category: AccessCategory::BestEffort,
        streams: 1,
        rate: *rate,
        snr: Snr {
            means: vec![SnrPoint {
                at_ns: 0,
                mean_mdb: 60_000,
            }],
            sd_mdb: 0,
            correlation_ns: 200_000_000,
        },
        power_save_after_ns: None,
        scan: None,
    };
    Wifi {
        medium: "air".to_owned(),
        standard,
        width_mhz: 20,
        guard_interval_ns: 800,
        aggregation: Aggregation {
            max_mpdus: if standard.has_qos() { 64 } else { 1 },
            max_bytes: 65_535,
            max_ppdu_ns: 5_484_000,
        },
        rts_bytes: None,
        retry_limit: 10,
        edca: edca(standard),
        ap_queue: fair_queue(),
        stations: rates.iter().enumerate().map(station).collect(),
        neighbours: Vec::new(),
    }
}

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
