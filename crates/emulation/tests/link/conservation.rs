//! Laws that hold for any parameters, arrivals and changes.

use emulation::link::{Channel, Counters, DropReason, StationId};
use experiment::features::Feature;
use experiment::resolved::{
    Codel, DelayStep, Direction, DropTail, FqCodel, Framing, GilbertElliott, Loss, LossPlace,
    LossStep, Pie, Queue, RateStep, Red, Trace, TraceStart, Train, Trains,
};
use experiment::time::Nanos;
use proptest::prelude::*;

use crate::driver::{Datagram, Dropped, Link, plain};

const STATIONS: usize = 2;
const FLOWS: u64 = 3;
/// Overhead of each packet on a medium.
const OVERHEAD_BYTES: u32 = 5;

fn limits() -> impl Strategy<Value = (Option<u64>, Option<u64>)> {
    (prop::option::of(1..20u64), prop::option::of(1..60_000u64))
}

fn features_of(kind: &str) -> impl Strategy<Value = Feature> + use<> {
    prop::sample::select(Feature::of_kind(kind).collect::<Vec<_>>())
}

fn queue() -> impl Strategy<Value = Queue> {
    let time = 1_000..50_000_000u64;
    (limits(), time.clone(), time, features_of("queue")).prop_map(
        |((limit_packets, limit_bytes), target_ns, interval_ns, discipline)| match discipline {
            Feature::DropTail => Queue::DropTail(DropTail {
                limit_packets,
                limit_bytes,
            }),
            Feature::Codel => Queue::Codel(Codel {
                limit_packets,
                limit_bytes,
                target_ns,
                interval_ns,
            }),
            Feature::FqCodel => Queue::FqCodel(FqCodel {
                limit_packets,
                limit_bytes,
                target_ns,
                interval_ns,
                flows: 1 + (target_ns % 4) as u32,
                quantum_bytes: 256 + (interval_ns % 3000) as u32,
            }),
            Feature::Red => Queue::Red(Red {
                limit_packets,
                limit_bytes,
                min_bytes: target_ns % 10_000,
                max_bytes: 10_000 + interval_ns % 10_000,
                max_probability: 0.5,
                weight: 0.3,
            }),
            Feature::Pie => Queue::Pie(Pie {
                limit_packets,
                limit_bytes,
                target_ns,
                update_ns: interval_ns,
                max_burst_ns: target_ns,
            }),
            other => panic!("{} has no parameters here", other.name()),
        },
    )
}

fn loss() -> impl Strategy<Value = Loss> {
    let lost = prop::collection::vec(0..50u64, 0..5);
    let model = (features_of("loss"), lost, 0.0..=1.0, 0.0..=1.0);
    let model = model.prop_map(|(model, packets, one, other)| match model {
        Feature::Bernoulli => Loss::Bernoulli { probability: one },
        Feature::ListOfLosses => Loss::List { packets },
        Feature::GilbertElliott => Loss::GilbertElliott(GilbertElliott {
            good_to_bad: one,
            bad_to_good: other,
            loss_good: 0.01,
            loss_bad: 0.9,
        }),
        other => panic!("{} has no parameters here", other.name()),
    });
    prop_oneof![1 => Just(Loss::None {}), 3 => model]
}

fn instants() -> impl Strategy<Value = Vec<u64>> {
    let later = prop::collection::btree_set(1..5_000_000u64, 0..4);
    later.prop_map(|later| [0].into_iter().chain(later).collect())
}

fn rates() -> impl Strategy<Value = Vec<RateStep>> {
    let any = (instants(), prop::collection::vec(0..50_000_000u64, 5));
    any.prop_map(|(instants, rates)| {
        let with_rate = |(from_ns, rate_bps)| RateStep { from_ns, rate_bps };
        let mut rates: Vec<_> = instants.into_iter().zip(rates).map(with_rate).collect();
        // An outage that never ends is refused.
        rates[0].rate_bps = rates[0].rate_bps.max(100_000);
        rates
    })
}

fn delays() -> impl Strategy<Value = Vec<DelayStep>> {
    let any = (instants(), prop::collection::vec(0..30_000_000u64, 5));
    any.prop_map(|(instants, delays)| {
        let with_delay = |(from_ns, delay_ns)| DelayStep { from_ns, delay_ns };
        instants.into_iter().zip(delays).map(with_delay).collect()
    })
}

fn losses() -> impl Strategy<Value = Vec<LossStep>> {
    let any = (instants(), prop::collection::vec(0.0..=1.0, 5));
    any.prop_map(|(instants, losses)| {
        let with_loss = |(from_ns, probability)| LossStep {
            from_ns,
            probability,
        };
        instants.into_iter().zip(losses).map(with_loss).collect()
    })
}

fn start() -> impl Strategy<Value = TraceStart> {
    let drawn = (1..=5_000_000u64).prop_map(|below_ns| TraceStart::Drawn {
        recording: "drive".to_owned(),
        below_ns,
    });
    prop_oneof![
        (0..5_000_000u64).prop_map(|at_ns| TraceStart::At { at_ns }),
        drawn
    ]
}

/// Trains at the steps of delays, with some opportunities each.
fn trains(delays: &[DelayStep]) -> Trains {
    let probes = delays.iter().map(|step| Train {
        at_ns: step.from_ns,
        opportunities_ns: (0..step.delay_ns % 7).map(|one| one * 300_000).collect(),
    });
    Trains {
        pause_ns: 1 + delays[0].delay_ns,
        probes: probes.collect(),
    }
}

/// A trace with opportunities or rates, and often with delays and losses.
fn trace() -> impl Strategy<Value = Trace> {
    let instants = prop::collection::vec(0..=5_000_000u64, 1..8);
    let capacity = prop_oneof![
        instants.prop_map(|instants| (instants, Vec::new())),
        rates().prop_map(|rates| (Vec::new(), rates)),
    ];
    let delays = prop_oneof![Just(Vec::new()), delays()];
    let losses = prop_oneof![Just(Vec::new()), losses()];
    (capacity, delays, losses, start(), 1..3000u32).prop_map(
        |((mut opportunities_ns, rates), delays, losses, start, opportunity_bytes)| {
            opportunities_ns.sort_unstable();
            Trace {
                trains: (!opportunities_ns.is_empty() && !delays.is_empty())
                    .then(|| trains(&delays)),
                opportunities_ns,
                rates,
                delays,
                losses,
                period_ns: 5_000_000,
                opportunity_bytes,
                start,
            }
        },
    )
}

/// A trace that leaves the rate to the direction.
fn variation() -> impl Strategy<Value = Trace> {
    (trace(), delays()).prop_map(|(trace, delays)| Trace {
        opportunities_ns: Vec::new(),
        rates: Vec::new(),
        delays,
        trains: None,
        ..trace
    })
}

/// A rate, a trace or neither.
fn pace() -> impl Strategy<Value = (Option<u64>, Option<Trace>)> {
    prop_oneof![
        Just((None, None)),
        (3..40u32).prop_map(|power| (Some(1 << power), None)),
        trace().prop_map(|trace| (None, Some(trace))),
        (variation(), 3..40u32).prop_map(|(trace, power)| (Some(1 << power), Some(trace))),
    ]
}

fn direction() -> impl Strategy<Value = Direction> {
    let delay = prop_oneof![Just(0), 0..20_000_000u64, Just(7_200_000_000_000)];
    let place = prop_oneof![Just(LossPlace::Ingress), Just(LossPlace::Egress)];
    let jitter = prop_oneof![Just(0), 0..10_000_000u64];
    let framing = prop_oneof![
        2 => Just(Framing::Plain),
        1 => Just(Framing::Atm),
        1 => Just(Framing::Ptm),
    ];
    (
        pace(),
        (0..40u32, framing),
        delay,
        jitter,
        any::<bool>(),
        loss(),
        place,
        queue(),
    )
        .prop_map(
            |(
                pace,
                (overhead_bytes, framing),
                delay_ns,
                jitter_ns,
                reorder,
                loss,
                loss_at,
                queue,
            )| {
                Direction {
                    rate_bps: pace.0,
                    overhead_bytes,
                    framing,
                    delay_ns,
                    jitter_ns,
                    reorder,
                    loss,
                    loss_at,
                    queue,
                    trace: pace.1,
                }
            },
        )
}

/// Mostly directions with only a rate, a delay and a limit. The overhead is that of `channel`.
fn often_simple() -> impl Strategy<Value = Direction> {
    let simple = |direction: Direction| Direction {
        queue: Queue::DropTail(DropTail {
            limit_packets: direction.queue.limits().0,
            limit_bytes: direction.queue.limits().1,
        }),
        loss: Loss::None {},
        jitter_ns: 0,
        reorder: false,
        trace: None,
        ..direction
    };
    let any = prop_oneof![8 => direction().prop_map(simple), 1 => direction()];
    any.prop_map(|direction| Direction {
        overhead_bytes: OVERHEAD_BYTES,
        framing: Framing::Plain,
        ..direction
    })
}

#[derive(Clone, Debug)]
enum Step {
    Offer {
        station: usize,
        bytes: u32,
        flow: u64,
    },
    Reconfigure {
        station: usize,
        direction: Box<Direction>,
    },
    SetUp {
        station: usize,
        up: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    step_with(direction())
}

fn step_of_often_simple() -> impl Strategy<Value = Step> {
    step_with(often_simple())
}

fn step_with(directions: impl Strategy<Value = Direction>) -> impl Strategy<Value = Step> {
    let offer =
        (0..STATIONS, 0..65_536u32, 0..FLOWS).prop_map(|(station, bytes, flow)| Step::Offer {
            station,
            bytes: bytes % 3000,
            flow,
        });
    let reconfigure =
        (0..STATIONS, directions).prop_map(|(station, direction)| Step::Reconfigure {
            station,
            direction: Box::new(direction),
        });
    let set_up = (0..STATIONS, any::<bool>()).prop_map(|(station, up)| Step::SetUp { station, up });
    prop_oneof![40 => offer, 2 => reconfigure, 1 => set_up]
}

fn gap() -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(0), 0..1_000_000u64, 0..100_000_000u64]
}

/// Steps, each with the time since the one before.
fn steps() -> impl Strategy<Value = Vec<(Nanos, Step)>> {
    prop::collection::vec((gap(), step()), 1..150)
}

fn channel(shared_rate_bps: Option<u64>) -> Channel<Datagram> {
    Channel::medium(shared_rate_bps, OVERHEAD_BYTES).expect("a valid rate")
}

fn shared_rate() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(10_000..1_000_000_000u64)
}

struct Run {
    link: Link,
    current: Vec<Direction>,
    now: Nanos,
}

impl Run {
    fn new(shared_rate_bps: Option<u64>, directions: [Direction; STATIONS]) -> Self {
        Self::on(channel(shared_rate_bps), &directions)
    }

    fn on(channel: Channel<Datagram>, directions: &[Direction]) -> Self {
        Self {
            link: Link::with_stations(channel, directions),
            current: directions.to_vec(),
            now: 0,
        }
    }

    fn take(&mut self, gap: Nanos, step: &Step) {
        self.now += gap;
        self.link.run_until(self.now);
        let id = |station: &usize| self.link.stations[*station];
        match step {
            Step::Offer {
                station,
                bytes,
                flow,
            } => {
                _ = self.link.offer_to(*station, self.now, *bytes, *flow);
            }
            Step::Reconfigure { station, direction } => {
                let id = id(station);
                self.link
                    .channel
                    .reconfigure(self.now, id, direction)
                    .expect("valid");
                self.current[*station] = (**direction).clone();
            }
            Step::SetUp { station, up } => {
                let id = id(station);
                self.link.channel.set_up(self.now, id, *up);
            }
        }
        self.link.run_until(self.now);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (id, direction) in self.link.stations.iter().zip(&self.current) {
            self.check_conservation(*id)?;
            let (packets, bytes) = direction.queue.limits();
            prop_assert!(self.link.channel.queue_packets(*id) <= packets.unwrap_or(u64::MAX));
            prop_assert!(self.link.channel.queue_bytes(*id) <= bytes.unwrap_or(u64::MAX));
        }
        Ok(())
    }

    fn check_conservation(&self, id: StationId) -> Result<(), TestCaseError> {
        let channel = &self.link.channel;
        let counters = channel.counters(id);
        let inside = channel.queue_packets(id) + channel.in_flight(id);
        let outside = counters.delivered_packets + counters.dropped_in_all();
        prop_assert_eq!(counters.offered_packets, outside + inside);
        Ok(())
    }

    /// Returns everything visible from outside, except the packets that came out.
    fn state(&self) -> (Counters, [u64; 3], Option<Nanos>) {
        let (channel, id) = (&self.link.channel, self.link.stations[0]);
        let gauges = [
            channel.queue_packets(id),
            channel.queue_bytes(id),
            channel.in_flight(id),
        ];
        (channel.counters(id), gauges, channel.next_departure())
    }

    /// Checks that the packets that came out agree with the counters, packet by packet and reason
    /// by reason.
    fn check_outputs(&self) -> Result<(), TestCaseError> {
        let Link {
            delivered,
            dropped,
            channel,
            stations,
            ..
        } = &self.link;
        let ids = delivered.iter().map(|(_, packet)| packet.id);
        let mut ids: Vec<u64> = ids
            .chain(dropped.iter().map(|drop| drop.packet.id))
            .collect();
        ids.sort_unstable();
        prop_assert!(
            ids.windows(2).all(|pair| pair[0] < pair[1]),
            "a packet came out twice"
        );
        for reason in DropReason::ALL {
            let seen = dropped.iter().filter(|drop| drop.reason == reason).count() as u64;
            let counted = stations
                .iter()
                .map(|id| channel.counters(*id).dropped(reason));
            prop_assert_eq!(seen, counted.sum::<u64>());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_delivered_or_dropped_with_a_reason_or_inside(
        rate in shared_rate(),
        directions in [direction(), direction()],
        steps in steps(),
    ) {
        let mut run = Run::new(rate, directions);
        for (gap, step) in &steps {
            run.take(*gap, step);
            run.check()?;
        }
        run.check_outputs()?;
        run.link.run_to_end();
        run.check()?;
        run.check_outputs()?;
        for id in &run.link.stations {
            prop_assert_eq!(run.link.channel.queue_packets(*id) + run.link.channel.in_flight(*id), 0);
        }
    }

    /// A simple link is computed ahead. A medium is not, even if only one station uses it.
    #[test]
    fn what_is_computed_ahead_is_what_happens_step_by_step(
        direction in often_simple(),
        mut steps in prop::collection::vec((gap(), step_of_often_simple()), 1..150),
    ) {
        let directions = [direction];
        let mut ahead = Run::on(Channel::point_to_point(), &directions);
        let mut stepwise = Run::on(channel(None), &directions);
        for (gap, step) in &mut steps {
            match step {
                Step::Offer { station, .. }
                | Step::Reconfigure { station, .. }
                | Step::SetUp { station, .. } => *station = 0,
            }
            for run in [&mut ahead, &mut stepwise] {
                run.take(*gap, step);
            }
            prop_assert_eq!(ahead.state(), stepwise.state());
        }
        ahead.link.run_to_end();
        stepwise.link.run_to_end();
        prop_assert_eq!(ahead.state(), stepwise.state());
        prop_assert_eq!(ahead.link.delivered, stepwise.link.delivered);
        prop_assert_eq!(ahead.link.dropped, stepwise.link.dropped);
    }

    #[test]
    fn flows_keep_their_order_unless_reordering_is_allowed(
        rate in shared_rate(),
        mut directions in [direction(), direction()],
        mut steps in steps(),
    ) {
        directions.iter_mut().for_each(|direction| direction.reorder = false);
        for (_, step) in &mut steps {
            if let Step::Reconfigure { direction, .. } = step {
                direction.reorder = false;
            }
        }
        // The flow identifies the station, because order is defined for one station.
        let mut run = Run::new(rate, directions);
        for (gap, step) in &steps {
            let mut step = step.clone();
            if let Step::Offer { station, flow, .. } = &mut step {
                *flow += *station as u64 * FLOWS;
            }
            run.take(*gap, &step);
        }
        run.link.run_to_end();
        for flow in 0..FLOWS * STATIONS as u64 {
            let of_flow = run.link.delivered.iter().filter(|(_, packet)| packet.flow == flow);
            prop_assert!(of_flow.map(|(_, packet)| packet.id).is_sorted());
        }
    }

    #[test]
    fn extra_polls_change_nothing(
        rate in shared_rate(),
        directions in [direction(), direction()],
        steps in steps(),
        extra in prop::collection::vec(any::<bool>(), 150),
    ) {
        let outcome = |extra: &[bool]| {
            let mut run = Run::new(rate, directions.clone());
            for ((gap, step), poll) in steps.iter().zip(extra) {
                if *poll {
                    run.link.run_until(run.now + gap / 2);
                }
                run.take(*gap, step);
            }
            run.link.run_to_end();
            let mut dropped = run.link.dropped;
            dropped.sort_by_key(|Dropped { packet, at, .. }| (*at, packet.id));
            (run.link.delivered, dropped)
        };
        prop_assert_eq!(outcome(&[false; 150]), outcome(&extra));
    }

    #[test]
    fn the_rate_is_never_exceeded_over_any_window(
        rate_bps in (10..40u32).prop_map(|power| (1u64 << power) + 7),
        arrivals in prop::collection::vec((0..3_000_000u64, 0..65_536u32), 2..60),
    ) {
        let mut link = Link::new(&plain(Some(rate_bps)));
        let mut now = 0;
        for (gap, bytes) in arrivals {
            now += gap;
            _ = link.offer(now, bytes);
        }
        link.run_to_end();
        for (first, (start, _)) in link.delivered.iter().enumerate() {
            let mut bits = 0;
            for (finish, packet) in &link.delivered[first + 1..] {
                bits += u128::from(packet.bytes) * 8;
                // Times are rounded up to nanoseconds, hence the 1.
                let room = u128::from(finish - start + 1) * u128::from(rate_bps);
                prop_assert!(bits * 1_000_000_000 <= room);
            }
        }
    }
}
