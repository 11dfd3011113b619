//! ICMP errors (RFC 792; RFC 4443, section 3), sent by a router or the receiver of a packet that
//! was not delivered.

use std::net::{IpAddr, SocketAddr};

use super::checksum::Sum;
use super::error::{Header, ParseError};
use super::fields::{u16_at, u32_at};
use super::ip::{IpHeader, Ipv4View, Ipv6View};
use super::tcp::TCP_PROTOCOL;
use crate::seq::SeqNr;

/// Bytes before the quoted packet.
const ICMP_HEADER_LEN: usize = 8;
/// Bytes of the TCP header that an error quotes at least: ports and sequence number.
const QUOTED_LEN: usize = 8;
/// The protocol number of ICMP in IPv4.
pub const ICMP_PROTOCOL: u8 = 1;
/// The protocol number of ICMPv6 in IPv6.
pub const ICMPV6_PROTOCOL: u8 = 58;

/// Common MTUs in bytes, largest first, for routers that do not report theirs (RFC 1191, section
/// 7.1).
const PLATEAUS_BYTES: [u32; 10] = [
    65_535, 32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296,
];

/// An ICMP error about a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Why the packet was not delivered.
    pub problem: Problem,
    /// The source address and port of the TCP packet that was not delivered. The ICMP error was
    /// sent to this address.
    pub sender: SocketAddr,
    /// The destination address and port of the packet.
    pub receiver: SocketAddr,
    /// The TCP sequence number of the packet.
    pub seq: SeqNr,
}

/// Reasons why a packet was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The packet was larger than the MTU of the next link and could not be fragmented.
    TooBig {
        /// The MTU of that link in bytes, including the IP header. If the router does not report
        /// the MTU, the largest common MTU below the length of the packet (RFC 1191, section 5).
        mtu_bytes: u32,
    },
    /// The destination has no such port or does not support TCP (a "hard" error of RFC 9293,
    /// section 3.9.2.2).
    Refused,
    /// A router could not forward the packet, perhaps only temporarily: there is no route, or the
    /// hop limit was exceeded (a "soft" error of RFC 9293, section 3.9.2.2).
    Unreachable,
}

impl IcmpError {
    /// Parses `bytes`, an IP packet that contains an ICMP error about a TCP packet.
    ///
    /// # Errors
    /// Fails if the packet is truncated, fragmented or has a wrong checksum; if the message is not
    /// one of the errors of [`Problem`], such as a Source Quench (RFC 6633); or if the quoted
    /// packet is not TCP.
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

/// Returns the largest common MTU that is smaller than the packet, or 0.
fn plateau_below(packet_bytes: usize) -> u32 {
    let mut plateaus = PLATEAUS_BYTES.into_iter();
    let below = plateaus.find(|plateau| (*plateau as usize) < packet_bytes);
    below.unwrap_or(0)
}
