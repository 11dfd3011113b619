//! Middleboxes of `netlab` before a device: frames become packets, and packets frames again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use mptcp::wire::Packet;
use netlab::middlebox::{Chain, Heading, Passing};
use netlab::resolved::Layer;
use netlab::time::Nanos;

use super::frame::{ETHERNET_HEADER_BYTES, Frame};
use crate::device::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, VIRTIO_HEADER_BYTES};
use crate::netlink::Mac;

/// The middleboxes before one device.
pub(super) struct Middleboxes {
    pub(super) chain: Chain,
    layer: Layer,
    /// The link-layer addresses by which frames from and to an address went.
    macs: BTreeMap<IpAddr, Mac>,
}

impl Middleboxes {
    pub(super) fn new(chain: Chain, layer: Layer) -> Self {
        Self {
            chain,
            layer,
            macs: BTreeMap::new(),
        }
    }

    /// Takes a frame with a segment of TCP; all else passes, and is given back.
    pub(super) fn enter(&mut self, now: Nanos, heading: Heading, frame: Frame) -> Option<Frame> {
        if !frame.is_tcp() {
            return Some(frame);
        }
        let bytes: Arc<[u8]> = frame.ip().into();
        let Ok((packet, _)) = Packet::parse(&bytes) else {
            return Some(frame);
        };
        if self.layer == Layer::Two {
            self.learn(&packet, frame.packet());
        }
        self.chain
            .enter(now, heading, Passing::new(packet, Some(bytes)));
        None
    }

    /// The next frame that is through. What nobody changed has the bytes that it came with.
    pub(super) fn poll_output(&mut self) -> Option<(Heading, Frame)> {
        let (heading, passing) = self.chain.poll_output()?;
        let (packet, as_it_came) = passing.into_parts();
        let mut bytes = vec![0; VIRTIO_HEADER_BYTES];
        if self.layer == Layer::Two {
            bytes.extend(self.ethernet_header(&packet));
        }
        match as_it_came {
            Some(unchanged) => bytes.extend_from_slice(&unchanged),
            None => packet.emit(&mut bytes),
        }
        let layer = self.layer;
        Some((heading, Frame { bytes, layer }))
    }

    fn learn(&mut self, packet: &Packet, frame: &[u8]) {
        if let Some(([destination, source], _)) = frame.as_chunks().0.split_first_chunk::<2>() {
            self.macs.insert(packet.destination, *destination);
            self.macs.insert(packet.source, *source);
        }
    }

    fn ethernet_header(&self, packet: &Packet) -> [u8; ETHERNET_HEADER_BYTES] {
        let mac = |address| self.macs.get(&address).copied().unwrap_or_default();
        let ethertype = match packet.source {
            IpAddr::V4(_) => ETHERTYPE_IPV4,
            IpAddr::V6(_) => ETHERTYPE_IPV6,
        };
        let mut header = [0; ETHERNET_HEADER_BYTES];
        header[..6].copy_from_slice(&mac(packet.destination));
        header[6..12].copy_from_slice(&mac(packet.source));
        header[12..].copy_from_slice(&ethertype);
        header
    }
}
