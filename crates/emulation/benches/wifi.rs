//! Cost of one packet over Wi-Fi with five contenders and aggregates, beside one over a plain link.
//!
//! Each sender always has about 100 packets waiting.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use emulation::link::{Channel, Output, Packet, StationGenerators, StationId};
use experiment::resolved::{
    Access, AccessCategory, Aggregation, ApFq, ApQueue, Direction, DropTail, Edca, Framing,
    HopDirection, Loss, LossPlace, Queue, Snr, SnrPoint, Wifi, WifiRate, WifiStandard, WifiStation,
};

const CONTENDERS: usize = 5;
const STANDING_QUEUE: usize = 100;
const PACKETS: u64 = 10_000;

struct Datagram([u64; 7]);

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

fn station(index: usize) -> WifiStation {
    WifiStation {
        link: format!("station{index}"),
        uplink: HopDirection::Forward,
        access_category: AccessCategory::BestEffort,
        streams: 2,
        rate: WifiRate::Auto {},
        snr: Snr {
            means: vec![SnrPoint {
                at_ns: 0,
                mean_mdb: 30_000,
            }],
            sd_mdb: 2000,
            correlation_ns: 200_000_000,
        },
        power_save_after_ns: None,
        scan: None,
    }
}

fn wifi() -> Wifi {
    Wifi {
        medium: "air".to_owned(),
        standard: WifiStandard::Ac,
        width_mhz: 80,
        guard_interval_ns: 400,
        aggregation: Aggregation {
            max_mpdus: 64,
            max_bytes: 1_048_575,
            max_ppdu_ns: 4_000_000,
        },
        rts_bytes: None,
        retry_limit: 10,
        edca: [Edca {
            aifsn: 3,
            cw_min: 15,
            cw_max: 1023,
            txop_limit_ns: 0,
        }; 4],
        ap_queue: ApQueue::Fq(ApFq {
            quantum_ns: 300_000,
            aql_low_ns: 5_000_000,
            aql_high_ns: 12_000_000,
            aql_threshold_ns: 24_000_000,
        }),
        stations: (0..CONTENDERS).map(station).collect(),
        neighbours: Vec::new(),
    }
}

/// A channel whose senders get a packet whenever one of theirs has arrived.
struct Busy {
    channel: Channel<Datagram>,
    now: u64,
    number: u64,
}

impl Busy {
    fn new(mut channel: Channel<Datagram>, stations: usize, rate_bps: Option<u64>) -> Self {
        let add = |index: usize| {
            let generators = StationGenerators::new(1, &format!("bench/{index}"));
            let added = channel.add_station(&direction(rate_bps), generators);
            added.expect("a valid direction")
        };
        let stations: Vec<_> = (0..stations).map(add).collect();
        let mut busy = Self {
            channel,
            now: 0,
            number: 0,
        };
        for station in stations.iter().step_by(2) {
            (0..STANDING_QUEUE).for_each(|_| busy.offer(*station));
        }
        busy
    }

    fn offer(&mut self, station: StationId) {
        self.number += 1;
        let packet = Datagram([self.number % 8; 7]);
        _ = self.channel.enqueue(self.now, station, packet);
    }

    fn run(&mut self) {
        let mut delivered = 0;
        while delivered < PACKETS
            && let Some(at) = self.channel.next_departure()
        {
            self.now = at;
            while let Some(output) = self.channel.poll(at) {
                let (Output::Delivered { station, .. } | Output::Dropped { station, .. }) = output;
                self.offer(station);
                delivered += 1;
            }
        }
    }
}

fn packets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("access/packet");
    group.throughput(Throughput::Elements(PACKETS));
    let mut plain = Busy::new(Channel::point_to_point(), 1, Some(1_000_000_000));
    group.bench_function("plain", |bencher| bencher.iter(|| plain.run()));
    let air = Channel::of_access(&Access::Wifi(wifi()), 1);
    let mut wifi = Busy::new(air, 2 * CONTENDERS, None);
    group.bench_function("wifi", |bencher| bencher.iter(|| wifi.run()));
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
