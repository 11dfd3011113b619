//! ICMP errors: which are parsed and which are ignored.

use mptcp::seq::SeqNr;
use mptcp::wire::checksum::Sum;
use mptcp::wire::{Header, IcmpError, ParseError, Problem};

/// The first bytes of a packet of 1500 bytes from 10.1.1.1:4000 to 10.1.1.2:5001.
const SENT_V4: [u8; 28] = [
    0x45, 0, 0x05, 0xdc, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 1, 1, 1, 10, 1, 1, 2, //
    0x0f, 0xa0, 0x13, 0x89, 0, 0, 1, 2,
];
/// Its router, 10.1.1.254.
const ROUTER_V4: [u8; 4] = [10, 1, 1, 254];

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = Sum::new();
    parts.iter().for_each(|part| sum.add_bytes(part));
    sum.checksum().to_be_bytes()
}

/// Returns a message with that type and code, the second half of its header, and the quoted bytes.
fn message_v4(kind: u8, code: u8, rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0], rest.as_slice(), quoted].concat();
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum);
    let mut header = vec![
        0x45,
        0,
        0,
        (20 + message.len()) as u8,
        0,
        0,
        0,
        0,
        64,
        1,
        0,
        0,
    ];
    header.extend(ROUTER_V4);
    header.extend([10, 1, 1, 1]);
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    [header, message].concat()
}

fn message_v6(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
    let [source, destination, router] = [1u8, 2, 254].map(|host| {
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, host);
        address
    });
    let sent = [
        &[0x60, 0, 0, 0, 0x05, 0xb4, 6, 64],
        source.as_slice(),
        &destination,
        &SENT_V4[20..],
    ]
    .concat();
    let mut message = [&[kind, code, 0, 0], rest.as_slice(), &sent].concat();
    let pseudo_header = [0, 0, 0, message.len() as u8, 0, 0, 0, 58];
    let sum = checksum(&[&router, &source, &pseudo_header, &message]);
    message[2..4].copy_from_slice(&sum);
    let header = [0x60, 0, 0, 0, 0, message.len() as u8, 58, 64];
    [header.as_slice(), &router, &source, &message].concat()
}

fn problem(bytes: &[u8]) -> Option<Problem> {
    let error = IcmpError::parse(bytes).ok()?;
    assert_eq!((error.sender.port(), error.receiver.port()), (4000, 5001));
    assert_eq!(error.seq, SeqNr(0x102));
    Some(error.problem)
}

#[test]
fn problems_of_ipv4() {
    let too_big = |mtu_bytes| Some(Problem::TooBig { mtu_bytes });
    let said = [0, 0, 0x05, 0];
    for (kind, code, rest, expected) in [
        (3, 4, said, too_big(1280)),
        // RFC 1191, section 7.1.
        (3, 4, [0; 4], too_big(1492)),
        (3, 2, [0; 4], Some(Problem::Refused)),
        (3, 3, [0; 4], Some(Problem::Refused)),
        (3, 0, [0; 4], Some(Problem::Unreachable)),
        (11, 0, [0; 4], Some(Problem::Unreachable)),
        // Source Quench (RFC 6633), Redirect, and Echo Reply.
        (4, 0, [0; 4], None),
        (5, 0, [0; 4], None),
        (0, 0, [0; 4], None),
    ] {
        let bytes = message_v4(kind, code, rest, &SENT_V4);
        assert_eq!(problem(&bytes), expected, "type {kind}, code {code}");
    }
}

#[test]
fn problems_of_ipv6() {
    let mtu_bytes = 1280;
    for (kind, code, rest, expected) in [
        (2, 0, [0, 0, 0x05, 0], Some(Problem::TooBig { mtu_bytes })),
        (1, 4, [0; 4], Some(Problem::Refused)),
        (4, 1, [0; 4], Some(Problem::Refused)),
        (1, 0, [0; 4], Some(Problem::Unreachable)),
        (3, 0, [0; 4], Some(Problem::Unreachable)),
        (128, 0, [0; 4], None),
    ] {
        let bytes = message_v6(kind, code, rest);
        assert_eq!(problem(&bytes), expected, "type {kind}, code {code}");
    }
}

#[test]
fn what_is_quoted_has_to_say_whose_it_is() {
    let too_short = message_v4(3, 3, [0; 4], &SENT_V4[..27]);
    let header = Header::Tcp;
    let (found_bytes, needed_bytes) = (7, 8);
    assert_eq!(
        IcmpError::parse(&too_short),
        Err(ParseError::Truncated {
            header,
            found_bytes,
            needed_bytes
        })
    );
    let mut udp = SENT_V4;
    udp[9] = 17;
    let (found, expected) = (17, 6);
    assert_eq!(
        IcmpError::parse(&message_v4(3, 3, [0; 4], &udp)),
        Err(ParseError::Protocol { found, expected })
    );
}

#[test]
fn a_harmed_message_says_nothing() {
    for whole in [message_v4(3, 3, [0; 4], &SENT_V4), message_v6(1, 4, [0; 4])] {
        for at in 0..whole.len() {
            let mut harmed = whole.clone();
            harmed[at] ^= 0x10;
            let same = at < 40
                && whole[0] == 0x60
                && IcmpError::parse(&harmed) == IcmpError::parse(&whole);
            assert!(same || IcmpError::parse(&harmed).is_err(), "byte {at}");
        }
        for len in 0..whole.len() {
            assert!(IcmpError::parse(&whole[..len]).is_err(), "{len} bytes");
        }
    }
}
