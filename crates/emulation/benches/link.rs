//! Cost of one packet through one direction of a link, per queue discipline and per access network:
//! enqueue, serialize, deliver.
//!
//! The link is busy all the time with about 50 packets waiting, as a bottleneck is.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use emulation::link::{Channel, Packet, StationGenerators, StationId};
use experiment::resolved::{
    Access, Cellular, Codel, Direction, DropTail, FqCodel, Framing, Loss, LossPlace, Pie, Queue,
    Red, Signal,
};

#[allow(dead_code, reason = "shared with the tests of access networks")]
#[path = "../tests/access/networks.rs"]
mod networks;

const RATE_BPS: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;
const STANDING_QUEUE: u64 = 50;
const PACKETS: u64 = 1000;

struct Datagram {
    flow: u64,
    _body: [u64; 6],
}

impl Packet for Datagram {
    fn ip_bytes(&self) -> u32 {
        1500
    }

    fn flow_key(&self) -> u64 {
        self.flow
    }
}

fn direction(queue: Queue, loss: Loss) -> Direction {
    Direction {
        rate_bps: Some(RATE_BPS),
        overhead_bytes: 14,
        framing: Framing::Plain,
        delay_ns: 100_000,
        jitter_ns: 0,
        reorder: false,
        loss,
        loss_at: LossPlace::Egress,
        queue,
        trace: None,
    }
}

/// A link in steady state: one packet comes whenever one has left.
struct BusyLink {
    channel: Channel<Datagram>,
    station: StationId,
    now: u64,
    /// Time from one packet to the next.
    packet_ns: u64,
    delivered: u64,
}

impl BusyLink {
    fn new(direction: &Direction) -> Self {
        Self::over(Channel::point_to_point(), 1, direction)
    }

    /// Returns a busy link over an access network, whose uplink is idle.
    fn of_access(access: &Access, direction: &Direction) -> Self {
        Self::over(Channel::of_access(access, 1), 2, direction)
    }

    /// Returns a link whose last station is busy.
    fn over(mut channel: Channel<Datagram>, stations: u32, direction: &Direction) -> Self {
        let mut add = |_| {
            let generators = StationGenerators::new(1, "bench");
            let station = channel.add_station(direction, generators);
            station.expect("a valid direction")
        };
        let station = (0..stations).map(&mut add).last().expect("a station");
        let rate_bps = direction.rate_bps.expect("a rate");
        let mut link = Self {
            channel,
            station,
            packet_ns: 1514 * 8 * SECOND / rate_bps,
            now: 0,
            delivered: 0,
        };
        (0..STANDING_QUEUE).for_each(|flow| link.offer(flow));
        link
    }

    fn offer(&mut self, flow: u64) {
        let packet = Datagram {
            flow: flow % 8,
            _body: [flow; 6],
        };
        let _ = self.channel.enqueue(self.now, self.station, packet);
    }

    fn run(&mut self) {
        for flow in 0..PACKETS {
            self.now += self.packet_ns;
            while self
                .channel
                .next_departure()
                .is_some_and(|at| at <= self.now)
            {
                self.delivered += u64::from(self.channel.poll(self.now).is_some());
            }
            self.offer(flow);
        }
    }
}

/// LTE to a device that walks.
fn walking() -> Access {
    let signal = Signal {
        fast_sd_mdb: 3000,
        slow_sd_mdb: 5000,
        ..networks::steady()
    };
    Access::Cellular(Cellular {
        signal,
        ..networks::lte()
    })
}

fn per_packet(criterion: &mut Criterion) {
    let (limit_packets, limit_bytes) = (Some(1000), None);
    let (target_ns, interval_ns) = (5_000_000, 100_000_000);
    let drop_tail = Queue::DropTail(DropTail {
        limit_packets,
        limit_bytes,
    });
    let codel = Queue::Codel(Codel {
        limit_packets,
        limit_bytes,
        target_ns,
        interval_ns,
    });
    let fq_codel = Queue::FqCodel(FqCodel {
        limit_packets,
        limit_bytes,
        target_ns,
        interval_ns,
        flows: 1024,
        quantum_bytes: 1514,
    });
    let red = Queue::Red(Red {
        limit_packets,
        limit_bytes,
        min_bytes: 60_000,
        max_bytes: 180_000,
        max_probability: 0.1,
        weight: 0.002,
    });
    let pie = Queue::Pie(Pie {
        limit_packets,
        limit_bytes,
        target_ns: 15_000_000,
        update_ns: 15_000_000,
        max_burst_ns: 150_000_000,
    });
    let bernoulli = Loss::Bernoulli { probability: 0.01 };
    let cases = [
        ("drop_tail", direction(drop_tail, Loss::None {})),
        ("drop_tail_bernoulli", direction(drop_tail, bernoulli)),
        ("codel", direction(codel, Loss::None {})),
        ("fq_codel", direction(fq_codel, Loss::None {})),
        ("red", direction(red, Loss::None {})),
        ("pie", direction(pie, Loss::None {})),
    ];
    let mut group = criterion.benchmark_group("link");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, direction) in cases {
        let mut link = BusyLink::new(&direction);
        group.bench_function(name, |bencher| bencher.iter(|| link.run()));
    }
    // At the rates that these have, because a slow link sends few packets in a TTI.
    for (name, access, rate_bps) in [
        ("cellular", walking(), 40_000_000),
        ("leo", Access::Leo(networks::leo("dish")), 178_000_000),
    ] {
        let mut direction = direction(drop_tail, Loss::None {});
        direction.rate_bps = Some(rate_bps);
        let mut link = BusyLink::of_access(&access, &direction);
        group.bench_function(name, |bencher| bencher.iter(|| link.run()));
    }
    group.finish();
}

criterion_group!(benches, per_packet);
criterion_main!(benches);
