//! Traces with rates, delays and losses over time, and where in them a run begins.

use emulation::link::{Channel, DropReason, Enqueued, StationGenerators, longest_wait_ns};
use experiment::resolved::{
    DelayStep, Direction, LossPlace, LossStep, RateStep, Trace, TraceStart, Train, Trains,
};
use experiment::time::Nanos;

use crate::driver::{Datagram, Link, MILLISECOND, SECOND, plain, trace};

fn rates(steps: &[(Nanos, u64)], period_ns: Nanos) -> Trace {
    let step = |(from_ns, rate_bps): &(Nanos, u64)| RateStep {
        from_ns: *from_ns,
        rate_bps: *rate_bps,
    };
    Trace {
        rates: steps.iter().map(step).collect(),
        ..trace(period_ns)
    }
}

fn delays(steps: &[(Nanos, Nanos)], period_ns: Nanos) -> Trace {
    let step = |(from_ns, delay_ns): &(Nanos, Nanos)| DelayStep {
        from_ns: *from_ns,
        delay_ns: *delay_ns,
    };
    Trace {
        delays: steps.iter().map(step).collect(),
        ..trace(period_ns)
    }
}

fn losses(steps: &[(Nanos, f64)], period_ns: Nanos) -> Trace {
    let step = |(from_ns, probability): &(Nanos, f64)| LossStep {
        from_ns: *from_ns,
        probability: *probability,
    };
    Trace {
        losses: steps.iter().map(step).collect(),
        ..trace(period_ns)
    }
}

fn traced(trace: Trace) -> Direction {
    Direction {
        trace: Some(trace),
        ..plain(None)
    }
}

#[test]
fn opportunities_are_spread_evenly_within_a_rate() {
    // 12 Mbit/s is an opportunity each millisecond.
    let period = rates(
        &[
            (0, 12_000_000),
            (2 * MILLISECOND, 0),
            (4 * MILLISECOND, 24_000_000),
        ],
        5 * MILLISECOND,
    );
    let mut link = Link::new(&traced(period));
    (0..6).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    link.run_to_end();
    let expected = [
        1_000_000, 2_000_000, 4_500_000, 5_000_000, 6_000_000, 7_000_000,
    ];
    assert_eq!(link.arrivals(), expected);
}

#[test]
fn what_a_step_leaves_of_an_opportunity_is_not_lost() {
    // 1 ms at 9 Mbit/s and 1 ms at 3 Mbit/s are together the 1500 bytes of an opportunity.
    let period = rates(&[(0, 9_000_000), (MILLISECOND, 3_000_000)], 2 * MILLISECOND);
    let mut link = Link::new(&traced(period));
    (0..1000).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(link.arrivals().first(), Some(&(2 * MILLISECOND)));
    assert_eq!(link.arrivals().last(), Some(&(2 * SECOND)));
}

#[test]
fn a_long_run_carries_the_mean_rate_to_the_byte() {
    // 7 bit/s more than 10 Mbit/s for a second, nothing for the next.
    let mut link = Link::new(&traced(rates(&[(0, 10_000_007), (SECOND, 0)], 2 * SECOND)));
    const PACKETS: u64 = 100_000;
    (0..PACKETS).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    link.run_to_end();
    let bits = PACKETS * 12_000;
    let busy_s = bits as f64 / 10_000_007.0;
    let last = *link.arrivals().last().unwrap() as f64 / SECOND as f64;
    assert!((last - (busy_s + busy_s.floor())).abs() < 1e-8, "{last}");
}

#[test]
fn unused_opportunities_of_a_rate_are_lost() {
    let mut link = Link::new(&traced(rates(&[(0, 12_000_000)], SECOND)));
    let late = 1_000_000 * MILLISECOND + 1;
    (0..2).for_each(|_| assert_eq!(link.offer(late, 1500), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(
        link.arrivals(),
        [1_000_001 * MILLISECOND, 1_000_002 * MILLISECOND]
    );
}

#[test]
fn the_delay_is_that_at_the_instant_at_which_the_last_bit_leaves() {
    // Each packet takes 1 ms.
    let trace = delays(
        &[(0, 10 * MILLISECOND), (3 * MILLISECOND, 20 * MILLISECOND)],
        5 * MILLISECOND,
    );
    let mut link = Link::new(&Direction {
        delay_ns: MILLISECOND,
        trace: Some(trace),
        ..plain(Some(12_000_000))
    });
    (0..6).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    link.run_to_end();
    let arrivals: Vec<_> = link.arrivals().iter().map(|at| at / MILLISECOND).collect();
    // The delay falls at 5 ms, and packets keep their order.
    assert_eq!(arrivals, [12, 13, 24, 25, 25, 25]);
}

#[test]
fn with_reorder_a_falling_delay_lets_packets_overtake() {
    let mut link = Link::new(&Direction {
        reorder: true,
        ..traced(delays(&[(0, 9 * MILLISECOND), (MILLISECOND, 0)], SECOND))
    });
    assert_eq!(link.offer(0, 1500), Enqueued::Queued);
    assert_eq!(link.offer(MILLISECOND, 1500), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [MILLISECOND, 9 * MILLISECOND]);
    assert_eq!(link.delivered[0].1.id, 1);
}

#[test]
fn packets_are_lost_while_the_trace_says_so_at_the_place_of_loss() {
    let blackout = losses(
        &[(0, 0.0), (2 * MILLISECOND, 1.0), (4 * MILLISECOND, 0.0)],
        10 * MILLISECOND,
    );
    let mut at_ingress = Link::new(&traced(blackout.clone()));
    for millisecond in 0..10 {
        let _ = at_ingress.offer(millisecond * MILLISECOND, 1500);
    }
    let lost = at_ingress.dropped.iter().map(|one| one.at / MILLISECOND);
    assert_eq!(lost.collect::<Vec<_>>(), [2, 3]);

    // At egress, what counts is when the last bit leaves: each packet takes 1 ms.
    let mut at_egress = Link::new(&Direction {
        loss_at: LossPlace::Egress,
        trace: Some(blackout),
        ..plain(Some(12_000_000))
    });
    (0..5).for_each(|_| assert_eq!(at_egress.offer(0, 1500), Enqueued::Queued));
    at_egress.run_to_end();
    let lost = at_egress
        .dropped
        .iter()
        .map(|one| (one.at / MILLISECOND, one.reason));
    let expected = [(2, DropReason::Loss), (3, DropReason::Loss)];
    assert_eq!(lost.collect::<Vec<_>>(), expected);
}

#[test]
fn a_run_begins_at_an_instant_of_its_trace() {
    let begun = |at_ns| Trace {
        start: TraceStart::At { at_ns },
        delays: vec![
            DelayStep {
                from_ns: 0,
                delay_ns: 0,
            },
            DelayStep {
                from_ns: 4 * MILLISECOND,
                delay_ns: MILLISECOND,
            },
        ],
        ..rates(
            &[(0, 12_000_000), (4 * MILLISECOND, 6_000_000)],
            8 * MILLISECOND,
        )
    };
    let arrivals = |at_ns| {
        let mut link = Link::new(&traced(begun(at_ns)));
        (0..3).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
        link.run_to_end();
        link.arrivals()
    };
    let milliseconds = |list: [u64; 3]| list.map(|one| one * MILLISECOND);
    assert_eq!(arrivals(0), milliseconds([1, 2, 3]));
    // The opportunity at the instant at which the run begins is one of its own.
    assert_eq!(arrivals(4 * MILLISECOND), milliseconds([1, 3, 4]));
}

/// Returns the arrivals of 20 packets in the run with `seed` over a trace of a recording.
fn drawn(seed: u64, label: &str, recording: &str) -> Vec<Nanos> {
    let start = TraceStart::Drawn {
        recording: recording.to_owned(),
        below_ns: SECOND,
    };
    let opportunities_ns = (0..100).map(|one| one * one * 100_000).collect();
    let direction = traced(Trace {
        opportunities_ns,
        start,
        ..trace(SECOND)
    });
    let mut channel = Channel::point_to_point();
    let generators = StationGenerators::new(seed, label);
    let station = channel
        .add_station(&direction, generators)
        .expect("a valid direction");
    for id in 0..20 {
        let packet = Datagram {
            id,
            bytes: 1500,
            flow: 0,
            sent: 0,
        };
        assert_eq!(channel.enqueue(0, station, packet), Enqueued::Queued);
    }
    let mut arrivals = Vec::new();
    while let Some(at) = channel.next_departure() {
        while let Some(emulation::link::Output::Delivered { at, .. }) = channel.poll(at) {
            arrivals.push(at);
        }
    }
    arrivals
}

#[test]
fn the_start_is_common_to_a_recording_and_differs_between_seeds_and_recordings() {
    assert_eq!(
        drawn(1, "lte/forward", "drive"),
        drawn(1, "wifi/backward", "drive")
    );
    assert_ne!(
        drawn(1, "lte/forward", "drive"),
        drawn(2, "lte/forward", "drive")
    );
    assert_ne!(
        drawn(1, "lte/forward", "drive"),
        drawn(1, "lte/forward", "walk")
    );
}

#[test]
fn a_packet_waits_at_most_as_long_as_the_trace_says() {
    let outage = rates(&[(0, 12_000_000), (SECOND, 0)], 10 * SECOND);
    let longest = longest_wait_ns(&outage, 100);
    assert!(
        (9 * SECOND..9 * SECOND + 3 * MILLISECOND).contains(&longest),
        "{longest}"
    );
    let listed = Trace {
        opportunities_ns: vec![MILLISECOND, 2 * MILLISECOND],
        ..trace(SECOND)
    };
    let longest = longest_wait_ns(&listed, 1500);
    assert!(
        (998 * MILLISECOND..=1001 * MILLISECOND).contains(&longest),
        "{longest}"
    );
}

/// Returns a pair as CellReplay has them: 10 opportunities within the last millisecond of each 20
/// under load, and after a pause of 100 ms three opportunities, one each 2 ms. The delay rises from
/// 10 ms to 30 ms within a second.
fn pair() -> Direction {
    let under_load = (0..10).map(|one| 19 * MILLISECOND + one * 100_000);
    let under_load = (0..100).flat_map(|round| {
        let begin = round * 20 * MILLISECOND;
        under_load.clone().map(move |instant| begin + instant)
    });
    let probe = |(at_ns, spacing): (Nanos, Nanos)| Train {
        at_ns,
        opportunities_ns: (0..3).map(|one| one * spacing).collect(),
    };
    traced(Trace {
        opportunities_ns: under_load.collect(),
        trains: Some(Trains {
            pause_ns: 100 * MILLISECOND,
            probes: [(0, 2 * MILLISECOND), (SECOND, 4 * MILLISECOND)]
                .map(probe)
                .to_vec(),
        }),
        ..delays(
            &[(0, 10 * MILLISECOND), (SECOND, 30 * MILLISECOND)],
            2 * SECOND,
        )
    })
}

/// Offers packets of an opportunity each at `at` and returns how long they take.
fn burst(link: &mut Link, at: Nanos, packets: usize) -> Vec<Nanos> {
    let before = link.delivered.len();
    for _ in 0..packets {
        assert_eq!(link.offer(at, 1500), Enqueued::Queued);
    }
    link.run_until(at + 90 * MILLISECOND);
    let arrivals = link.delivered[before..].iter();
    arrivals.map(|(arrival, _)| arrival - at).collect()
}

#[test]
fn packets_after_a_pause_take_a_train_and_later_ones_the_opportunities_under_load() {
    let mut link = Link::new(&pair());
    // The delay at 500 ms is 20 ms, and rises by 20 us in each millisecond until 1 s.
    let arrivals = burst(&mut link, 500 * MILLISECOND, 5);
    let expected = [
        20 * MILLISECOND,
        22_040_000,
        24_080_000,
        // The train is used up. The next opportunity under load is at 519 ms.
        39_380_000,
        39_482_000,
    ];
    assert_eq!(arrivals, expected);
    // After 90 ms without packets there is no train.
    let arrivals = burst(&mut link, 609 * MILLISECOND, 1);
    assert_eq!(arrivals, [10 * MILLISECOND + 22_380_000]);
    // The pause begins when the last packet has left, at 619 ms. The first probe is still the last,
    // although the second is nearer.
    let arrivals = burst(&mut link, 719 * MILLISECOND, 2);
    assert_eq!(arrivals, [24_380_000, 2 * MILLISECOND + 24_420_000]);
    let arrivals = burst(&mut link, 1100 * MILLISECOND, 2);
    assert_eq!(arrivals, [30 * MILLISECOND, 34 * MILLISECOND]);
}

#[test]
fn a_train_that_is_over_carries_nothing() {
    let mut link = Link::new(&pair());
    assert_eq!(burst(&mut link, 0, 1).len(), 1);
    // 5 ms after its begin.
    let mut link = Link::new(&pair());
    assert_eq!(link.offer(0, 1500), Enqueued::Queued);
    assert_eq!(link.offer(5 * MILLISECOND, 1500), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(
        link.arrivals(),
        [10 * MILLISECOND, 19 * MILLISECOND + 10_380_000]
    );
}

#[test]
fn a_large_packet_takes_several_opportunities_of_a_train_and_then_those_under_load() {
    let mut link = Link::new(&pair());
    assert_eq!(link.offer(0, 4500), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [4 * MILLISECOND + 10_080_000]);
    let mut link = Link::new(&pair());
    assert_eq!(link.offer(0, 4501), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [19 * MILLISECOND + 10_380_000]);
}
