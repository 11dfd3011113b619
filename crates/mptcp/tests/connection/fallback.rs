//! Options or data that are lost or changed in mid-stream (RFC 8684, section 3.7).

use mptcp::connection::{Event, Fallback};
use mptcp::payload::Payload;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::{Flags, Mapping, MptcpOption, Packet};

use crate::world::middleboxes::{Middlebox, rewrite, strip};
use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

fn pair(paths: usize, fallback: Fallback) -> Pair {
    let mut stack = Stack::default();
    stack.config.uses_checksums = true;
    stack.config.fallback = fallback;
    Pair::new(1, vec![PathModel::new(10, 10); paths], &stack)
}

fn is_dss(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Dss(_))
}

/// Removes the DSS from the client's packets on a path after a time.
fn strips_dss(on_path: usize, from: Nanos) -> Middlebox {
    strip(move |place, _, option| {
        (place.path, place.from) == (on_path, CLIENT) && place.now >= from && is_dss(option)
    })
}

/// Changes the first byte of one data segment of the client on a path after a time.
fn changes_a_byte(on_path: usize, from: Nanos) -> Middlebox {
    let mut is_done = false;
    rewrite(move |place, packet: &mut Packet| {
        let is_here = (place.path, place.from) == (on_path, CLIENT) && place.now >= from;
        if is_here && !is_done && !packet.segment.payload.is_empty() {
            let mut bytes = packet.segment.payload.to_vec();
            bytes[0] ^= 0x20;
            packet.segment.payload = Payload::literal(bytes);
            is_done = true;
        }
    })
}

fn has_mp_fail(packet: &Packet) -> bool {
    let mut options = packet.segment.options.mptcp.iter();
    options.any(|option| matches!(option, MptcpOption::Fail { .. }))
}

fn mappings(packet: &Packet) -> impl Iterator<Item = Mapping> {
    let options = packet.segment.options.mptcp.iter();
    options.filter_map(|option| match option {
        MptcpOption::Dss(dss) => dss.mapping(),
        _ => None,
    })
}

#[test]
fn a_path_that_loses_its_options_is_reset_and_the_other_goes_on() {
    let mut pair = pair(2, Fallback::Rfc);
    pair.network
        .middleboxes
        .push(strips_dss(1, 300 * MILLISECOND));
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(3));
    assert!(
        pair.sides[SERVER].has_seen(|event| matches!(event, Event::SubflowClosed { id: 1, .. }))
    );
    assert!(!pair.sides[SERVER].has_seen(|event| *event == Event::FellBack));
}

/// The third packet has its MP_CAPABLE, and no later acknowledgment has a DSS.
#[test]
fn a_server_that_speaks_first_falls_back_without_data_acks() {
    let mut pair = pair(1, Fallback::Rfc);
    pair.network.middleboxes.push(strips_dss(0, 0));
    pair.transfer(0, 8_000_000);
    pair.run_to_the_end(seconds(10));
    assert!(pair.sides[SERVER].has_seen(|event| *event == Event::FellBack));
}

#[test]
fn the_only_path_is_joined_again_when_options_come_through_again() {
    let mut pair = pair(1, Fallback::Rfc);
    let (from, to) = (300 * MILLISECOND, 800 * MILLISECOND);
    let strips = strip(move |place, _, option| {
        place.from == CLIENT && (from..to).contains(&place.now) && is_dss(option)
    });
    pair.network.middleboxes.push(strips);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(5));
    assert_eq!(pair.sides[SERVER].received, 2_000_000);
}

#[test]
fn no_wrong_byte_comes_of_options_that_are_lost_for_good() {
    let mut pair = pair(1, Fallback::Rfc);
    pair.network
        .middleboxes
        .push(strips_dss(0, 300 * MILLISECOND));
    pair.transfer(2_000_000, 0);
    pair.run_for(seconds(60));
    assert!(pair.sides[SERVER].finished_at.is_none());
    assert!(!pair.sides[SERVER].has_seen(|event| *event == Event::FellBack));
    let joins = pair.sent_packets(CLIENT, |packet| packet.segment.flags.contains(Flags::SYN));
    assert!((3..20).contains(&joins), "{joins} SYNs, ever more seldom");
}

#[test]
fn a_joined_path_that_brings_no_data_acks_is_reset_and_the_other_goes_on() {
    let mut pair = pair(2, Fallback::Rfc);
    let strips =
        strip(|place, _, option| (place.path, place.from) == (1, SERVER) && is_dss(option));
    pair.network.middleboxes.push(strips);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(3));
    let syns = pair.sent_packets(CLIENT, |packet| packet.segment.flags.contains(Flags::SYN));
    assert_eq!(syns, 2, "the path is not tried again");
}

#[test]
fn data_that_was_changed_on_one_of_two_paths_comes_right_on_the_other() {
    let mut pair = pair(2, Fallback::Rfc);
    pair.network
        .middleboxes
        .push(changes_a_byte(1, 300 * MILLISECOND));
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(3));
    let failed = pair.sent_packets(SERVER, has_mp_fail);
    assert_eq!(failed, 1, "MP_FAIL goes with the reset");
    assert!(
        pair.sides[CLIENT].has_seen(|event| matches!(event, Event::SubflowClosed { id: 1, .. }))
    );
    assert!(!pair.sides[SERVER].has_seen(|event| *event == Event::FellBack));
}

#[test]
fn data_that_was_changed_on_the_only_path_makes_it_tcp() {
    let mut pair = pair(1, Fallback::Rfc);
    pair.network
        .middleboxes
        .push(changes_a_byte(0, 300 * MILLISECOND));
    pair.sides[SERVER].takes_changed = true;
    pair.transfer(2_000_000, 500_000);
    pair.run_to_the_end(seconds(3));
    for side in &pair.sides {
        assert!(side.has_seen(|event| *event == Event::FellBack));
    }
    assert_eq!(pair.sides[SERVER].received, 2_000_000);
    assert!(pair.sides[SERVER].changed_bytes < 3_000, "one segment");
    assert!(pair.sent_packets(SERVER, has_mp_fail) > 0);
    let infinite = pair.sent_packets(CLIENT, |packet| {
        mappings(packet).any(|mapping| mapping.len == 0)
    });
    assert_eq!(infinite, 1, "the client says from where on it is TCP");
}

#[test]
fn strict_sides_deliver_nothing_that_was_changed() {
    let mut pair = pair(1, Fallback::Strict);
    pair.network
        .middleboxes
        .push(changes_a_byte(0, 300 * MILLISECOND));
    pair.transfer(2_000_000, 0);
    // The path is reset and joined again, and the data arrives unchanged.
    pair.run_to_the_end(seconds(5));
    assert!(!pair.sides[SERVER].has_seen(|event| *event == Event::FellBack));
    assert_eq!(pair.sent_packets(SERVER, has_mp_fail), 1);
}

#[test]
fn strict_sides_join_again_if_the_only_data_was_changed() {
    let mut pair = pair(1, Fallback::Strict);
    pair.network.middleboxes.push(changes_a_byte(0, 0));
    pair.transfer(300, 0);
    // The server resets the subflow before it has acknowledged anything.
    pair.run_to_the_end(seconds(5));
    assert_eq!(pair.sent_packets(SERVER, has_mp_fail), 1);
    assert_eq!(pair.sides[SERVER].received, 300);
}

#[test]
fn an_infinite_mapping_beside_another_subflow_is_a_forgery() {
    let mut pair = pair(2, Fallback::Rfc);
    let mut is_done = false;
    let forges = rewrite(move |place, packet: &mut Packet| {
        let is_here = (place.path, place.from) == (1, CLIENT);
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Dss(dss) = option
                && let Some(mut mapping) = dss.mapping()
                && is_here
                && place.now > 300 * MILLISECOND
                && !std::mem::replace(&mut is_done, true)
            {
                mapping.len = 0;
                mapping.checksum = Some(0);
                *dss = dss.with_mapping(Some(mapping));
            }
        }
    });
    pair.network.middleboxes.push(forges);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(3));
    for side in &pair.sides {
        assert!(!side.has_seen(|event| *event == Event::FellBack));
    }
    assert!(
        pair.sides[SERVER].has_seen(|event| matches!(event, Event::SubflowClosed { id: 1, .. }))
    );
}
