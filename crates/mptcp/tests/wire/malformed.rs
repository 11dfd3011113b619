//! What is refused, what is ignored, and what is reported about it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use mptcp::payload::Payload;
use mptcp::seq::SeqNr;
use mptcp::wire::checksum::Sum;
use mptcp::wire::{
    Ecn, Flags, Header, Hops, IgnoredOptions, Ipv4View, MptcpOption, MptcpOptionV0, OptionError,
    Packet, ParseError, Segment, TCP_PROTOCOL, TcpOptions, TcpView, UdpPacket,
};
use proptest::prelude::*;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 2));
const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 1, 1, 0, 0, 0, 0, 1));
const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 1, 1, 0, 0, 0, 0, 2));

fn packet(source: IpAddr, destination: IpAddr) -> Packet {
    Packet {
        source,
        destination,
        ecn: Ecn::Capable0,
        via: Hops::new(),
        segment: Segment {
            source_port: 4000,
            destination_port: 5001,
            seq: SeqNr(1),
            ack: SeqNr(2),
            flags: Flags::ACK | Flags::PSH,
            window: 512,
            options: TcpOptions::default(),
            payload: Payload::stream(1, 0, 100),
        },
    }
}

fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    bytes
}

fn parse(bytes: Vec<u8>) -> Result<Packet, ParseError> {
    Packet::parse(&Arc::from(bytes)).map(|(packet, _)| packet)
}

/// Writes the correct checksum of IPv4 into a changed header.
fn mend(bytes: &mut [u8]) {
    let header_len = usize::from(bytes[0] & 0x0f) * 4;
    bytes[10..12].fill(0);
    let mut sum = Sum::new();
    sum.add_bytes(&bytes[..header_len]);
    bytes[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
}

/// Returns the options of a segment whose option space has these bytes.
fn options_of(bytes: &[u8]) -> (TcpOptions, IgnoredOptions) {
    let len = bytes.len().next_multiple_of(4);
    let mut segment = vec![0; 20 + len];
    segment[12] = (((20 + len) / 4) << 4) as u8;
    segment[20..20 + bytes.len()].copy_from_slice(bytes);
    TcpOptions::parse(TcpView::new(&segment).unwrap().options())
}

fn ignored(unknown: u8, malformed: u8, surplus: u8) -> IgnoredOptions {
    IgnoredOptions {
        unknown,
        malformed,
        surplus,
    }
}

#[test]
fn fragments_are_refused_by_name() {
    for flags_and_offset in [0x2000u16, 0x0001] {
        let mut bytes = bytes_of(&packet(CLIENT, SERVER));
        bytes[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
        mend(&mut bytes);
        assert_eq!(parse(bytes), Err(ParseError::Fragment));
    }
}

#[test]
fn a_changed_ip_header_is_noticed() {
    let mut bytes = bytes_of(&packet(CLIENT, SERVER));
    bytes[8] -= 1;
    let header = Header::Ipv4;
    assert_eq!(parse(bytes), Err(ParseError::Checksum { header }));
}

#[test]
fn other_transports_and_versions_are_named() {
    let mut bytes = bytes_of(&packet(CLIENT, SERVER));
    let error = UdpPacket::parse(&Arc::from(bytes.clone())).unwrap_err();
    assert_eq!(error.to_string(), "IP protocol 6, expected 17");
    bytes[0] = 0x50;
    assert_eq!(parse(bytes), Err(ParseError::Version { found: 5 }));
}

#[test]
fn impossible_lengths_are_refused() {
    let mut bytes = bytes_of(&packet(CLIENT, SERVER));
    bytes[32] = 0x40;
    let error = parse(bytes.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "TCP: a length of 16 bytes, at least 20 are allowed"
    );
    bytes[2..4].copy_from_slice(&19u16.to_be_bytes());
    mend(&mut bytes);
    let error = parse(bytes.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "IPv4: a length of 19 bytes, at least 20 are allowed"
    );
    bytes[2..4].copy_from_slice(&1000u16.to_be_bytes());
    mend(&mut bytes);
    let error = parse(bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "IPv4: 140 bytes, where the header asks for 1000"
    );
}

/// Returns the packet with extension headers before its segment.
fn extended(packet: &Packet, first: u8, extensions: &[u8]) -> Vec<u8> {
    let mut bytes = bytes_of(packet);
    let payload_len = (bytes.len() - 40 + extensions.len()) as u16;
    bytes[4..6].copy_from_slice(&payload_len.to_be_bytes());
    bytes[6] = first;
    bytes.splice(40..40, extensions.iter().copied());
    bytes
}

#[test]
fn extension_headers_are_stepped_over() {
    let packet = packet(CLIENT_V6, SERVER_V6);
    // Hop-by-hop options of 8 bytes, destination options of 16, an atomic fragment.
    let mut extensions = [0; 32];
    extensions[0] = 60;
    extensions[8..10].copy_from_slice(&[44, 1]);
    extensions[24] = TCP_PROTOCOL;
    let bytes = extended(&packet, 0, &extensions);
    assert_eq!(parse(bytes.clone()), Ok(packet.clone()));
    let error = parse(bytes[..80].to_vec()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "IPv6: 80 bytes, where the header asks for 192"
    );
    extensions[27] = 1;
    assert_eq!(
        parse(extended(&packet, 0, &extensions)),
        Err(ParseError::Fragment)
    );
}

#[test]
fn an_extension_header_beyond_the_packet_is_refused() {
    let bytes = extended(
        &packet(CLIENT_V6, SERVER_V6),
        60,
        &[6, 255, 0, 0, 0, 0, 0, 0],
    );
    let truncated = ParseError::Truncated {
        header: Header::Ipv6Extension,
        found_bytes: 128,
        needed_bytes: 2048,
    };
    assert_eq!(parse(bytes), Err(truncated));
}

#[test]
fn a_source_route_names_the_first_hop_before_the_receiver() {
    let hop = |last| Ipv4Addr::new(10, 9, 9, last);
    let packet = Packet {
        via: [hop(1), hop(2)].into_iter().collect(),
        ..packet(CLIENT, SERVER)
    };
    let mut bytes = bytes_of(&packet);
    let view = Ipv4View::new(&bytes).unwrap();
    assert_eq!(view.destination(), hop(1));
    let option = [4, 10, 9, 9, 2, 10, 1, 1, 2];
    assert_eq!(view.options().collect::<Vec<_>>(), [(131, &option[..])]);
    // Hop 1 forwards it as RFC 791 requires: the next address goes into the header, the hop's own
    // into the list.
    bytes[16..20].copy_from_slice(&hop(2).octets());
    bytes[23] = 8;
    bytes[24..28].copy_from_slice(&hop(1).octets());
    mend(&mut bytes);
    let arrived = parse(bytes).unwrap();
    assert_eq!(
        (arrived.destination, &arrived.via[..]),
        (SERVER, &[hop(2)][..])
    );
}

#[test]
fn other_options_of_ip_are_stepped_over() {
    let packet = packet(CLIENT, SERVER);
    let mut bytes = bytes_of(&packet);
    // Router alert (RFC 2113).
    bytes.splice(20..20, [148, 4, 0, 0]);
    bytes[0] = 0x46;
    bytes[3] += 4;
    mend(&mut bytes);
    assert_eq!(parse(bytes), Ok(packet));
}

#[test]
fn options_of_unknown_kind_or_subtype_are_counted() {
    let (options, counted) = options_of(&[254, 4, 1, 2, 30, 4, 0xf0, 0, 2, 4, 5, 180]);
    assert_eq!(options.mss, Some(1460));
    assert_eq!(counted, ignored(2, 0, 0));
}

#[test]
fn options_of_wrong_length_are_ignored_and_counted() {
    // MSS of five bytes, MP_CAPABLE of five, SACK without a block, REMOVE_ADDR without an ID, and
    // then a window scale.
    let bytes = [2, 5, 0, 0, 0, 30, 5, 0x01, 1, 0, 5, 2, 30, 3, 0x40, 3, 3, 7];
    let (options, counted) = options_of(&bytes);
    let expected = TcpOptions {
        window_scale: Some(7),
        ..TcpOptions::default()
    };
    assert_eq!((options, counted), (expected, ignored(0, 4, 0)));
}

#[test]
fn what_follows_an_impossible_length_is_lost() {
    for len in [0, 1, 40] {
        let (options, counted) = options_of(&[2, 4, 5, 180, 8, len, 3, 3, 7]);
        assert_eq!(options.mss, Some(1460));
        assert_eq!(options.window_scale, None);
        assert_eq!(counted, ignored(0, 1, 0));
    }
}

#[test]
fn the_first_of_repeated_options_counts() {
    let bytes = [
        2, 4, 5, 180, 2, 4, 1, 1, 4, 2, 4, 2, 30, 3, 0x50, 30, 3, 0x51, 30, 3, 0x50, 30, 3, 0x50,
    ];
    let (options, counted) = options_of(&bytes);
    assert_eq!(options.mss, Some(1460));
    let backup = |backup| MptcpOption::Priority { backup };
    assert_eq!(
        options.mptcp[..],
        [backup(false), backup(true), backup(false)]
    );
    assert_eq!(counted, ignored(0, 0, 3));
}

#[test]
fn nothing_counts_after_the_end_of_the_list() {
    let (options, counted) = options_of(&[0, 2, 4, 5, 180]);
    assert_eq!((options, counted), Default::default());
}

#[test]
fn options_packed_without_padding_can_be_written_again() {
    // Timestamps, two SACK blocks and a DSS with a long DATA_ACK are 40 bytes; with padding they
    // would be 44.
    let mut bytes = vec![8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 5, 18];
    bytes.extend([0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6]);
    bytes.extend([30, 12, 0x20, 0x03, 1, 2, 3, 4, 5, 6, 7, 8]);
    let (options, counted) = options_of(&bytes);
    assert!(counted.is_none());
    assert_eq!((options.aligned_len(), options.wire_len()), (44, 40));
    assert_eq!(options.emit()[..], bytes);
}

#[test]
fn an_address_has_an_hmac_if_and_only_if_it_is_no_echo() {
    let mut announced = [0x30, 1, 10, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8];
    assert!(MptcpOption::parse(&announced).is_ok());
    announced[0] |= 1;
    let echo_with_hmac = MptcpOption::parse(&announced);
    assert_eq!(echo_with_hmac, Err(OptionError::Malformed));
    let no_hmac = MptcpOption::parse(&[0x30, 1, 10, 0, 0, 1]);
    assert_eq!(no_hmac, Err(OptionError::Malformed));
}

#[test]
fn an_address_of_version_0_has_the_length_of_its_family() {
    let parse = MptcpOptionV0::parse;
    assert!(parse(&[0x34, 1, 10, 0, 0, 1]).is_ok());
    assert_eq!(parse(&[0x36, 1, 10, 0, 0, 1]), Err(OptionError::Malformed));
    assert_eq!(parse(&[0x35, 1, 10, 0, 0, 1]), Err(OptionError::Malformed));
    // MP_TCPRST came with version 1.
    assert_eq!(parse(&[0x80, 0]), Err(OptionError::Unknown));
}

#[test]
fn a_datagram_without_checksum_is_taken_over_ipv4_only() {
    for (source, destination, ip_len) in [(CLIENT, SERVER, 20), (CLIENT_V6, SERVER_V6, 40)] {
        let packet = UdpPacket {
            source,
            destination,
            ecn: Ecn::NotCapable,
            source_port: 1,
            destination_port: 2,
            payload: Payload::literal(*b"datagram"),
        };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        bytes[ip_len + 6..ip_len + 8].fill(0);
        let is_taken = UdpPacket::parse(&Arc::from(bytes)).is_ok();
        assert_eq!(is_taken, source.is_ipv4());
    }
}

#[test]
fn the_checksum_of_a_mapping_covers_numbers_and_data() {
    // RFC 8684, section 3.3.1: the pseudo-header is 0102 0304 0506 0708, 0000 0001, 0003, 0000; the
    // data is 0a0b 0c00.
    let mut sum = Sum::of_mapping(mptcp::seq::DataSeq(0x0102_0304_0506_0708), 1, 3);
    sum.add_payload(&Payload::literal([0x0a, 0x0b, 0x0c]));
    let words = [0x0102u16, 0x0304, 0x0506, 0x0708, 1, 3, 0x0a0b, 0x0c00];
    assert_eq!(sum.checksum(), !words.iter().sum::<u16>());
    sum.add_bytes(&[0]);
    sum.add_bytes(&sum.checksum().to_be_bytes());
    assert!(sum.is_right());
}

proptest! {
    #[test]
    fn any_bytes_are_options_or_ignored(bytes in proptest::collection::vec(any::<u8>(), 0..=40)) {
        let (options, _) = options_of(&bytes);
        let (again, ignored) = options_of(&options.emit());
        prop_assert_eq!(again, options);
        prop_assert!(ignored.is_none());
    }
}
