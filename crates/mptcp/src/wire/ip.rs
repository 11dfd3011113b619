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
/// Bytes of an IPv6 header without extensions.
const IPV6_HEADER_LEN: usize = 40;
/// IPv4: more fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;
/// IPv4: may not be divided on the way.
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// IPv4: place of a fragment, in units of eight bytes.
const FRAGMENT_OFFSET: u16 = 0x1fff;
/// The option of loose source routing (RFC 791, section 3.1).
const LOOSE_SOURCE_ROUTE: u8 = 131;
/// What its pointer says before the first hop.
const FIRST_ADDRESS: u8 = 4;
/// Routers that a packet of ours may pass (RFC 1340).
const HOP_LIMIT: u8 = 64;

/// Extension headers of IPv6 that may stand before a transport (RFC 8200, section 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// Their lengths are multiples of this, in bytes.
const EXTENSION_UNIT: usize = 8;
/// Bits beside offset and M in a fragment header (RFC 8200, section 4.5).
const FRAGMENT_RESERVED: u16 = 0x0006;

/// Routers that a packet has to pass, in their order (RFC 791, section 3.1, loose source and record route): as many as an
/// IPv4 header has room for, nine. It is read as a slice, and cheap to clone, as every packet of a path has the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hops(Option<Arc<HopList>>);

type HopList = ArrayVec<Ipv4Addr, 9>;

impl Hops {
    /// None: the packet goes as it is routed.
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
/// There are more than nine.
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
    /// The transport does not take part.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0).
    Capable0 = 2,
    /// A router saw congestion.
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

/// An IPv4 packet in memory. What `new` has checked, no accessor can fail at.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    header: &'a [u8; IPV4_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// A whole packet; bytes after it, as Ethernet pads short frames, are no part of it.
    ///
    /// # Errors
    /// The header is none of IPv4, or the packet is longer than `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let view = Self::from_prefix(bytes)?;
        Header::Ipv4.check_len(bytes.len(), view.header_len() + view.payload_len())?;
        Ok(view)
    }

    /// A packet of which a capture kept no more than the first bytes, the header among them.
    ///
    /// # Errors
    /// The header is none of IPv4 or not all there.
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

    /// Who sends.
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(octets_at(self.header, 12))
    }

    /// The next receiver: the last, unless there is a source route.
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(octets_at(self.header, 16))
    }

    /// What routers say of congestion.
    pub fn ecn(&self) -> Ecn {
        Ecn::of_traffic_class(self.header[1])
    }

    /// The number of the transport.
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Bytes of the header, options included.
    pub fn header_len(&self) -> usize {
        IPV4_HEADER_LEN + self.options.len()
    }

    /// Whether there are other parts of the same packet.
    pub fn is_fragment(&self) -> bool {
        u16_at(self.header, 6) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Whether the header is unharmed.
    #[inline]
    pub fn is_checksum_right(&self) -> bool {
        let mut sum = Sum::new();
        sum.add_bytes(self.header);
        if !self.options.is_empty() {
            sum.add_bytes(self.options);
        }
        sum.is_right()
    }

    /// Options as pairs of kind and content.
    pub fn options(&self) -> OptionsIter<'a> {
        OptionsIter::new(self.options)
    }

    /// What the header says of the bytes after it.
    pub fn payload_len(&self) -> usize {
        // No less than the header's own, which was checked.
        usize::from(u16_at(self.header, 2)).saturating_sub(self.header_len())
    }

    /// The bytes after the header, as far as they are there.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The last receiver, and the hops still to pass, [`Ipv4View::destination`] first. An option with a pointer that points
    /// between addresses is ignored.
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

/// Addresses of a loose source route that were not yet reached.
fn addresses_ahead(content: &[u8]) -> Option<HopList> {
    let (pointer, addresses) = content.split_first()?;
    let reached = usize::from(pointer.checked_sub(FIRST_ADDRESS)?);
    let (ahead, []) = addresses.get(reached..)?.as_chunks::<4>() else {
        return None;
    };
    Some(ahead.iter().map(|octets| Ipv4Addr::from(*octets)).collect())
}

/// An IPv6 packet in memory. What `new` has checked, no accessor can fail at.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6View<'a> {
    header: &'a [u8; IPV6_HEADER_LEN],
    extensions_len: usize,
    protocol: u8,
    payload: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// A whole packet; bytes after it, as Ethernet pads short frames, are no part of it.
    ///
    /// # Errors
    /// The header is none of IPv6, the packet is longer than `bytes`, or a fragment.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let view = Self::from_prefix(bytes)?;
        Header::Ipv6.check_len(bytes.len(), view.header_len() + view.payload_len())?;
        Ok(view)
    }

    /// A packet of which a capture kept no more than the first bytes, headers and extensions among them.
    ///
    /// # Errors
    /// The header is none of IPv6, not all there, or of a fragment.
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

    /// Who sends.
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(octets_at(self.header, 8))
    }

    /// Who receives.
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(octets_at(self.header, 24))
    }

    /// What routers say of congestion.
    pub fn ecn(&self) -> Ecn {
        Ecn::of_traffic_class(self.header[1] >> 4)
    }

    /// The number of the transport, behind all extension headers.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Bytes before the transport: header and extension headers.
    pub fn header_len(&self) -> usize {
        IPV6_HEADER_LEN + self.extensions_len
    }

    /// What the header says of the bytes of the transport.
    pub fn payload_len(&self) -> usize {
        usize::from(u16_at(self.header, 4)).saturating_sub(self.extensions_len)
    }

    /// The bytes after header and extension headers, as far as they are there.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Steps over extension headers: the number of the transport, and the bytes from there on. Of a fragment header only the
/// atomic one passes, whose packet is whole (RFC 6946, section 4).
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

/// Bytes of the header that we send from that address along that route.
pub(crate) fn header_len(source: IpAddr, via: &Hops) -> usize {
    match source {
        IpAddr::V4(_) if via.is_empty() => IPV4_HEADER_LEN,
        IpAddr::V4(_) => IPV4_HEADER_LEN + 4 + 4 * via.len(),
        IpAddr::V6(_) => IPV6_HEADER_LEN,
    }
}

/// What of an IP header matters to the transport.
#[derive(Clone, Debug)]
pub(super) struct IpHeader {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) ecn: Ecn,
    pub(super) via: Hops,
}

impl IpHeader {
    /// A whole packet of that protocol, and where in `bytes` the transport's header and payload are.
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

    /// Appends the header of a packet.
    ///
    /// # Panics
    /// The addresses are not of one family, there are hops over IPv6, or the packet is too long for IP.
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
        // The identification means nothing where nothing is divided (RFC 6864, section 4.1): it stays zero.
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

    /// The first hop is the header's destination: its place in the list is the last receiver's.
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
        // No flow label.
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
