//! The mode of a connection, whatever happens to MP_CAPABLE (RFC 8684, sections 3.1 and 3.7).

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;

use mptcp::connection::{Connection, Event, Mode};
use mptcp::endpoint::{ConnectError, ConnectionId, Endpoint, NetworkView};
use mptcp::pm::FourTuple;
use mptcp::subflow::CloseReason;
use mptcp::time::MILLISECOND;
use mptcp::wire::{Capable, Flags, MptcpOption, MptcpOptions, Packet};

use rand_core::TryRng;

use crate::world::middleboxes::{lose, rewrite, strip};
use crate::world::{CLIENT, PORT, Pair, PathModel, SERVER, Stack, ipv4, seconds};

fn pair() -> Pair {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    Pair::new(1, paths, &Stack::default())
}

fn is_syn(packet: &Packet) -> bool {
    packet.segment.flags.contains(Flags::SYN)
}

fn is_capable(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Capable(_))
}

fn has_mptcp(packet: &Packet) -> bool {
    !packet.segment.options.mptcp.is_empty()
}

fn is_connected_with(pair: &Pair, side: usize, mode: Mode) -> bool {
    pair.sides[side].has_seen(|event| *event == Event::Connected { mode })
}

/// Checks that both hosts fall back to plain TCP over one path, and that the byte streams arrive.
fn assert_plain(mut pair: Pair) {
    pair.transfer(300_000, 300_000);
    pair.run_to_the_end(seconds(3));
    for side in &pair.sides {
        let connected = side.has_seen(|event| *event == Event::Connected { mode: Mode::Plain });
        assert!(connected || side.has_seen(|event| *event == Event::FellBack));
    }
    assert_eq!(pair.sent_bytes(CLIENT, 1) + pair.sent_bytes(SERVER, 1), 0);
}

#[test]
fn plain_tcp_is_spoken_where_one_side_does_not_want_multipath() {
    for stacks in [
        [&Stack::plain(), &Stack::default()],
        [&Stack::default(), &Stack::plain()],
    ] {
        let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
        let pair = Pair::of(1, paths, stacks);
        assert_plain(pair);
    }
}

#[test]
fn without_mp_capable_in_the_syn_it_is_tcp() {
    let mut pair = pair();
    let strips = strip(|_, packet, option| {
        is_syn(packet) && !packet.segment.flags.contains(Flags::ACK) && is_capable(option)
    });
    pair.network.middleboxes.push(strips);
    assert_plain(pair);
}

#[test]
fn without_mp_capable_in_the_syn_ack_it_is_tcp() {
    let mut pair = pair();
    let strips =
        strip(|place, packet, option| place.from == SERVER && is_syn(packet) && is_capable(option));
    pair.network.middleboxes.push(strips);
    assert_plain(pair);
}

#[test]
fn without_mp_capable_in_the_third_packet_alone_it_is_tcp() {
    let mut pair = pair();
    let mut is_done = false;
    let strips = rewrite(move |place, packet: &mut Packet| {
        if place.from == CLIENT && !is_syn(packet) && !std::mem::replace(&mut is_done, true) {
            packet.segment.options.mptcp = MptcpOptions::new();
        }
    });
    pair.network.middleboxes.push(strips);
    assert_plain(pair);
}

#[test]
fn without_options_after_the_syn_ack_it_is_tcp() {
    let mut pair = pair();
    pair.network
        .middleboxes
        .push(strip(|_, packet, _| !is_syn(packet)));
    assert_plain(pair);
}

#[test]
fn without_options_from_the_client_after_the_handshake_it_is_tcp() {
    let mut pair = pair();
    pair.network.middleboxes.push(strip(|place, packet, _| {
        place.from == CLIENT && !is_syn(packet)
    }));
    assert_plain(pair);
}

#[test]
fn without_any_option_it_is_tcp() {
    let mut pair = pair();
    pair.network.middleboxes.push(strip(|_, _, _| true));
    assert_plain(pair);
}

#[test]
fn three_lost_syns_with_mp_capable_are_followed_by_one_without() {
    let mut pair = pair();
    let is_asking = |packet: &Packet| is_syn(packet) && has_mptcp(packet);
    let drops = lose(usize::MAX, move |_, packet| is_asking(packet));
    pair.network.middleboxes.push(drops);
    pair.transfer(100_000, 0);
    // Three timeouts of 1 s each.
    pair.run_to_the_end(3500 * MILLISECOND);
    assert_eq!(pair.sent_packets(CLIENT, is_asking), 3);
    assert!(is_connected_with(&pair, CLIENT, Mode::Plain));
    assert!(is_connected_with(&pair, SERVER, Mode::Plain));
}

#[test]
fn a_lost_syn_or_syn_ack_costs_a_timeout_and_no_options() {
    for from in [CLIENT, SERVER] {
        let mut pair = pair();
        let drops = lose(1, move |place, packet| place.from == from && is_syn(packet));
        pair.network.middleboxes.push(drops);
        pair.transfer(100_000, 0);
        pair.run_to_the_end(1500 * MILLISECOND);
        assert!(is_connected_with(&pair, SERVER, Mode::Multipath));
    }
}

#[test]
fn the_first_data_bring_the_keys_if_the_third_packet_is_lost() {
    let mut pair = pair();
    let drops = lose(1, |place, packet| place.from == CLIENT && !is_syn(packet));
    pair.network.middleboxes.push(drops);
    pair.transfer(100_000, 0);
    pair.run_to_the_end(500 * MILLISECOND);
    assert!(is_connected_with(&pair, SERVER, Mode::Multipath));
}

#[test]
fn the_first_data_bring_the_keys_where_the_subflow_begins_and_nowhere_else() {
    let stack = Stack {
        scheduler: "min_rtt",
        ..Stack::default()
    };
    let mut pair = Pair::new(1, vec![PathModel::new(1, 28)], &stack);
    let loses = lose(2, |place, packet| place.from == CLIENT && !is_syn(packet));
    pair.network.middleboxes.push(loses);
    pair.sides[CLIENT].closes = false;
    pair.transfer(200, 0);
    pair.run_until(seconds(5), |pair| pair.sides[SERVER].received == 200);
    let brings_keys = |packet: &Packet| {
        let mut options = packet.segment.options.mptcp.iter();
        options.any(is_capable) && !packet.segment.payload.is_empty()
    };
    let numbers: BTreeSet<_> = pair
        .log
        .iter()
        .filter(|(_, _, packet)| brings_keys(packet))
        .map(|(_, _, packet)| packet.segment.seq.0)
        .collect();
    assert_eq!(numbers.len(), 1, "{numbers:?}");
}

#[test]
fn a_server_that_speaks_first_gets_the_keys_though_the_third_packet_is_lost() {
    let mut pair = pair();
    let drops = lose(1, |place, packet| place.from == CLIENT && !is_syn(packet));
    pair.network.middleboxes.push(drops);
    pair.sides[CLIENT].closes = false;
    pair.transfer(0, 100_000);
    // The SYN/ACK is sent again after 1 s and answered with the keys.
    pair.run_until(seconds(2), |pair| pair.sides[CLIENT].received == 100_000);
    assert!(is_connected_with(&pair, SERVER, Mode::Multipath));
}

#[test]
fn one_side_that_requires_checksums_has_both_use_them() {
    let mut summing = Stack::default();
    summing.config.uses_checksums = true;
    for stacks in [[&summing, &Stack::default()], [&Stack::default(), &summing]] {
        let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
        let mut pair = Pair::of(1, paths, stacks);
        pair.transfer(200_000, 200_000);
        pair.run_to_the_end(seconds(1));
        for (_, _, packet) in &pair.log {
            assert!(
                packet.segment.options.mptcp.iter().all(is_summed),
                "{packet:?}"
            );
        }
    }
}

/// Returns whether every mapping of an option has a checksum.
fn is_summed(option: &MptcpOption) -> bool {
    match option {
        MptcpOption::Dss(dss) => dss
            .mapping()
            .is_none_or(|mapping| mapping.checksum.is_some()),
        MptcpOption::Capable(Capable::Ack { data, .. }) => {
            data.is_none_or(|data| data.checksum.is_some())
        }
        _ => true,
    }
}

/// Draws the same key twice, then others.
struct Repeating(u64);

impl TryRng for Repeating {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(0)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 += 1;
        Ok(self.0 / 2)
    }

    /// Draws the secret of SYN cookies.
    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        to.fill(0);
        Ok(())
    }
}

#[test]
fn no_two_connections_have_the_same_key() {
    let mut endpoint = Endpoint::new(NetworkView::default(), Box::new(Repeating(1)));
    let (local, remote) = (
        SocketAddr::new(ipv4(0, CLIENT), 0),
        SocketAddr::new(ipv4(0, SERVER), PORT),
    );
    let profile = Stack::default().profile();
    let tokens = [(); 4].map(|()| {
        let id = endpoint
            .connect(0, local, remote, &profile)
            .expect("a free port");
        endpoint.connection(id).map(Connection::local_token)
    });
    let different: BTreeSet<_> = tokens.iter().collect();
    assert_eq!(different.len(), tokens.len());
}

/// Returns the key of a SYN/ACK.
fn key_in(answer: &Packet) -> Option<u64> {
    let mut options = answer.segment.options.mptcp.iter();
    options.find_map(|option| match option {
        MptcpOption::Capable(Capable::SynAck { sender_key, .. }) => Some(*sender_key),
        _ => None,
    })
}

#[test]
fn a_key_is_all_64_bits_that_the_generator_draws() {
    for drawn in [1, 0x0123_4567_89ab_cdef, 0x7edc_ba98_7654_3210] {
        let (_, _, syn) = syn_of_client();
        let mut server = lone_endpoint(drawn);
        server.listen(PORT, Stack::default().profile());
        server.handle_packet(0, &syn);
        let answer = server.poll_transmit(0).expect("a SYN/ACK");
        assert_eq!(key_in(&answer), Some(drawn));
    }
}

#[test]
fn every_subflow_of_every_connection_begins_with_another_number() {
    let mut numbers = BTreeSet::new();
    for seed in 1..=20 {
        let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
        let mut pair = Pair::new(seed, paths, &Stack::default());
        pair.run_for(seconds(1));
        let syns = pair.log.iter().map(|(_, _, packet)| &packet.segment);
        let syns = syns.filter(|segment| segment.flags.contains(Flags::SYN));
        numbers.extend(syns.map(|segment| segment.seq.0));
    }
    assert_eq!(
        numbers.len(),
        80,
        "two subflows, two sides, twenty connections"
    );
}

/// Returns an endpoint whose keys start with this number.
fn lone_endpoint(key: u64) -> Endpoint {
    Endpoint::new(NetworkView::default(), Box::new(Repeating(2 * key)))
}

/// Returns the first packet of a connection to port `PORT`, and its sender.
fn syn_of_client() -> (Endpoint, ConnectionId, Packet) {
    let mut client = lone_endpoint(1);
    let (local, remote) = (
        SocketAddr::new(ipv4(0, CLIENT), 0),
        SocketAddr::new(ipv4(0, SERVER), PORT),
    );
    let id = client
        .connect(0, local, remote, &Stack::default().profile())
        .expect("a free port");
    let syn = client.poll_transmit(0).expect("a SYN");
    (client, id, syn)
}

#[test]
fn a_syn_that_was_kept_back_is_answered_later_though_nobody_listens() {
    let (mut client, id, syn) = syn_of_client();
    let mut server = lone_endpoint(1000);
    let profile = Stack::default().profile();
    let accepted = server.accept_syn(seconds(1), &syn, &profile);
    let accepted = accepted.expect("it is a SYN");
    let four = FourTuple::of_receiver(&syn);
    assert_eq!(server.connection_between(four), Some(accepted));
    assert_eq!(server.accept_syn(seconds(1), &syn, &profile), None);
    for _ in 0..3 {
        while let Some(packet) = server.poll_transmit(seconds(1)) {
            client.handle_packet(seconds(1), &packet);
        }
        while let Some(packet) = client.poll_transmit(seconds(1)) {
            server.handle_packet(seconds(1), &packet);
        }
    }
    let mode = Mode::Multipath;
    assert!(
        std::iter::from_fn(|| client.poll_event())
            .any(|event| event == (id, Event::Connected { mode }))
    );
    let connected = (accepted, Event::Connected { mode });
    assert!(std::iter::from_fn(|| server.poll_event()).any(|event| event == connected));
}

#[test]
fn a_packet_that_was_kept_back_can_be_refused() {
    let (mut client, id, syn) = syn_of_client();
    let mut server = lone_endpoint(1000);
    server.refuse_packet(&syn);
    let reset = server.poll_transmit(0).expect("a reset");
    client.handle_packet(0, &reset);
    assert_eq!(client.poll_transmit(0), None);
    let reason = CloseReason::Refused;
    assert!(
        std::iter::from_fn(|| client.poll_event())
            .any(|event| event == (id, Event::Closed { reason }))
    );
    assert_eq!(
        server.accept_syn(0, &reset, &Stack::default().profile()),
        None
    );
}

#[test]
fn connections_start_from_the_ports_that_were_named_and_no_others() {
    let mut endpoint = lone_endpoint(1);
    let mut named = [vec![700, 900], vec![100]].into_iter();
    endpoint.use_ports_from(Box::new(move || named.next().unwrap_or_default()));
    let local = SocketAddr::new(ipv4(0, CLIENT), 0);
    let profile = Stack::default().profile();
    let mut connect = |port| {
        let remote = SocketAddr::new(ipv4(0, SERVER), port);
        endpoint.connect(0, local, remote, &profile)
    };
    let first: Vec<_> = (0..4).map(|_| connect(PORT)).collect();
    // Towards another peer they are free.
    let other = connect(PORT + 1).expect("a free port");
    let port_of = |id| {
        let connection = endpoint.connection(id).expect("it was opened");
        connection.initial().local.port()
    };
    let ports: Vec<_> = first.iter().flatten().map(|id| port_of(*id)).collect();
    assert_eq!(ports, [700, 900, 100]);
    assert_eq!(port_of(other), 700);
    let none = ConnectError::NoFreePort {
        local: local.ip(),
        remote: SocketAddr::new(ipv4(0, SERVER), PORT),
    };
    assert_eq!(first[3], Err(none));
}

#[test]
fn a_named_port_that_is_in_use_is_passed_over() {
    let mut endpoint = lone_endpoint(1);
    let mut named = [vec![700, 900]].into_iter();
    endpoint.use_ports_from(Box::new(move || named.next().unwrap_or_default()));
    let remote = SocketAddr::new(ipv4(0, SERVER), PORT);
    let profile = Stack::default().profile();
    let mut connect = |port| {
        let local = SocketAddr::new(ipv4(0, CLIENT), port);
        endpoint.connect(0, local, remote, &profile)
    };
    connect(700).expect("a free port");
    let id = connect(0).expect("a free port");
    let connection = endpoint.connection(id).expect("it was opened");
    assert_eq!(connection.initial().local.port(), 900);
}

#[test]
fn an_address_pair_cannot_be_tried_twice_by_one_connection() {
    let mut endpoint = lone_endpoint(1);
    let local = SocketAddr::new(ipv4(0, CLIENT), 700);
    let remote = SocketAddr::new(ipv4(0, SERVER), PORT);
    let way = FourTuple { local, remote };
    let profile = Stack::default().profile();
    let twice = endpoint.connect_over(0, way, &[way], &profile);
    assert_eq!(twice, Err(ConnectError::InUse { local, remote }));
    endpoint
        .connect_over(0, way, &[], &profile)
        .expect("nothing is left of the first");
}

/// Returns the answer of a server that answers all SYNs by cookies.
fn cookie(server: &mut Endpoint, syn: &Packet) -> Packet {
    let mut stack = Stack::default();
    stack.config.max_half_open = 0;
    server.listen(PORT, stack.profile());
    while server.poll_transmit(0).is_some() {}
    server.handle_packet(0, syn);
    server.poll_transmit(0).expect("a SYN/ACK")
}

#[test]
fn a_cookie_whose_token_is_in_use_is_plain_tcp() {
    let (mut client, _, syn) = syn_of_client();
    let key = key_in(&cookie(&mut lone_endpoint(1), &syn));
    let mut server = lone_endpoint(key.expect("it speaks Multipath TCP"));
    let (local, remote) = (
        SocketAddr::new(ipv4(0, SERVER), 0),
        SocketAddr::new(ipv4(0, CLIENT), PORT),
    );
    let profile = Stack::default().profile();
    let first = server
        .connect(0, local, remote, &profile)
        .expect("a free port");
    let answer = cookie(&mut server, &syn);
    assert_eq!(key_in(&answer), None);
    client.handle_packet(0, &answer);
    let third = client.poll_transmit(0).expect("the third packet");
    server.handle_packet(0, &third);
    assert_eq!(server.poll_transmit(0), None, "no reset");
    let second = server.accept(PORT).expect("it is established");
    let mode = |id| server.connection(id).map(Connection::mode);
    assert_eq!(mode(second), Some(Mode::Plain));
    let token = |id| server.connection(id).map(Connection::local_token);
    assert_ne!(token(first), token(second));
}
