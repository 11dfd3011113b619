//! A packet on an emulated link: bytes as a device gave them.

use std::hash::Hasher;
use std::sync::Arc;

use emulation::link::Packet;
use experiment::resolved::Layer;
use xxhash_rust::xxh3::Xxh3;

use crate::network::device::VIRTIO_HEADER_BYTES;
use crate::network::offload::{complete_checksum, lacks_checksum};

pub(super) const ETHERNET_HEADER_BYTES: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet, in a buffer that is used again.
#[derive(Debug)]
pub(super) struct Frame {
    /// The header of the device, then the packet.
    pub(super) bytes: Vec<u8>,
    pub(super) layer: Layer,
}

impl Frame {
    /// Returns the packet as a capture shows it.
    pub(super) fn packet(&self) -> &[u8] {
        &self.bytes[VIRTIO_HEADER_BYTES.min(self.bytes.len())..]
    }

    /// Returns whether it carries TCP.
    pub(super) fn is_tcp(&self) -> bool {
        let ip = self.ip();
        let protocol = match ip.first().map(|byte| byte >> 4) {
            Some(4) => ip.get(9),
            Some(6) => ip.get(6),
            _ => None,
        };
        protocol == Some(&TCP)
    }

    /// Returns the IP packet with its checksum, which a device that takes super-packets leaves
    /// incomplete.
    pub(super) fn whole_ip(&self) -> Arc<[u8]> {
        let mut packet: Arc<[u8]> = self.ip().into();
        if lacks_checksum(&self.bytes)
            && let Some(packet) = Arc::get_mut(&mut packet)
        {
            complete_checksum(packet);
        }
        packet
    }

    /// Returns the bytes from the IP header on.
    pub(super) fn ip(&self) -> &[u8] {
        let skipped = match self.layer {
            Layer::Two => ETHERNET_HEADER_BYTES,
            Layer::Three => 0,
        };
        self.packet().get(skipped..).unwrap_or_default()
    }
}

impl Packet for Frame {
    fn ip_bytes(&self) -> u32 {
        self.ip().len() as u32
    }

    /// Hashes protocol, addresses and, where the first fragment has them, ports.
    fn flow_key(&self) -> u64 {
        let ip = self.ip();
        let (protocol, addresses, header_bytes) = match ip.first().map(|byte| byte >> 4) {
            Some(4) => (ip.get(9), ip.get(12..20), usize::from(ip[0] & 15) * 4),
            Some(6) => (ip.get(6), ip.get(8..40), 40),
            _ => (None, None, 0),
        };
        let mut hasher = Xxh3::new();
        hasher.write(addresses.unwrap_or(ip));
        if let Some(&protocol @ (TCP | UDP)) = protocol {
            hasher.write_u8(protocol);
            hasher.write(ip.get(header_bytes..header_bytes + 4).unwrap_or_default());
        }
        hasher.finish()
    }
}
