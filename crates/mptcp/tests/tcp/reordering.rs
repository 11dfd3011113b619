//! Late segments are not lost, and reactions to supposed losses are undone.

use mptcp::subflow::{Config, State};
use mptcp::time::{MILLISECOND, SECOND};

use crate::pair::Pair;
use crate::pair::tcp::{Tcp, established};
use crate::pair::wire::Fate;
use crate::wires;

/// Delays each seventh data segment by `by_ms`.
fn reordered(config: Config, by_ms: u64) -> Pair<Tcp> {
    let mut pair = established(config, wires());
    let mut number = 0;
    pair.wires[0].set_fates(move |_, segment| {
        number += u64::from(!segment.payload.is_empty());
        match number % 7 {
            6 if !segment.payload.is_empty() => Fate::Late(by_ms * MILLISECOND),
            _ => Fate::Delivered,
        }
    });
    pair.ends[0].write(1_000_000);
    pair.run_for(20 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    pair
}

#[test]
fn after_the_first_reordering_is_seen_small_ones_cost_nothing() {
    // A quarter of the round-trip time is 5 ms.
    let pair = reordered(Config::default(), 3);
    let sender = &pair.ends[0];
    let counters = sender.subflow().counters();
    assert!(counters.retransmitted_segments <= 1, "{counters:?}");
    assert_eq!(counters.timeouts, 0);
}

#[test]
fn larger_reordering_widens_the_window_by_the_duplicates_reported() {
    let pair = reordered(Config::default(), 12);
    let counters = pair.ends[0].subflow().counters();
    // 690 segments, 98 of them late.
    assert!(counters.retransmitted_segments < 30, "{counters:?}");
    assert_eq!(
        counters.spurious_retransmissions,
        counters.retransmitted_segments
    );
    assert!(pair.ends[0].cc.undone > 0);
}

/// Makes the path longer by half a second while ten segments are on it.
fn spurious_timeout(config: Config) -> Pair<Tcp> {
    let mut pair = established(config, wires());
    pair.ends[0].write(100_000);
    pair.run_for(2 * SECOND);
    pair.wires[0].delay += 500 * MILLISECOND;
    pair.ends[0].write(10 * 1448);
    pair
}

#[test]
fn a_spurious_timeout_is_undone_by_timestamps() {
    let config = Config {
        sack: false,
        ..Config::default()
    };
    let mut pair = spurious_timeout(config);
    pair.run_for(10 * MILLISECOND);
    let before = pair.ends[0].window.cwnd_bytes;
    pair.run_for(10 * SECOND);
    let sender = &pair.ends[0];
    assert_eq!(sender.subflow().counters().timeouts, 1);
    assert!(sender.cc.undone >= 1);
    assert!(sender.window.cwnd_bytes >= before);
    assert!(pair.ends[1].has_all_of(sender));
}

#[test]
fn a_spurious_timeout_is_undone_by_duplicate_reports() {
    let config = Config {
        timestamps: false,
        ..Config::default()
    };
    let mut pair = spurious_timeout(config);
    pair.run_for(10 * SECOND);
    let sender = &pair.ends[0];
    assert!(sender.cc.undone >= 1, "{:?}", sender.subflow().counters());
    assert!(!sender.subflow().in_loss());
    assert!(pair.ends[1].has_all_of(sender));
}

/// Returns a configuration without the options that detect it.
fn blind(sack: bool) -> Config {
    Config {
        timestamps: false,
        sack,
        rack: false,
        ..Config::default()
    }
}

#[test]
fn a_spurious_timeout_is_undone_by_what_arrives_after_it() {
    for sack in [false, true] {
        let mut pair = established(blind(sack), wires());
        pair.ends[0].write(100_000);
        pair.run_for(2 * SECOND);
        pair.wires[0].delay += 500 * MILLISECOND;
        // More than the window takes, so that there is new data after the timeout.
        pair.ends[0].write(200 * 1448);
        pair.run_for(10 * MILLISECOND);
        let before = pair.ends[0].window.cwnd_bytes;
        pair.run_for(590 * MILLISECOND);
        let sender = &pair.ends[0];
        let counters = sender.subflow().counters();
        assert_eq!((counters.timeouts, sender.cc.undone), (1, 1));
        assert_eq!(counters.retransmitted_segments, 1, "only the first");
        assert!(sender.window.cwnd_bytes >= before);
        pair.run_for(20 * SECOND);
        assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    }
}

#[test]
fn a_timeout_that_a_loss_has_caused_is_not_undone() {
    for sack in [false, true] {
        for lost in [1, 2, 5, 30, 1000] {
            let mut pair = established(blind(sack), wires());
            pair.ends[0].write(100_000);
            pair.run_for(2 * SECOND);
            let start = pair.now;
            // The first segments of a flight are lost, or all. The acknowledgments of those that
            // arrive are lost too.
            let mut number = 0;
            pair.wires[0].set_fates(move |_, _| {
                number += 1;
                match number <= lost {
                    true => Fate::Lost,
                    false => Fate::Delivered,
                }
            });
            pair.wires[1].set_fates(|_, _| Fate::Lost);
            pair.ends[0].write(200 * 1448);
            pair.run_until(start + 100 * MILLISECOND);
            pair.wires
                .iter_mut()
                .for_each(|wire| wire.set_fates(|_, _| Fate::Delivered));
            pair.run_for(20 * SECOND);
            let sender = &pair.ends[0];
            assert!(pair.ends[1].has_all_of(sender));
            assert_eq!(sender.subflow().counters().timeouts, 1, "{lost} lost");
            let spurious = sender.subflow().counters().spurious_retransmissions;
            assert!(sender.cc.undone == 0 || spurious > 0, "{lost} lost");
        }
    }
}

#[test]
fn segments_doubled_by_the_network_change_nothing() {
    let mut pair = established(Config::default(), wires());
    pair.wires[0].set_fates(|_, _| Fate::Doubled);
    pair.ends[0].write(500_000);
    pair.run_for(5 * SECOND);
    let sender = &pair.ends[0];
    assert!(pair.ends[1].has_all_of(sender));
    assert_eq!(sender.state(), Some(State::Established));
    assert_eq!(sender.subflow().counters().retransmitted_segments, 0);
    assert!(sender.subflow().counters().spurious_retransmissions == 0);
    assert!(sender.cc.congestions.is_empty());
}
