//! The simulator's packet: its route, its length and its content.
//!
//! Links move packets often, so packets are small. Segments are stored in [`Segments`]; packets
//! hold their index.

use std::net::IpAddr;

use emulation::link;
use experiment::time::Nanos;
use mptcp::wire;

use crate::network::RouteId;

/// Returns the bytes of the IP and UDP headers of a datagram, by address family.
pub(super) fn datagram_headers_bytes(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// An IP packet in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Its route.
    pub(super) route: RouteId,
    /// Index of its next hop in the hops of all routes. Set by the network when the packet is sent.
    pub(super) hop: u32,
    /// Its length in bytes.
    pub(super) ip_bytes: u32,
    pub(super) content: Content,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Datagram(Datagram),
    Segment(Segment),
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    /// Ports of sender and receiver.
    ports: [u16; 2],
}

/// Index of a segment in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentId(u32);

/// The segments in flight. The slots of segments that arrived are reused.
#[derive(Default)]
pub(super) struct Segments {
    all: Vec<Option<wire::Packet>>,
    free: Vec<u32>,
}

impl Segments {
    /// Stores a segment sent on `route` and returns its packet.
    pub(super) fn send(&mut self, route: RouteId, packet: wire::Packet) -> Packet {
        let ip_bytes = packet.wire_len() as u32;
        let ports = [packet.segment.source_port, packet.segment.destination_port];
        let id = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            (self.all.len() - 1) as u32
        });
        self.all[id as usize] = Some(packet);
        Packet {
            route,
            hop: 0,
            ip_bytes,
            content: Content::Segment(Segment {
                id: SegmentId(id),
                ports,
            }),
        }
    }

    /// Returns a segment in flight.
    pub(super) fn get(&self, id: SegmentId) -> &wire::Packet {
        self.all[id.0 as usize].as_ref().expect("it is under way")
    }

    /// Forgets a segment that was delivered or dropped.
    pub(super) fn forget(&mut self, id: SegmentId) {
        self.free.push(id.0);
        self.all[id.0 as usize] = None;
    }

    /// Removes and returns a segment, which may return as another one.
    pub(super) fn take(&mut self, id: SegmentId) -> wire::Packet {
        self.free.push(id.0);
        self.all[id.0 as usize].take().expect("it is under way")
    }
}

/// A UDP datagram. Its payload has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    /// Index of its application.
    pub(super) application: u32,
    /// Its number within its application, from 0. An answer has the number of its request.
    pub(super) number: u64,
    /// When it was sent. An answer has the time of its request.
    pub(super) sent_at: Nanos,
}

impl Packet {
    /// Returns whether it goes to the sender of the flow's data.
    pub(super) fn is_answer(&self) -> bool {
        self.route.is_back()
    }

    /// Returns the answer of an echo server.
    pub(super) fn answer_to(&self, datagram: Datagram) -> Self {
        Self {
            route: self.route.reversed(),
            hop: 0,
            ip_bytes: self.ip_bytes,
            content: Content::Datagram(datagram),
        }
    }
}

impl link::Packet for Packet {
    fn ip_bytes(&self) -> u32 {
        self.ip_bytes
    }

    fn flow_key(&self) -> u64 {
        match &self.content {
            Content::Datagram(datagram) => {
                u64::from(datagram.application) * 2 + u64::from(self.is_answer())
            }
            Content::Segment(segment) => {
                let [from, to] = segment.ports.map(u64::from);
                // There are fewer applications, so no datagram has this key.
                (from << 16 | to) << 32 | self.route.index()
            }
        }
    }
}
