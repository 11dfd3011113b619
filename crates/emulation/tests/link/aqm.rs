//! Active queue management: the law of each discipline.

use std::collections::VecDeque;

use emulation::link::{DropReason, Enqueued};
use experiment::resolved::{Codel, Direction, FqCodel, Pie, Queue, Red};
use experiment::time::Nanos;
use proptest::prelude::*;

use crate::driver::{Link, MILLISECOND, SECOND, drop_tail, plain};

const TARGET: Nanos = 5 * MILLISECOND;
const INTERVAL: Nanos = 100 * MILLISECOND;
const MAX_BURST: Nanos = 150 * MILLISECOND;
/// 1500 bytes at 12 Mbit/s.
const PACKET_NS: Nanos = MILLISECOND;

fn at_12_mbit(queue: Queue) -> Direction {
    Direction {
        queue,
        ..plain(Some(12_000_000))
    }
}

fn codel() -> Queue {
    Queue::Codel(Codel {
        limit_packets: None,
        limit_bytes: None,
        target_ns: TARGET,
        interval_ns: INTERVAL,
    })
}

fn pie(max_burst_ns: Nanos) -> Queue {
    Queue::Pie(Pie {
        limit_packets: None,
        limit_bytes: None,
        target_ns: 15 * MILLISECOND,
        update_ns: 15 * MILLISECOND,
        max_burst_ns,
    })
}

#[test]
fn codel_drops_at_intervals_that_shrink_with_the_root_of_the_count() {
    let mut link = Link::new(&at_12_mbit(codel()));
    for index in 0..10_000 {
        let now = index * PACKET_NS / 2;
        assert_eq!(link.offer(now, 1500), Enqueued::Queued);
    }
    let drops: Vec<Nanos> = link.dropped.iter().map(|drop| drop.at).collect();
    assert!(
        link.dropped
            .iter()
            .all(|drop| drop.reason == DropReason::Aqm)
    );
    assert!(drops.len() > 100);
    let mut due = drops[0];
    for (count, at) in drops.iter().enumerate() {
        assert!(
            (due..=due + PACKET_NS).contains(at),
            "drop {count} at {at}, due at {due}"
        );
        due += (INTERVAL as f64 / (count as f64 + 1.0).sqrt()) as Nanos;
    }
}

#[test]
fn codel_waits_an_interval_before_its_first_drop() {
    let mut link = Link::new(&at_12_mbit(codel()));
    (0..1000).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    link.run_to_end();
    let first = link.dropped[0].at;
    // The sojourn time equals the time itself here: above the target from 5 ms on, so the first
    // drop is an interval later.
    assert_eq!(first, TARGET + INTERVAL);
}

#[test]
fn codel_leaves_a_queue_of_one_packet_behind_the_head_alone() {
    // A packet takes 100 ms here and waits 150 ms, far above the target. But dropping it would not
    // help.
    const SLOW_PACKET_NS: Nanos = 100 * MILLISECOND;
    let mut link = Link::new(&Direction {
        queue: codel(),
        ..plain(Some(120_000))
    });
    (0..2).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    for index in 0..500 {
        let now = SLOW_PACKET_NS / 2 + index * SLOW_PACKET_NS;
        assert_eq!(link.offer(now, 1500), Enqueued::Queued);
    }
    link.run_to_end();
    assert_eq!(link.dropped, []);
}

/// Returns the mean time in the queue, and the utilisation, once `flows` Reno-like flows have
/// settled over a path of 100 ms.
fn under_reno_flows(queue: Queue, flows: f64) -> (f64, f64) {
    const END: Nanos = 120 * SECOND;
    const SETTLED: Nanos = 40 * SECOND;
    const DELAY: Nanos = 50 * MILLISECOND;
    let mut link = Link::new(&Direction {
        delay_ns: DELAY,
        ..at_12_mbit(queue)
    });
    let mut window = 10.0 * flows;
    let (mut outstanding, mut sojourns, mut seen_drops) = (0.0, Vec::new(), 0);
    let mut acks: VecDeque<Nanos> = VecDeque::new();
    let mut now = 0;
    while now < END {
        while outstanding < window {
            outstanding += 1.0;
            _ = link.offer(now, 1500);
        }
        let next = [link.channel.next_departure(), acks.front().copied()];
        now = next
            .into_iter()
            .flatten()
            .min()
            .expect("packets or acknowledgements under way");
        link.run_until(now);
        for (at, packet) in link.delivered.drain(..) {
            acks.push_back(at + DELAY);
            sojourns.push((at, (at - packet.sent - DELAY - PACKET_NS) as f64));
        }
        while acks.front().is_some_and(|at| *at <= now) {
            acks.pop_front();
            outstanding -= 1.0;
            window += flows / window;
        }
        let losses = link.dropped.len() - seen_drops;
        seen_drops = link.dropped.len();
        outstanding -= losses as f64;
        window = (window * (1.0 - 0.5 / flows).powi(losses as i32)).max(flows);
    }
    let settled: Vec<f64> = sojourns
        .iter()
        .filter(|(at, _)| *at > SETTLED)
        .map(|(_, sojourn)| *sojourn)
        .collect();
    let mean = settled.iter().sum::<f64>() / settled.len() as f64;
    (
        mean,
        settled.len() as f64 * PACKET_NS as f64 / (END - SETTLED) as f64,
    )
}

#[test]
fn codel_keeps_responsive_flows_near_its_target() {
    let (sojourn, utilisation) = under_reno_flows(codel(), 8.0);
    assert!((0.5..2.0).contains(&(sojourn / TARGET as f64)), "{sojourn}");
    assert!(utilisation > 0.9, "{utilisation}");
}

#[test]
fn pie_holds_its_target() {
    let (sojourn, utilisation) = under_reno_flows(pie(MAX_BURST), 8.0);
    assert!(
        (0.75..1.25).contains(&(sojourn / (15.0 * MILLISECOND as f64))),
        "{sojourn}"
    );
    assert!(utilisation > 0.95, "{utilisation}");
}

#[test]
fn drop_tail_fills_its_queue_under_the_same_flows() {
    let (sojourn, _) = under_reno_flows(drop_tail(Some(100)), 8.0);
    assert!(sojourn > 60.0 * MILLISECOND as f64, "{sojourn}");
}

#[test]
fn pie_brings_a_load_that_does_not_respond_to_its_target() {
    let mut link = Link::new(&at_12_mbit(pie(MAX_BURST)));
    (0..40_000).for_each(|index| _ = link.offer(index * PACKET_NS * 3 / 4, 1500));
    let sojourns_ms = |from| -> Vec<f64> {
        let since = link.delivered.iter().filter(move |(at, _)| *at >= from);
        since
            .map(|(at, packet)| (at - packet.sent) as f64 / MILLISECOND as f64 - 1.0)
            .collect()
    };
    let longest = |sojourns: &[f64]| sojourns.iter().copied().fold(0.0, f64::max);
    // Without drops the queue would grow by 250 ms per second.
    let peak = longest(&sojourns_ms(0));
    assert!(peak < 200.0, "{peak} ms: too slow");
    let settled = sojourns_ms(10 * SECOND);
    let mean = settled.iter().sum::<f64>() / settled.len() as f64;
    assert!((12.0..18.0).contains(&mean), "{mean} ms");
    assert!(
        longest(&settled) < 30.0,
        "{} ms: not damped",
        longest(&settled)
    );
}

#[test]
fn pie_lets_a_burst_pass_after_a_quiet_time_and_then_drops() {
    let burst = 5 * SECOND;
    let mut link = Link::new(&at_12_mbit(pie(burst)));
    let overload = |link: &mut Link, from: Nanos, until: Nanos| {
        let instants = (from..until).step_by(PACKET_NS as usize / 2);
        instants
            .filter(|now| link.offer(*now, 1500) != Enqueued::Queued)
            .count()
    };
    let quiet = 3600 * SECOND;
    let allowed = quiet + burst - 15 * MILLISECOND;
    assert_eq!(overload(&mut link, quiet, allowed), 0);
    assert!(overload(&mut link, allowed, allowed + 20 * SECOND) > 5000);
}

/// Returns the share of arrivals that RED drops while its average is `average_bytes`, between 40
/// and 60 kB.
fn red_drop_share(average_bytes: u32) -> f64 {
    const ARRIVALS: u32 = 100_000;
    let red = Queue::Red(Red {
        limit_packets: None,
        limit_bytes: None,
        min_bytes: 40_000,
        max_bytes: 60_000,
        max_probability: 0.1,
        weight: 1.0,
    });
    let mut link = Link::new(&Direction {
        queue: red,
        ..plain(Some(1))
    });
    assert_eq!(link.offer(0, 1), Enqueued::Queued);
    assert_eq!(link.offer(0, average_bytes), Enqueued::Queued);
    // Packets without bytes change neither the queue nor, with a weight of 1, the average.
    let dropped = (0..ARRIVALS)
        .filter(|_| link.offer(1, 0) != Enqueued::Queued)
        .count();
    dropped as f64 / f64::from(ARRIVALS)
}

#[test]
fn red_drops_by_the_average_between_its_thresholds() {
    assert_eq!(red_drop_share(39_999), 0.0);
    assert_eq!(red_drop_share(60_000), 1.0);
    // Gaps between drops are uniform from 1 to 1/p, so their mean is (1/p + 1) / 2.
    for (average, probability) in [(45_000, 0.025), (50_000, 0.05), (59_999, 0.1)] {
        let expected = 2.0 / (1.0 / probability + 1.0);
        let measured = red_drop_share(average);
        assert!(
            (measured / expected - 1.0).abs() < 0.05,
            "{average}: {measured}, not {expected}"
        );
    }
}

#[test]
fn red_forgets_its_average_while_idle() {
    let red = Queue::Red(Red {
        limit_packets: None,
        limit_bytes: None,
        min_bytes: 10_000,
        max_bytes: 20_000,
        max_probability: 1.0,
        weight: 0.1,
    });
    let mut link = Link::new(&at_12_mbit(red));
    (0..200).for_each(|_| _ = link.offer(0, 1500));
    assert_eq!(link.offer(0, 1500), Enqueued::Dropped(DropReason::Aqm));
    link.run_until(SECOND);
    assert_eq!(link.offer(SECOND, 1500), Enqueued::Queued);
}

fn fq_codel(limit_packets: Option<u64>) -> Queue {
    Queue::FqCodel(FqCodel {
        limit_packets,
        limit_bytes: None,
        target_ns: TARGET,
        interval_ns: INTERVAL,
        flows: 1024,
        quantum_bytes: 1514,
    })
}

/// Runs a heavy flow (0), a light one (1) that still wants more than its share, and a sparse one
/// (2), for 10 s.
fn heavy_light_and_sparse(queue: Queue) -> Link {
    let mut link = Link::new(&at_12_mbit(queue));
    for step in 0..40_000 {
        let now = step * PACKET_NS / 4;
        _ = link.offer_to(0, now, 1500, 0);
        if step % 4 == 0 {
            _ = link.offer_to(0, now, 1500, 1);
        }
        if step % 80 == 0 {
            _ = link.offer_to(0, now, 200, 2);
        }
    }
    link
}

#[test]
fn fq_codel_shares_equally_and_lets_a_sparse_flow_pass() {
    let link = heavy_light_and_sparse(fq_codel(Some(1000)));
    let delivered = |flow| {
        link.delivered
            .iter()
            .filter(move |(_, packet)| packet.flow == flow)
    };
    let (heavy, light) = (delivered(0).count() as f64, delivered(1).count() as f64);
    assert!((heavy / light - 1.0).abs() < 0.02, "{heavy} and {light}");
    assert!(link.dropped.iter().all(|drop| drop.packet.flow != 2));
    // At the start all flows are new; afterwards only the sparse one is.
    let slowest = delivered(2)
        .skip(1)
        .map(|(at, packet)| at - packet.sent)
        .max();
    assert!(
        slowest.is_some_and(|sojourn| sojourn <= 2 * PACKET_NS),
        "{slowest:?}"
    );
}

#[test]
fn fq_codel_does_not_let_flows_starve_another_by_running_dry() {
    let mut link = Link::new(&at_12_mbit(fq_codel(None)));
    // Ten flows that together want 99 % of the link, and one that takes the rest.
    for step in 0..10_000 {
        for flow in 1..=10 {
            _ = link.offer_to(0, step * PACKET_NS + flow * PACKET_NS / 10, 148, flow);
        }
        _ = link.offer_to(0, (step + 1) * PACKET_NS, 1500, 0);
    }
    let delivered = link
        .delivered
        .iter()
        .filter(|(_, packet)| packet.flow == 0)
        .count();
    assert!(delivered > 700, "{delivered} of a fair 909");
}

#[test]
fn drop_tail_does_not_share_equally() {
    let link = heavy_light_and_sparse(drop_tail(Some(1000)));
    let delivered = |flow| {
        link.delivered
            .iter()
            .filter(|(_, packet)| packet.flow == flow)
            .count()
    };
    assert!(delivered(0) > 2 * delivered(1));
}

#[test]
fn fq_codel_drops_from_the_largest_flow_when_full() {
    let mut link = Link::new(&at_12_mbit(fq_codel(Some(100))));
    (0..100).for_each(|_| assert_eq!(link.offer_to(0, 0, 1500, 0), Enqueued::Queued));
    (0..10).for_each(|_| assert_eq!(link.offer_to(0, 0, 1500, 1), Enqueued::Queued));
    link.run_until(0);
    assert!(!link.dropped.is_empty());
    assert!(link.dropped.iter().all(|drop| drop.packet.flow == 0));
    assert!(
        link.dropped
            .iter()
            .all(|drop| drop.reason == DropReason::QueueFull)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Ports and numbers of applications may count up in any of a key's bits.
    #[test]
    fn fq_codel_separates_flows_whose_keys_count_up_anywhere(base: u64, shift in 0u32..58) {
        const OTHERS: u64 = 63;
        let mut link = Link::new(&at_12_mbit(fq_codel(None)));
        (0..200).for_each(|_| _ = link.offer_to(0, 0, 1500, base));
        for other in 1..=OTHERS {
            _ = link.offer_to(0, 0, 200, base.wrapping_add(other << shift));
        }
        // The first packet is in service when the others arrive. Then each new flow has its turn
        // before the next packet of the heavy one.
        link.run_until(14 * PACKET_NS);
        let separated = link.delivered.iter().filter(|(_, packet)| packet.flow != base);
        prop_assert!(separated.count() as u64 > OTHERS - 6, "of 1024 buckets some are shared by chance, six hardly ever");
    }
}
