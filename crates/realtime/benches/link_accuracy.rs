//! Measures how closely links in real time follow their description: throughput, delay, cost, and
//! packet by packet against the simulator's link.
//!
//! Needs root. Prints `NAME-FIGURE VALUE`. Names of the kernel's own disciplines begin with `netem`
//! or `tbf`; they are left out where the kernel lacks them.

mod description;
mod traffic;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use emulation::link::Packet;
use emulation::links::{Arrival, Links};
use experiment::resolved::Experiment;
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::json;

use description::{direction, parallel_links};
use traffic::{
    Pair, Share, World, datagram_pair, goodput_bps, quantile, round_trips,
    run_before_ordinary_threads,
};

const MBIT: u64 = 1_000_000;
const DELAY: Duration = Duration::from_millis(10);
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(5);
const PINGS: usize = 150;
/// Ratio of payload to length on the link for a full TCP segment with timestamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1514.0;
const SEED: u64 = 1;

fn main() {
    for mbit in [10, 100, 1000] {
        one_link(mbit);
    }
    eight_links();
    schedule();
}

/// Returns the packets of one bandwidth-delay product, which is also the limit of the queue.
fn bdp_packets(rate_bps: u64) -> u64 {
    (rate_bps as f64 * 2.0 * DELAY.as_secs_f64() / 8.0 / 1514.0).max(100.0) as u64
}

fn one_link(mbit: u64) {
    let rate_bps = mbit * MBIT;
    let shape = direction(
        Some(rate_bps),
        DELAY.as_nanos() as u64,
        bdp_packets(rate_bps),
    );
    let mut world = World::new(&parallel_links(1, &shape), SEED);
    let name = format!("link-accuracy-{mbit}");
    // 64 bytes with their headers and that of the frame, in both directions.
    let described = 2.0 * (DELAY.as_secs_f64() + (64.0 + 28.0 + 14.0) * 8.0 / rate_bps as f64);
    let times = round_trips(world.ends(0), PINGS);
    let beyond = |q| (quantile(&times, q).as_secs_f64() - described) * 1e3;
    println!("{name}-ping-median-ms {:.4}", beyond(0.5));
    println!("{name}-ping-p99-ms {:.4}", beyond(0.99));
    let mut share = Share::default();
    let goodput = goodput_bps(&[world.ends(0)], WARM_UP, MEASURED, || share.mark());
    println!(
        "{name}-goodput {:.4}",
        goodput / (rate_bps as f64 * PAYLOAD_SHARE)
    );
    println!("{name}-core {:.4}", share.value);
    let state = world.emulator.state().expect("it is well");
    let dropped: u64 = state.directions[0].link.dropped.iter().sum();
    println!("{name}-dropped {dropped}");
    let summary = world.emulator.finish().expect("it is well");
    println!(
        "{name}-late-mean-ms {:.4}",
        summary.lateness[0].mean_s * 1e3
    );
    println!("{name}-late-p99-ms {:.4}", summary.lateness[0].p99_s * 1e3);
    println!(
        "{name}-standstill-ms {:.4}",
        summary.longest_standstill_s * 1e3
    );
    peer(mbit);
}

/// Measures the kernel's own queueing disciplines. Token buckets have no delay to compare.
fn peer(mbit: u64) {
    let rate_bps = mbit * MBIT;
    let limit = bdp_packets(rate_bps);
    let netem = format!("netem rate {mbit}mbit delay 10ms limit {}", 3 * limit);
    let burst = (rate_bps / 8 / 250).max(3028);
    let tbf = format!("tbf rate {mbit}mbit burst {burst} limit {}", limit * 1514);
    let made = [("netem", netem), ("tbf", tbf)];
    let mut made = made
        .iter()
        .filter_map(|(name, queueing)| Some((name, Pair::new(Some(queueing))?)));
    let Some((name, pair)) = made.next() else {
        return;
    };
    let times = round_trips(pair.ends(), PINGS);
    let delay = if *name == "netem" {
        2.0 * DELAY.as_secs_f64()
    } else {
        0.0
    };
    let beyond = |q| (quantile(&times, q).as_secs_f64() - delay) * 1e3;
    println!("{name}-{mbit}-ping-median-ms {:.4}", beyond(0.5));
    println!("{name}-{mbit}-ping-p99-ms {:.4}", beyond(0.99));
    let goodput = goodput_bps(&[pair.ends()], WARM_UP, MEASURED, || ());
    println!(
        "{name}-{mbit}-goodput {:.4}",
        goodput / (rate_bps as f64 * PAYLOAD_SHARE)
    );
}

fn eight_links() {
    let rate_bps = 8 * MBIT;
    let shape = direction(Some(rate_bps), DELAY.as_nanos() as u64, 100);
    let mut world = World::new(&parallel_links(8, &shape), SEED);
    let pairs: Vec<_> = (0..8).map(|link| world.ends(link)).collect();
    let mut share = Share::default();
    let goodput = goodput_bps(&pairs, WARM_UP, MEASURED, || share.mark());
    let name = "link-accuracy-8x8";
    println!(
        "{name}-goodput {:.4}",
        goodput / (8.0 * rate_bps as f64 * PAYLOAD_SHARE)
    );
    println!("{name}-core {:.4}", share.value);
    drop(pairs);
    let summary = world.emulator.finish().expect("it is well");
    let worst = summary
        .lateness
        .iter()
        .map(|late| late.p99_s)
        .fold(0.0, f64::max);
    println!("{name}-late-p99-ms {:.4}", worst * 1e3);
}

// ---- packet by packet ----

const PACKETS: u32 = 5000;

/// A packet of the simulator's link.
struct Numbered {
    number: u32,
    ip_bytes: u32,
}

impl Packet for Numbered {
    fn ip_bytes(&self) -> u32 {
        self.ip_bytes
    }

    fn flow_key(&self) -> u64 {
        0
    }
}

/// When each packet arrived, by its number, in nanoseconds.
type Times = BTreeMap<u32, u64>;

/// Sends bursts of packets of many sizes into a link with loss and a queue that sometimes
/// overflows. Compares the result with the simulator's for the same packets, offered at the times
/// at which they were sent and at those at which the link in real time read them.
fn schedule() {
    let mut shape = direction(Some(20 * MBIT), DELAY.as_nanos() as u64, 30);
    shape["loss"] = json!({"kind": "bernoulli", "probability": 0.01});
    let mut description = parallel_links(1, &shape);
    description["measure"]["captures"] = json!(["client.eth0", "server.eth0"]);
    let mut world = World::new(&description, SEED);
    let (sent, arrived) = send_bursts(&world);
    world.emulator.finish().expect("it is well");
    let [read, delivered] = ["client.eth0", "server.eth0"]
        .map(|id| captured(&world.directory.path().join(format!("{id}.pcapng"))));
    report("read", &simulated(&world.experiment, &read), &delivered);
    report("sockets", &simulated(&world.experiment, &sent), &arrived);
}

fn send_bursts(world: &World) -> (Times, Times) {
    let (here, there) = datagram_pair(world.ends(0));
    there
        .set_read_timeout(Some(Duration::from_millis(500)))
        .expect("a time");
    let zero = Instant::now();
    let now = move || zero.elapsed().as_nanos() as u64;
    let receiver = thread::spawn(move || {
        run_before_ordinary_threads();
        let mut arrived = Times::new();
        let mut buffer = [0; 2000];
        while there.recv(&mut buffer).is_ok() {
            arrived.insert(number_in(&buffer), now());
        }
        arrived
    });
    let sender = thread::spawn(move || send_all(&here, zero));
    let sent = sender.join().expect("it sends");
    (sent, receiver.join().expect("it listens"))
}

fn send_all(here: &UdpSocket, zero: Instant) -> Times {
    run_before_ordinary_threads();
    let mut sent = Times::new();
    let mut due = Duration::ZERO;
    for number in 0..PACKETS {
        thread::sleep((zero + due).saturating_duration_since(Instant::now()));
        let mut datagram = vec![0; payload_bytes(number)];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        sent.insert(number, zero.elapsed().as_nanos() as u64);
        here.send(&datagram).expect("it is sent");
        // Fifty packets at once, followed by time for most of them.
        if number % 50 == 49 {
            due += Duration::from_micros(15_000 + u64::from(scattered(number) % 5000));
        }
    }
    sent
}

/// Returns a number without a pattern, always the same for the same `number`.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_769) >> 8
}

fn payload_bytes(number: u32) -> usize {
    100 + scattered(number) as usize % 1300
}

fn number_in(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().expect("4 bytes"))
}

/// Reads the times of packets from a capture.
fn captured(path: &Path) -> Times {
    let mut reader = PcapNgReader::new(File::open(path).expect("a capture")).expect("pcapng");
    let mut times = Times::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a block")
            && packet.data.first() == Some(&0x45)
        {
            times.insert(
                number_in(&packet.data[28..]),
                packet.timestamp.as_nanos() as u64,
            );
        }
    }
    times
}

/// Returns when the simulator's link delivers packets that are offered at these times.
fn simulated(experiment: &Experiment, offered: &Times) -> Times {
    let mut links: Links<Numbered> = Links::new(experiment, SEED).expect("valid links");
    let channel = links.channel_of(0);
    let zero = *offered.values().next().expect("packets");
    let mut delivered = Times::new();
    let mut take = |links: &mut Links<Numbered>, until| {
        while let Some(arrival) = links.poll(until, channel) {
            if let Arrival::Delivered { packet, at, .. } = arrival {
                delivered.insert(packet.number, zero + at);
            }
        }
    };
    for (&number, &at) in offered {
        take(&mut links, at - zero);
        let ip_bytes = 28 + payload_bytes(number) as u32;
        // A refused packet is not delivered.
        let _ = links.offer(at - zero, 0, Numbered { number, ip_bytes });
    }
    take(&mut links, u64::MAX / 2);
    delivered
}

fn report(name: &str, simulated: &Times, live: &Times) {
    let differently = simulated
        .keys()
        .filter(|number| !live.contains_key(number))
        .count()
        + live
            .keys()
            .filter(|number| !simulated.contains_key(number))
            .count();
    let both = simulated
        .iter()
        .filter_map(|(number, at)| Some((*live.get(number)? as f64 - *at as f64) / 1e6));
    let mut later: Vec<f64> = both.collect();
    later.sort_by(f64::total_cmp);
    println!("link-accuracy-{name}-packets {}", live.len());
    println!("link-accuracy-{name}-lost-differently {differently}");
    println!(
        "link-accuracy-{name}-median-ms {:.4}",
        quantile(&later, 0.5)
    );
    println!("link-accuracy-{name}-p99-ms {:.4}", quantile(&later, 0.99));
}
