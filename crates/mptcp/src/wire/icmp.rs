//! ICMP errors (RFC 792; RFC 4443, section 3): what a router, or the other host, says of a packet of ours that it did not pass on.

use std::net::{IpAddr, SocketAddr};

use super::checksum::Sum;
use super::error::{Header, ParseError};
use super::fields::{u16_at, u32_at};
use super::ip::{IpHeader, Ipv4View, Ipv6View};
use super::tcp::TCP_PROTOCOL;
use crate::seq::SeqNr;

/// Bytes before the packet that is quoted.
const ICMP_HEADER_LEN: usize = 8;
/// What is quoted of TCP at least: ports and sequence number.
const QUOTED_LEN: usize = 8;
const ICMP_PROTOCOL: u8 = 1;
const ICMPV6_PROTOCOL: u8 = 58;

/// MTUs that were common when routers did not say theirs (RFC 1191, section 7.1), largest first.
const PLATEAUS_BYTES: [u32; 10] = [
    65_535, 32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296,
];

/// An error that a packet of TCP met with on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What is wrong.
    pub problem: Problem,
    /// Who sent the packet: the one who is told.
    pub sender: SocketAddr,
    /// Whom it was for.
    pub receiver: SocketAddr,
    /// Its sequence number.
    pub seq: SeqNr,
}

/// What kept a packet from its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It was longer than what the next link takes, and was not to be divided.
    TooBig {
        /// What that takes, IP header included; the next smaller usual size where a router does not say it (RFC 1191, section 5).
        mtu_bytes: u32,
    },
    /// Nobody takes it: its receiver has no such port, or no TCP ("hard" errors of RFC 9293, section 3.9.2.2).
    Refused,
    /// No way led on, which may change (the "soft" ones).
    Unreachable,
}

impl IcmpError {
    /// Reads a packet. Messages that are no errors, and what else there is of errors, are none: a Source Quench, too (RFC 6633).
    ///
    /// # Errors
    /// It is no whole, unharmed message of one of these problems about TCP.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        match bytes.first().map(|first| first >> 4) {
            Some(6) => Self::parse_v6(bytes),
            _ => Self::parse_v4(bytes),
        }
    }

    fn parse_v4(bytes: &[u8]) -> Result<Self, ParseError> {
        let (_, message) = IpHeader::parse(bytes, ICMP_PROTOCOL)?;
        let message = &bytes[message];
        let (header, quoted) = Header::Icmp.split::<ICMP_HEADER_LEN>(message)?;
        check(Sum::new(), message)?;
        let quoted = Ipv4View::from_prefix(quoted)?;
        let packet_len = quoted.header_len() + quoted.payload_len();
        let problem = match (header[0], header[1]) {
            (3, 4) => Problem::TooBig {
                mtu_bytes: match u16_at(header, 6) {
                    0 => plateau_below(packet_len),
                    mtu_bytes => mtu_bytes.into(),
                },
            },
            (3, 2 | 3) => Problem::Refused,
            (3 | 11, _) => Problem::Unreachable,
            (kind, _) => return Err(ParseError::NoError { kind }),
        };
        let (source, destination) = (quoted.source().into(), quoted.destination().into());
        let ends = (source, destination);
        Self::about(problem, ends, quoted.protocol(), quoted.payload())
    }

    fn parse_v6(bytes: &[u8]) -> Result<Self, ParseError> {
        let (ip, message) = IpHeader::parse(bytes, ICMPV6_PROTOCOL)?;
        let message = &bytes[message];
        let (header, quoted) = Header::Icmp.split::<ICMP_HEADER_LEN>(message)?;
        let sum = Sum::of_pseudo_header(ip.source, ip.destination, ICMPV6_PROTOCOL, message.len());
        check(sum, message)?;
        let problem = match (header[0], header[1]) {
            (2, _) => Problem::TooBig {
                mtu_bytes: u32_at(header, 4),
            },
            (1, 4) | (4, 1) => Problem::Refused,
            (1 | 3, _) => Problem::Unreachable,
            (kind, _) => return Err(ParseError::NoError { kind }),
        };
        let quoted = Ipv6View::from_prefix(quoted)?;
        let ends = (quoted.source().into(), quoted.destination().into());
        Self::about(problem, ends, quoted.protocol(), quoted.payload())
    }

    fn about(
        problem: Problem,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
        transport: &[u8],
    ) -> Result<Self, ParseError> {
        if protocol != TCP_PROTOCOL {
            return Err(ParseError::Protocol {
                found: protocol,
                expected: TCP_PROTOCOL,
            });
        }
        let (quoted, _) = Header::Tcp.split::<QUOTED_LEN>(transport)?;
        Ok(Self {
            problem,
            sender: SocketAddr::new(source, u16_at(quoted, 0)),
            receiver: SocketAddr::new(destination, u16_at(quoted, 2)),
            seq: SeqNr(u32_at(quoted, 4)),
        })
    }
}

fn check(mut sum: Sum, message: &[u8]) -> Result<(), ParseError> {
    sum.add_bytes(message);
    match sum.is_right() {
        true => Ok(()),
        false => Err(ParseError::Checksum {
            header: Header::Icmp,
        }),
    }
}

/// The largest usual MTU that is too small for a packet.
fn plateau_below(packet_bytes: usize) -> u32 {
    let mut plateaus = PLATEAUS_BYTES.into_iter();
    let below = plateaus.find(|plateau| (*plateau as usize) < packet_bytes);
    below.unwrap_or(0)
}
