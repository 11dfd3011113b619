//! Tests what is reported about captures, one behaviour a test.

use capture::analysis::{
    ConnectionSummary, Ending, EventKind, Kind, Proof, Row, Side, Silence, SilenceSign,
};
use mptcp::connection::keys::{Keys, Nonces, initial_data_seq, token};
use mptcp::seq::DataSeq;
use mptcp::wire::{
    Capable, DataNumber, Dss, Join, Mapping, MptcpOption, MptcpOptionV0, ResetReason, Version,
};

use crate::conversation::{
    ACK, Conversation, FIN_ACK, PSH_ACK, RST, SYN, SYN_ACK, Sent, client, data_ack, dss, server,
};

const KEYS: [u64; 2] = [0x1111, 0x2222];
const PORT: u16 = 40000;

fn capable() -> [Vec<MptcpOption>; 3] {
    let (version, flags) = (1, Capable::HMAC_SHA256);
    let [sender_key, receiver_key] = KEYS;
    let options = [
        Capable::Syn { version, flags },
        Capable::SynAck {
            version,
            flags,
            sender_key: receiver_key,
        },
        Capable::Ack {
            version,
            flags,
            sender_key,
            receiver_key,
            data: None,
        },
    ];
    options.map(|option| vec![MptcpOption::Capable(option)])
}

fn join(by_server: bool) -> [Vec<MptcpOption>; 3] {
    let [local, remote] = if by_server { [KEYS[1], KEYS[0]] } else { KEYS };
    let nonces = Nonces {
        local: 7,
        remote: 8,
    };
    let keys = Keys { local, remote };
    let peer = keys.peer_join_hmac(Version::One, nonces);
    let hmac = keys.join_hmac(Version::One, nonces);
    let options = [
        Join::Syn {
            backup: false,
            address_id: 1,
            token: token(Version::One, remote),
            nonce: 7,
        },
        Join::SynAck {
            backup: false,
            address_id: 2,
            truncated_hmac: u64::from_be_bytes(*peer.first_chunk().unwrap()),
            nonce: 8,
        },
        Join::Ack {
            hmac: *hmac.first_chunk().unwrap(),
        },
    ];
    options.map(|option| vec![MptcpOption::Join(option)])
}

/// Returns the data sequence number of a byte of the client's data.
fn first(offset: u64) -> u64 {
    (initial_data_seq(Version::One, KEYS[0]) + 1 + offset).0
}

fn data(seq: u32, len: u32, option: MptcpOption) -> Sent {
    Sent {
        seq,
        ack: 2001,
        flags: ACK,
        len,
        mptcp: vec![option],
        ..Sent::default()
    }
}

/// Returns new data of the client, with a mapping of its own, on a subflow that
/// [`Conversation::open`] opened.
fn mapped(seq: u32, len: u16, at: u64) -> Sent {
    data(seq, len.into(), dss(first(at), seq - 1000, len, None))
}

/// Returns data without an MPTCP option.
fn plain(seq: u32, ack: u32, len: u32) -> Sent {
    Sent {
        seq,
        ack,
        flags: ACK,
        len,
        ..Sent::default()
    }
}

/// The client sends on its subflow in a network.
fn upload(talk: &mut Conversation, network: u8, sent: Sent) -> Row {
    talk.send(client(network, PORT), server(network), sent)
}

/// The server sends on the subflow in a network.
fn reply(talk: &mut Conversation, network: u8, sent: Sent) -> Row {
    talk.send(server(network), client(network, PORT), sent)
}

fn answer(ack: u32, data: u64) -> Sent {
    Sent {
        seq: 2001,
        ack,
        flags: ACK,
        mptcp: vec![data_ack(data)],
        ..Sent::default()
    }
}

/// Returns a connection with two subflows that may carry data.
fn two_subflows() -> Conversation {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    talk.open(client(2, PORT), server(2), join(false));
    reply(&mut talk, 2, answer(1001, first(0)));
    talk
}

fn only(talk: &Conversation) -> ConnectionSummary {
    let mut connections = talk.summary().connections;
    assert_eq!(connections.len(), 1, "{connections:#?}");
    connections.remove(0)
}

fn kinds(connection: &ConnectionSummary) -> Vec<EventKind> {
    connection.events.iter().map(|event| event.kind).collect()
}

#[test]
fn a_join_finds_its_connection_by_the_token() {
    let talk = two_subflows();
    let connection = only(&talk);
    assert_eq!(connection.version, Some(1));
    assert_eq!(
        connection.token,
        Some(format!("{:08x}", token(Version::One, KEYS[1])))
    );
    let opened = connection.subflows.iter().map(|subflow| subflow.opened_by);
    assert_eq!(opened.collect::<Vec<_>>(), [Some(Side::Client); 2]);
    // Six packets a millisecond apart, and the fourth of the join.
    assert_eq!(connection.second_subflow_usable_after_s, Some(0.006));
    assert!(
        !kinds(&connection).contains(&EventKind::Violation),
        "{:?}",
        connection.events
    );
}

#[test]
fn the_hmacs_of_a_join_are_right_with_the_keys_of_the_capture() {
    let [_, joined] = &only(&two_subflows()).subflows[..] else {
        panic!("not two subflows");
    };
    let right = |packet| {
        Some(Proof {
            packet,
            is_right: Some(true),
        })
    };
    assert_eq!(joined.proofs.server, right(5));
    assert_eq!(joined.proofs.client, right(6));
}

#[test]
fn without_the_keys_no_hmac_is_judged() {
    let mut talk = Conversation::default();
    talk.open(client(2, PORT), server(2), join(false));
    let proof = only(&talk).subflows[0].proofs.client;
    assert_eq!(proof.map(|proof| proof.is_right), Some(None));
}

#[test]
fn mp_fail_names_the_data_by_its_offset() {
    let mut talk = two_subflows();
    let data_seq = DataSeq(first(500));
    let fail = MptcpOption::Fail { data_seq };
    upload(&mut talk, 1, mapped(1001, 1000, 0));
    reply(&mut talk, 1, data(2001, 0, fail));
    let connection = only(&talk);
    let fail = connection.mp_fail.as_ref().unwrap();
    assert_eq!((fail.from, fail.data), (Side::Server, Some(500)));
    let event = connection.events.last().unwrap();
    assert_eq!(event.text, "data from byte 500 on did not arrive as sent");
}

#[test]
fn the_server_can_join_too() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    talk.open(server(2), client(2, PORT), join(true));
    let connection = only(&talk);
    assert_eq!(connection.subflows[1].opened_by, Some(Side::Server));
    assert_eq!(connection.subflows[1].local, client(2, PORT).to_string());
}

#[test]
fn a_wrong_hmac_is_told() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    let mut options = join(false);
    options[2] = vec![MptcpOption::Join(Join::Ack { hmac: [0; 20] })];
    talk.open(client(2, PORT), server(2), options);
    assert!(kinds(&only(&talk)).contains(&EventKind::Violation));
}

#[test]
fn one_mapping_on_every_segment_of_a_super_segment_places_each() {
    let mut talk = two_subflows();
    let mapping = dss(first(0), 1, 3000, Some(1));
    let rows =
        [0, 1000, 2000].map(|at| upload(&mut talk, 1, data(1001 + at, 1000, mapping.clone())));
    assert_eq!(
        rows.map(|row| (row.kind, row.data)),
        [0, 1000, 2000].map(|at| (Kind::New, Some(at)))
    );
    let connection = only(&talk);
    assert_eq!(
        (connection.data.client.bytes, connection.reinjected_bytes),
        (3000, 0)
    );
}

#[test]
fn a_reinjection_is_needed_if_its_copy_is_acknowledged_first() {
    let mut talk = two_subflows();
    upload(&mut talk, 1, mapped(1001, 1000, 0));
    let row = upload(&mut talk, 2, mapped(1001, 1000, 0));
    assert_eq!(row.kind, Kind::Reinjection);
    reply(&mut talk, 2, answer(2001, first(1000)));
    let connection = only(&talk);
    let reinjected = connection.data.client.reinjected;
    assert_eq!(
        (
            reinjected.bytes,
            reinjected.useful_bytes,
            reinjected.redundant_bytes
        ),
        (1000, 1000, 0)
    );
    assert_eq!(connection.data.client.duplicate_bytes, 1000);
}

#[test]
fn a_reinjection_is_redundant_if_the_first_copy_arrived() {
    let mut talk = two_subflows();
    upload(&mut talk, 1, mapped(1001, 1000, 0));
    upload(&mut talk, 2, mapped(1001, 1000, 0));
    reply(&mut talk, 1, answer(2001, first(1000)));
    reply(&mut talk, 2, answer(2001, first(1000)));
    let reinjected = only(&talk).data.client.reinjected;
    assert_eq!(
        (reinjected.useful_bytes, reinjected.redundant_bytes),
        (0, 1000)
    );
}

#[test]
fn selective_acknowledgments_count_as_arrival() {
    let mut talk = two_subflows();
    upload(&mut talk, 1, mapped(1001, 1000, 0));
    upload(&mut talk, 1, mapped(2001, 1000, 1000));
    let hole = Sent {
        sack: vec![(2001, 3001)],
        ..answer(1001, first(0))
    };
    reply(&mut talk, 1, hole);
    upload(&mut talk, 2, mapped(1001, 2000, 0));
    reply(&mut talk, 2, answer(3001, first(2000)));
    let reinjected = only(&talk).data.client.reinjected;
    assert_eq!(
        (reinjected.useful_bytes, reinjected.redundant_bytes),
        (1000, 1000)
    );
}

#[test]
fn a_retransmission_is_no_reinjection() {
    let mut talk = two_subflows();
    let sent = mapped(1001, 1000, 0);
    upload(&mut talk, 1, sent.clone());
    assert_eq!(upload(&mut talk, 1, sent).kind, Kind::Retransmission);
    let connection = only(&talk);
    let counts = connection.subflows[0].directions.client.counts;
    assert_eq!((counts.bytes, counts.retransmitted_bytes), (2000, 1000));
    assert_eq!((connection.bytes, connection.reinjected_bytes), (2000, 0));
}

#[test]
fn waiting_in_vain_for_acknowledgments_is_a_timeout_and_a_gap() {
    let mut talk = two_subflows();
    let sent = mapped(1001, 1000, 0);
    upload(&mut talk, 1, sent.clone());
    for wait in [300, 600] {
        talk.wait(wait);
        upload(&mut talk, 1, sent.clone());
    }
    upload(&mut talk, 2, mapped(1001, 1000, 0));
    reply(&mut talk, 2, answer(2001, first(1000)));
    let connection = only(&talk);
    let [episode] = &connection.subflows[0].directions.client.timeouts[..] else {
        panic!("{connection:#?}");
    };
    assert_eq!((episode.retries, episode.end_s), (2, None));
    let [gap] = &connection.data.client.gaps[..] else {
        panic!("{connection:#?}");
    };
    assert!((0.9..0.91).contains(&gap.seconds), "{gap:?}");
    assert_eq!(gap.to_subflow, 1);
}

/// Returns plain TCP whose client has sent three segments, the last one with `flags`, all of which
/// are acknowledged.
fn acknowledged_upload(flags: u8) -> Conversation {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), [vec![], vec![], vec![]]);
    for (seq, flags) in [(1001, ACK), (2001, ACK), (3001, flags)] {
        let sent = Sent {
            flags,
            ..plain(seq, 2001, 1000)
        };
        upload(&mut talk, 1, sent);
    }
    reply(&mut talk, 1, plain(2001, 4001, 0));
    talk
}

/// Returns the silences of the client.
fn silences(talk: &Conversation) -> Vec<Silence> {
    let [subflow] = &only(talk).subflows[..] else {
        panic!("one subflow");
    };
    subflow.directions.client.silences.clone()
}

#[test]
fn a_retransmission_of_acknowledged_data_ends_a_silence() {
    let mut talk = acknowledged_upload(PSH_ACK);
    for wait in [300, 600] {
        talk.wait(wait);
        upload(&mut talk, 1, plain(3001, 2001, 1000));
        reply(&mut talk, 1, plain(2001, 4001, 0));
    }
    talk.wait(5000);
    upload(&mut talk, 1, plain(4001, 2001, 1000));
    let [silence] = silences(&talk)[..] else {
        panic!("{:#?}", silences(&talk));
    };
    assert_eq!(
        (silence.sign, silence.packet),
        (SilenceSign::Retransmission, 8)
    );
    assert!((0.9..0.91).contains(&silence.seconds), "{silence:?}");
}

#[test]
fn a_silence_after_a_segment_without_psh_is_no_idle_time() {
    for (flags, packets) in [(ACK, vec![6]), (PSH_ACK, vec![])] {
        let mut talk = acknowledged_upload(flags);
        talk.wait(3000);
        upload(&mut talk, 1, plain(4001, 2001, 1000));
        let told = silences(&talk).into_iter().map(|one| one.packet);
        assert_eq!(told.collect::<Vec<u64>>(), packets);
    }
}

#[test]
fn a_partial_segment_without_psh_does_not_show_that_more_is_queued() {
    let mut talk = acknowledged_upload(ACK);
    upload(&mut talk, 1, plain(4001, 2001, 500));
    reply(&mut talk, 1, plain(2001, 4501, 0));
    talk.wait(3000);
    upload(&mut talk, 1, plain(4501, 2001, 1000));
    assert_eq!(silences(&talk), []);
}

#[test]
fn a_silence_while_data_waits_is_a_gap_alone() {
    let mut talk = acknowledged_upload(ACK);
    upload(&mut talk, 1, plain(4001, 2001, 1000));
    talk.wait(3000);
    upload(&mut talk, 1, plain(4001, 2001, 1000));
    reply(&mut talk, 1, plain(2001, 5001, 0));
    upload(&mut talk, 1, plain(5001, 2001, 1000));
    assert_eq!(silences(&talk), []);
    assert_eq!(only(&talk).data.client.gaps.len(), 1);
}

#[test]
fn a_keepalive_probe_is_no_sign_of_a_stall() {
    let mut talk = acknowledged_upload(PSH_ACK);
    talk.wait(3000);
    upload(&mut talk, 1, plain(4000, 2001, 1));
    assert_eq!(silences(&talk), []);
}

#[test]
fn segments_of_a_slow_link_are_no_silences() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), [vec![], vec![], vec![]]);
    for (seq, ack) in [(1001, 2001), (2001, 3001), (3001, 4001), (2001, 4001)] {
        talk.wait(1000);
        upload(&mut talk, 1, plain(seq, 2001, 1000));
        reply(&mut talk, 1, plain(2001, ack, 0));
    }
    assert_eq!(silences(&talk), []);
}

#[test]
fn a_closed_receive_window_is_no_silence() {
    let mut talk = acknowledged_upload(ACK);
    let full = Sent {
        window: 0,
        ..plain(2001, 4001, 0)
    };
    reply(&mut talk, 1, full);
    talk.wait(3000);
    reply(&mut talk, 1, plain(2001, 4001, 0));
    upload(&mut talk, 1, plain(4001, 2001, 1000));
    assert_eq!(silences(&talk), []);
}

#[test]
fn a_sender_that_probes_a_closed_window_is_held_back() {
    let closed = |seq, ack| Sent {
        window: 0,
        ..plain(seq, ack, 0)
    };
    let limited_s = |probes: bool| {
        let mut talk = acknowledged_upload(ACK);
        reply(&mut talk, 1, closed(2001, 4001));
        for _ in 0..2 {
            talk.wait(998);
            let seq = if probes { 4000 } else { 4001 };
            upload(&mut talk, 1, plain(seq, 2001, 0));
            reply(&mut talk, 1, closed(2001, 4001));
        }
        reply(&mut talk, 1, plain(2001, 4001, 0));
        upload(&mut talk, 1, plain(4001, 2001, 1000));
        only(&talk).data.client.window_limited_s
    };
    assert_eq!(limited_s(true), 2.001);
    // An idle application needs no window.
    assert_eq!(limited_s(false), 0.0);
}

#[test]
fn data_behind_a_hole_waits_for_it() {
    let mut talk = two_subflows();
    upload(&mut talk, 2, mapped(1001, 1000, 1000));
    talk.wait(9);
    upload(&mut talk, 1, mapped(1001, 1000, 0));
    let client = only(&talk).data.client;
    assert_eq!(
        (client.order.early_segments, client.order.farthest_bytes),
        (1, 1000)
    );
    assert_eq!(
        client.head_of_line.map(|waits| (waits.n, waits.max_s)),
        Some((1, 0.01))
    );
    assert_eq!(
        (client.order.switches, client.order.in_order_segments),
        (1, 0)
    );
}

#[test]
fn subflow_numbers_wrap() {
    let mut talk = Conversation::default();
    let isn = u32::MAX - 500;
    let [syn, syn_ack, ack] = capable();
    upload(
        &mut talk,
        1,
        Sent {
            seq: isn,
            flags: SYN,
            mptcp: syn,
            ..Sent::default()
        },
    );
    let answered = Sent {
        seq: 2000,
        ack: isn.wrapping_add(1),
        flags: SYN_ACK,
        mptcp: syn_ack,
        ..Sent::default()
    };
    reply(&mut talk, 1, answered);
    upload(
        &mut talk,
        1,
        Sent {
            mptcp: ack,
            ..data(isn.wrapping_add(1), 0, data_ack(1))
        },
    );
    for at in (0..3000).step_by(1000) {
        let mapping = dss(first(at.into()), 1 + at, 1000, None);
        upload(&mut talk, 1, data(isn.wrapping_add(1 + at), 1000, mapping));
    }
    reply(&mut talk, 1, answer(isn.wrapping_add(3001), first(3000)));
    let connection = only(&talk);
    assert_eq!(connection.data.client.bytes, 3000);
    let counts = connection.subflows[0].directions.client.counts;
    assert_eq!(
        (
            counts.unmapped_bytes,
            counts.unseen_bytes,
            counts.retransmitted_bytes
        ),
        (0, 0, 0)
    );
}

#[test]
fn data_sequence_numbers_wrap_in_a_capture_that_begins_in_the_middle() {
    let mut talk = Conversation::default();
    let start = u64::MAX - 1500;
    for at in (0..4000u32).step_by(1000) {
        let mapping = dss(
            start.wrapping_add(at.into()),
            5_000_001 + at,
            1000,
            Some(77),
        );
        upload(&mut talk, 1, data(9000 + at, 1000, mapping));
    }
    let connection = only(&talk);
    assert_eq!(
        (connection.version, connection.data.client.bytes),
        (Some(1), 4000)
    );
    assert_eq!(connection.subflows[0].opened_by, None);
}

#[test]
fn short_data_sequence_numbers_are_expanded() {
    let mut talk = two_subflows();
    let mapping = Mapping {
        data_seq: DataNumber::Short(DataSeq(first(0)).low()),
        subflow_seq: 1,
        len: 500,
        checksum: None,
    };
    let signal = Dss::default().with_mapping(Some(mapping));
    let sent = data(1001, 500, MptcpOption::Dss(signal));
    assert_eq!(upload(&mut talk, 1, sent).data, Some(0));
}

#[test]
fn subflows_without_their_handshakes_are_put_together_by_their_data() {
    let mut talk = Conversation::default();
    let start = 1 << 50;
    upload(
        &mut talk,
        1,
        data(5000, 1000, dss(start, 1, 1000, Some(99))),
    );
    upload(
        &mut talk,
        2,
        data(6000, 1000, dss(start + 1000, 1, 1000, Some(99))),
    );
    // The other direction, and then another connection.
    reply(
        &mut talk,
        3,
        data(7000, 1000, dss(99, 1, 1000, Some(start))),
    );
    upload(
        &mut talk,
        4,
        data(8000, 1000, dss(1 << 60, 1, 1000, Some(1 << 61))),
    );
    let connections = talk.summary().connections;
    let subflows = connections
        .iter()
        .map(|connection| connection.subflows.len());
    assert_eq!(subflows.collect::<Vec<_>>(), [3, 1]);
    assert_eq!(connections[0].data.client.bytes, 2000);
    assert_eq!(connections[0].data.server.bytes, 1000);
}

#[test]
fn a_join_is_put_to_a_connection_whose_beginning_was_missed() {
    let mut talk = Conversation::default();
    upload(
        &mut talk,
        1,
        data(5000, 1000, dss(first(0), 1, 1000, Some(9))),
    );
    talk.open(client(2, PORT), server(2), join(false));
    upload(
        &mut talk,
        2,
        data(1001, 1000, dss(first(1000), 1, 1000, Some(9))),
    );
    let connection = only(&talk);
    assert_eq!(connection.subflows.len(), 2);
    assert_eq!(
        connection.token,
        Some(format!("{:08x}", token(Version::One, KEYS[1])))
    );
}

#[test]
fn the_same_ports_again_are_another_connection() {
    let mut talk = Conversation::default();
    let no_options = [vec![], vec![], vec![]];
    let (here, there) = (client(1, 80), server(1));
    talk.open(here, there, no_options);
    talk.send(here, there, plain(1001, 2001, 100));
    let again = Sent {
        seq: 70_000,
        flags: SYN,
        ..Sent::default()
    };
    talk.send(here, there, again.clone());
    talk.send(here, there, plain(70_001, 1, 10));
    // Opened by the other end, between the same ports.
    talk.send(
        there,
        here,
        Sent {
            seq: 500_000,
            ..again
        },
    );
    let connections = talk.summary().connections;
    let clients = connections
        .iter()
        .map(|connection| connection.sides.client.address.clone());
    assert_eq!(
        clients.collect::<Vec<_>>(),
        [here, here, there].map(|end| end.to_string())
    );
    assert_eq!(
        connections.iter().map(|one| one.bytes).collect::<Vec<_>>(),
        [100, 10, 0]
    );
}

#[test]
fn plain_tcp_is_told_beside() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), [vec![], vec![], vec![]]);
    let sent = |seq, len| Sent {
        seq,
        ack: 2001,
        flags: ACK,
        len,
        ..Sent::default()
    };
    upload(&mut talk, 1, sent(1001, 500));
    upload(
        &mut talk,
        1,
        Sent {
            flags: FIN_ACK,
            ..sent(1501, 500)
        },
    );
    reply(
        &mut talk,
        1,
        Sent {
            seq: 2001,
            ack: 2002,
            flags: ACK,
            ..Sent::default()
        },
    );
    let connection = only(&talk);
    assert_eq!(
        (connection.version, connection.ending),
        (None, Some(Ending::Fin))
    );
    let client = &connection.data.client;
    assert_eq!((client.bytes, client.unseen_bytes), (1000, 0));
    assert_eq!(client.rtt.map(|rtt| rtt.max_s), Some(0.001));
}

#[test]
fn an_answer_without_mp_capable_is_a_fallback() {
    let mut talk = Conversation::default();
    let [syn, _, _] = capable();
    talk.open(client(1, PORT), server(1), [syn, vec![], vec![]]);
    let sent = plain(1001, 2001, 300);
    assert_eq!(upload(&mut talk, 1, sent).data, Some(0));
    let connection = only(&talk);
    assert!(connection.fallback.is_some());
    assert_eq!(connection.data.client.bytes, 300);
}

#[test]
fn data_without_a_signal_is_a_fallback() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    let sent = plain(1001, 2001, 300);
    assert_eq!(upload(&mut talk, 1, sent).kind, Kind::New);
    assert!(only(&talk).fallback.is_some());
}

#[test]
fn after_a_fallback_the_data_go_on_where_they_were() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    upload(&mut talk, 1, mapped(1001, 100, 0));
    let unsignalled = plain(2001, 1101, 50);
    reply(&mut talk, 1, unsignalled);
    let more = plain(1101, 2051, 300);
    assert_eq!(upload(&mut talk, 1, more).data, Some(100));
    let connection = only(&talk);
    assert_eq!(
        (connection.data.client.bytes, connection.data.server.bytes),
        (400, 50)
    );
}

#[test]
fn a_sender_whose_data_was_acknowledged_without_a_signal_falls_back() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    upload(&mut talk, 1, mapped(1001, 100, 0));
    reply(&mut talk, 1, plain(2001, 1101, 0));
    let row = upload(&mut talk, 1, plain(1101, 2001, 300));
    assert_eq!((row.data, row.kind), (Some(100), Kind::New));
    upload(&mut talk, 1, plain(1401, 2001, 300));
    reply(&mut talk, 1, plain(2001, 1701, 50));
    let connection = only(&talk);
    assert_eq!(
        (connection.data.client.bytes, connection.data.server.bytes),
        (700, 50)
    );
    let fallback = connection.fallback.unwrap();
    assert!(fallback.why.ends_with("as the peer had sent none"));
}

#[test]
fn a_packet_that_the_capture_lacks_is_no_fallback() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    upload(&mut talk, 1, mapped(1001, 100, 0));
    upload(&mut talk, 1, plain(1201, 2001, 300));
    assert_eq!(only(&talk).fallback, None);
}

#[test]
fn after_an_infinite_mapping_the_other_direction_counts_too() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    upload(&mut talk, 1, mapped(1001, 100, 0));
    upload(&mut talk, 1, data(1101, 100, dss(first(100), 101, 0, None)));
    let row = reply(&mut talk, 1, plain(2001, 1201, 3000));
    assert_eq!(row.data, Some(0));
    assert_eq!(only(&talk).data.server.bytes, 3000);
}

#[test]
fn the_infinite_mapping_is_a_fallback_too() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    upload(&mut talk, 1, mapped(1001, 100, 0));
    upload(&mut talk, 1, data(1101, 100, dss(first(100), 101, 0, None)));
    let sent = plain(1201, 2001, 300);
    assert_eq!(upload(&mut talk, 1, sent).data, Some(200));
    let connection = only(&talk);
    assert!(connection.fallback.is_some());
    assert_eq!(connection.data.client.bytes, 500);
}

#[test]
fn one_direction_alone_is_explained_as_far_as_it_goes() {
    let mut talk = Conversation::default();
    let [syn, _, ack] = capable();
    upload(
        &mut talk,
        1,
        Sent {
            seq: 1000,
            flags: SYN,
            mptcp: syn,
            ..Sent::default()
        },
    );
    upload(
        &mut talk,
        1,
        Sent {
            mptcp: ack,
            ..data(1001, 0, data_ack(1))
        },
    );
    for at in (0..5000u32).step_by(1000) {
        let mapping = dss(first(at.into()), 1 + at, 1000, None);
        upload(&mut talk, 1, data(1001 + at, 1000, mapping));
    }
    let connection = only(&talk);
    assert_eq!(connection.version, Some(1));
    assert_eq!(connection.data.client.bytes, 5000);
    assert_eq!(
        connection.token,
        Some(format!("{:08x}", token(Version::One, KEYS[1])))
    );
}

#[test]
fn one_interface_alone_shows_what_it_lacks() {
    let mut talk = Conversation::default();
    talk.open(client(1, PORT), server(1), capable());
    upload(&mut talk, 1, mapped(1001, 1000, 4000));
    reply(&mut talk, 1, answer(2001, first(5000)));
    let client = only(&talk).data.client;
    assert_eq!((client.bytes, client.unseen_bytes), (1000, 4000));
}

#[test]
fn the_end_of_the_data_takes_a_number_and_no_byte() {
    let mut talk = two_subflows();
    upload(&mut talk, 1, mapped(1001, 1000, 0));
    let mapping = Mapping {
        data_seq: DataNumber::Long(DataSeq(first(1000))),
        subflow_seq: 0,
        len: 1,
        checksum: None,
    };
    let fin = Dss::default()
        .with_mapping(Some(mapping))
        .with_data_fin(true);
    upload(&mut talk, 1, data(2001, 0, MptcpOption::Dss(fin)));
    reply(&mut talk, 1, answer(2001, first(1001)));
    let connection = only(&talk);
    assert_eq!(connection.ending, Some(Ending::DataFin));
    assert_eq!(
        (
            connection.data.client.bytes,
            connection.data.client.unseen_bytes
        ),
        (1000, 0)
    );
}

#[test]
fn a_reset_tells_its_reason() {
    let mut talk = two_subflows();
    let reason = MptcpOption::Reset(ResetReason::of(ResetReason::MIDDLEBOX));
    reply(
        &mut talk,
        2,
        Sent {
            seq: 2001,
            flags: RST,
            mptcp: vec![reason],
            ..Sent::default()
        },
    );
    let connection = only(&talk);
    let ended = connection.subflows[1].ended.as_ref().expect("an end");
    assert_eq!(
        (ended.how, ended.reason, ended.by),
        ("reset", Some(6), Side::Server)
    );
}

#[test]
fn windows_of_which_the_scale_is_known_are_counted() {
    let mut talk = Conversation::default();
    upload(
        &mut talk,
        1,
        Sent {
            seq: 1000,
            flags: SYN,
            window_scale: Some(7),
            ..Sent::default()
        },
    );
    let answered = Sent {
        seq: 2000,
        ack: 1001,
        flags: SYN_ACK,
        window_scale: Some(3),
        ..Sent::default()
    };
    assert_eq!(reply(&mut talk, 1, answered).window, Some(65000));
    let ack = Sent {
        seq: 1001,
        ack: 2001,
        flags: ACK,
        ..Sent::default()
    };
    assert_eq!(upload(&mut talk, 1, ack).window, Some(65000 << 7));
    let middle = plain(1, 1, 1);
    assert_eq!(upload(&mut talk, 5, middle).window, None);
}

#[test]
fn version_0_is_understood() {
    let mut talk = Conversation::default();
    let keys = [0x0102_0304_0506_0708u64, 0x1112_1314_1516_1718];
    let capable = |sender_key, receiver_key| MptcpOptionV0::Capable {
        version: 0,
        flags: Capable::HMAC_SHA256,
        sender_key,
        receiver_key,
    };
    let (here, there) = (client(1, PORT), server(1));
    let sent = |seq, ack, flags| Sent {
        seq,
        ack,
        flags,
        ..Sent::default()
    };
    talk.send_version_0(here, there, sent(1000, 0, SYN), &capable(keys[0], None));
    talk.send_version_0(
        there,
        here,
        sent(2000, 1001, SYN_ACK),
        &capable(keys[1], None),
    );
    talk.send_version_0(
        here,
        there,
        sent(1001, 2001, ACK),
        &capable(keys[0], Some(keys[1])),
    );
    let connection = only(&talk);
    assert_eq!(connection.version, Some(0));
    // Computed with SHA-1 by another program.
    let by_sha1 = ["dd5783bc", "3383d918"];
    let tokens = [connection.sides.client.token, connection.sides.server.token];
    assert_eq!(tokens.map(Option::unwrap), by_sha1);
}
