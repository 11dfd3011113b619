//! The simulator's packet: its headers and sizes; payload has no content.

use super::network::RouteId;
use crate::link;
use crate::time::Nanos;

/// Bytes of an IPv4 and a UDP header.
pub(super) const UDP_HEADER_BYTES: u32 = 20 + 8;

/// A UDP datagram in one IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Index of the application it belongs to.
    pub(super) application: u32,
    /// The way that it takes.
    pub(super) route: RouteId,
    /// Hops of its route that it has behind it.
    pub(super) hop: u32,
    /// Length of the IP packet.
    pub(super) ip_bytes: u32,
    /// Its number among those of its application, from 0; an answer has that of its request.
    pub(super) number: u64,
    /// When it was sent; an answer has the time of its request.
    pub(super) sent_at: Nanos,
}

impl Packet {
    pub(super) fn payload_bytes(&self) -> u64 {
        u64::from(self.ip_bytes - UDP_HEADER_BYTES)
    }

    /// Whether the receiver sent it.
    pub(super) fn is_answer(&self) -> bool {
        self.route.is_back()
    }

    /// What an echo server sends back.
    pub(super) fn answer(&self) -> Self {
        Self {
            route: self.route.reversed(),
            hop: 0,
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
        let flow = u64::from(self.application) * 2 + u64::from(self.is_answer());
        (flow + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
