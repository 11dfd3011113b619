//! Attacks on a connection and its host (RFC 6181, RFC 7430): sends 100,000 hostile packets of each
//! kind, and counts the responses and the memory held afterwards. Prints the table in
//! `docs/internals/security.md`.

#[path = "../world/mod.rs"]
#[expect(dead_code, unused_imports, reason = "hostile packets need no network")]
mod world;

use std::alloc::System;
use std::net::IpAddr;

use mptcp::connection::keys::Keys;
use mptcp::payload::Payload;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::time::MILLISECOND;
use mptcp::wire::{
    Capable, DataNumber, Dss, Flags, Join, Mapping, MptcpOption, MptcpOptions, Packet, ResetReason,
    SignalledAddress, Version,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Hostile packets of each attack; a tenth without optimizations.
const PACKETS: u32 = if cfg!(debug_assertions) {
    10_000
} else {
    100_000
};

/// Packets that an observer on the path has seen, and the keys, which only the peer knows.
struct Heard {
    /// The SYN of the connection, the SYN of a join, and the last acknowledgments of both hosts.
    syn: Packet,
    join: Packet,
    from_client: Packet,
    from_server: Packet,
    /// The keys of the connection, as the server holds them.
    keys: Keys,
    /// The last DATA_ACK of the server.
    data_ack: DataSeq,
}

struct Attack {
    name: &'static str,
    victim: usize,
    /// Returns the hostile packet with this number.
    packet: fn(&Heard, u32) -> Packet,
    /// Upper limits of the RSTs and SYNs that the victim sends in response to all packets.
    most_resets: u32,
    most_syns: u32,
    /// Upper limit of the memory that the victim still holds afterwards.
    most_kilobytes: u32,
    /// Whether the connection still works afterwards. A hostile peer can always end it.
    survives: bool,
}

const HARMLESS: Attack = Attack {
    name: "",
    victim: SERVER,
    packet: |heard, _| heard.from_client.clone(),
    most_resets: 0,
    most_syns: 0,
    most_kilobytes: 4,
    survives: true,
};

const ATTACKS: [Attack; 18] = [
    Attack {
        name: "SYNs from everywhere",
        packet: |heard, index| from_elsewhere(&heard.syn, index),
        most_kilobytes: 8_000,
        ..HARMLESS
    },
    Attack {
        name: "guessed third packets",
        packet: |heard, index| {
            let mut packet = from_elsewhere(&heard.syn, index);
            packet.segment.flags = Flags::ACK;
            packet.segment.ack = SeqNr(index.wrapping_mul(2_246_822_519));
            with(
                packet,
                MptcpOption::Capable(Capable::Ack {
                    version: 1,
                    flags: Capable::HMAC_SHA256,
                    sender_key: u64::from(index),
                    receiver_key: u64::from(index) << 20,
                    data: None,
                }),
            )
        },
        most_resets: PACKETS,
        ..HARMLESS
    },
    Attack {
        name: "joins with guessed tokens",
        packet: |heard, index| join(heard, index, Some(index)),
        most_resets: PACKETS,
        ..HARMLESS
    },
    Attack {
        name: "joins with the token, without the keys",
        packet: |heard, index| join(heard, index, None),
        most_resets: PACKETS,
        most_kilobytes: 400,
        ..HARMLESS
    },
    Attack {
        name: "joins from ever new addresses, each reset at once",
        packet: |heard, index| {
            let mut packet = join(heard, index, None);
            packet.source = IpAddr::from((0x0b00_0000 + index / 2).to_be_bytes());
            packet.segment.source_port = 1024;
            if index % 2 == 1 {
                packet.segment.flags = Flags::RST;
                packet.segment.seq = SeqNr(index);
                let reason = ResetReason::of(ResetReason::MPTCP_ERROR);
                return with(packet, MptcpOption::Reset(reason));
            }
            packet
        },
        ..HARMLESS
    },
    Attack {
        name: "ADD_ADDR with a guessed HMAC",
        victim: CLIENT,
        packet: |heard, index| {
            let mut announced = announced(heard, index);
            announced.truncated_hmac = Some(u64::from(index));
            with(
                heard.from_server.clone(),
                MptcpOption::AddAddress(Box::new(announced)),
            )
        },
        ..HARMLESS
    },
    Attack {
        name: "ADD_ADDR and REMOVE_ADDR from a peer with the keys, to reflect SYNs",
        victim: CLIENT,
        packet: |heard, index| {
            let announced = announced(heard, index / 2);
            with(
                heard.from_server.clone(),
                match index % 2 {
                    0 => MptcpOption::AddAddress(Box::new(announced)),
                    _ => MptcpOption::RemoveAddress(Box::new([announced.id])),
                },
            )
        },
        most_syns: 8,
        most_kilobytes: 64,
        ..HARMLESS
    },
    Attack {
        name: "REMOVE_ADDR for addresses that were never announced",
        packet: |heard, index| {
            let id = 10 + (index % 200) as u8;
            with(
                heard.from_client.clone(),
                MptcpOption::RemoveAddress(Box::new([id])),
            )
        },
        ..HARMLESS
    },
    Attack {
        name: "MP_FASTCLOSE with a guessed key",
        packet: |heard, index| {
            let receiver_key = u64::from(index);
            with(
                heard.from_client.clone(),
                MptcpOption::FastClose { receiver_key },
            )
        },
        ..HARMLESS
    },
    Attack {
        name: "RSTs inside the window",
        packet: |heard, index| {
            let mut packet = heard.from_client.clone();
            packet.segment.flags = Flags::RST;
            packet.segment.seq += 1 + index % 50_000;
            packet
        },
        ..HARMLESS
    },
    Attack {
        name: "DATA_ACKs for data that was never sent",
        packet: |heard, index| {
            let data_ack = DataNumber::Long(heard.data_ack + ((1 << 40) + u64::from(index)));
            let dss = Dss::default().with_data_ack(Some(data_ack));
            with(heard.from_client.clone(), MptcpOption::Dss(dss))
        },
        ..HARMLESS
    },
    Attack {
        name: "MP_PRIO, on and off",
        packet: |heard, index| {
            let backup = index % 2 == 0;
            with(heard.from_client.clone(), MptcpOption::Priority { backup })
        },
        ..HARMLESS
    },
    Attack {
        name: "mappings without data",
        packet: |heard, index| {
            let mapping = mapping(heard, 10_000 + 2 * index, 2_000 + 2 * index, 1);
            with(heard.from_client.clone(), mapping)
        },
        most_kilobytes: 1_000,
        survives: false,
        ..HARMLESS
    },
    Attack {
        name: "data without mappings",
        packet: |heard, index| byte(heard, index),
        most_resets: PACKETS,
        most_kilobytes: 64,
        survives: false,
        ..HARMLESS
    },
    Attack {
        name: "bytes far beyond the window of the connection",
        packet: |heard, index| {
            with(
                byte(heard, index),
                mapping(heard, index + (1 << 30), index, 1),
            )
        },
        survives: false,
        ..HARMLESS
    },
    Attack {
        name: "every other byte of the byte stream",
        packet: |heard, index| with(byte(heard, index), mapping(heard, 2 * index + 1, index, 1)),
        most_kilobytes: 4_000,
        survives: false,
        ..HARMLESS
    },
    Attack {
        name: "one-byte segments to an application that does not read",
        packet: |heard, index| with(byte(heard, index), mapping(heard, index, index, 1)),
        most_kilobytes: 400,
        survives: false,
        ..HARMLESS
    },
    Attack {
        name: "every other byte of a subflow",
        packet: |heard, index| {
            with(
                byte(heard, 2 * index + 1),
                mapping(heard, 2 * index + 1, 2 * index + 1, 1),
            )
        },
        most_kilobytes: 4_000,
        survives: false,
        ..HARMLESS
    },
];

fn with(mut packet: Packet, option: MptcpOption) -> Packet {
    packet.segment.options.mptcp = [option].into_iter().collect();
    packet
}

fn from_elsewhere(packet: &Packet, index: u32) -> Packet {
    let mut packet = packet.clone();
    packet.source = IpAddr::from((0x0b00_0000 + index / 60_000).to_be_bytes());
    packet.segment.source_port = (index % 60_000) as u16;
    packet.segment.seq = SeqNr(index.wrapping_mul(2_654_435_761));
    packet
}

/// Returns the SYN of a join from another port, with the token `guess` or the right one.
fn join(heard: &Heard, index: u32, guess: Option<u32>) -> Packet {
    let mut packet = heard.join.clone();
    packet.segment.source_port = 1024 + (index % 40_000) as u16;
    packet.segment.seq = SeqNr(index);
    for option in &mut packet.segment.options.mptcp {
        if let MptcpOption::Join(Join::Syn { token, nonce, .. }) = option {
            *nonce = index;
            *token = guess.unwrap_or(*token);
        }
    }
    packet
}

/// Returns an announcement of another host's address and port, with a valid HMAC of the server.
fn announced(heard: &Heard, index: u32) -> SignalledAddress {
    let id = (index % 255 + 1) as u8;
    let address = IpAddr::from((0x0b00_0000 + index).to_be_bytes());
    SignalledAddress {
        id,
        address,
        port: Some(9),
        truncated_hmac: Some(heard.keys.address_hmac(id, address, Some(9))),
    }
}

/// Returns a segment with one byte of the client's subflow, `index` bytes after the last one,
/// without a mapping.
fn byte(heard: &Heard, index: u32) -> Packet {
    let mut packet = heard.from_client.clone();
    packet.segment.options.mptcp = MptcpOptions::new();
    packet.segment.seq += index;
    packet.segment.payload = Payload::literal(vec![7]);
    packet
}

/// Returns a mapping of `len` bytes that starts `data` bytes after the last byte of the byte stream
/// and `subflow` bytes after the last byte of the subflow.
fn mapping(heard: &Heard, data: u32, subflow: u32, len: u16) -> MptcpOption {
    let data_seq = DataNumber::Long(heard.data_ack + u64::from(data));
    let subflow_seq = 101 + subflow;
    let mapping = Mapping {
        data_seq,
        subflow_seq,
        len,
        checksum: None,
    };
    MptcpOption::Dss(Dss::default().with_mapping(Some(mapping)))
}

/// Returns a connection over two paths on which each host has sent 100 bytes, and what an observer
/// has seen of it.
fn connection() -> (Pair, Heard) {
    let mut pair = Pair::new(1, vec![PathModel::new(10, 10); 2], &Stack::default());
    pair.transfer(100, 100);
    for side in &mut pair.sides {
        side.closes = false;
    }
    pair.run_for(200 * MILLISECOND);
    let heard = |wanted: &dyn Fn(usize, &Packet) -> bool| {
        let mut packets = pair.log.iter().rev();
        let found = packets.find(|(_, by, packet)| wanted(*by, packet));
        found.expect("it was sent").2.clone()
    };
    let is_syn = |packet: &Packet| packet.segment.flags == Flags::SYN;
    let is_bare = |packet: &Packet| {
        let dss = packet
            .segment
            .options
            .mptcp
            .iter()
            .any(|option| matches!(option, MptcpOption::Dss(_)));
        packet.segment.flags == Flags::ACK && packet.segment.payload.is_empty() && dss
    };
    let first_port = pair.log[0].2.segment.source_port;
    let on_first = |packet: &Packet| {
        [packet.segment.source_port, packet.segment.destination_port].contains(&first_port)
    };
    let from_client = heard(&|by, packet| by == CLIENT && is_bare(packet) && on_first(packet));
    let from_server = heard(&|by, packet| by == SERVER && is_bare(packet) && on_first(packet));
    let keys = pair
        .log
        .iter()
        .flat_map(|(_, _, packet)| &packet.segment.options.mptcp);
    let mut keys = keys.filter_map(|option| match option {
        MptcpOption::Capable(Capable::Ack {
            sender_key,
            receiver_key,
            ..
        }) => Some(Keys {
            local: *receiver_key,
            remote: *sender_key,
        }),
        _ => None,
    });
    let keys = keys.next().expect("they were said");
    let heard = Heard {
        syn: pair.log[0].2.clone(),
        join: heard(&|_, packet| is_syn(packet) && !on_first(packet)),
        from_client,
        from_server,
        data_ack: mptcp::connection::keys::initial_data_seq(Version::One, keys.remote) + 101,
        keys,
    };
    (pair, heard)
}

fn held_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Returns the RSTs and SYNs that the victim sends, and the bytes that it holds in addition to
/// before.
fn attack(pair: &mut Pair, heard: &Heard, attack: &Attack) -> (u32, u32, usize) {
    let before = held_bytes();
    let (mut resets, mut syns) = (0, 0);
    for index in 0..PACKETS {
        let packet = (attack.packet)(heard, index);
        pair.deliver(attack.victim, &packet);
        let victim = &mut pair.sides[attack.victim].endpoint;
        while victim.poll_event().is_some() {}
        while let Some(answer) = victim.poll_transmit(pair.now) {
            resets += u32::from(answer.segment.flags.contains(Flags::RST));
            syns += u32::from(answer.segment.flags == Flags::SYN);
        }
    }
    (resets, syns, held_bytes().saturating_sub(before))
}

// A single test, because the allocations of tests that run in parallel would be counted too.
#[test]
fn hostile_packets_leave_little_behind() {
    println!("| attack | RSTs sent | SYNs sent | memory held, kB |\n|---|---|---|---|");
    for row in &ATTACKS {
        let (mut pair, heard) = connection();
        let (resets, syns, held) = attack(&mut pair, &heard, row);
        println!("| {} | {resets} | {syns} | {} |", row.name, held / 1000);
        assert!(resets <= row.most_resets, "{}: {resets} resets", row.name);
        assert!(syns <= row.most_syns, "{}: {syns} SYNs", row.name);
        assert!(
            held / 1000 <= row.most_kilobytes as usize,
            "{}: {held} bytes",
            row.name
        );
        if row.survives {
            pair.transfer(200_000, 200_000);
            let until = pair.now + seconds(5);
            pair.run_until(until, |pair| {
                pair.sides.iter().all(|side| side.received == 200_000)
            });
        }
    }
}
