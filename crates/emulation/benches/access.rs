//! Cost of one packet over each access network, beside one over a plain link.
//!
//! Wi-Fi has five contenders and aggregates, the cellular link fading and HARQ, the satellites all
//! of their defaults. Each sender always has about 100 packets waiting.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use emulation::link::{Channel, Output, Packet, StationGenerators, StationId};
use experiment::resolved::{
    Access, Cellular, Direction, DropTail, Framing, Loss, LossPlace, Queue, Wifi, WifiRate,
    WifiStandard,
};

#[allow(dead_code, reason = "shared with the tests of access networks")]
#[path = "../tests/access/networks.rs"]
mod networks;

const CONTENDERS: usize = 5;
const STANDING_QUEUE: u64 = 100;
const PACKETS: u64 = 10_000;

/// As large as a packet of the simulator.
struct Datagram([u64; 5]);

impl Packet for Datagram {
    fn ip_bytes(&self) -> u32 {
        1500
    }

    fn flow_key(&self) -> u64 {
        self.0[0]
    }
}

fn direction(rate_bps: Option<u64>) -> Direction {
    Direction {
        rate_bps,
        overhead_bytes: 14,
        framing: Framing::Plain,
        delay_ns: 100_000,
        jitter_ns: 0,
        reorder: false,
        loss: Loss::None {},
        loss_at: LossPlace::Egress,
        queue: Queue::DropTail(DropTail {
            limit_packets: None,
            limit_bytes: None,
        }),
        trace: None,
    }
}

/// 802.11ac at 80 MHz, as Linux sends.
fn wifi() -> Wifi {
    let mut wifi = networks::network(WifiStandard::Ac, &[WifiRate::Auto {}; CONTENDERS]);
    for station in &mut wifi.stations {
        (
            station.width_mhz,
            station.guard_interval_ns,
            station.streams,
        ) = (80, 400, 2);
        station.aggregation.max_bytes = 1_048_575;
        station.aggregation.max_ppdu_ns = 4_000_000;
        station.snr.means[0].mean_mdb = 30_000;
        station.snr.sd_mdb = 2000;
    }
    wifi
}

/// LTE with the fading of a static device.
fn lte() -> Cellular {
    let mut cell = networks::lte();
    (cell.signal.fast_sd_mdb, cell.signal.slow_sd_mdb) = (2000, 2000);
    cell
}

/// A channel on which every packet that has arrived is sent again.
struct Busy {
    channel: Channel<Datagram>,
    now: u64,
}

impl Busy {
    fn new(mut channel: Channel<Datagram>, stations: usize, rate_bps: Option<u64>) -> Self {
        let add = |index: usize| {
            let generators = StationGenerators::new(1, &format!("bench/{index}"));
            let added = channel.add_station(&direction(rate_bps), generators);
            added.expect("a valid direction")
        };
        let stations: Vec<_> = (0..stations).map(add).collect();
        let mut busy = Self { channel, now: 0 };
        for station in stations.iter().step_by(2) {
            (0..STANDING_QUEUE).for_each(|number| busy.offer(*station, Datagram([number % 8; 5])));
        }
        busy
    }

    fn offer(&mut self, station: StationId, packet: Datagram) {
        _ = self.channel.enqueue(self.now, station, packet);
    }

    fn run(&mut self) {
        let mut delivered = 0;
        while delivered < PACKETS
            && let Some(at) = self.channel.next_departure()
        {
            self.now = at;
            while let Some(output) = self.channel.poll(at) {
                let (Output::Delivered {
                    station, packet, ..
                }
                | Output::Dropped {
                    station, packet, ..
                }) = output;
                self.offer(station, packet);
                delivered += 1;
            }
        }
    }
}

fn packets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("access");
    group.throughput(Throughput::Elements(PACKETS));
    let of = |access| Channel::of_access(&access, 1);
    let cases = [
        ("plain", Channel::point_to_point(), 1, Some(1_000_000_000)),
        ("wifi", of(Access::Wifi(wifi())), 2 * CONTENDERS, None),
        ("cellular", of(Access::Cellular(lte())), 2, Some(40_000_000)),
        (
            "leo",
            of(Access::Leo(networks::leo("dish"))),
            2,
            Some(180_000_000),
        ),
    ];
    for (name, channel, stations, rate_bps) in cases {
        let mut busy = Busy::new(channel, stations, rate_bps);
        group.bench_function(name, |bencher| bencher.iter(|| busy.run()));
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
