//! Runs the middleboxes of `emulation` before a device: frames become packets, and packets become
//! frames again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use emulation::middlebox::{Chain, Heading, Passing};
use experiment::resolved::Layer;
use experiment::time::Nanos;
use mptcp::wire::Packet;

use super::frame::{ETHERNET_HEADER_BYTES, Frame};
use crate::network::device::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, VIRTIO_HEADER_BYTES};
use crate::network::netlink::Mac;

/// The middleboxes before one device.
pub(super) struct Middleboxes {
    pub(super) chain: Chain,
    layer: Layer,
    /// The link-layer addresses of an IP address, learnt from frames.
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

    /// Takes a frame with a TCP segment. Returns any other frame.
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

    /// Returns the next frame that has passed. A packet that no middlebox changed keeps its bytes.
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use experiment::resolved::Experiment;
    use mptcp::payload::Payload;
    use mptcp::seq::SeqNr;
    use mptcp::wire::{Ecn, Flags, Hops, Segment, TcpOptions};
    use serde_json::{Value, json};

    use super::*;

    const EIGHT_LINKS: &str = include_str!("../../tests/experiments/eight-links.json");
    const CLIENT_MAC: Mac = [2, 0, 0, 0, 0, 1];
    const SERVER_MAC: Mac = [2, 0, 0, 0, 0, 2];
    /// Offset of the identification in an IPv4 header; the next is that of the checksum.
    const IDENTIFICATION: usize = 4;
    const IP_CHECKSUM: usize = 10;

    fn middleboxes(layer: Layer, element: Value) -> Middleboxes {
        let mut described = crate::complete::experiment(EIGHT_LINKS);
        described["middleboxes"] =
            json!([{"at": "client.eth1", "direction": "both", "element": element}]);
        let experiment = Experiment::from_json(&described.to_string()).expect("it is valid");
        let chain = Chain::before(&experiment, 1, "client.eth1").expect("there is one");
        Middleboxes::new(chain, layer)
    }

    fn packet() -> Packet {
        Packet {
            source: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 2)),
            ecn: Ecn::NotCapable,
            via: Hops::new(),
            segment: Segment {
                source_port: 1000,
                destination_port: 2000,
                seq: SeqNr(1),
                ack: SeqNr(2),
                flags: Flags::ACK,
                window: 3,
                options: TcpOptions::default(),
                payload: Payload::stream(1, 0, 1000),
            },
        }
    }

    fn frame(layer: Layer, ip: &[u8]) -> Frame {
        let mut bytes = vec![0; VIRTIO_HEADER_BYTES];
        if layer == Layer::Two {
            bytes.extend(SERVER_MAC);
            bytes.extend(CLIENT_MAC);
            bytes.extend(ETHERTYPE_IPV4);
        }
        bytes.extend(ip);
        Frame { bytes, layer }
    }

    fn outputs(middleboxes: &mut Middleboxes) -> Vec<(Heading, Frame)> {
        std::iter::from_fn(|| middleboxes.poll_output()).collect()
    }

    #[test]
    fn what_nobody_changes_keeps_every_byte() {
        for layer in [Layer::Two, Layer::Three] {
            let mut middleboxes = middleboxes(
                layer,
                json!({"kind": "split", "largest_bytes": 1000, "options": "all"}),
            );
            let mut ip = Vec::new();
            packet().emit(&mut ip);
            // The identification, which `Packet` does not keep.
            ip[IDENTIFICATION + 1] += 1;
            let sum = u16::from_be_bytes([ip[IP_CHECKSUM], ip[IP_CHECKSUM + 1]]) - 1;
            ip[IP_CHECKSUM..IP_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
            let sent = frame(layer, &ip);
            let bytes = sent.bytes.clone();
            assert!(middleboxes.enter(0, Heading::Leaving, sent).is_none());
            let passed = outputs(&mut middleboxes);
            assert_eq!(passed.len(), 1);
            assert_eq!(passed[0].1.bytes, bytes);
        }
    }

    #[test]
    fn what_they_make_is_whole_and_goes_to_the_right_neighbour() {
        let early = json!({"kind": "acknowledge_early", "buffer_bytes": 10_000});
        let mut middleboxes = middleboxes(Layer::Two, early);
        let mut syn = packet();
        syn.segment.flags = Flags::SYN;
        syn.segment.seq = SeqNr(0);
        syn.segment.payload = Payload::EMPTY;
        let mut syn_ack = syn.clone();
        std::mem::swap(&mut syn_ack.source, &mut syn_ack.destination);
        syn_ack.segment.flags = Flags::SYN | Flags::ACK;
        syn_ack.segment.ack = SeqNr(1);
        (
            syn_ack.segment.source_port,
            syn_ack.segment.destination_port,
        ) = (2000, 1000);
        let handshake = [
            (Heading::Leaving, syn),
            (Heading::Arriving, syn_ack),
            (Heading::Leaving, packet()),
        ];
        for (heading, packet) in handshake {
            let mut ip = Vec::new();
            packet.emit(&mut ip);
            let mut sent = frame(Layer::Two, &ip);
            if heading == Heading::Arriving {
                let at = VIRTIO_HEADER_BYTES;
                sent.bytes[at..at + 6].copy_from_slice(&CLIENT_MAC);
                sent.bytes[at + 6..at + 12].copy_from_slice(&SERVER_MAC);
            }
            assert!(middleboxes.enter(0, heading, sent).is_none());
        }
        let passed = outputs(&mut middleboxes);
        assert_eq!(passed.len(), 4);
        let (heading, answer) = &passed[3];
        assert_eq!(*heading, Heading::Arriving);
        assert_eq!(answer.packet()[..6], CLIENT_MAC);
        assert_eq!(answer.packet()[6..12], SERVER_MAC);
        let (answer, _) = Packet::parse(&answer.ip().into()).expect("its checksums are right");
        assert_eq!(answer.segment.ack, SeqNr(1001));
    }

    #[test]
    fn what_is_not_tcp_passes() {
        let duplicate = json!({"kind": "duplicate", "probability": 1.0});
        let mut middleboxes = middleboxes(Layer::Three, duplicate);
        let mut ip = Vec::new();
        packet().emit(&mut ip);
        ip[9] = 17;
        let given_back = middleboxes.enter(0, Heading::Leaving, frame(Layer::Three, &ip));
        assert!(given_back.is_some());
        assert!(outputs(&mut middleboxes).is_empty());
    }
}
