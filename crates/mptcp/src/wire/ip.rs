//! The headers of IPv4 (RFC 791) and IPv6 (RFC 8200).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Deref, Range};
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::checksum::Sum;
use super::error::{Header, ParseError};
use super::fields::{octets_at, u16_at};
use super::options::{NO_OPERATION, OptionsIter};

/// Bytes of an IPv4 header without options.
const IPV4_HEADER_LEN: usize = 20;
/// Bytes of an IPv6 header without extension headers.
const IPV6_HEADER_LEN: usize = 40;
/// IPv4 flag: more fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;
/// IPv4 flag: routers must not fragment the packet.
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// IPv4: bits of the fragment offset, in units of eight bytes.
const FRAGMENT_OFFSET: u16 = 0x1fff;
/// Kind of the loose source route option (RFC 791, section 3.1).
const LOOSE_SOURCE_ROUTE: u8 = 131;
/// The pointer of a loose source route before the first hop.
const FIRST_ADDRESS: u8 = 4;
/// Time to live or hop limit of packets sent (RFC 1340).
const HOP_LIMIT: u8 = 64;

/// Extension headers of IPv6 that may precede a transport header (RFC 8200, section 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// Extension headers are multiples of this length, in bytes.
const EXTENSION_UNIT: usize = 8;
/// Reserved bits next to offset and M in a fragment header (RFC 8200, section 4.5).
const FRAGMENT_RESERVED: u16 = 0x0006;

/// The routers that a packet must pass, in order: a loose source route (RFC 791, section 3.1).
///
/// Holds up to nine addresses, the number that fits into an IPv4 header, and dereferences to a
/// slice. Cloning is cheap, because all packets of a path share the same route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hops(Option<Arc<HopList>>);

type HopList = ArrayVec<Ipv4Addr, 9>;

impl Hops {
    /// Creates an empty route, with which a packet is routed by its destination alone.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Deref for Hops {
    type Target = [Ipv4Addr];

    fn deref(&self) -> &[Ipv4Addr] {
        self.0.as_ref().map_or(&[], |hops| hops)
    }
}

/// # Panics
/// Panics if there are more than nine addresses.
impl FromIterator<Ipv4Addr> for Hops {
    fn from_iter<I: IntoIterator<Item = Ipv4Addr>>(hops: I) -> Self {
        let hops: HopList = hops.into_iter().collect();
        Self((!hops.is_empty()).then(|| Arc::new(hops)))
    }
}

/// The ECN field of IP (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: the transport does not support ECN.
    #[default]
    NotCapable = 0,
    /// ECT(1): the transport supports ECN.
    Capable1 = 1,
    /// ECT(0): the transport supports ECN.
    Capable0 = 2,
    /// CE: a router experienced congestion.
    CongestionExperienced = 3,
}

impl Ecn {
    fn of_traffic_class(class: u8) -> Self {
        match class & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::CongestionExperienced,
        }
    }
}

/// A borrowed IPv4 packet. Lengths are checked once at creation, so the accessors cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    header: &'a [u8; IPV4_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Creates a view of the packet at the start of `bytes`. Ignores bytes after its end, such as
    /// Ethernet padding.
    ///
    /// # Errors
    /// Fails if the header is not a valid IPv4 header, or if the packet is longer than `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let view = Self::from_prefix(bytes)?;
        Header::Ipv4.check_len(bytes.len(), view.header_len() + view.payload_len())?;
        Ok(view)
    }

    /// Creates a view of a packet. `bytes` may hold only the first part of the packet, as in a
    /// capture. The header with its options must be complete.
    ///
    /// # Errors
    /// Fails if the header is not a valid IPv4 header or is incomplete.
    pub fn from_prefix(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = Header::Ipv4.split(bytes)?;
        check_version(header[0], 4)?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let (options, rest) = Header::Ipv4.split_options(rest, header_len, IPV4_HEADER_LEN)?;
        let total_len = usize::from(u16_at(header, 2));
        let payload_len = Header::Ipv4.len_after(total_len, header_len)?;
        Ok(Self {
            header,
            options,
            payload: &rest[..rest.len().min(payload_len)],
        })
    }

    /// Returns the address of the sender.
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(octets_at(self.header, 12))
    }

    /// Returns the address in the destination field. In a packet with a source route, this is the
    /// next hop.
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(octets_at(self.header, 16))
    }

    /// Returns the value of the ECN field.
    pub fn ecn(&self) -> Ecn {
        Ecn::of_traffic_class(self.header[1])
    }

    /// Returns the protocol number of the transport.
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Returns the length of the header in bytes, including options.
    pub fn header_len(&self) -> usize {
        IPV4_HEADER_LEN + self.options.len()
    }

    /// Returns whether the packet is a fragment.
    pub fn is_fragment(&self) -> bool {
        u16_at(self.header, 6) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Returns whether the header checksum is correct.
    #[inline]
    pub fn is_checksum_right(&self) -> bool {
        let mut sum = Sum::new();
        sum.add_bytes(self.header);
        if !self.options.is_empty() {
            sum.add_bytes(self.options);
        }
        sum.is_right()
    }

    /// Returns the options as pairs of kind and value.
    pub fn options(&self) -> OptionsIter<'a> {
        OptionsIter::new(self.options)
    }

    /// Returns the length of the payload in bytes, as stated in the header. If the packet is
    /// truncated, this is more than [`Ipv4View::payload`] returns.
    pub fn payload_len(&self) -> usize {
        // The total length is at least the header length, which was checked at creation.
        usize::from(u16_at(self.header, 2)).saturating_sub(self.header_len())
    }

    /// Returns the bytes of the payload that are present.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the final destination and the remaining hops, [`Ipv4View::destination`] first. An
    /// option whose pointer does not point to the start of an address is ignored.
    #[inline]
    fn route(&self) -> (Ipv4Addr, Hops) {
        let next = self.destination();
        let mut ahead = self
            .options()
            .find(|(kind, _)| *kind == LOOSE_SOURCE_ROUTE)
            .and_then(|(_, content)| addresses_ahead(content))
            .unwrap_or_default();
        match ahead.pop() {
            None => (next, Hops::new()),
            Some(last) => (last, [next].into_iter().chain(ahead).collect()),
        }
    }
}

/// Returns the addresses of a loose source route that were not reached yet.
fn addresses_ahead(content: &[u8]) -> Option<HopList> {
    let (pointer, addresses) = content.split_first()?;
    let reached = usize::from(pointer.checked_sub(FIRST_ADDRESS)?);
    let (ahead, []) = addresses.get(reached..)?.as_chunks::<4>() else {
        return None;
    };
    Some(ahead.iter().map(|octets| Ipv4Addr::from(*octets)).collect())
}

/// A borrowed IPv6 packet. Lengths are checked once at creation, so the accessors cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6View<'a> {
    header: &'a [u8; IPV6_HEADER_LEN],
    extensions_len: usize,
    protocol: u8,
    payload: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// Creates a view of the packet at the start of `bytes`. Ignores bytes after its end, such as
    /// Ethernet padding.
    ///
    /// # Errors
    /// Fails if the header is not a valid IPv6 header, if the packet is longer than `bytes`, or if
    /// it is a fragment.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let view = Self::from_prefix(bytes)?;
        Header::Ipv6.check_len(bytes.len(), view.header_len() + view.payload_len())?;
        Ok(view)
    }

    /// Creates a view of a packet. `bytes` may hold only the first part of the packet, as in a
    /// capture. The header and the extension headers must be complete.
    ///
    /// # Errors
    /// Fails if the header is not a valid IPv6 header, if header or extension headers are
    /// incomplete, or if the packet is a fragment.
    pub fn from_prefix(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = Header::Ipv6.split(bytes)?;
        check_version(header[0], 6)?;
        let len = usize::from(u16_at(header, 4));
        let rest = &rest[..rest.len().min(len)];
        let (protocol, payload) = skip_extensions(header[6], rest)?;
        Ok(Self {
            header,
            extensions_len: rest.len() - payload.len(),
            protocol,
            payload,
        })
    }

    /// Returns the address of the sender.
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(octets_at(self.header, 8))
    }

    /// Returns the destination address.
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(octets_at(self.header, 24))
    }

    /// Returns the value of the ECN field.
    pub fn ecn(&self) -> Ecn {
        Ecn::of_traffic_class(self.header[1] >> 4)
    }

    /// Returns the protocol number of the transport, after all extension headers.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Returns the length of the header and the extension headers in bytes.
    pub fn header_len(&self) -> usize {
        IPV6_HEADER_LEN + self.extensions_len
    }

    /// Returns the length of the transport's header and payload in bytes, as stated in the header.
    /// If the packet is truncated, this is more than [`Ipv6View::payload`] returns.
    pub fn payload_len(&self) -> usize {
        usize::from(u16_at(self.header, 4)).saturating_sub(self.extensions_len)
    }

    /// Returns the bytes of the transport's header and payload that are present.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Skips extension headers. Returns the protocol number of the transport and the bytes from its
/// header on. The only fragment header allowed is an atomic one, whose packet is complete (RFC
/// 6946, section 4).
fn skip_extensions(mut next: u8, mut rest: &[u8]) -> Result<(u8, &[u8]), ParseError> {
    while let HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION = next {
        let (extension, _) = Header::Ipv6Extension.split::<EXTENSION_UNIT>(rest)?;
        let units = match next {
            FRAGMENT if u16_at(extension, 2) & !FRAGMENT_RESERVED != 0 => {
                return Err(ParseError::Fragment);
            }
            FRAGMENT => 1,
            _ => usize::from(extension[1]) + 1,
        };
        next = extension[0];
        let len = units * EXTENSION_UNIT;
        Header::Ipv6Extension.check_len(rest.len(), len)?;
        rest = &rest[len..];
    }
    Ok((next, rest))
}

fn check_version(first: u8, version: u8) -> Result<(), ParseError> {
    match first >> 4 {
        found if found == version => Ok(()),
        found => Err(ParseError::Version { found }),
    }
}

/// Returns the length in bytes of the IP header of a packet from `source` that passes the hops
/// `via`.
pub(crate) fn header_len(source: IpAddr, via: &Hops) -> usize {
    match source {
        IpAddr::V4(_) if via.is_empty() => IPV4_HEADER_LEN,
        IpAddr::V4(_) => IPV4_HEADER_LEN + 4 + 4 * via.len(),
        IpAddr::V6(_) => IPV6_HEADER_LEN,
    }
}

/// The fields of an IP header that a [`Packet`](super::Packet) or a [`UdpPacket`](super::UdpPacket)
/// keeps.
#[derive(Clone, Debug)]
pub(super) struct IpHeader {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) ecn: Ecn,
    pub(super) via: Hops,
}

impl IpHeader {
    /// Parses `bytes`, a whole packet that must carry the transport `protocol`. Returns the header,
    /// and the range of the transport's header and payload in `bytes`.
    #[inline]
    pub(super) fn parse(bytes: &[u8], protocol: u8) -> Result<(Self, Range<usize>), ParseError> {
        let (header, found, transport) = match bytes.first().map(|first| first >> 4) {
            Some(6) => Self::parse_v6(bytes)?,
            _ => Self::parse_v4(bytes)?,
        };
        if found != protocol {
            return Err(ParseError::Protocol {
                found,
                expected: protocol,
            });
        }
        Ok((header, transport))
    }

    #[inline]
    fn parse_v4(bytes: &[u8]) -> Result<(Self, u8, Range<usize>), ParseError> {
        let view = Ipv4View::new(bytes)?;
        if !view.is_checksum_right() {
            return Err(ParseError::Checksum {
                header: Header::Ipv4,
            });
        }
        if view.is_fragment() {
            return Err(ParseError::Fragment);
        }
        let (destination, via) = view.route();
        let header = Self {
            source: view.source().into(),
            destination: destination.into(),
            ecn: view.ecn(),
            via,
        };
        let start = view.header_len();
        Ok((header, view.protocol(), start..start + view.payload_len()))
    }

    fn parse_v6(bytes: &[u8]) -> Result<(Self, u8, Range<usize>), ParseError> {
        let view = Ipv6View::new(bytes)?;
        let header = Self {
            source: view.source().into(),
            destination: view.destination().into(),
            ecn: view.ecn(),
            via: Hops::new(),
        };
        let start = view.header_len();
        Ok((header, view.protocol(), start..start + view.payload_len()))
    }

    /// Appends the header of a packet to `to`. `protocol` is the number of the transport, and
    /// `payload_len` the length of its header and payload in bytes.
    ///
    /// # Panics
    /// Panics if the addresses are of different families, if there are hops over IPv6, or if the
    /// packet is too long for IP.
    pub(super) fn emit(&self, protocol: u8, payload_len: usize, to: &mut Vec<u8>) {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.emit_v4(source, destination, protocol, payload_len, to);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.emit_v6(source, destination, protocol, payload_len, to);
            }
            (source, destination) => panic!("{source} and {destination} are of two families"),
        }
    }

    fn emit_v4(
        &self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        payload_len: usize,
        to: &mut Vec<u8>,
    ) {
        let start = to.len();
        let header_len = header_len(self.source, &self.via);
        let total_len = u16::try_from(header_len + payload_len).expect("at most 65535 bytes");
        let next = self.via.first().unwrap_or(&destination);
        // The identification field stays zero, because it has no meaning in a packet that cannot be
        // fragmented (RFC 6864, section 4.1).
        let mut header = [0; IPV4_HEADER_LEN];
        header[0] = 0x40 | (header_len / 4) as u8;
        header[1] = self.ecn as u8;
        header[2..4].copy_from_slice(&total_len.to_be_bytes());
        header[6..8].copy_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
        header[8..10].copy_from_slice(&[HOP_LIMIT, protocol]);
        header[12..16].copy_from_slice(&source.octets());
        header[16..20].copy_from_slice(&next.octets());
        to.extend_from_slice(&header);
        self.emit_route(destination, to);
        let mut sum = Sum::new();
        sum.add_bytes(&to[start..]);
        to[start + 10..start + 12].copy_from_slice(&sum.checksum().to_be_bytes());
    }

    /// Appends the loose source route. The first hop is in the destination field of the header, so
    /// the list ends with the final destination.
    fn emit_route(&self, destination: Ipv4Addr, to: &mut Vec<u8>) {
        let Some((_, later)) = self.via.split_first() else {
            return;
        };
        let len = 3 + 4 * self.via.len();
        to.extend_from_slice(&[NO_OPERATION, LOOSE_SOURCE_ROUTE, len as u8, FIRST_ADDRESS]);
        for address in later.iter().chain([&destination]) {
            to.extend_from_slice(&address.octets());
        }
    }

    fn emit_v6(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        payload_len: usize,
        to: &mut Vec<u8>,
    ) {
        assert!(self.via.is_empty(), "a source route is one of IPv4");
        let payload_len = u16::try_from(payload_len).expect("at most 65535 bytes");
        // The flow label stays zero.
        let mut header = [0; IPV6_HEADER_LEN];
        header[0] = 0x60;
        header[1] = (self.ecn as u8) << 4;
        header[4..6].copy_from_slice(&payload_len.to_be_bytes());
        header[6..8].copy_from_slice(&[protocol, HOP_LIMIT]);
        header[8..24].copy_from_slice(&source.octets());
        header[24..40].copy_from_slice(&destination.octets());
        to.extend_from_slice(&header);
    }
}
