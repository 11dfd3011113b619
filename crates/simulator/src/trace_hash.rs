//! A fingerprint of all packets delivered and dropped, in order.

use experiment::time::Nanos;
use mptcp::wire;
use xxhash_rust::xxh3::Xxh3;

use crate::network::Fate;
use crate::packet::{Content, Packet, Segments};

/// 128-bit XXH3 over little-endian records of fixed size, equal on every machine.
pub(super) struct TraceHash(Box<Xxh3>);

/// Bytes of a record: time, packet and fate.
const RECORD_BYTES: usize = 40;

impl TraceHash {
    pub(super) fn new() -> Self {
        Self(Box::new(Xxh3::new()))
    }

    /// Adds the fate of a packet.
    pub(super) fn add(&mut self, now: Nanos, fate: &Fate, segments: &Segments) {
        let (packet, end) = match fate {
            Fate::Delivered {
                packet,
                destination,
            } => (packet, [0, *destination as u32]),
            Fate::Dropped { packet, place } => (packet, place.code()),
        };
        let mut record = [0; RECORD_BYTES];
        record[0..8].copy_from_slice(&now.to_le_bytes());
        record[8..28].copy_from_slice(&identity(packet, segments));
        record[28..32]
            .copy_from_slice(&(packet.ip_bytes << 1 | u32::from(packet.is_answer())).to_le_bytes());
        record[32..36].copy_from_slice(&end[0].to_le_bytes());
        record[36..40].copy_from_slice(&end[1].to_le_bytes());
        self.0.update(&record);
    }

    /// Returns the hash as 32 hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }
}

/// Returns the identity of a packet.
fn identity(packet: &Packet, segments: &Segments) -> [u8; 20] {
    let mut identity = [0; 20];
    match &packet.content {
        Content::Datagram(datagram) => {
            identity[0..8].copy_from_slice(&datagram.number.to_le_bytes());
            identity[8..16].copy_from_slice(&datagram.sent_at.to_le_bytes());
            identity[16..20].copy_from_slice(&datagram.application.to_le_bytes());
        }
        Content::Segment(segment) => {
            let packet = segments.get(segment.id);
            of_segment(&packet.segment, &mut identity);
        }
    }
    identity
}

fn of_segment(segment: &wire::Segment, identity: &mut [u8; 20]) {
    identity[0..4].copy_from_slice(&segment.seq.0.to_le_bytes());
    identity[4..8].copy_from_slice(&segment.ack.0.to_le_bytes());
    identity[8..10].copy_from_slice(&segment.source_port.to_le_bytes());
    identity[10..12].copy_from_slice(&segment.destination_port.to_le_bytes());
    identity[12..14].copy_from_slice(&segment.window.to_le_bytes());
    identity[14] = segment.flags.0;
    identity[16..20].copy_from_slice(&segment.payload.len().to_le_bytes());
}
