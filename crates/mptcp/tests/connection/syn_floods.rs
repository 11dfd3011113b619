//! More handshakes than a listener keeps (RFC 4987; RFC 8684, section 3.1).

use std::net::IpAddr;
use std::sync::Arc;

use mptcp::connection::{Config, Event, Mode};
use mptcp::payload::Payload;
use mptcp::seq::SeqNr;
use mptcp::time::{MILLISECOND, SECOND};
use mptcp::wire::{Capable, Flags, MptcpOption, Packet, Timestamps};

use crate::world::{CLIENT, PORT, Pair, PathModel, SERVER, Stack, ipv4, seconds};

/// Returns the number of handshakes that a listener keeps.
fn kept() -> u32 {
    Config::default().max_half_open as u32
}

/// Returns a pair whose client's SYN is in flight and is not answered before the server is flooded.
fn pair(stack: &Stack) -> Pair {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    let mut pair = Pair::new(1, paths, stack);
    let answers_the_flood =
        |packet: &Packet| matches!(packet.destination, IpAddr::V4(to) if to.octets()[0] == 11);
    pair.network
        .middleboxes
        .push(crate::world::middleboxes::lose(
            usize::MAX,
            move |_, packet| answers_the_flood(packet),
        ));
    pair
}

/// Returns a SYN from a host that sends nothing else.
fn syn(index: u32, like: &Packet) -> Packet {
    let mut syn = like.clone();
    syn.source = IpAddr::from((0x0b00_0000 + index / 60_000).to_be_bytes());
    syn.segment.source_port = (index % 60_000) as u16;
    syn.segment.seq = SeqNr(index.wrapping_mul(2_654_435_761));
    syn
}

/// Sends SYNs from changing sources. Returns the server's answer to the last one.
fn flood(pair: &mut Pair, sources: std::ops::Range<u32>) -> Packet {
    pair.run_for(0);
    let like = pair.log[0].2.clone();
    let mut answer = None;
    for index in sources {
        pair.deliver(SERVER, &syn(index, &like));
        answer = pair.sides[SERVER].endpoint.poll_transmit(pair.now);
    }
    answer.expect("each gets an answer")
}

/// Returns the state of all connections.
fn state(pair: &Pair) -> String {
    format!("{:?}", pair.sides[SERVER].endpoint)
}

/// Returns the third packet that answers a SYN/ACK.
fn third(answer: &Packet) -> Packet {
    let mut third = answer.clone();
    let segment = &mut third.segment;
    (third.source, third.destination) = (answer.destination, answer.source);
    (segment.source_port, segment.destination_port) =
        (segment.destination_port, segment.source_port);
    (segment.seq, segment.ack) = (answer.segment.ack, answer.segment.seq + 1);
    segment.flags = Flags::ACK;
    segment.payload = Payload::EMPTY;
    segment.options.mss = None;
    segment.options.window_scale = None;
    segment.options.sack_permitted = false;
    segment.options.timestamps = segment.options.timestamps.map(|ours| Timestamps {
        value: 1,
        echo: ours.value,
    });
    for option in &mut segment.options.mptcp {
        if let MptcpOption::Capable(Capable::SynAck {
            flags, sender_key, ..
        }) = *option
        {
            *option = MptcpOption::Capable(Capable::Ack {
                version: 1,
                flags,
                sender_key: 5,
                receiver_key: sender_key,
                data: None,
            });
        }
    }
    third
}

/// Delivers the third packet that answers a SYN/ACK to the server.
fn deliver_third(pair: &mut Pair, answer: &Packet) {
    let endpoint = &mut pair.sides[SERVER].endpoint;
    endpoint.handle_packet(pair.now, &third(answer));
    while endpoint.poll_transmit(pair.now).is_some() {}
}

/// Returns whether that packet is answered by an RST and nothing else.
fn is_refused(pair: &mut Pair, packet: &Packet) -> bool {
    let before = state(pair);
    pair.deliver(SERVER, packet);
    let answer = pair.sides[SERVER].endpoint.poll_transmit(pair.now);
    let is_reset = answer.is_some_and(|answer| answer.segment.flags.contains(Flags::RST));
    is_reset && state(pair) == before
}

#[test]
fn a_client_is_served_while_a_hundred_thousand_syns_come() {
    let mut pair = pair(&Stack::default());
    pair.transfer(2_000_000, 2_000_000);
    flood(&mut pair, 0..20_000);
    for round in 20..100 {
        pair.run_for(10 * MILLISECOND);
        flood(&mut pair, round * 1_000..(round + 1) * 1_000);
        let kept = format!("connections: {},", kept() + u32::from(round > 22));
        assert!(state(&pair).contains(&kept), "{}", state(&pair));
    }
    pair.run_to_both_finishes(seconds(5));
    for side in &pair.sides {
        assert!(side.has_seen(|event| matches!(event, Event::SubflowEstablished { .. })));
        assert_eq!(
            side.connection().map(|connection| connection.mode()),
            Some(Mode::Multipath)
        );
    }
}

#[test]
fn what_a_syn_offered_is_remembered_without_keeping_it() {
    // The MSS is remembered in steps.
    for (has_timestamps, mss, step) in [
        (true, 1_460, 1_460),
        (true, 1_390, 1_360),
        (false, 1_460, 1_460),
        (false, 900, 536),
    ] {
        let mut stack = Stack::default();
        let subflow = Arc::make_mut(&mut stack.config.subflow);
        (subflow.timestamps, subflow.mss_bytes) = (has_timestamps, mss);
        stack.config.uses_checksums = has_timestamps;
        let mut pair = pair(&stack);
        flood(&mut pair, 0..kept());
        pair.transfer(0, 500_000);
        pair.run_to_both_finishes(seconds(5));
        let server = pair
            .log
            .iter()
            .filter(|(_, by, packet)| *by == SERVER && packet.destination == ipv4(0, CLIENT));
        let sent: Vec<_> = server.map(|(_, _, packet)| &packet.segment).collect();
        assert_eq!(sent[0].options.sack_permitted, has_timestamps);
        assert_eq!(sent[0].options.window_scale.is_some(), has_timestamps);
        let longest = sent.iter().map(|segment| segment.payload.len()).max();
        assert!(longest.is_some_and(|len| (step - 40..=step).contains(&len)));
        let is_scaled = sent.iter().skip(1).all(|segment| segment.window < 60_000);
        assert_eq!(is_scaled, has_timestamps);
    }
}

#[test]
fn a_guessed_third_packet_is_reset_and_leaves_nothing() {
    let mut pair = pair(&Stack::default());
    let answer = flood(&mut pair, 0..kept() + 1);
    let right = third(&answer);
    for guess in 1..10_000 {
        let mut wrong = right.clone();
        wrong.segment.ack = right.segment.ack + guess;
        assert!(is_refused(&mut pair, &wrong));
    }
    let mut elsewhere = right.clone();
    elsewhere.segment.source_port += 1;
    assert!(is_refused(&mut pair, &elsewhere));
    let mut other_key = right.clone();
    for option in &mut other_key.segment.options.mptcp {
        if let MptcpOption::Capable(Capable::Ack { receiver_key, .. }) = option {
            *receiver_key ^= 1;
        }
    }
    assert!(is_refused(&mut pair, &other_key));
    assert!(!is_refused(&mut pair, &right));
}

#[test]
fn a_third_packet_that_comes_minutes_late_is_reset() {
    let mut pair = pair(&Stack::default());
    let answer = flood(&mut pair, 0..kept() + 1);
    pair.now += 130 * SECOND;
    assert!(is_refused(&mut pair, &third(&answer)));
}

#[test]
fn the_first_data_makes_up_for_a_lost_third_packet() {
    let mut pair = pair(&Stack::default());
    flood(&mut pair, 0..kept());
    let is_third = |packet: &Packet| packet.segment.seq_len() == 0;
    pair.network
        .middleboxes
        .push(crate::world::middleboxes::lose(1, move |place, packet| {
            place.from == CLIENT && is_third(packet)
        }));
    pair.transfer(1_000, 1_000);
    pair.run_to_both_finishes(seconds(5));
    let server = pair.sides[SERVER].connection().expect("it lingers");
    assert_eq!(server.mode(), Mode::Multipath);
}

#[test]
fn connections_that_nobody_takes_are_no_more_than_the_backlog() {
    for (max_half_open, is_by_cookie) in [(1024, false), (0, true)] {
        let mut stack = Stack::default();
        (stack.config.backlog, stack.config.max_half_open) = (3, max_half_open);
        let mut pair = pair(&stack);
        pair.run_for(0);
        let like = pair.log[0].2.clone();
        let open = |pair: &mut Pair, index: u32| {
            pair.deliver(SERVER, &syn(index, &like));
            let answer = pair.sides[SERVER].endpoint.poll_transmit(pair.now);
            if let Some(answer) = &answer {
                pair.deliver(SERVER, &third(answer));
                while pair.sides[SERVER]
                    .endpoint
                    .poll_transmit(pair.now)
                    .is_some()
                {}
            }
            answer.is_some()
        };
        let answered: Vec<_> = (0..5).map(|index| open(&mut pair, index)).collect();
        assert_eq!(answered, [true, true, true, false, false], "{is_by_cookie}");
        assert!(pair.sides[SERVER].endpoint.accept(PORT).is_some());
        assert!(open(&mut pair, 5), "there is room for one again");
        assert!(!open(&mut pair, 6));
    }
}

#[test]
fn a_third_packet_for_a_full_queue_is_made_up_for_by_the_data() {
    let mut stack = Stack::default();
    (stack.config.backlog, stack.config.max_half_open) = (1, 0);
    let mut pair = pair(&stack);
    pair.run_for(0);
    let like = pair.log[0].2.clone();
    let answers = [0, 1].map(|index| {
        pair.deliver(SERVER, &syn(index, &like));
        pair.sides[SERVER]
            .endpoint
            .poll_transmit(pair.now)
            .expect("a SYN/ACK")
    });
    for answer in &answers {
        deliver_third(&mut pair, answer);
    }
    assert!(state(&pair).contains("connections: 1,"), "{}", state(&pair));
    assert!(pair.sides[SERVER].endpoint.accept(PORT).is_some());
    deliver_third(&mut pair, &answers[1]);
    assert!(pair.sides[SERVER].endpoint.accept(PORT).is_some());
}
