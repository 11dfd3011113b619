//! An IP packet that carries a TCP segment.

use std::net::IpAddr;
use std::sync::Arc;

use super::IgnoredOptions;
use super::error::ParseError;
use super::ip::{Ecn, Hops, IpHeader, header_len};
use super::segment::{Segment, check};
use super::tcp::TCP_PROTOCOL;
use crate::payload::Payload;

/// A segment with the IP fields that matter to it. Both addresses are of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sends.
    pub source: IpAddr,
    /// Who receives, at the end of the route.
    pub destination: IpAddr,
    /// What routers say of congestion.
    pub ecn: Ecn,
    /// Routers that it has to pass on its way, only over IPv4.
    pub via: Hops,
    /// The segment.
    pub segment: Segment,
}

impl Packet {
    /// Reads a packet; its payload is a part of `bytes`, not a copy. Extension headers of IPv6 and options of IPv4 other than
    /// the source route are stepped over.
    ///
    /// # Errors
    /// It is no whole, unharmed packet of TCP.
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

    /// Appends the packet's bytes, checksums included.
    ///
    /// # Panics
    /// The addresses are not of one family, there are hops over IPv6, the options take more than
    /// [`MAX_OPTIONS_LEN`](super::MAX_OPTIONS_LEN) bytes, or the packet is longer than IP allows.
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

    /// Bytes of the packet, IP header included.
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
