//! Arbitrary valid values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mptcp::payload::Payload;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::wire::{
    Capable, DataNumber, Dss, Ecn, Flags, Hops, InitialMapping, Join, MAX_OPTIONS_LEN, Mapping,
    MptcpOption, MptcpOptionV0, Packet, ResetReason, SackBlock, Segment, SignalledAddress,
    TcpOptions, Timestamps, UdpPacket,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<Ipv4Addr>().prop_map(IpAddr::from),
        any::<Ipv6Addr>().prop_map(IpAddr::from),
    ]
}

/// Source and destination, of one family.
fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(from, to)| (from.into(), to.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(from, to)| (from.into(), to.into())),
    ]
}

fn ecn() -> impl Strategy<Value = Ecn> {
    prop_oneof![
        Just(Ecn::NotCapable),
        Just(Ecn::Capable0),
        Just(Ecn::Capable1),
        Just(Ecn::CongestionExperienced),
    ]
}

fn payload() -> impl Strategy<Value = Payload> {
    let literal = vec(any::<u8>(), 0..50).prop_map(Payload::literal);
    let stream = (any::<u32>(), 0..1_000_000u64, 0..1500u32)
        .prop_map(|(seed, offset, len)| Payload::stream(seed, offset, len));
    vec(prop_oneof![literal, stream], 0..3).prop_map(|parts| {
        let mut whole = Payload::EMPTY;
        parts.into_iter().for_each(|part| whole.append(part));
        whole
    })
}

fn capable() -> impl Strategy<Value = Capable> {
    let head = (0..16u8, any::<u8>());
    let data = of((any::<u16>(), any::<Option<u16>>()))
        .prop_map(|data| data.map(|(len, checksum)| InitialMapping { len, checksum }));
    let keys = of((any::<u64>(), of((any::<u64>(), data))));
    (head, keys).prop_map(|((version, flags), keys)| match keys {
        None => Capable::Syn { version, flags },
        Some((sender_key, None)) => Capable::SynAck {
            version,
            flags,
            sender_key,
        },
        Some((sender_key, Some((receiver_key, data)))) => Capable::Ack {
            version,
            flags,
            sender_key,
            receiver_key,
            data,
        },
    })
}

fn join() -> impl Strategy<Value = Join> {
    let syn =
        any::<(bool, u8, u32, u32)>().prop_map(|(backup, address_id, token, nonce)| Join::Syn {
            backup,
            address_id,
            token,
            nonce,
        });
    let syn_ack =
        any::<(bool, u8, u64, u32)>().prop_map(|(backup, address_id, truncated_hmac, nonce)| {
            Join::SynAck {
                backup,
                address_id,
                truncated_hmac,
                nonce,
            }
        });
    let ack = any::<[u8; 20]>().prop_map(|hmac| Join::Ack { hmac });
    prop_oneof![syn, syn_ack, ack]
}

fn data_number() -> impl Strategy<Value = DataNumber> {
    prop_oneof![
        any::<u32>().prop_map(DataNumber::Short),
        any::<u64>().prop_map(|number| DataNumber::Long(DataSeq(number))),
    ]
}

fn mapping() -> impl Strategy<Value = Mapping> {
    let rest = any::<(u32, u16, Option<u16>)>();
    (data_number(), rest).prop_map(|(data_seq, (subflow_seq, len, checksum))| Mapping {
        data_seq,
        subflow_seq,
        len,
        checksum,
    })
}

fn dss() -> impl Strategy<Value = Dss> {
    (any::<bool>(), of(data_number()), of(mapping())).prop_map(|(data_fin, data_ack, mapping)| {
        Dss::default()
            .with_data_ack(data_ack)
            .with_mapping(mapping)
            .with_data_fin(data_fin)
    })
}

fn signalled_address() -> impl Strategy<Value = SignalledAddress> {
    let rest = any::<(u8, Option<u16>, Option<u64>)>();
    (address(), rest).prop_map(|(address, (id, port, truncated_hmac))| SignalledAddress {
        id,
        address,
        port,
        truncated_hmac,
    })
}

pub fn mptcp_option() -> impl Strategy<Value = MptcpOption> {
    prop_oneof![
        capable().prop_map(MptcpOption::Capable),
        join().prop_map(MptcpOption::Join),
        dss().prop_map(MptcpOption::Dss),
        signalled_address().prop_map(|it| MptcpOption::AddAddress(Box::new(it))),
        vec(any::<u8>(), 1..=37)
            .prop_map(|ids| MptcpOption::RemoveAddress(ids.into_iter().collect())),
        any::<bool>().prop_map(|backup| MptcpOption::Priority { backup }),
        any::<u64>().prop_map(|number| MptcpOption::Fail {
            data_seq: DataSeq(number)
        }),
        any::<u64>().prop_map(|receiver_key| MptcpOption::FastClose { receiver_key }),
        (0..16u8, any::<u8>())
            .prop_map(|(flags, code)| MptcpOption::Reset(ResetReason { flags, code })),
    ]
}

pub fn mptcp_option_v0() -> impl Strategy<Value = MptcpOptionV0> {
    let capable = (0..16u8, any::<(u8, u64, Option<u64>)>()).prop_map(
        |(version, (flags, sender_key, receiver_key))| MptcpOptionV0::Capable {
            version,
            flags,
            sender_key,
            receiver_key,
        },
    );
    let add_address = (address(), any::<(u8, Option<u16>)>())
        .prop_map(|(address, (id, port))| MptcpOptionV0::AddAddress { id, address, port });
    let priority = any::<(bool, Option<u8>)>()
        .prop_map(|(backup, address_id)| MptcpOptionV0::Priority { backup, address_id });
    prop_oneof![
        capable,
        join().prop_map(MptcpOptionV0::Join),
        dss().prop_map(MptcpOptionV0::Dss),
        add_address,
        vec(any::<u8>(), 1..=37)
            .prop_map(|ids| MptcpOptionV0::RemoveAddress(ids.into_iter().collect())),
        priority,
        any::<u64>().prop_map(|number| MptcpOptionV0::Fail {
            data_seq: DataSeq(number)
        }),
        any::<u64>().prop_map(|receiver_key| MptcpOptionV0::FastClose { receiver_key }),
    ]
}

/// Options that fit into a segment.
pub fn tcp_options() -> impl Strategy<Value = TcpOptions> {
    let timestamps = of(any::<(u32, u32)>())
        .prop_map(|stamps| stamps.map(|(value, echo)| Timestamps { value, echo }));
    let block = any::<(u32, u32)>().prop_map(|(start, end)| SackBlock {
        start: SeqNr(start),
        end: SeqNr(end),
    });
    let (sack, mptcp) = (vec(block, 0..=4), vec(mptcp_option(), 0..=3));
    let rest = any::<(Option<u16>, Option<u8>, bool)>();
    (timestamps, sack, mptcp, rest).prop_map(
        |(timestamps, sack, mptcp, (mss, window_scale, sack_permitted))| {
            fitting(TcpOptions {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack: sack.into_iter().collect(),
                mptcp: mptcp.into_iter().collect(),
            })
        },
    )
}

/// Drops options from the end until the rest fits.
fn fitting(mut options: TcpOptions) -> TcpOptions {
    while options.wire_len() > MAX_OPTIONS_LEN {
        if options.sack.pop().is_none() {
            let kept = options.mptcp.len() - 1;
            options.mptcp = options.mptcp.iter().take(kept).cloned().collect();
        }
    }
    options
}

fn segment() -> impl Strategy<Value = Segment> {
    let header = any::<(u16, u16, u32, u32, u8, u16)>();
    (header, tcp_options(), payload()).prop_map(|(header, options, payload)| {
        let (source_port, destination_port, seq, ack, flags, window) = header;
        Segment {
            source_port,
            destination_port,
            seq: SeqNr(seq),
            ack: SeqNr(ack),
            flags: Flags(flags),
            window,
            options,
            payload,
        }
    })
}

pub fn packet() -> impl Strategy<Value = Packet> {
    let hops = vec(any::<Ipv4Addr>(), 0..=9);
    (addresses(), hops, ecn(), segment()).prop_map(|((source, destination), hops, ecn, segment)| {
        Packet {
            source,
            destination,
            ecn,
            via: if source.is_ipv4() {
                hops.into_iter().collect()
            } else {
                Hops::new()
            },
            segment,
        }
    })
}

pub fn udp_packet() -> impl Strategy<Value = UdpPacket> {
    (addresses(), ecn(), any::<(u16, u16)>(), payload()).prop_map(
        |((source, destination), ecn, (source_port, destination_port), payload)| UdpPacket {
            source,
            destination,
            ecn,
            source_port,
            destination_port,
            payload,
        },
    )
}
