//! Attacks on a connection and on its host (RFC 6181, RFC 7430): a hundred thousand hostile packets each, what answers them, and
//! what they leave in memory. The table that this prints stands in `docs/engine.md`.

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
    SignalledAddress,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A tenth where nothing is optimised.
const PACKETS: u32 = if cfg!(debug_assertions) {
    10_000
} else {
    100_000
};

/// What somebody on the path has heard, and what the peer knows.
struct Heard {
    /// A SYN, that of a join, and the last acknowledgments of both sides.
    syn: Packet,
    join: Packet,
    from_client: Packet,
    from_server: Packet,
    /// Of the server.
    keys: Keys,
    /// The last DATA_ACK of the server.
    data_ack: DataSeq,
}

struct Attack {
    name: &'static str,
    victim: usize,
    /// The hostile packet with that number.
    packet: fn(&Heard, u32) -> Packet,
    /// What the victim sends for all of them: resets, and SYNs.
    most_resets: u32,
    most_syns: u32,
    /// What it still holds then.
    most_kilobytes: u32,
    /// Whether the connection lives: an attacker who is the peer can always end it.
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
        name: "ADD_ADDR and RM_ADDR of who has the keys: SYNs are reflected",
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
        name: "RM_ADDR of what was never announced",
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
        name: "resets into the window",
        packet: |heard, index| {
            let mut packet = heard.from_client.clone();
            packet.segment.flags = Flags::RST;
            packet.segment.seq += 1 + index % 50_000;
            packet
        },
        ..HARMLESS
    },
    Attack {
        name: "DATA_ACKs of what was never sent",
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
        name: "every other byte of the stream",
        packet: |heard, index| with(byte(heard, index), mapping(heard, 2 * index + 1, index, 1)),
        most_kilobytes: 4_000,
        survives: false,
        ..HARMLESS
    },
    Attack {
        name: "bytes one by one to who does not read",
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

/// The SYN of a join from another port, with that token or the right one.
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

/// An address and port of someone else, rightly signed by the server.
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

/// One byte of the client's subflow, so many after the last; without a mapping.
fn byte(heard: &Heard, index: u32) -> Packet {
    let mut packet = heard.from_client.clone();
    packet.segment.options.mptcp = MptcpOptions::new();
    packet.segment.seq += index;
    packet.segment.payload = Payload::literal(vec![7]);
    packet
}

/// So many bytes of stream and subflow after the last.
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

/// A connection over two paths on which each side has sent a hundred bytes, and what can be heard of it.
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
        data_ack: mptcp::connection::keys::initial_data_seq(keys.remote) + 101,
        keys,
    };
    (pair, heard)
}

fn held_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Resets and SYNs that the victim sends, and the bytes that it holds more than before.
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

// One test, so that nothing else allocates beside it.
#[test]
fn hostile_packets_leave_little_behind() {
    println!("| attack | resets | SYNs | kilobytes held |\n|---|---|---|---|");
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
