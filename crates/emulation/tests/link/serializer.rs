//! Rate, trace, and the effect of the queue on time.

use emulation::link::{DropReason, Enqueued};
use experiment::resolved::{Direction, Trace};
use experiment::rng::Generator;

use crate::driver::{Link, MILLISECOND, SECOND, drop_tail, plain, trace};

#[test]
fn a_burst_leaves_spaced_by_its_serialization_times() {
    let mut link = Link::new(&Direction {
        overhead_bytes: 14,
        ..plain(Some(12_000_000))
    });
    for bytes in [1486, 736, 1486] {
        assert_eq!(link.offer(0, bytes), Enqueued::Queued);
    }
    link.run_to_end();
    assert_eq!(link.arrivals(), [MILLISECOND, 1_500_000, 2_500_000]);
    assert_eq!(link.counters().wire_bytes, 3750);
}

#[test]
fn rounding_to_nanoseconds_does_not_add_up() {
    // 64 bytes take 0.512 ns at 1 Tbit/s. If each were rounded up, 1000 packets would take almost
    // twice their time.
    let mut link = Link::new(&plain(Some(1_000_000_000_000)));
    (0..1000).for_each(|_| assert_eq!(link.offer(0, 64), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(link.arrivals().last(), Some(&512));
}

#[test]
fn rounding_is_made_good_only_without_a_pause() {
    // One byte takes 8/7 ns.
    let mut link = Link::new(&plain(Some(7_000_000_000)));
    for now in [0, 100, 100] {
        assert_eq!(link.offer(now, 1), Enqueued::Queued);
    }
    link.run_to_end();
    assert_eq!(link.arrivals(), [2, 102, 103]);
}

#[test]
fn an_infinite_rate_takes_no_time() {
    let mut link = Link::new(&Direction {
        delay_ns: 7,
        ..plain(None)
    });
    (0..3).for_each(|_| assert_eq!(link.offer(5, 1500), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(link.arrivals(), [12, 12, 12]);
}

#[test]
fn times_beyond_the_end_of_time_saturate() {
    let mut link = Link::new(&plain(Some(1)));
    (0..3).for_each(|_| assert_eq!(link.offer(0, u32::MAX), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(link.arrivals(), [u64::MAX; 3]);
}

#[test]
fn the_queue_excludes_what_is_in_service_or_on_the_wire() {
    let direction = Direction {
        delay_ns: SECOND,
        queue: drop_tail(Some(1)),
        ..plain(Some(12_000_000))
    };
    let mut link = Link::new(&direction);
    assert_eq!(link.offer(0, 1500), Enqueued::Queued);
    assert_eq!(link.queue_packets(), 0);
    assert_eq!(link.offer(0, 1500), Enqueued::Queued);
    assert_eq!(link.queue_packets(), 1);
    assert_eq!(
        link.offer(0, 1500),
        Enqueued::Dropped(DropReason::QueueFull)
    );
    // A place becomes free at the time at which the next packet starts.
    assert_eq!(link.offer(MILLISECOND, 1500), Enqueued::Queued);
    assert_eq!(
        (
            link.queue_packets(),
            link.channel.in_flight(link.stations[0])
        ),
        (1, 2)
    );
}

/// Returns the mean waiting time in units of the service time, for Poisson arrivals at the load
/// `rho`.
fn mean_wait_in_services(rho: f64) -> f64 {
    const PACKETS: u64 = 1_000_000;
    let service_ns = 1_000_000;
    let mut link = Link::new(&plain(Some(12_000_000)));
    let mut gaps = Generator::new(3, "arrivals");
    let mut now = 0;
    for _ in 0..PACKETS {
        now += gaps.exponential((service_ns as f64 / rho) as u64);
        assert_eq!(link.offer(now, 1500), Enqueued::Queued);
    }
    link.run_to_end();
    let waits = link
        .delivered
        .iter()
        .map(|(at, packet)| (at - packet.sent - service_ns) as f64);
    waits.sum::<f64>() / (PACKETS * service_ns) as f64
}

#[test]
fn poisson_arrivals_wait_as_long_as_in_an_m_d_1_queue() {
    for rho in [0.5, 0.8] {
        let expected = rho / (2.0 * (1.0 - rho));
        let measured = mean_wait_in_services(rho);
        assert!(
            (measured / expected - 1.0).abs() < 0.03,
            "rho {rho}: {measured}, not {expected}"
        );
    }
}

fn traced(opportunities_ms: &[u64], period_ms: u64) -> Direction {
    let opportunities_ns = opportunities_ms.iter().map(|ms| ms * MILLISECOND).collect();
    let trace = Trace {
        opportunities_ns,
        ..trace(period_ms * MILLISECOND)
    };
    Direction {
        trace: Some(trace),
        ..plain(None)
    }
}

fn arrivals_ms(link: &Link) -> Vec<u64> {
    link.arrivals().iter().map(|at| at / MILLISECOND).collect()
}

#[test]
fn every_opportunity_is_used_and_the_trace_repeats() {
    let mut link = Link::new(&traced(&[0, 1, 3], 4));
    (0..7).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(arrivals_ms(&link), [0, 1, 3, 4, 5, 7, 8]);
}

#[test]
fn opportunities_at_both_ends_of_a_period_are_two() {
    let mut link = Link::new(&traced(&[0, 4], 4));
    (0..5).for_each(|_| assert_eq!(link.offer(MILLISECOND, 1500), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(arrivals_ms(&link), [4, 4, 8, 8, 12]);
}

#[test]
fn unused_opportunities_are_lost() {
    let mut link = Link::new(&traced(&[1, 3], 4));
    (0..3).for_each(|_| assert_eq!(link.offer(1_000_000 * MILLISECOND, 1500), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(arrivals_ms(&link), [1_000_001, 1_000_003, 1_000_005]);
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_take_several() {
    let mut link = Link::new(&traced(&[1], 1));
    for bytes in [700, 800, 4000, 500, 1] {
        assert_eq!(link.offer(0, bytes), Enqueued::Queued);
    }
    link.run_to_end();
    assert_eq!(arrivals_ms(&link), [1, 1, 4, 4, 5]);
}

#[test]
fn a_packet_that_waits_for_an_opportunity_starts_at_once_when_a_rate_replaces_the_trace() {
    let mut link = Link::new(&traced(&[1000], 1000));
    assert_eq!(link.offer(1, 1500), Enqueued::Queued);
    let rate = plain(Some(12_000_000));
    let change = 5 * MILLISECOND;
    link.channel
        .reconfigure(change, link.stations[0], &rate)
        .expect("a valid direction");
    link.run_to_end();
    assert_eq!(link.arrivals(), [change + MILLISECOND]);
}

#[test]
fn a_packet_waits_in_the_queue_for_its_opportunity() {
    let mut link = Link::new(&Direction {
        queue: drop_tail(Some(1)),
        ..traced(&[10], 10)
    });
    assert_eq!(link.offer(1, 1500), Enqueued::Queued);
    assert_eq!(link.queue_packets(), 1);
    assert_eq!(
        link.offer(2, 1500),
        Enqueued::Dropped(DropReason::QueueFull)
    );
}
