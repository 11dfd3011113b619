//! MPTCP version 0 (RFC 6824) between two endpoints of the engine, and beside version 1.

use mptcp::connection::{Config, Event, Mode};
use mptcp::pm::{Endpoint, EndpointFlags, Parameters};
use mptcp::wire::{
    Capable, DataNumber, Dss, Flags, Join, MptcpOption, MptcpOptionV0, Packet, Version,
};

use crate::world::middleboxes::{as_bytes, lose, rewrite};
use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, ipv4, seconds};

fn stack() -> Stack {
    Stack {
        config: Config {
            version: Version::Zero,
            ..Stack::default().config
        },
        ..Stack::default()
    }
}

fn pair_of(stacks: [&Stack; 2]) -> Pair {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    let mut pair = Pair::of(1, paths, stacks);
    pair.network.middleboxes.push(as_bytes());
    pair
}

fn options(pair: &Pair, side: usize) -> impl Iterator<Item = (Flags, &MptcpOption)> {
    let sent = pair.log.iter().filter(move |(_, from, _)| *from == side);
    sent.flat_map(|(_, _, packet)| {
        let segment = &packet.segment;
        segment.options.mptcp.iter().map(|it| (segment.flags, it))
    })
}

fn dss_options(pair: &Pair, side: usize) -> impl Iterator<Item = &Dss> {
    options(pair, side).filter_map(|(_, option)| match option {
        MptcpOption::Dss(dss) => Some(dss),
        _ => None,
    })
}

fn is_connected_with(pair: &Pair, mode: Mode) -> bool {
    let connected = |event: &Event| *event == Event::Connected { mode };
    pair.sides.iter().all(|side| side.has_seen(connected))
}

#[test]
fn keys_are_in_the_handshake_from_the_syn_on_and_never_with_data() {
    let mut pair = pair_of([&stack(), &stack()]);
    pair.keeps_log = true;
    pair.transfer(300_000, 300_000);
    pair.run_to_the_end(seconds(3));
    assert!(is_connected_with(&pair, Mode::Multipath));
    let capable: Vec<_> = options(&pair, CLIENT)
        .chain(options(&pair, SERVER))
        .filter_map(|(flags, option)| match option {
            MptcpOption::Capable(capable) => Some((flags.contains(Flags::SYN), *capable)),
            _ => None,
        })
        .collect();
    assert!(capable.iter().all(|(is_syn, capable)| match capable {
        Capable::SynAck { version: 0, .. } => *is_syn,
        Capable::Ack {
            version: 0, data, ..
        } => !is_syn && data.is_none(),
        _ => false,
    }));
    // The SYN, the SYN/ACK, and at least one ACK.
    assert!(capable.len() >= 3);
}

#[test]
fn both_paths_carry_data_behind_mappings_of_20_bytes() {
    for uses_checksums in [false, true] {
        let mut stack = stack();
        stack.config.uses_checksums = uses_checksums;
        let mut pair = pair_of([&stack, &stack]);
        pair.keeps_log = true;
        pair.transfer(3_000_000, 3_000_000);
        pair.run_to_the_end(seconds(10));
        for side in [CLIENT, SERVER] {
            assert!(pair.sent_bytes(side, 0) > 0 && pair.sent_bytes(side, 1) > 0);
            for dss in dss_options(&pair, side) {
                let ack = dss.data_ack();
                let number = dss.mapping().map(|mapping| mapping.data_seq);
                let is_short = |it| matches!(it, None | Some(DataNumber::Short(_)));
                assert!(is_short(ack) && is_short(number));
            }
            let longest = pair.log.iter().filter(|(_, from, _)| *from == side);
            let payload = longest.map(|(_, _, packet)| packet.segment.payload.len());
            // 1460 bytes without 12 of timestamps and 20 of a DSS.
            assert_eq!(payload.max(), Some(1428));
        }
        assert!(
            options(&pair, CLIENT).any(|(_, it)| matches!(it, MptcpOption::Join(Join::Ack { .. })))
        );
    }
}

#[test]
fn sequence_numbers_of_32_bits_wrap() {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    let mut pair = Pair::before_wraps(1, paths, &stack());
    pair.transfer(3_000_000, 3_000_000);
    pair.run_to_the_end(seconds(10));
    assert!(is_connected_with(&pair, Mode::Multipath));
}

fn announcing() -> Stack {
    let endpoint = Endpoint {
        address: ipv4(1, SERVER),
        port: None,
        flags: EndpointFlags::SIGNAL,
    };
    Stack {
        path_manager: "kernel_endpoints",
        of_path_manager: Parameters {
            endpoints: Some(vec![endpoint]),
            ..Parameters::default()
        },
        ..stack()
    }
}

#[test]
fn an_address_is_announced_once_in_8_bytes_without_an_hmac_and_joined_without_an_echo() {
    let mut pair = pair_of([&stack(), &announcing()]);
    pair.keeps_log = true;
    pair.transfer(1_000_000, 1_000_000);
    pair.run_for(seconds(5));
    let announced = |side| {
        options(&pair, side)
            .filter(|(_, it)| matches!(it, MptcpOption::Version0(_) | MptcpOption::AddAddress(_)))
            .map(|(_, option)| option.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(announced(CLIENT), []);
    let [option] = announced(SERVER).try_into().expect("one announcement");
    assert_eq!(option.wire_len(), 8);
    let MptcpOption::Version0(option) = option else {
        panic!("{option:?} has the form of version 1");
    };
    let is_second = matches!(*option, MptcpOptionV0::AddAddress { address, port: None, .. }
        if address == ipv4(1, SERVER));
    assert!(is_second, "{option:?}");
    assert_eq!(pair.sides[SERVER].subflows().len(), 2);
}

#[test]
fn a_lost_third_packet_is_made_up_for_by_the_first_data() {
    let mut pair = pair_of([&stack(), &stack()]);
    pair.network.middleboxes.push(lose(1, |place, packet| {
        place.from == CLIENT && !packet.segment.flags.contains(Flags::SYN)
    }));
    pair.transfer(300_000, 300_000);
    pair.run_to_the_end(seconds(5));
    assert!(is_connected_with(&pair, Mode::Multipath));
}

#[test]
fn a_third_packet_with_another_key_than_the_syn_is_refused() {
    let mut pair = pair_of([&stack(), &stack()]);
    pair.network.middleboxes.push(rewrite(|_, packet| {
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Capable(Capable::Ack { sender_key, .. }) = option {
                *sender_key ^= 1;
            }
        }
    }));
    pair.transfer(300_000, 0);
    pair.run_for(seconds(1));
    let resets = pair.sent_packets(SERVER, |packet| packet.segment.flags.contains(Flags::RST));
    assert!(resets > 0);
}

#[test]
fn a_reset_carries_no_reason() {
    let mut pair = pair_of([&stack(), &stack()]);
    pair.network.middleboxes.push(rewrite(|_, packet| {
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Join(Join::Ack { hmac }) = option {
                hmac[0] ^= 1;
            }
        }
    }));
    pair.transfer(300_000, 0);
    pair.run_for(seconds(1));
    let is_reset = |packet: &Packet| packet.segment.flags.contains(Flags::RST);
    assert!(pair.sent_packets(SERVER, is_reset) > 0);
    let reasons = pair.sent_packets(SERVER, |packet| {
        let mut options = packet.segment.options.mptcp.iter();
        options.any(|option| matches!(option, MptcpOption::Reset(_)))
    });
    assert_eq!(reasons, 0);
}

#[test]
fn hosts_of_different_versions_use_tcp() {
    let (zero, one) = (stack(), Stack::default());
    for stacks in [[&zero, &one], [&one, &zero]] {
        let mut pair = pair_of(stacks);
        pair.transfer(300_000, 300_000);
        pair.run_to_the_end(seconds(3));
        assert!(is_connected_with(&pair, Mode::Plain));
        assert_eq!(pair.sent_bytes(CLIENT, 1) + pair.sent_bytes(SERVER, 1), 0);
    }
}
