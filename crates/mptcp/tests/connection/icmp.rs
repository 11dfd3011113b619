//! ICMP errors about packets in flight, from routers and from forgers.

use std::net::SocketAddr;
use std::sync::Arc;

use mptcp::connection::Event;
use mptcp::subflow::CloseReason;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::{IcmpError, Packet, Problem};

use crate::world::{
    Addressing, CLIENT, PORT, Pair, PathModel, Stack, ipv4, ipv6, seconds, too_big,
};

const MTU_BYTES: u64 = 1280;

/// Returns two paths with a router on the second one that takes packets of at most [`MTU_BYTES`]
/// and reports it.
fn pair(uses_checksums: bool, address: Addressing) -> Pair {
    let mut stack = Stack::default();
    stack.config.uses_checksums = uses_checksums;
    Arc::make_mut(&mut stack.config.subflow).mss_bytes = match address(0, CLIENT).is_ipv4() {
        true => 1460,
        false => 1440,
    };
    let mut paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    (paths[1].mtu_bytes, paths[1].tells_mtu) = (MTU_BYTES, true);
    Pair::addressed(1, paths, [&stack, &stack], address)
}

fn longest_packet(pair: &Pair, path: usize, after: Nanos, address: Addressing) -> usize {
    let is_later = |(at, side, packet): &&(Nanos, usize, Packet)| {
        *at > after && *side == CLIENT && packet.source == address(path, CLIENT)
    };
    let packets = pair.log.iter().filter(is_later);
    packets
        .map(|(_, _, packet)| packet.wire_len())
        .max()
        .unwrap()
}

#[test]
fn a_path_is_used_at_the_length_that_its_router_takes() {
    for address in [ipv4 as Addressing, ipv6] {
        for uses_checksums in [false, true] {
            let mut pair = pair(uses_checksums, address);
            pair.transfer(2_000_000, 0);
            pair.run_for(300 * MILLISECOND);
            let narrow = &pair.sides[CLIENT].subflows()[1];
            assert_eq!(narrow.counters.timeouts, 0);
            assert!(narrow.window.ssthresh_bytes.is_infinite(), "no congestion");
            pair.run_to_the_end(1200 * MILLISECOND);
            assert_eq!(longest_packet(&pair, 0, 0, address), 1500);
            let after = 150 * MILLISECOND;
            assert_eq!(longest_packet(&pair, 1, after, address), 1280);
            assert!(pair.sent_bytes(CLIENT, 1) > 700_000);
        }
    }
}

#[test]
fn a_connection_over_a_narrow_path_alone_arrives_whole() {
    for stack in [Stack::default(), Stack::plain()] {
        let mut path = PathModel::new(10, 10);
        (path.mtu_bytes, path.tells_mtu) = (600, true);
        let mut pair = Pair::new(1, vec![path], &stack);
        pair.transfer(500_000, 500_000);
        pair.run_to_both_finishes(1200 * MILLISECOND);
    }
}

/// Returns a router's error about the client's last packet.
fn last_too_big(pair: &Pair, mtu_bytes: u64) -> IcmpError {
    let mut log = pair.log.iter();
    let (_, _, sent) = log.rfind(|(_, side, _)| *side == CLIENT).unwrap();
    too_big(sent, mtu_bytes)
}

#[test]
fn who_does_not_see_the_packets_narrows_nothing() {
    let mut pair = Pair::new(1, vec![PathModel::new(10, 10)], &Stack::default());
    pair.transfer(500_000, 0);
    pair.run_for(200 * MILLISECOND);
    let mut error = last_too_big(&pair, 600);
    error.seq += 1 << 24;
    let now = pair.now;
    pair.sides[CLIENT].endpoint.handle_icmp_error(now, &error);
    error.seq += 1 << 31;
    pair.sides[CLIENT].endpoint.handle_icmp_error(now, &error);
    pair.run_to_both_finishes(seconds(1));
    assert_eq!(longest_packet(&pair, 0, now, ipv4), 1500);
}

#[test]
fn no_message_narrows_a_path_below_what_links_take() {
    for (address, least) in [(ipv4 as Addressing, 552), (ipv6, 1280)] {
        let stack = Stack::default();
        let paths = vec![PathModel::new(10, 10)];
        let mut pair = Pair::addressed(1, paths, [&stack, &stack], address);
        pair.transfer(500_000, 0);
        pair.run_for(200 * MILLISECOND);
        let (now, error) = (pair.now, last_too_big(&pair, 0));
        pair.sides[CLIENT].endpoint.handle_icmp_error(now, &error);
        pair.run_to_both_finishes(seconds(2));
        assert_eq!(longest_packet(&pair, 0, now, address), least);
    }
}

/// Returns the client's events within a second, if the first packet meets that problem.
fn events_after_error_for_syn(problem: Problem) -> Vec<Event> {
    let mut path = PathModel::new(10, 10);
    path.is_up = false;
    let mut pair = Pair::new(1, vec![path], &Stack::default());
    pair.run_for(MILLISECOND);
    let (_, _, syn) = &pair.log[0];
    let error = IcmpError {
        problem,
        sender: SocketAddr::new(ipv4(0, CLIENT), syn.segment.source_port),
        receiver: SocketAddr::new(ipv4(0, 1), PORT),
        seq: syn.segment.seq,
    };
    pair.sides[CLIENT]
        .endpoint
        .handle_icmp_error(pair.now, &error);
    pair.run_for(seconds(1));
    pair.sides[CLIENT]
        .events
        .iter()
        .map(|(_, event)| event.clone())
        .collect()
}

#[test]
fn a_syn_that_nobody_takes_ends_the_connection() {
    let events = events_after_error_for_syn(Problem::Refused);
    let is_end = |event: &Event| {
        matches!(
            event,
            Event::Closed {
                reason: CloseReason::Refused
            }
        )
    };
    assert!(events.iter().any(is_end), "{events:?}");
}

#[test]
fn a_way_that_does_not_lead_on_now_ends_nothing() {
    assert_eq!(events_after_error_for_syn(Problem::Unreachable), []);
}
