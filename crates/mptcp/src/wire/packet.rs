//! An IP packet that carries a TCP segment.

use std::net::IpAddr;
use std::sync::Arc;

use super::IgnoredOptions;
use super::error::ParseError;
use super::ip::{Ecn, Hops, IpHeader, header_len};
use super::segment::{Segment, check};
use super::tcp::TCP_PROTOCOL;
use crate::payload::Payload;

/// A TCP segment with the IP fields that TCP needs. Both addresses are of the same family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The address of the sender.
    pub source: IpAddr,
    /// The address of the final destination.
    pub destination: IpAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The routers that the packet must pass, in order. Empty over IPv6.
    pub via: Hops,
    /// The TCP segment.
    pub segment: Segment,
}

impl Packet {
    /// Parses `bytes`, an IP packet. Returns the packet and the number of TCP options that were
    /// ignored. The payload shares `bytes` instead of copying them.
    ///
    /// Skips extension headers of IPv6, and options of IPv4 other than the source route.
    ///
    /// # Errors
    /// Fails if the packet is truncated or fragmented, if a checksum is wrong, or if it is not TCP.
    pub fn parse(bytes: &Arc<[u8]>) -> Result<(Self, IgnoredOptions), ParseError> {
        let (ip, transport) = IpHeader::parse(bytes, TCP_PROTOCOL)?;
        let view = check(&bytes[transport.clone()], ip.source, ip.destination)?;
        let payload = transport.start + view.header_len()..transport.end;
        let (segment, ignored) = Segment::of_view(&view, Payload::shared(bytes, payload));
        let packet = Self {
            source: ip.source,
            destination: ip.destination,
            ecn: ip.ecn,
            via: ip.via,
            segment,
        };
        Ok((packet, ignored))
    }

    /// Appends the bytes of the packet to `to`, including checksums.
    ///
    /// # Panics
    /// Panics if the addresses are of different families, if there are hops over IPv6, if the
    /// options exceed [`MAX_OPTIONS_LEN`](super::MAX_OPTIONS_LEN) bytes, or if the packet is too
    /// long for IP.
    pub fn emit(&self, to: &mut Vec<u8>) {
        let ip = IpHeader {
            source: self.source,
            destination: self.destination,
            ecn: self.ecn,
            via: self.via.clone(),
        };
        let options = self.segment.options.emit();
        ip.emit(TCP_PROTOCOL, self.segment.len_with(&options), to);
        self.segment
            .emit(&options, self.source, self.destination, to);
    }

    /// Returns the length of the packet in bytes, including the IP header and the TCP header with
    /// options.
    pub fn wire_len(&self) -> usize {
        header_len(self.source, &self.via) + self.segment.wire_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{MptcpOptions, TcpOptions};

    #[test]
    fn what_is_moved_with_each_packet_is_small() {
        assert!(size_of::<MptcpOptions>() <= 32);
        assert!(size_of::<TcpOptions>() <= 88);
        assert!(size_of::<Segment>() <= 136);
        assert!(size_of::<Packet>() <= 184);
    }
}
