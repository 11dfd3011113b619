//! The simulator's packet: its headers and sizes; payload has no content.

use crate::link;
use crate::time::Nanos;

/// Bytes of an IPv4 and a UDP header.
pub(super) const UDP_HEADER_BYTES: u32 = 20 + 8;

/// A UDP datagram in one IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Index of the application it belongs to.
    pub(super) application: u32,
    /// Whether it is the receiver's answer to a probe.
    pub(super) is_answer: bool,
    /// Routers that it may still pass.
    pub(super) hops_left: u8,
    /// Index of the interface that it left.
    pub(super) source: u32,
    /// Index of the interface that it is for.
    pub(super) destination: u32,
    /// Length of the IP packet.
    pub(super) ip_bytes: u32,
    /// Its number among those of its application, from 0; an answer has that of its request.
    pub(super) number: u64,
    /// When it was sent; an answer has the time of its request.
    pub(super) sent_at: Nanos,
}

/// Hop limit of a new packet (RFC 1700's default).
pub(super) const HOP_LIMIT: u8 = 64;

impl Packet {
    pub(super) fn payload_bytes(&self) -> u64 {
        u64::from(self.ip_bytes - UDP_HEADER_BYTES)
    }

    /// What an echo server sends back.
    pub(super) fn answer(&self) -> Self {
        Self {
            is_answer: true,
            hops_left: HOP_LIMIT,
            source: self.destination,
            destination: self.source,
            ..*self
        }
    }
}

impl link::Packet for Packet {
    fn ip_bytes(&self) -> u32 {
        self.ip_bytes
    }

    fn flow_hash(&self) -> u64 {
        // An odd multiplier spreads consecutive numbers over all bits (Fibonacci hashing).
        let flow = u64::from(self.application) * 2 + u64::from(self.is_answer);
        (flow + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
