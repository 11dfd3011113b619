//! How connections end (RFC 8684, sections 3.3.3 and 3.5).

use std::net::SocketAddr;

use mptcp::connection::{Event, Mode};
use mptcp::failure::Behaviour;
use mptcp::pm::{FourTuple, Recreation};
use mptcp::subflow::CloseReason;
use mptcp::time::MILLISECOND;
use mptcp::wire::{Flags, MptcpOption, MptcpOptions, Packet};

use crate::world::middleboxes::{lose, rewrite};
use crate::world::{CLIENT, PORT, Pair, PathModel, SERVER, Stack, ipv4, seconds};

fn pair() -> Pair {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    Pair::new(1, paths, &Stack::default())
}

fn has_data_fin(packet: &Packet) -> bool {
    let mut options = packet.segment.options.mptcp.iter();
    options.any(|option| matches!(option, MptcpOption::Dss(dss) if dss.data_fin()))
}

fn is_fast_close(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::FastClose { .. })
}

fn has_closed_for(pair: &Pair, side: usize, reason: CloseReason) -> bool {
    pair.sides[side].has_seen(|event| *event == Event::Closed { reason })
}

fn abort(pair: &mut Pair, side: usize) {
    let side = &mut pair.sides[side];
    let id = side.connection.expect("it is connected");
    side.endpoint.command(id, |connection| connection.abort());
}

#[test]
fn either_side_can_be_the_first_to_end() {
    for first in [CLIENT, SERVER] {
        let mut pair = pair();
        pair.transfer(100_000, 100_000);
        pair.sides[1 - first].closes = false;
        pair.run_until(seconds(1), |pair| {
            pair.sides[1 - first].finished_at.is_some()
        });
        assert!(!pair.sides[first].has_closed());
        pair.sides[1 - first].closes = true;
        pair.run_to_the_end(seconds(2));
        for side in [CLIENT, SERVER] {
            assert!(has_closed_for(&pair, side, CloseReason::Finished));
        }
    }
}

#[test]
fn a_half_closed_connection_still_carries_data_after_seconds() {
    let mut pair = pair();
    pair.transfer(100_000, 0);
    pair.sides[SERVER].closes = false;
    pair.run_for(seconds(10));
    assert!(pair.sides[SERVER].finished_at.is_some());
    assert_eq!(
        pair.sides[CLIENT].subflows().len(),
        2,
        "no FIN on the subflows"
    );
    pair.sides[SERVER].to_send = 2_000_000;
    pair.sides[SERVER].closes = true;
    pair.run_to_the_end(seconds(12));
    assert_eq!(pair.sides[CLIENT].received, 2_000_000);
    assert!(pair.sent_bytes(SERVER, 1) > 500_000);
}

#[test]
fn an_empty_connection_ends_at_once() {
    let mut pair = pair();
    pair.run_to_the_end(300 * MILLISECOND);
}

/// The DSS was not sent yet (RFC 8684, sections 3.1 and 3.3.3), even if the packets with the keys
/// are lost.
#[test]
fn an_opener_that_ends_before_its_first_byte_says_so() {
    let is_third = |packet: &Packet| packet.segment.seq_len() == 0;
    for (max_half_open, lost) in [(1024, 0), (1024, 1), (1024, 3), (0, 0), (0, 1), (0, 3)] {
        let mut stack = Stack::default();
        stack.config.max_half_open = max_half_open;
        let mut pair = Pair::new(1, vec![PathModel::new(10, 10)], &stack);
        let drops = lose(lost, move |place, packet| {
            place.from == CLIENT && is_third(packet)
        });
        pair.network.middleboxes.push(drops);
        pair.transfer(0, 100_000);
        pair.sides[SERVER].closes = false;
        pair.sides[SERVER].to_send = 0;
        pair.run_until(seconds(3), |pair| pair.sides[SERVER].finished_at.is_some());
        pair.sides[SERVER].to_send = 100_000;
        pair.sides[SERVER].closes = true;
        pair.run_to_the_end(seconds(6));
        assert_eq!(pair.sides[CLIENT].received, 100_000);
        assert_eq!(
            pair.sides[CLIENT].connection().map(|it| it.mode()),
            Some(Mode::Multipath)
        );
    }
}

/// RFC 6298, section 5.5; RFC 9293, section 3.8.3. The intervals and the end are mainline's.
#[test]
fn a_data_fin_that_nobody_hears_backs_off_and_is_given_up() {
    for behaviour in [Behaviour::mainline(), Behaviour::oot()] {
        let mut stack = Stack::default();
        stack.config.behaviour = behaviour;
        let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
        let mut pair = Pair::new(1, paths, &stack);
        pair.transfer(100_000, 0);
        pair.sides[CLIENT].closes = false;
        pair.run_for(seconds(1));
        for path in [0, 1] {
            pair.set_path(path, false);
        }
        let start = (pair.now, pair.log.len());
        pair.sides[CLIENT].closes = true;
        pair.run_for(seconds(7200));
        let says = |path: usize| {
            let of_path = pair.log[start.1..].iter().filter(move |(_, _, packet)| {
                packet.source == ipv4(path, CLIENT) && has_data_fin(packet)
            });
            of_path
                .map(|(at, _, _)| (at - start.0) / MILLISECOND)
                .collect::<Vec<_>>()
        };
        let expected = [0, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200];
        assert_eq!(says(0), expected);
        assert_eq!(says(1), expected);
        assert!(has_closed_for(&pair, CLIENT, CloseReason::TimedOut));
        assert_eq!(
            pair.sent_packets(CLIENT, |packet| {
                packet.segment.options.mptcp.iter().any(is_fast_close)
            }),
            2
        );
        let last = pair
            .log
            .last()
            .map(|(at, _, _)| (at - start.0) / MILLISECOND);
        assert_eq!(last, Some(60_000));
        assert_eq!(pair.sides[CLIENT].endpoint.poll_timeout(), None);
    }
}

/// TCP's own bound, on each path: as many retries as `net.ipv4.tcp_retries2` allows (RFC 9293,
/// section 3.8.3, R2).
#[test]
fn data_that_nobody_acknowledges_ends_the_connection() {
    for recreation in [Recreation::Never, Recreation::default()] {
        let mut stack = Stack::default();
        stack.config.behaviour.recreation = recreation;
        let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
        let mut pair = Pair::new(1, paths, &stack);
        pair.transfer(10_000_000, 10_000_000);
        pair.run_for(seconds(1));
        for path in [0, 1] {
            pair.set_path(path, false);
        }
        let before = pair.log.len();
        pair.run_for(seconds(3 * 3600));
        for side in [CLIENT, SERVER] {
            assert!(has_closed_for(&pair, side, CloseReason::TimedOut));
            assert_eq!(pair.sides[side].endpoint.poll_timeout(), None);
        }
        assert!(pair.log.len() - before < 500, "{}", pair.log.len() - before);
    }
}

/// RFC 8684, section 3.4.1, leaves open how long announcements are repeated.
#[test]
fn announcements_that_nobody_hears_end() {
    let mut pair = pair();
    pair.transfer(100_000, 0);
    for side in &mut pair.sides {
        side.closes = false;
    }
    pair.run_for(seconds(1));
    pair.set_interface(1, SERVER, false);
    pair.run_for(seconds(1));
    pair.set_interface(1, SERVER, true);
    for path in [0, 1] {
        pair.set_path(path, false);
    }
    let before = pair.packets;
    pair.run_for(seconds(2 * 3600));
    assert!(pair.packets - before < 200);
    assert!(pair.last_packet_at < seconds(1200));
}

/// A DATA_FIN sent before the path joined is repeated on it at once (section 3.3.3), without
/// waiting for a timer that has backed off.
#[test]
fn a_path_that_joins_says_the_data_fin() {
    let mut pair = pair();
    pair.transfer(100_000, 0);
    pair.sides[CLIENT].closes = false;
    pair.sides[SERVER].closes = false;
    pair.run_for(seconds(1));
    pair.set_interface(1, CLIENT, false);
    pair.run_for(seconds(1));
    pair.set_path(0, false);
    pair.sides[CLIENT].closes = true;
    pair.run_for(seconds(20));
    pair.set_interface(1, CLIENT, true);
    let until = pair.now + 100 * MILLISECOND;
    pair.run_until(until, |pair| pair.sides[SERVER].finished_at.is_some());
}

#[test]
fn both_sides_can_end_at_the_same_time() {
    let mut pair = pair();
    for side in &mut pair.sides {
        side.closes = false;
    }
    pair.run_for(500 * MILLISECOND);
    for side in &mut pair.sides {
        side.closes = true;
    }
    pair.run_to_the_end(seconds(1));
}

#[test]
fn a_lost_data_fin_is_said_again() {
    let mut pair = pair();
    let drops = lose(4, |place, packet| {
        place.from == CLIENT && has_data_fin(packet)
    });
    pair.network.middleboxes.push(drops);
    pair.transfer(100_000, 0);
    pair.sides[SERVER].closes = false;
    pair.run_until(seconds(2), |pair| pair.sides[SERVER].finished_at.is_some());
    assert!(pair.sent_packets(CLIENT, has_data_fin) > 4);
}

#[test]
fn a_data_fin_on_one_path_is_enough() {
    let mut pair = pair();
    pair.transfer(100_000, 0);
    let drops = lose(usize::MAX, |place, packet| {
        place.path == 0 && has_data_fin(packet)
    });
    pair.network.middleboxes.push(drops);
    pair.run_to_the_end(700 * MILLISECOND);
}

#[test]
fn acknowledgments_of_the_data_fin_that_are_lost_are_said_again() {
    let mut pair = pair();
    pair.transfer(100_000, 0);
    pair.sides[SERVER].closes = false;
    pair.run_until(seconds(1), |pair| pair.sides[SERVER].finished_at.is_some());
    let now = pair.now;
    let drops = lose(usize::MAX, move |place, _| {
        place.from == SERVER && place.now < now + 100 * MILLISECOND
    });
    pair.network.middleboxes.push(drops);
    pair.run_for(seconds(1));
    pair.sides[SERVER].closes = true;
    pair.run_to_the_end(seconds(3));
}

#[test]
fn lost_fins_and_last_acknowledgments_of_the_subflows_are_repeated() {
    let is_fin = |packet: &Packet| packet.segment.flags.contains(Flags::FIN);
    for count in [1, 2, 4] {
        let mut pair = pair();
        pair.network
            .middleboxes
            .push(lose(count, move |_, packet| is_fin(packet)));
        pair.transfer(100_000, 0);
        pair.run_to_the_end(seconds(3));
    }
    let mut pair = pair();
    pair.transfer(100_000, 0);
    pair.run_until(seconds(1), |pair| pair.sent_packets(SERVER, is_fin) > 0);
    let now = pair.now;
    let drops = lose(usize::MAX, move |place, _| {
        place.from == CLIENT && place.now < now + 100 * MILLISECOND
    });
    pair.network.middleboxes.push(drops);
    pair.run_to_the_end(seconds(3));
}

#[test]
fn nothing_is_left_of_an_ended_connection_after_time_wait() {
    let mut pair = pair();
    pair.transfer(100_000, 100_000);
    pair.run_to_the_end(seconds(1));
    pair.run_for(seconds(61));
    for side in &pair.sides {
        assert!(side.subflows().is_empty());
        assert_eq!(side.endpoint.poll_timeout(), None);
    }
}

/// Opens another connection of the client from its only port. Returns the port.
fn port_of_another(pair: &mut Pair, port: u16) -> Option<u16> {
    let endpoint = &mut pair.sides[CLIENT].endpoint;
    let mut named = Some(vec![port]);
    endpoint.use_ports_from(Box::new(move || named.take().unwrap_or_default()));
    let [local, remote] = [(CLIENT, 0), (SERVER, PORT)];
    let [local, remote] = [local, remote].map(|(side, port)| SocketAddr::new(ipv4(0, side), port));
    let id = endpoint.connect(pair.now, local, remote, &Stack::default().profile());
    let opened = endpoint.connection(id.ok()?)?;
    Some(opened.initial().local.port())
}

#[test]
fn where_no_port_is_free_one_in_time_wait_is_used_again_if_that_is_wanted() {
    let mut pair = pair();
    pair.transfer(100_000, 100_000);
    pair.run_to_the_end(seconds(1));
    let before = pair.sides[CLIENT].subflows().len();
    assert_eq!(before, 2, "both paths are in TIME-WAIT");
    let port = pair.sides[CLIENT]
        .connection()
        .expect("not forgotten")
        .initial();
    let port = port.local.port();
    pair.run_for(seconds(2));
    assert_eq!(
        port_of_another(&mut pair, port),
        None,
        "TIME-WAIT lasts a minute"
    );
    pair.sides[CLIENT].endpoint.reuse_ports_after(seconds(3));
    assert_eq!(port_of_another(&mut pair, port), None, "not yet");
    pair.sides[CLIENT].endpoint.reuse_ports_after(seconds(1));
    assert_eq!(port_of_another(&mut pair, port), Some(port));
    assert_eq!(
        pair.sides[CLIENT].subflows().len(),
        0,
        "the old one has gone"
    );
    // The port belongs to the new connection, and the end of the old one does not release it.
    pair.run_for(seconds(61));
    let four = FourTuple {
        local: SocketAddr::new(ipv4(0, CLIENT), port),
        remote: SocketAddr::new(ipv4(0, SERVER), PORT),
    };
    assert!(
        pair.sides[CLIENT]
            .endpoint
            .connection_between(four)
            .is_some()
    );
    assert_eq!(port_of_another(&mut pair, port), None, "it is in use");
}

#[test]
fn a_fast_close_ends_the_other_side_at_once() {
    for aborting in [CLIENT, SERVER] {
        let mut pair = pair();
        pair.transfer(10_000_000, 10_000_000);
        pair.run_for(seconds(1));
        abort(&mut pair, aborting);
        pair.run_for(100 * MILLISECOND);
        assert!(has_closed_for(&pair, aborting, CloseReason::Aborted));
        assert!(has_closed_for(&pair, 1 - aborting, CloseReason::Reset));
        assert!(pair.sides[1 - aborting].subflows().is_empty());
    }
}

#[test]
fn one_fast_close_is_enough() {
    let mut pair = pair();
    pair.transfer(10_000_000, 0);
    pair.run_for(seconds(1));
    pair.set_path(0, false);
    abort(&mut pair, CLIENT);
    pair.run_for(100 * MILLISECOND);
    assert!(has_closed_for(&pair, SERVER, CloseReason::Reset));
}

#[test]
fn lost_fast_closes_are_made_up_for_by_resets_of_what_comes_later() {
    let mut pair = pair();
    pair.transfer(0, 10_000_000);
    pair.run_for(seconds(1));
    let drops = lose(2, |_, packet| {
        packet.segment.options.mptcp.iter().any(is_fast_close)
    });
    pair.network.middleboxes.push(drops);
    abort(&mut pair, CLIENT);
    let is_reset = |packet: &Packet| {
        let says_key = packet.segment.options.mptcp.iter().any(is_fast_close);
        packet.segment.flags.contains(Flags::RST) && !says_key
    };
    pair.run_for(seconds(1));
    assert!(pair.sent_packets(CLIENT, is_reset) >= 2);
    assert!(pair.sides[SERVER].subflows().is_empty());
}

#[test]
fn a_fast_close_with_a_wrong_key_resets_its_subflow_and_no_more() {
    let mut pair = pair();
    let mut is_done = false;
    let forges = rewrite(move |place, packet: &mut Packet| {
        let is_here = (place.path, place.from) == (1, CLIENT);
        if is_here && place.now > seconds(1) && !std::mem::replace(&mut is_done, true) {
            packet.segment.flags = Flags::RST | Flags::ACK;
            packet.segment.options.mptcp = MptcpOptions::new();
            let receiver_key = 1;
            packet
                .segment
                .options
                .mptcp
                .push(MptcpOption::FastClose { receiver_key });
        }
    });
    pair.network.middleboxes.push(forges);
    pair.transfer(3_000_000, 0);
    pair.run_to_the_end(seconds(4));
    assert!(has_closed_for(&pair, SERVER, CloseReason::Finished));
}

#[test]
fn a_fast_close_in_an_acknowledgment_counts_with_the_right_key_only() {
    for is_right in [true, false] {
        let mut pair = pair();
        pair.transfer(10_000_000, 0);
        pair.run_for(seconds(1));
        // A middlebox turns the RSTs of the abort into acknowledgments.
        let changes = rewrite(move |_, packet: &mut Packet| {
            if packet.segment.options.mptcp.iter().any(is_fast_close) {
                packet.segment.flags = Flags::ACK;
                for option in &mut packet.segment.options.mptcp {
                    if let MptcpOption::FastClose { receiver_key } = option {
                        *receiver_key ^= u64::from(!is_right);
                    }
                }
            }
        });
        pair.network.middleboxes.push(changes);
        abort(&mut pair, CLIENT);
        pair.run_for(100 * MILLISECOND);
        assert_eq!(has_closed_for(&pair, SERVER, CloseReason::Reset), is_right);
    }
}

#[test]
fn an_aborted_connection_that_is_not_forgotten_waits_for_nothing() {
    let mut pair = pair();
    pair.transfer(1_000_000, 0);
    pair.run_for(500 * MILLISECOND);
    abort(&mut pair, CLIENT);
    // Longer than a connection without subflows waits for a join.
    pair.run_for(seconds(100));
    for side in &pair.sides {
        assert!(side.connection().is_some());
        assert_eq!(side.endpoint.poll_timeout(), None);
    }
}
