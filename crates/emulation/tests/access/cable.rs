//! Checks of the grants of a cable modem.

use experiment::resolved::Access;
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::driver::{MILLISECOND, SECOND};
use crate::networks::cable;
use crate::path::{DOWN, Path, UP, assert_near, direction, quantiles};

const MEGABIT: u64 = 1_000_000;

fn modem() -> Path {
    let [up, down] = [5, 100].map(|rate| direction(rate * MEGABIT, 0, 256_000));
    Path::new(&Access::Cable(cable("line")), 3, [&up, &down])
}

/// A map of grants each 2 ms, and a grant 4 to 6 ms after the packet.
#[test]
fn a_packet_after_silence_waits_for_a_grant_in_the_uplink_only() {
    let mut path = modem();
    let mut generator = Generator::new(1, "packets");
    let mut now = 0;
    let mut waits = [UP, DOWN].map(|station| {
        let waits = (0..1000).map(|_| {
            now += 20 * MILLISECOND + generator.below(SECOND);
            assert!(path.offer(station, now, 625));
            path.next(Nanos::MAX).expect("a delivery").at - now
        });
        waits.collect::<Vec<_>>()
    });
    // 625 bytes take 1 ms at 5 Mbit/s, and 50 us at 100.
    assert!(waits[DOWN].iter().all(|wait| *wait == 50_000));
    let up = std::mem::take(&mut waits[UP]);
    let [least, median, most] = quantiles(up, [0, 50, 100]).map(|wait| wait / 1e6);
    assert!(least >= 5.0 && most <= 7.0, "{least} to {most}");
    assert_near(median, 6.0, 0.02);
}

#[test]
fn while_packets_wait_the_uplink_has_its_rate() {
    let mut path = modem();
    for _ in 0..100 {
        assert!(path.offer(UP, 0, 1250));
    }
    let left = path.drain(10 * MILLISECOND);
    // Their requests travel with the data.
    for _ in 0..100 {
        assert!(path.offer(UP, 10 * MILLISECOND, 1250));
    }
    let arrivals = [left, path.drain(Nanos::MAX)].concat();
    assert_eq!(arrivals.len(), 200);
    let gaps = arrivals.windows(2).map(|pair| pair[1].at - pair[0].at);
    assert!(gaps.clone().all(|gap| gap == 2 * MILLISECOND));
    path.check_ledger();
}

/// A packet that comes while the last one is sent has no grant yet.
#[test]
fn a_packet_that_finds_an_empty_queue_asks_again() {
    let mut path = modem();
    assert!(path.offer(UP, 0, 1250));
    let first = path.next(Nanos::MAX).expect("a delivery").at;
    assert!(path.offer(UP, first, 1250));
    let second = path.next(Nanos::MAX).expect("a delivery").at;
    assert!(second - first >= 6 * MILLISECOND, "{}", second - first);
}
