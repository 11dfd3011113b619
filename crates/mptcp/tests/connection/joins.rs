//! Further subflows, and their refusal (RFC 8684, section 3.2).

use mptcp::connection::{Event, SubflowStart};
use mptcp::seq::SeqNr;
use mptcp::time::MILLISECOND;
use mptcp::wire::{Flags, Join, MptcpOption, Packet, ResetReason};

use crate::world::middleboxes::{Place, lose, rewrite, strip};
use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

fn pair() -> Pair {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    Pair::new(1, paths, &Stack::default())
}

fn is_join(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Join(_))
}

fn has(packet: &Packet, wanted: impl Fn(&Join) -> bool) -> bool {
    packet
        .segment
        .options
        .mptcp
        .iter()
        .any(|option| matches!(option, MptcpOption::Join(join) if wanted(join)))
}

fn is_join_syn(packet: &Packet) -> bool {
    has(packet, |join| matches!(join, Join::Syn { .. }))
}

fn is_join_ack(packet: &Packet) -> bool {
    has(packet, |join| matches!(join, Join::Ack { .. }))
}

fn resets_with(packet: &Packet, wanted: u8) -> bool {
    let has_reason = |option: &MptcpOption| matches!(option, MptcpOption::Reset(ResetReason { code, .. }) if *code == wanted);
    let is_reset = packet.segment.flags.contains(Flags::RST);
    is_reset && packet.segment.options.mptcp.iter().any(has_reason)
}

fn has_joined(pair: &Pair, side: usize) -> bool {
    pair.sides[side].has_seen(|event| matches!(event, Event::SubflowEstablished { .. }))
}

/// Checks that the first path carries the byte stream alone, and that `side` has refused the join.
fn assert_refused_by(mut pair: Pair, side: usize) {
    pair.transfer(500_000, 0);
    pair.sides[CLIENT].closes = false;
    pair.run_until(seconds(1), |pair| pair.sides[SERVER].received == 500_000);
    assert_eq!(pair.sent_bytes(CLIENT, 1), 0);
    let refusing = pair.sides[side].connection().expect("it is open");
    assert!(refusing.counters().refused_joins > 0);
    let resets = pair.sent_packets(side, |packet| resets_with(packet, ResetReason::MPTCP_ERROR));
    assert!(resets > 0);
}

#[test]
fn a_syn_ack_with_a_wrong_hmac_is_refused() {
    let mut pair = pair();
    let tampers = rewrite(|_, packet: &mut Packet| {
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Join(Join::SynAck { truncated_hmac, .. }) = option {
                *truncated_hmac ^= 1;
            }
        }
    });
    pair.network.middleboxes.push(tampers);
    assert_refused_by(pair, CLIENT);
}

#[test]
fn a_third_packet_with_a_wrong_hmac_is_refused() {
    let mut pair = pair();
    let tampers = rewrite(|_, packet: &mut Packet| {
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Join(Join::Ack { hmac }) = option {
                hmac[19] ^= 0x80;
            }
        }
    });
    pair.network.middleboxes.push(tampers);
    assert_refused_by(pair, SERVER);
}

#[test]
fn a_third_packet_without_mp_join_is_refused() {
    let mut pair = pair();
    let strips =
        strip(|_, packet, option| is_join(option) && !packet.segment.flags.contains(Flags::SYN));
    pair.network.middleboxes.push(strips);
    assert_refused_by(pair, SERVER);
}

#[test]
fn a_syn_ack_without_mp_join_is_refused() {
    let mut pair = pair();
    let strips = strip(|place, _, option| place.from == SERVER && is_join(option));
    pair.network.middleboxes.push(strips);
    assert_refused_by(pair, CLIENT);
}

#[test]
fn an_unknown_token_is_answered_with_a_reset() {
    let mut pair = pair();
    let tampers = rewrite(|_, packet: &mut Packet| {
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Join(Join::Syn { token, .. }) = option {
                *token = !*token;
            }
        }
    });
    pair.network.middleboxes.push(tampers);
    pair.transfer(500_000, 0);
    pair.run_to_the_end(seconds(1));
    assert!(!has_joined(&pair, CLIENT));
    let resets = pair.sent_packets(SERVER, |packet| {
        resets_with(packet, ResetReason::MPTCP_ERROR)
    });
    assert_eq!(resets, pair.sent_packets(CLIENT, is_join_syn));
}

#[test]
fn what_was_heard_of_a_join_is_worth_nothing_later() {
    let mut pair = pair();
    pair.transfer(100, 0);
    pair.sides[CLIENT].closes = false;
    pair.sides[SERVER].closes = false;
    pair.run_for(200 * MILLISECOND);
    let recorded = |wanted: fn(&Packet) -> bool| {
        let found = pair.log.iter().find(|(_, _, packet)| wanted(packet));
        found.expect("it was sent").2.clone()
    };
    let (mut syn, mut ack) = (recorded(is_join_syn), recorded(is_join_ack));
    syn.segment.source_port += 1000;
    ack.segment.source_port += 1000;
    pair.deliver(SERVER, &syn);
    let answer = pair.sides[SERVER].endpoint.poll_transmit(pair.now);
    let answer = answer.expect("the token is right");
    ack.segment.ack = answer.segment.seq + 1;
    pair.deliver(SERVER, &ack);
    let server = pair.sides[SERVER].connection().expect("it is open");
    assert_eq!(
        server.counters().refused_joins,
        1,
        "the numbers are new ones"
    );
    let reply = pair.sides[SERVER].endpoint.poll_transmit(pair.now);
    assert!(resets_with(
        &reply.expect("a reset"),
        ResetReason::MPTCP_ERROR
    ));
    assert!(
        pair.sides[SERVER]
            .endpoint
            .poll_transmit(pair.now)
            .is_none()
    );
    assert_eq!(pair.sides[SERVER].subflows().len(), 2);
}

#[test]
fn a_lost_third_packet_of_a_join_is_made_up_for() {
    let mut pair = pair();
    pair.network
        .middleboxes
        .push(lose(1, |_, packet| is_join_ack(packet)));
    pair.transfer(20_000_000, 0);
    // The SYN/ACK is sent again after 1 s.
    pair.run_until(1500 * MILLISECOND, |pair| {
        has_joined(pair, CLIENT) && has_joined(pair, SERVER)
    });
    pair.run_for(500 * MILLISECOND);
    assert!(pair.sent_bytes(CLIENT, 1) > 200_000);
}

#[test]
fn a_lost_fourth_packet_of_a_join_is_made_up_for() {
    let mut pair = pair();
    let is_fourth = |place: Place, packet: &Packet| {
        let is_syn = packet.segment.flags.contains(Flags::SYN);
        (place.path, place.from) == (1, SERVER) && !is_syn
    };
    pair.network.middleboxes.push(lose(1, is_fourth));
    pair.transfer(20_000_000, 0);
    pair.run_until(2500 * MILLISECOND, |pair| has_joined(pair, CLIENT));
    pair.run_for(500 * MILLISECOND);
    assert!(pair.sent_bytes(CLIENT, 1) > 200_000);
}

#[test]
fn nothing_is_sent_on_a_join_before_the_fourth_packet() {
    let mut pair = pair();
    pair.transfer(1_000_000, 0);
    pair.run_to_the_end(seconds(2));
    let times = |side: usize, wanted: &dyn Fn(&Packet) -> bool| {
        let found = pair.log.iter().find(|(_, by, packet)| {
            *by == side && packet.source == crate::world::ipv4(1, side) && wanted(packet)
        });
        found.expect("it was sent").0
    };
    let fourth = times(SERVER, &|packet| !packet.segment.flags.contains(Flags::SYN));
    let data = times(CLIENT, &|packet| !packet.segment.payload.is_empty());
    assert!(data >= fourth + 10 * MILLISECOND);
}

/// Opens a connection that stays open. Returns the SYN of its further subflow.
fn syn_of_a_join(pair: &mut Pair) -> Packet {
    pair.transfer(100, 0);
    pair.sides[CLIENT].closes = false;
    pair.sides[SERVER].closes = false;
    pair.run_for(200 * MILLISECOND);
    let found = pair.log.iter().find(|(_, _, packet)| is_join_syn(packet));
    found.expect("it was sent").2.clone()
}

#[test]
fn a_hundred_thousand_joins_with_unknown_tokens_leave_no_trace() {
    let mut pair = pair();
    let mut syn = syn_of_a_join(&mut pair);
    let before = format!("{:?}", pair.sides[SERVER].endpoint);
    let timeout = pair.sides[SERVER].endpoint.poll_timeout();
    for index in 0..100_000u32 {
        syn.segment.source_port = 1024 + (index % 40_000) as u16;
        syn.segment.seq = SeqNr(index);
        for option in &mut syn.segment.options.mptcp {
            if let MptcpOption::Join(Join::Syn { token, .. }) = option {
                *token = index;
            }
        }
        pair.deliver(SERVER, &syn);
        let reply = pair.sides[SERVER].endpoint.poll_transmit(pair.now);
        assert!(resets_with(
            &reply.expect("a reset"),
            ResetReason::MPTCP_ERROR
        ));
    }
    assert!(
        pair.sides[SERVER]
            .endpoint
            .poll_transmit(pair.now)
            .is_none()
    );
    assert_eq!(format!("{:?}", pair.sides[SERVER].endpoint), before);
    assert_eq!(pair.sides[SERVER].endpoint.poll_timeout(), timeout);
    assert_eq!(pair.sides[SERVER].subflows().len(), 2);
}

#[test]
fn joins_of_who_does_not_know_the_keys_are_few() {
    let mut stack = Stack::default();
    stack.config.max_half_open_joins = 3;
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    let mut pair = Pair::new(1, paths, &stack);
    let mut syn = syn_of_a_join(&mut pair);
    for attempt in 0..100 {
        syn.segment.source_port += 1;
        pair.deliver(SERVER, &syn);
        let reply = pair.sides[SERVER].endpoint.poll_transmit(pair.now);
        let reply = reply.expect("an answer to each");
        assert_eq!(
            resets_with(&reply, ResetReason::LACK_OF_RESOURCES),
            attempt >= 3
        );
    }
    assert_eq!(pair.sides[SERVER].subflows().len(), 2 + 3);
}

#[test]
fn subflows_wait_until_the_connection_is_long_enough() {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    let mut stack = Stack::default();
    stack.config.subflow_start = SubflowStart::After {
        bytes: 300_000,
        age: seconds(2),
    };
    let mut pair = Pair::new(1, paths.clone(), &stack);
    pair.transfer(1_000_000, 0);
    pair.run_until(seconds(1), |pair| pair.sides[SERVER].received > 290_000);
    assert_eq!(pair.sent_packets(CLIENT, is_join_syn), 0);
    pair.run_to_the_end(seconds(2));
    assert_eq!(pair.sent_packets(CLIENT, is_join_syn), 1);

    let mut pair = Pair::new(1, paths, &stack);
    pair.transfer(100_000, 0);
    pair.sides[CLIENT].closes = false;
    pair.run_for(seconds(2));
    assert_eq!(pair.sent_packets(CLIENT, is_join_syn), 0);
    pair.run_for(500 * MILLISECOND);
    assert!(has_joined(&pair, SERVER), "it is old enough");
}
