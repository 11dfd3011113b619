//! Announcements and withdrawals (RFC 8684, section 3.4).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use mptcp::pm::{Endpoint, EndpointFlags, Parameters};
use mptcp::time::MILLISECOND;
use mptcp::wire::{AddressId, Flags, Join, MptcpOption, Packet};

use crate::world::middleboxes::{lose, rewrite};
use crate::world::{Addressing, CLIENT, Pair, PathModel, SERVER, Stack, ipv4, ipv6, seconds};

/// Returns a pair whose server has withdrawn its second address, so that the address is announced
/// when it comes back.
fn pair() -> Pair {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    let mut pair = Pair::new(1, paths, &Stack::default());
    pair.transfer(20_000_000, 0);
    pair.run_for(300 * MILLISECOND);
    pair.set_interface(1, SERVER, false);
    // Unanswered keepalives end the client's subflow to it.
    pair.run_for(seconds(2));
    assert_eq!(pair.sides[CLIENT].subflows().len(), 1);
    pair
}

fn is_announcement(packet: &Packet) -> bool {
    has_address(packet, true)
}

fn is_echo(packet: &Packet) -> bool {
    has_address(packet, false)
}

fn has_address(packet: &Packet, is_signed: bool) -> bool {
    packet.segment.options.mptcp.iter().any(|option| {
        matches!(option, MptcpOption::AddAddress(address)
            if address.truncated_hmac.is_some() == is_signed)
    })
}

fn removes_address(packet: &Packet) -> bool {
    let mut options = packet.segment.options.mptcp.iter();
    options.any(|option| matches!(option, MptcpOption::RemoveAddress(_)))
}

fn has_two_subflows(pair: &Pair) -> bool {
    let sides = pair.sides.iter();
    let counts = sides.map(|side| {
        let subflows = side.subflows();
        subflows
            .iter()
            .filter(|subflow| subflow.established_at.is_some())
            .count()
    });
    counts.min() == Some(2)
}

#[test]
fn an_announced_address_is_echoed_and_joined() {
    let mut pair = pair();
    pair.set_interface(1, SERVER, true);
    pair.run_for(200 * MILLISECOND);
    assert!(has_two_subflows(&pair));
    assert_eq!(pair.sent_packets(SERVER, is_announcement), 1);
    assert_eq!(pair.sent_packets(CLIENT, is_echo), 1);
}

/// Returns a stack that announces this address with a port.
fn announces_a_port(address: IpAddr) -> Stack {
    let endpoint = Endpoint {
        address,
        port: Some(7000),
        flags: EndpointFlags::SIGNAL,
    };
    Stack {
        path_manager: "kernel_endpoints",
        of_path_manager: Parameters {
            endpoints: Some(vec![endpoint]),
            ..Parameters::default()
        },
        ..Stack::default()
    }
}

#[test]
fn an_address_announced_with_a_port_is_joined_there_and_nowhere_else() {
    // The first path's address is already known; that of IPv6 leaves no room for timestamps.
    let cases: [(Addressing, usize); 3] = [(ipv4, 0), (ipv4, 1), (ipv6, 1)];
    for (addressing, path) in cases {
        let address = addressing(path, SERVER);
        let stack = announces_a_port(address);
        let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
        let mut pair = Pair::addressed(1, paths, [&stack, &stack], addressing);
        pair.network
            .middleboxes
            .push(lose(1, |_, packet| is_announcement(packet)));
        pair.transfer(1_000_000, 1_000_000);
        pair.run_for(seconds(2));
        assert_eq!(pair.sent_packets(SERVER, is_announcement), 2);
        assert_eq!(pair.sent_packets(CLIENT, is_echo), 1);
        let subflows = pair.sides[SERVER].subflows();
        let local: Vec<_> = subflows.iter().map(|subflow| subflow.four.local).collect();
        assert_eq!(local[1..], [SocketAddr::new(address, 7000)]);
    }
}

#[test]
fn a_lost_announcement_is_repeated() {
    let mut pair = pair();
    pair.network
        .middleboxes
        .push(lose(2, |_, packet| is_announcement(packet)));
    pair.set_interface(1, SERVER, true);
    let now = pair.now;
    // After one retransmission timeout, then after twice that.
    pair.run_until(now + seconds(2), has_two_subflows);
    assert_eq!(pair.sent_packets(SERVER, is_announcement), 3);
}

#[test]
fn an_announcement_whose_echo_is_lost_is_repeated_and_joined_once() {
    let mut pair = pair();
    pair.network
        .middleboxes
        .push(lose(1, |_, packet| is_echo(packet)));
    pair.set_interface(1, SERVER, true);
    pair.run_for(seconds(2));
    assert!(has_two_subflows(&pair));
    assert_eq!(pair.sent_packets(SERVER, is_announcement), 2);
    assert_eq!(pair.sides[CLIENT].subflows().len(), 2);
}

#[test]
fn a_forged_announcement_is_passed_over_in_silence() {
    let mut pair = pair();
    let forges = rewrite(|_, packet: &mut Packet| {
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::AddAddress(address) = option {
                address.truncated_hmac = address.truncated_hmac.map(|hmac| hmac ^ 1);
            }
        }
    });
    pair.network.middleboxes.push(forges);
    pair.set_interface(1, SERVER, true);
    pair.run_for(seconds(2));
    assert_eq!(pair.sides[CLIENT].subflows().len(), 1);
    assert_eq!(pair.sent_packets(CLIENT, is_echo), 0);
    let client = pair.sides[CLIENT].connection().expect("it is open");
    assert!(client.counters().refused_announcements > 0);
}

#[test]
fn a_removed_address_loses_its_subflows_at_both_ends() {
    for side in [CLIENT, SERVER] {
        let mut pair = pair();
        pair.set_interface(1, SERVER, true);
        pair.run_for(500 * MILLISECOND);
        assert!(has_two_subflows(&pair));
        pair.set_interface(1, side, false);
        pair.run_for(seconds(2));
        assert_eq!(
            pair.sent_packets(side, removes_address),
            1 + usize::from(side == SERVER)
        );
        for side in &pair.sides {
            assert_eq!(side.subflows().len(), 1);
        }
    }
}

#[test]
fn an_announced_address_without_a_subflow_is_taken_back_too() {
    let mut pair = pair();
    let drops = lose(usize::MAX, |place, packet| {
        place.path == 1 && packet.segment.flags.contains(Flags::SYN)
    });
    pair.network.middleboxes.push(drops);
    pair.set_interface(1, SERVER, true);
    pair.run_for(200 * MILLISECOND);
    assert_eq!(pair.sent_packets(CLIENT, is_echo), 1);
    assert!(!has_two_subflows(&pair));
    let before = pair.sent_packets(SERVER, removes_address);
    pair.set_interface(1, SERVER, false);
    pair.run_for(200 * MILLISECOND);
    assert_eq!(pair.sent_packets(SERVER, removes_address), before + 1);
}

#[test]
fn a_priority_that_changes_before_the_first_data_waits_for_its_place() {
    let mut pair = Pair::new(1, vec![PathModel::new(10, 10)], &Stack::default());
    pair.sides[CLIENT].closes = false;
    pair.run_for(25 * MILLISECOND);
    let endpoint = &mut pair.sides[CLIENT].endpoint;
    endpoint.set_backup(pair.now, ipv4(0, CLIENT), true);
    let repeated = std::iter::from_fn(|| endpoint.poll_transmit(pair.now));
    assert!(repeated.take(3).count() < 3);
    pair.transfer(100_000, 100_000);
    pair.run_for(seconds(1));
    let says_priority = |option: &MptcpOption| matches!(option, MptcpOption::Priority { .. });
    let said = |packet: &Packet| packet.segment.options.mptcp.iter().any(says_priority);
    // For the change, and for the start of a backup subflow.
    assert_eq!(pair.sent_packets(CLIENT, said), 2);
}

/// Returns the addresses and IDs that the server sends, in announcements and in its answers to
/// joins.
fn announced_ids(packet: &Packet) -> impl Iterator<Item = (IpAddr, AddressId)> {
    packet
        .segment
        .options
        .mptcp
        .iter()
        .filter_map(|option| match option {
            MptcpOption::AddAddress(announced) => Some((announced.address, announced.id)),
            MptcpOption::Join(Join::SynAck { address_id, .. }) => {
                Some((packet.source, *address_id))
            }
            _ => None,
        })
}

#[test]
fn an_address_has_one_id_wherever_it_is_told() {
    for path_manager in ["kernel_endpoints", "full_mesh"] {
        let stack = Stack {
            path_manager,
            ..Stack::default()
        };
        let mut pair = Pair::new(1, vec![PathModel::new(10, 10); 4], &stack);
        pair.transfer(1_000_000, 0);
        pair.run_for(seconds(1));
        let told = RefCell::new(BTreeSet::new());
        pair.sent_packets(SERVER, |packet| {
            told.borrow_mut().extend(announced_ids(packet));
            false
        });
        let told = told.into_inner();
        let ids: BTreeSet<_> = told.iter().map(|(_, id)| id).collect();
        let addresses: BTreeSet<_> = told.iter().map(|(address, _)| address).collect();
        let counts = [told.len(), ids.len(), addresses.len()];
        assert_eq!(counts, [3; 3], "{path_manager}: {told:?}");
    }
}

#[test]
fn a_server_without_address_for_a_while_is_not_given_up_by_a_client_that_waits_for_it() {
    let mut pair = Pair::new(1, vec![PathModel::new(10, 10)], &Stack::default());
    pair.sides.iter_mut().for_each(|side| side.closes = false);
    pair.transfer(1_000, 0);
    pair.run_for(seconds(1));
    pair.set_interface(0, SERVER, false);
    pair.run_for(seconds(1));
    pair.set_interface(0, SERVER, true);
    pair.transfer(1_000, 50_000);
    pair.run_until(seconds(10), |pair| pair.sides[CLIENT].received == 50_000);
}

#[test]
fn a_path_whose_address_went_during_its_join_is_asked_about_when_it_is_back() {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 100)];
    let mut pair = Pair::new(1, paths, &Stack::default());
    pair.sides.iter_mut().for_each(|side| side.closes = false);
    pair.transfer(1_000, 0);
    let has_second = |pair: &Pair, side: usize| {
        let mut subflows = pair.sides[side].subflows().into_iter();
        subflows.any(|its| its.four.local.ip() == ipv4(1, side) && its.established_at.is_some())
    };
    pair.run_until(seconds(1), |pair| has_second(pair, CLIENT));
    // The server confirms the join before it receives the withdrawal.
    pair.run_for(50 * MILLISECOND);
    pair.set_interface(1, CLIENT, false);
    pair.run_for(60 * MILLISECOND);
    pair.set_path(0, false);
    // The server's keepalives are not answered, and its RST does not arrive.
    pair.run_for(seconds(6));
    assert!(has_second(&pair, CLIENT) && !has_second(&pair, SERVER));
    pair.set_interface(1, CLIENT, true);
    pair.transfer(1_000, 50_000);
    let deadline = pair.now + seconds(5);
    pair.run_until(deadline, |pair| pair.sides[CLIENT].received == 50_000);
}
