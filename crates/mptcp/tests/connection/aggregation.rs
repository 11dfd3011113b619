//! Several paths carry one byte stream.

use mptcp::connection::Buffer;
use mptcp::time::MILLISECOND;
use mptcp::{cc, sched};

use crate::world::middleboxes::as_bytes;
use crate::world::{CLIENT, Faults, Pair, PathModel, SERVER, Stack, ipv6, seconds};

fn paths(count: usize, rate_mbps: u64, delay_ms: u64) -> Vec<PathModel> {
    vec![PathModel::new(rate_mbps, delay_ms); count]
}

/// Returns a fast path, and one with half its rate and three times its delay.
fn unequal() -> Vec<PathModel> {
    vec![PathModel::new(10, 10), PathModel::new(5, 30)]
}

#[test]
fn two_equal_paths_carry_twice_as_much() {
    let mut pair = Pair::new(1, paths(2, 10, 10), &Stack::default());
    pair.transfer(5_000_000, 0);
    // 20 Mbit/s would take 2.0 s for the payload alone, and 10 Mbit/s 4.0 s.
    pair.run_to_the_end(2300 * MILLISECOND);
    for path in [0, 1] {
        let share = pair.sent_bytes(CLIENT, path);
        assert!(share > 2_000_000, "path {path} carried {share} bytes");
    }
}

#[test]
fn both_directions_aggregate_at_once() {
    let mut pair = Pair::new(1, paths(2, 10, 10), &Stack::default());
    pair.transfer(3_000_000, 3_000_000);
    // The payload alone takes 1.2 s, and over one path 2.4 s.
    pair.run_to_the_end(1800 * MILLISECOND);
}

#[test]
fn four_paths_carry_four_times_as_much() {
    let mut pair = Pair::new(1, paths(4, 10, 10), &Stack::default());
    pair.transfer(10_000_000, 0);
    pair.run_to_the_end(2400 * MILLISECOND);
    for path in 0..4 {
        assert!(pair.sent_bytes(CLIENT, path) > 1_500_000);
    }
}

#[test]
fn more_than_64_subflows_are_used() {
    let mut pair = Pair::new(1, paths(70, 1, 10), &Stack::default());
    pair.transfer(6_000_000, 0);
    // 70 Mbit/s would take 0.7 s, and 64 Mbit/s 0.75 s. Queues of half a second fill first.
    pair.run_to_the_end(1400 * MILLISECOND);
    for path in 0..70 {
        assert!(pair.sent_bytes(CLIENT, path) > 0, "path {path} is unused");
    }
}

#[test]
fn no_more_subflows_are_made_than_allowed() {
    let mut stack = Stack::default();
    stack.config.max_subflows = 3;
    let mut pair = Pair::of(1, paths(6, 10, 10), [&Stack::default(), &stack]);
    pair.transfer(500_000, 0);
    pair.run_until(seconds(2), |pair| pair.sides[SERVER].received == 500_000);
    assert_eq!(pair.sides[SERVER].subflows().len(), 3);
}

#[test]
fn addresses_of_ipv6_serve_as_well() {
    let stack = Stack::default();
    let mut pair = Pair::addressed(1, paths(2, 10, 10), [&stack, &stack], ipv6);
    pair.transfer(5_000_000, 0);
    pair.run_to_the_end(2350 * MILLISECOND);
}

#[test]
fn every_packet_of_a_connection_has_its_form_in_bytes() {
    for address in [crate::world::ipv4, ipv6] {
        let faults = Faults {
            loss: 0.02,
            duplication: 0.01,
            reordering: 0.02,
            ..Faults::default()
        };
        let mut stack = Stack::default();
        stack.config.uses_checksums = true;
        let paths = unequal().into_iter().map(|path| path.with(faults.clone()));
        let mut pair = Pair::addressed(5, paths.collect(), [&stack, &stack], address);
        pair.network.middleboxes.push(as_bytes());
        pair.transfer(300_000, 300_000);
        pair.run_for(300 * MILLISECOND);
        pair.set_interface(1, SERVER, false);
        pair.run_for(300 * MILLISECOND);
        pair.set_interface(1, SERVER, true);
        pair.run_to_the_end(seconds(20));
    }
}

#[test]
fn every_scheduler_finishes_over_unequal_paths() {
    for name in sched::names() {
        let stack = Stack {
            scheduler: name,
            ..Stack::default()
        };
        let mut pair = Pair::new(1, unequal(), &stack);
        pair.transfer(600_000, 0);
        // The slower path alone would take 1.1 s.
        pair.run_to_the_end(1100 * MILLISECOND);
        assert!(pair.sent_bytes(CLIENT, 0) > 300_000, "{name}");
    }
}

#[test]
fn every_congestion_control_finishes_over_unequal_paths() {
    for name in cc::names() {
        let stack = Stack {
            congestion_control: name,
            ..Stack::default()
        };
        let mut pair = Pair::new(1, unequal(), &stack);
        pair.transfer(600_000, 0);
        pair.run_to_the_end(1100 * MILLISECOND);
        assert!(pair.sent_bytes(CLIENT, 1) > 30_000, "{name}");
    }
}

#[test]
fn what_is_redundant_is_sent_on_every_path() {
    let stack = Stack {
        scheduler: "redundant",
        ..Stack::default()
    };
    let mut pair = Pair::new(1, paths(2, 10, 10), &stack);
    pair.transfer(1_000_000, 0);
    pair.run_to_the_end(1100 * MILLISECOND);
    for path in [0, 1] {
        assert!(pair.sent_bytes(CLIENT, path) > 900_000, "path {path}");
    }
}

#[test]
fn a_slow_path_that_blocks_the_window_is_penalized() {
    let penalizations = |receive_buffer_bytes| {
        let mut stack = Stack::default();
        stack.config.receive_buffer = Buffer::Fixed(receive_buffer_bytes);
        let paths = vec![PathModel::new(10, 5), PathModel::new(1, 150)];
        let mut pair = Pair::new(1, paths, &stack);
        pair.transfer(3_000_000, 0);
        pair.run_until(seconds(6), |pair| pair.sides[SERVER].received == 3_000_000);
        let client = pair.sides[CLIENT].connection().expect("it is open");
        client.counters().penalizations
    };
    assert!(penalizations(60_000) > 0);
    assert_eq!(penalizations(6 << 20), 0, "nothing blocks a large window");
}
