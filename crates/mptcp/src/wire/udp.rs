//! UDP (RFC 768): a view of the header, and packets as values.

use std::net::IpAddr;
use std::sync::Arc;

use super::checksum::Sum;
use super::error::{Header, ParseError};
use super::fields::u16_at;
use super::ip::{Ecn, Hops, IpHeader, header_len};
use crate::payload::Payload;

/// Bytes of a UDP header.
const UDP_HEADER_LEN: usize = 8;
/// The protocol number of UDP in IP.
pub const UDP_PROTOCOL: u8 = 17;

/// A borrowed UDP datagram. Lengths are checked once at creation, so the accessors cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a> {
    header: &'a [u8; UDP_HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Creates a view of the datagram at the start of `bytes`. Ignores bytes after its end.
    ///
    /// # Errors
    /// Fails if the datagram is longer than `bytes`, or if its length field is too small.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = Header::Udp.split(bytes)?;
        let len = usize::from(u16_at(header, 4));
        let payload_len = Header::Udp.len_after(len, UDP_HEADER_LEN)?;
        Header::Udp.check_len(bytes.len(), len)?;
        Ok(Self {
            header,
            payload: &rest[..payload_len],
        })
    }

    /// Returns the port of the sender.
    pub fn source_port(&self) -> u16 {
        u16_at(self.header, 0)
    }

    /// Returns the port of the receiver.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.header, 2)
    }

    /// Returns whether the checksum is correct for a datagram from `source` to `destination`.
    ///
    /// Over IPv4, a datagram with a checksum of zero has no checksum, which counts as correct. Over
    /// IPv6, the checksum is mandatory (RFC 8200, section 8.1).
    pub fn is_checksum_right(&self, source: IpAddr, destination: IpAddr) -> bool {
        let len = UDP_HEADER_LEN + self.payload.len();
        let mut sum = Sum::of_pseudo_header(source, destination, UDP_PROTOCOL, len);
        sum.add_bytes(self.header);
        sum.add_bytes(self.payload);
        match u16_at(self.header, 6) {
            0 => source.is_ipv4(),
            _ => sum.is_right(),
        }
    }

    /// Returns the bytes of the payload.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An IP packet that carries a UDP datagram. Both addresses are of the same family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpPacket {
    /// The address of the sender.
    pub source: IpAddr,
    /// The address of the receiver.
    pub destination: IpAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub destination_port: u16,
    /// The bytes after the UDP header.
    pub payload: Payload,
}

impl UdpPacket {
    /// Parses `bytes`, an IP packet that carries a UDP datagram. The payload shares `bytes` instead
    /// of copying them.
    ///
    /// # Errors
    /// Fails if the packet is truncated or fragmented, if a checksum is wrong, or if it is not UDP.
    pub fn parse(bytes: &Arc<[u8]>) -> Result<Self, ParseError> {
        let (ip, transport) = IpHeader::parse(bytes, UDP_PROTOCOL)?;
        let view = UdpView::new(&bytes[transport.clone()])?;
        if !view.is_checksum_right(ip.source, ip.destination) {
            return Err(ParseError::Checksum {
                header: Header::Udp,
            });
        }
        let start = transport.start + UDP_HEADER_LEN;
        Ok(Self {
            source: ip.source,
            destination: ip.destination,
            ecn: ip.ecn,
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload: Payload::shared(bytes, start..start + view.payload().len()),
        })
    }

    /// Appends the bytes of the packet to `to`, including checksums.
    ///
    /// # Panics
    /// Panics if the addresses are of different families, or if the packet is too long for IP.
    pub fn emit(&self, to: &mut Vec<u8>) {
        let len = UDP_HEADER_LEN + self.payload.len() as usize;
        let ip = IpHeader {
            source: self.source,
            destination: self.destination,
            ecn: self.ecn,
            via: Hops::new(),
        };
        ip.emit(UDP_PROTOCOL, len, to);
        let start = to.len();
        to.extend_from_slice(&self.source_port.to_be_bytes());
        to.extend_from_slice(&self.destination_port.to_be_bytes());
        to.extend_from_slice(&(len as u16).to_be_bytes());
        to.extend_from_slice(&[0, 0]);
        self.payload.append_to(to);
        let mut sum = Sum::of_pseudo_header(self.source, self.destination, UDP_PROTOCOL, len);
        sum.add_bytes(&to[start..]);
        // A checksum of zero would mean that there is none. Its complement represents the same sum.
        let checksum = match sum.checksum() {
            0 => u16::MAX,
            checksum => checksum,
        };
        to[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Returns the length of the packet in bytes, including the headers of IP and UDP.
    pub fn wire_len(&self) -> usize {
        header_len(self.source, &Hops::new()) + UDP_HEADER_LEN + self.payload.len() as usize
    }
}
