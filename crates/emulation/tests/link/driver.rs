//! A packet, plain directions, and a link that is polled only when it asks to be.

use emulation::link::{
    Channel, Counters, DropReason, Enqueued, Output, Packet, StationGenerators, StationId,
};
use experiment::resolved::{
    Direction, DropTail, Framing, Loss, LossPlace, Queue, Trace, TraceStart,
};
use experiment::time::Nanos;

pub const MILLISECOND: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub id: u64,
    pub bytes: u32,
    pub flow: u64,
    pub sent: Nanos,
}

impl Packet for Datagram {
    fn ip_bytes(&self) -> u32 {
        self.bytes
    }

    fn flow_key(&self) -> u64 {
        self.flow
    }
}

/// No overhead, no delay, no loss, no limit.
pub fn plain(rate_bps: Option<u64>) -> Direction {
    Direction {
        rate_bps,
        overhead_bytes: 0,
        framing: Framing::Plain,
        delay_ns: 0,
        jitter_ns: 0,
        reorder: false,
        loss: Loss::None {},
        loss_at: LossPlace::Ingress,
        queue: drop_tail(None),
        trace: None,
    }
}

/// A trace that begins with the run and of which the caller gives the contents.
pub fn trace(period_ns: Nanos) -> Trace {
    Trace {
        opportunities_ns: Vec::new(),
        rates: Vec::new(),
        delays: Vec::new(),
        trains: None,
        losses: Vec::new(),
        period_ns,
        opportunity_bytes: 1500,
        start: TraceStart::At { at_ns: 0 },
    }
}

pub fn drop_tail(limit_packets: Option<u64>) -> Queue {
    Queue::DropTail(DropTail {
        limit_packets,
        limit_bytes: None,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    pub packet: Datagram,
    pub at: Nanos,
    pub reason: DropReason,
}

/// A channel that is polled at exactly the times that it names.
pub struct Link {
    pub channel: Channel<Datagram>,
    pub stations: Vec<StationId>,
    pub delivered: Vec<(Nanos, Datagram)>,
    pub dropped: Vec<Dropped>,
    offered: u64,
    clock: Nanos,
}

impl Link {
    pub fn new(direction: &Direction) -> Self {
        Self::with_stations(Channel::point_to_point(), std::slice::from_ref(direction))
    }

    pub fn with_stations(mut channel: Channel<Datagram>, directions: &[Direction]) -> Self {
        let add = |(index, direction)| {
            let generators = StationGenerators::new(1, &format!("station/{index}"));
            channel
                .add_station(direction, generators)
                .expect("a valid direction")
        };
        let stations = directions.iter().enumerate().map(add).collect();
        Self {
            channel,
            stations,
            delivered: Vec::new(),
            dropped: Vec::new(),
            offered: 0,
            clock: 0,
        }
    }

    /// Offers a packet to the first station, after everything that happens up to `now`.
    pub fn offer(&mut self, now: Nanos, bytes: u32) -> Enqueued {
        self.offer_to(0, now, bytes, 0)
    }

    pub fn offer_to(&mut self, station: usize, now: Nanos, bytes: u32, flow: u64) -> Enqueued {
        self.run_until(now);
        let packet = Datagram {
            id: self.offered,
            bytes,
            flow,
            sent: now,
        };
        self.offered += 1;
        let outcome = self
            .channel
            .enqueue(now, self.stations[station], packet.clone());
        if let Enqueued::Dropped(reason) = outcome {
            self.dropped.push(Dropped {
                packet,
                at: now,
                reason,
            });
        }
        outcome
    }

    pub fn run_until(&mut self, now: Nanos) {
        while let Some(at) = self.channel.next_departure().filter(|at| *at <= now) {
            while let Some(output) = self.channel.poll(at) {
                self.record(output, at);
            }
        }
        self.channel.advance(now);
        self.clock = self.clock.max(now);
    }

    /// Resets the channel and forgets the packets that came out.
    pub fn reset(&mut self) {
        self.channel.reset();
        self.delivered.clear();
        self.dropped.clear();
        (self.offered, self.clock) = (0, 0);
    }

    pub fn run_to_end(&mut self) {
        self.run_until(Nanos::MAX);
    }

    fn record(&mut self, output: Output<Datagram>, polled: Nanos) {
        match output {
            Output::Delivered { packet, at, .. } => {
                assert_eq!(at, polled, "a delivery is never late");
                assert!(at >= self.clock, "the past does not change");
                self.delivered.push((at, packet));
            }
            Output::Dropped {
                packet, at, reason, ..
            } => {
                assert!(at <= polled, "nothing is reported before it happens");
                self.dropped.push(Dropped { packet, at, reason });
            }
        }
    }

    pub fn counters(&self) -> Counters {
        self.channel.counters(self.stations[0])
    }

    pub fn queue_packets(&self) -> u64 {
        self.channel.queue_packets(self.stations[0])
    }

    pub fn arrivals(&self) -> Vec<Nanos> {
        self.delivered.iter().map(|(at, _)| *at).collect()
    }
}
