//! An IP packet that carries a TCP segment.

use std::net::IpAddr;

use super::Segment;

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

/// A segment with the IP fields that matter to it. Both addresses are of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sends.
    pub source: IpAddr,
    /// Who receives.
    pub destination: IpAddr,
    /// What routers say of congestion.
    pub ecn: Ecn,
    /// The segment.
    pub segment: Segment,
}

impl Packet {
    /// Bytes of the packet, IP header included.
    pub fn wire_len(&self) -> usize {
        let ip = if self.source.is_ipv4() { 20 } else { 40 };
        ip + self.segment.wire_len()
    }
}
