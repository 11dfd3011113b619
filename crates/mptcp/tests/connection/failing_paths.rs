//! Paths that are cut, repaired, or only backups.

use std::sync::Arc;

use mptcp::connection::{Connection, Event};
use mptcp::failure::Behaviour;
use mptcp::pm::{Recreation, Waits};
use mptcp::subflow::CloseReason;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::{Flags, MptcpOption, MptcpOptions, Packet, ResetReason};

use crate::world::middleboxes::rewrite;
use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, ipv4, seconds};

/// Returns paths with queues of up to 40 ms.
fn paths() -> Vec<PathModel> {
    let mut path = PathModel::new(4, 10);
    path.queue_bytes = 20_000;
    vec![path; 2]
}

/// Returns a stack without opportunistic retransmission, which ends stalls earlier.
fn stack(behaviour: Behaviour) -> Stack {
    let mut stack = Stack {
        scheduler: "kernel_default",
        ..Stack::default()
    };
    stack.config.behaviour = behaviour;
    stack
}

/// Returns mainline's stack, whose scheduler reinjects nothing on a backup path while a regular one
/// makes progress.
fn mainline() -> Stack {
    Stack {
        scheduler: "kernel_default",
        ..Stack::default()
    }
}

/// Returns the longest time in which a host reads nothing, in steps of 10 ms.
fn longest_stall(pair: &mut Pair, reader: usize, duration: Nanos) -> Nanos {
    let (mut longest, mut since) = (0, pair.now);
    let end = pair.now + duration;
    while pair.now < end && pair.sides[reader].finished_at.is_none() {
        let before = pair.sides[reader].received;
        pair.run_for(10 * MILLISECOND);
        if pair.sides[reader].received > before {
            since = pair.now;
        }
        longest = longest.max(pair.now - since);
    }
    longest
}

/// Runs a transfer over two paths, the second of which is reset after a second.
fn reset_after_a_second(recreation: Recreation) -> Pair {
    let behaviour = Behaviour {
        recreation,
        ..Behaviour::mainline()
    };
    let mut pair = Pair::new(1, paths(), &stack(behaviour));
    let mut is_done = false;
    pair.network
        .middleboxes
        .push(rewrite(move |place, packet: &mut Packet| {
            let is_here = (place.path, place.from) == (1, SERVER) && place.now > seconds(1);
            if is_here && !std::mem::replace(&mut is_done, true) {
                packet.segment.flags = Flags::RST | Flags::ACK;
                packet.segment.options.mptcp = MptcpOptions::new();
            }
        }));
    pair.transfer(8_000_000, 0);
    pair.run_for(seconds(1) + 100 * MILLISECOND);
    pair
}

fn client_subflows(pair: &Pair) -> usize {
    pair.sides[CLIENT].subflows().len()
}

#[test]
fn a_subflow_that_was_reset_is_opened_again_when_the_behaviour_says() {
    let waits = Waits {
        first: seconds(1),
        longest: seconds(1),
    };
    for recreation in [Recreation::Never, Recreation::Backoff(waits)] {
        let mut pair = reset_after_a_second(recreation);
        assert_eq!(client_subflows(&pair), 1);
        pair.run_for(800 * MILLISECOND);
        assert_eq!(client_subflows(&pair), 1);
        pair.run_for(seconds(1));
        let is_recreated = recreation != Recreation::Never;
        assert_eq!(client_subflows(&pair), 1 + usize::from(is_recreated));
    }
}

#[test]
fn an_address_that_is_back_has_its_subflow_again_whatever_the_behaviour_says() {
    let mut pair = reset_after_a_second(Recreation::Never);
    pair.set_interface(1, CLIENT, false);
    pair.run_for(100 * MILLISECOND);
    pair.set_interface(1, CLIENT, true);
    pair.run_for(200 * MILLISECOND);
    assert_eq!(client_subflows(&pair), 2);
}

/// Returns the stall of a bulk transfer when one of two paths is cut, and the bytes that both paths
/// carried after the repair.
fn cut_and_repair(behaviour: Behaviour) -> (Nanos, [u64; 2]) {
    let mut pair = Pair::new(1, paths(), &stack(behaviour));
    pair.transfer(8_000_000, 0);
    pair.run_for(seconds(1));
    pair.set_path(1, false);
    let stall = longest_stall(&mut pair, SERVER, seconds(4));
    pair.set_path(1, true);
    pair.run_for(seconds(4));
    let before = [0, 1].map(|path| pair.sent_bytes(CLIENT, path));
    pair.run_to_the_end(seconds(20));
    let after = [0, 1].map(|path| pair.sent_bytes(CLIENT, path) - before[path]);
    (stall, after)
}

#[test]
fn out_of_tree_a_cut_path_stalls_for_a_retransmission_timeout() {
    let (stall, after) = cut_and_repair(Behaviour::oot());
    // SRTT, at most 60 ms, and 200 ms. In addition, the data that the queue of the other path
    // already holds: three windows, 184 kB at most.
    assert!((200..900).contains(&(stall / MILLISECOND)), "{stall} ns");
    assert!(after.iter().all(|bytes| *bytes > 400_000), "{after:?}");
}

#[test]
fn mainline_a_cut_path_stalls_until_it_is_stale() {
    let (stall, after) = cut_and_repair(Behaviour::mainline());
    // The first timer and four intervals of 200 ms and more.
    assert!((900..2000).contains(&(stall / MILLISECOND)), "{stall} ns");
    assert!(after.iter().all(|bytes| *bytes > 400_000), "{after:?}");
}

#[test]
fn a_path_whose_handshake_nobody_answers_does_not_hold_up_the_others() {
    let mut pair = Pair::new(
        1,
        vec![paths()[0].clone(); 3],
        &stack(Behaviour::mainline()),
    );
    pair.set_path(2, false);
    pair.transfer(8_000_000, 0);
    pair.run_for(seconds(1));
    pair.set_path(1, false);
    // Its SYN is retransmitted every second, which would make five intervals as long.
    let stall = longest_stall(&mut pair, SERVER, seconds(4));
    assert!(stall < seconds(2), "{stall} ns");
}

#[test]
fn a_cut_path_is_not_used_until_it_answers() {
    let mut pair = Pair::new(1, paths(), &stack(Behaviour::mainline()));
    pair.transfer(8_000_000, 0);
    pair.run_for(seconds(1));
    pair.set_path(1, false);
    pair.run_for(seconds(4));
    assert!(pair.sides[CLIENT].subflows()[1].is_stale);
    let before = pair.sent_bytes(CLIENT, 1);
    pair.run_for(seconds(2));
    let probes = pair.sent_bytes(CLIENT, 1) - before;
    assert!(probes < 5_000, "{probes} bytes into a dead path");
}

#[test]
fn a_stale_path_is_back_when_its_own_retransmission_is_answered() {
    let mut pair = Pair::new(1, paths(), &stack(Behaviour::mainline()));
    pair.transfer(100_000_000, 0);
    pair.run_for(seconds(1));
    pair.set_path(1, false);
    pair.run_for(seconds(10));
    pair.set_path(1, true);
    let repaired_at = pair.now;
    pair.run_until(repaired_at + seconds(7), |pair| {
        !pair.sides[CLIENT].subflows()[1].is_stale
    });
    let dead_time = pair.now - repaired_at;
    assert!(dead_time > seconds(1), "only the next timeout probes");
}

#[test]
fn one_of_two_cut_paths_is_enough_to_go_on() {
    for behaviour in [Behaviour::oot(), Behaviour::mainline()] {
        let mut pair = Pair::new(1, paths(), &stack(behaviour));
        pair.transfer(1_600_000, 0);
        pair.run_for(seconds(1));
        pair.set_path(0, false);
        pair.set_path(1, false);
        pair.run_for(seconds(3));
        pair.set_path(1, true);
        // The path is tried after a doubled timeout; then 4 Mbit/s remain.
        pair.run_to_both_finishes(seconds(13));
    }
}

#[test]
fn an_interface_that_goes_and_comes_loses_its_subflow_and_gets_a_new_one() {
    let mut pair = Pair::new(1, paths(), &Stack::default());
    // Its acknowledgments, one of which has REMOVE_ADDR, meet no queue.
    pair.transfer(0, 4_000_000);
    pair.sides[CLIENT].closes = false;
    pair.run_for(seconds(1));
    pair.set_interface(1, CLIENT, false);
    let stall = longest_stall(&mut pair, CLIENT, seconds(1));
    assert!(stall < 400 * MILLISECOND, "{stall} ns");
    assert_eq!(pair.sides[CLIENT].subflows().len(), 1);
    pair.run_for(seconds(1));
    assert_eq!(
        pair.sides[SERVER].subflows().len(),
        1,
        "REMOVE_ADDR told it, and keepalives without an answer"
    );
    pair.set_interface(1, CLIENT, true);
    pair.run_for(200 * MILLISECOND);
    let ids = pair.sides[CLIENT].subflows();
    let ids: Vec<_> = ids.iter().map(|subflow| subflow.id).collect();
    assert_eq!(ids, [0, 2], "the new subflow has a new name");
    pair.sides[CLIENT].closes = true;
    pair.run_to_the_end(seconds(7));
}

#[test]
fn the_initial_subflow_can_go_like_any_other() {
    let mut pair = Pair::new(1, paths(), &Stack::default());
    pair.transfer(1_200_000, 1_200_000);
    pair.run_for(500 * MILLISECOND);
    let ends = |pair: &Pair| {
        [CLIENT, SERVER].map(|side| pair.sides[side].connection().map(Connection::initial))
    };
    let at_first = ends(&pair);
    pair.set_interface(0, CLIENT, false);
    pair.run_to_the_end(seconds(5));
    for side in &pair.sides {
        assert!(side.has_seen(|event| matches!(event, Event::SubflowClosed { id: 0, .. })));
    }
    // What an application sees (RFC 8684, section 4).
    assert_eq!(ends(&pair), at_first);
    let seen = at_first[CLIENT].map(|four| (four.local.ip(), four.remote.ip()));
    assert_eq!(seen, Some((ipv4(0, CLIENT), ipv4(0, SERVER))));
}

#[test]
fn a_connection_without_subflows_is_joined_from_another_address() {
    let mut pair = Pair::new(1, paths(), &Stack::default());
    pair.set_interface(1, CLIENT, false);
    pair.transfer(1_000_000, 0);
    pair.run_for(seconds(1));
    pair.set_interface(0, CLIENT, false);
    pair.run_for(seconds(5));
    assert!(pair.sides[CLIENT].subflows().is_empty());
    pair.set_interface(1, CLIENT, true);
    pair.run_to_both_finishes(seconds(9));
    assert_eq!(pair.sides[SERVER].received, 1_000_000);
    assert!(pair.sent_bytes(CLIENT, 1) > 400_000);
}

#[test]
fn a_connection_that_nobody_joins_again_ends() {
    let mut stack = Stack::default();
    stack.config.lifetime_without_subflows = seconds(10);
    let mut pair = Pair::new(1, paths(), &stack);
    pair.transfer(10_000_000, 0);
    pair.run_for(seconds(1));
    pair.set_interface(0, CLIENT, false);
    pair.set_interface(1, CLIENT, false);
    pair.run_until(seconds(12), |pair| pair.sides[CLIENT].has_closed());
    assert!(pair.now > seconds(11) - MILLISECOND);
    assert!(pair.sides[CLIENT].has_seen(|event| *event
        == Event::Closed {
            reason: CloseReason::TimedOut
        }));
}

/// Returns a pair whose second path gets backup priority from `side`.
fn with_backup(side: usize) -> Pair {
    let mut pair = Pair::new(1, paths(), &mainline());
    pair.sides[side].endpoint.set_backup(0, ipv4(1, side), true);
    pair
}

#[test]
fn a_backup_path_carries_nothing_while_the_regular_one_works() {
    for side in [CLIENT, SERVER] {
        let mut pair = with_backup(side);
        pair.transfer(400_000, 400_000);
        pair.run_to_the_end(seconds(2));
        for sender in [CLIENT, SERVER] {
            assert_eq!(
                pair.sent_bytes(sender, 1),
                0,
                "set by {side}, sent by {sender}"
            );
        }
    }
}

#[test]
fn a_backup_path_takes_over() {
    for behaviour in [Behaviour::oot(), Behaviour::mainline()] {
        let mut pair = Pair::new(1, paths(), &stack(behaviour));
        let reserve = ipv4(1, CLIENT);
        pair.sides[CLIENT].endpoint.set_backup(0, reserve, true);
        pair.transfer(1_200_000, 0);
        pair.run_for(seconds(1));
        pair.set_path(0, false);
        pair.run_to_both_finishes(seconds(5));
        assert!(pair.sent_bytes(CLIENT, 1) > 600_000);
    }
}

#[test]
fn priorities_change_in_mid_stream_from_either_side() {
    for side in [CLIENT, SERVER] {
        let mut pair = Pair::new(1, paths(), &mainline());
        pair.transfer(8_000_000, 0);
        pair.run_for(seconds(1));
        assert!(pair.sent_bytes(CLIENT, 1) > 150_000);
        let mut carried_while = |on| {
            let now = pair.now;
            let endpoint = &mut pair.sides[side].endpoint;
            endpoint.set_backup(now, ipv4(1, side), on);
            // Data in the subflow's send queue is still sent.
            pair.run_for(seconds(1));
            let before = pair.sent_bytes(CLIENT, 1);
            pair.run_for(seconds(1));
            pair.sent_bytes(CLIENT, 1) - before
        };
        assert_eq!(carried_while(true), 0, "side {side}");
        assert!(carried_while(false) > 250_000, "side {side}");
        let is_priority = |option: &MptcpOption| matches!(option, MptcpOption::Priority { .. });
        let said = pair.sent_packets(side, |packet| {
            packet.segment.options.mptcp.iter().any(is_priority)
        });
        assert_eq!(said, 2);
    }
}

#[test]
fn a_subflow_that_is_given_up_says_that_it_performed_too_badly() {
    let mut stack = Stack::default();
    Arc::make_mut(&mut stack.config.subflow).retries = 2;
    let mut pair = Pair::new(1, paths(), &stack);
    pair.transfer(4_000_000, 0);
    pair.run_for(500 * MILLISECOND);
    pair.set_path(1, false);
    pair.run_for(seconds(5));
    let says_so = |packet: &Packet| {
        let reason = ResetReason::of(ResetReason::BAD_PERFORMANCE);
        let mut options = packet.segment.options.mptcp.iter();
        options.any(|option| *option == MptcpOption::Reset(reason))
    };
    assert!(pair.sent_packets(CLIENT, says_so) > 0);
}
