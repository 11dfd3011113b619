//! Middleboxes that change what TCP allows them to change.

use std::net::IpAddr;

use mptcp::connection::Event;
use mptcp::time::MILLISECOND;
use mptcp::wire::{Flags, Packet};

use crate::world::middleboxes::{Middlebox, rewrite};
use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, ipv4, seconds};

fn pair(uses_checksums: bool) -> Pair {
    let mut stack = Stack::default();
    stack.config.uses_checksums = uses_checksums;
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    Pair::new(1, paths, &stack)
}

/// Cuts every data segment into two that both have all options.
fn splits() -> Middlebox {
    Box::new(|_, packet| {
        let len = packet.segment.payload.len();
        if len < 2 {
            return vec![packet];
        }
        let (mut first, mut second) = (packet.clone(), packet);
        first.segment.payload = first.segment.payload.slice(0..len / 2);
        first.segment.flags = Flags::ACK;
        second.segment.payload = second.segment.payload.slice(len / 2..len);
        second.segment.seq += len / 2;
        vec![first, second]
    })
}

/// Merges pairs of segments on a path; the second one's options are lost.
fn coalesces(path: usize) -> Middlebox {
    let mut held: Option<Packet> = None;
    Box::new(move |place, packet| {
        let has_data = !packet.segment.payload.is_empty();
        if (place.path, place.from) != (path, CLIENT) || place.now < 300 * MILLISECOND || !has_data
        {
            return vec![packet];
        }
        match held.take() {
            Some(mut first) if first.segment.end() == packet.segment.seq => {
                first.segment.payload.append(packet.segment.payload);
                vec![first]
            }
            Some(first) => vec![first, packet],
            None => {
                held = Some(packet);
                Vec::new()
            }
        }
    })
}

/// Translates the client's address for the server.
fn translates() -> Middlebox {
    rewrite(|place, packet: &mut Packet| {
        let outside = IpAddr::from([192, 0, 2, place.path as u8 + 1]);
        match place.from {
            CLIENT => packet.source = outside,
            _ => packet.destination = ipv4(place.path, CLIENT),
        }
    })
}

/// Shifts the sequence numbers of the client.
fn shifts_numbers(by: u32) -> Middlebox {
    rewrite(move |place, packet: &mut Packet| match place.from {
        CLIENT => packet.segment.seq += by,
        _ => {
            packet.segment.ack = packet.segment.ack - by;
            for block in &mut packet.segment.options.sack {
                (block.start, block.end) = (block.start - by, block.end - by);
            }
        }
    })
}

#[test]
fn segments_that_are_split_on_the_way_find_their_place() {
    for uses_checksums in [false, true] {
        let mut pair = pair(uses_checksums);
        pair.network.middleboxes.push(splits());
        pair.transfer(1_000_000, 500_000);
        pair.run_to_the_end(seconds(1));
        assert!(pair.sent_bytes(CLIENT, 1) > 300_000);
    }
}

#[test]
fn segments_that_are_joined_on_the_way_cost_their_path_only() {
    for uses_checksums in [false, true] {
        let mut pair = pair(uses_checksums);
        pair.network.middleboxes.push(coalesces(1));
        pair.transfer(1_000_000, 0);
        pair.run_to_the_end(seconds(3));
    }
}

#[test]
fn segments_that_are_joined_on_the_only_path_come_by_one_subflow_after_another() {
    for uses_checksums in [false, true] {
        let mut stack = Stack::default();
        stack.config.uses_checksums = uses_checksums;
        let mut pair = Pair::new(1, vec![PathModel::new(10, 10)], &stack);
        pair.network.middleboxes.push(coalesces(0));
        pair.transfer(1_000_000, 0);
        // With intervals that grow to 30 s this took hours.
        pair.run_to_the_end(seconds(200));
        assert!(!pair.sides[SERVER].has_seen(|event| *event == Event::FellBack));
    }
}

#[test]
fn addresses_may_be_translated() {
    let mut pair = pair(true);
    pair.network
        .path_of_more((0..2).map(|path| (IpAddr::from([192, 0, 2, path as u8 + 1]), path)));
    pair.network.middleboxes.push(translates());
    pair.transfer(1_000_000, 1_000_000);
    pair.run_to_the_end(seconds(1));
    assert!(pair.sent_bytes(CLIENT, 1) > 300_000);
}

#[test]
fn sequence_numbers_may_be_shifted() {
    let mut pair = pair(true);
    pair.network.middleboxes.push(shifts_numbers(0x7654_3210));
    pair.transfer(1_000_000, 1_000_000);
    pair.run_to_the_end(seconds(1));
    assert!(pair.sent_bytes(CLIENT, 1) > 300_000);
    assert!(!pair.sides[SERVER].has_seen(|event| *event == Event::FellBack));
}

#[test]
fn options_of_tcp_may_be_missing() {
    let mut pair = pair(false);
    let strips = rewrite(|_, packet: &mut Packet| {
        packet.segment.options.timestamps = None;
        packet.segment.options.sack_permitted = false;
        packet.segment.options.window_scale = None;
    });
    pair.network.middleboxes.push(strips);
    pair.transfer(1_000_000, 1_000_000);
    pair.run_to_the_end(1500 * MILLISECOND);
}

#[test]
fn a_narrow_path_is_used_where_a_router_lowers_the_mss() {
    let mut pair = pair(false);
    pair.network.paths[1].mtu_bytes = 1280;
    let clamps = rewrite(|place, packet: &mut Packet| {
        let mss = &mut packet.segment.options.mss;
        if place.path == 1 {
            *mss = mss.map(|mss| mss.min(1240));
        }
    });
    pair.network.middleboxes.push(clamps);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(1200 * MILLISECOND);
    assert!(pair.sent_bytes(CLIENT, 1) > 700_000);
}

#[test]
fn a_path_that_loses_large_packets_does_not_stop_the_connection() {
    let mut pair = pair(false);
    pair.network.paths[1].mtu_bytes = 1280;
    pair.transfer(2_000_000, 0);
    // The other path alone takes 1.8 s.
    pair.run_to_both_finishes(2200 * MILLISECOND);
}

#[test]
fn urgent_data_are_data_like_others() {
    let mut pair = pair(false);
    let middlebox = rewrite(|_, packet| {
        if !packet.segment.payload.is_empty() {
            packet.segment.flags |= Flags::URG;
        }
    });
    pair.network.middleboxes.push(middlebox);
    pair.transfer(1_000_000, 1_000_000);
    pair.run_to_both_finishes(seconds(5));
}
