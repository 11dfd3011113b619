//! The simulator's packet: on which way it is, how long it is, and what it carries.
//!
//! Links move packets often, so they are small: segments are kept elsewhere ([`Segments`]), and what moves is their number.

use std::net::IpAddr;

use mptcp::wire;

use super::network::RouteId;
use crate::link;
use crate::time::Nanos;

/// Bytes of the headers of IP and UDP before a datagram between addresses of that family.
pub(super) fn datagram_headers_bytes(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// An IP packet under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// The way that it takes.
    pub(super) route: RouteId,
    /// Where its next hop stands among the hops of all routes; the network sets it when the packet is sent.
    pub(super) hop: u32,
    /// Its length.
    pub(super) ip_bytes: u32,
    pub(super) content: Content,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Datagram(Datagram),
    Segment(Segment),
}

/// A segment of TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    /// Ports of sender and receiver.
    ports: [u16; 2],
}

/// Where a segment under way is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentId(u32);

/// The segments that are under way. The memory of those that arrived is used again.
#[derive(Default)]
pub(super) struct Segments {
    all: Vec<Option<wire::Packet>>,
    free: Vec<u32>,
}

impl Segments {
    /// Keeps a segment that begins its way on `route`.
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

    /// A segment that is under way.
    pub(super) fn get(&self, id: SegmentId) -> &wire::Packet {
        self.all[id.0 as usize].as_ref().expect("it is under way")
    }

    /// Forgets a segment whose way has ended.
    pub(super) fn forget(&mut self, id: SegmentId) {
        self.free.push(id.0);
        self.all[id.0 as usize] = None;
    }

    /// Takes a segment out, which may come back as another one.
    pub(super) fn take(&mut self, id: SegmentId) -> wire::Packet {
        self.free.push(id.0);
        self.all[id.0 as usize].take().expect("it is under way")
    }
}

/// A UDP datagram; its payload has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    /// Index of the application it belongs to.
    pub(super) application: u32,
    /// Its number among those of its application, from 0; an answer has that of its request.
    pub(super) number: u64,
    /// When it was sent; an answer has the time of its request.
    pub(super) sent_at: Nanos,
}

impl Packet {
    /// Whether it goes to the sender of the flow's data.
    pub(super) fn is_answer(&self) -> bool {
        self.route.is_back()
    }

    /// What an echo server sends back.
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
                // Applications are fewer: no datagram has such a number.
                (from << 16 | to) << 32 | self.route.index()
            }
        }
    }
}
