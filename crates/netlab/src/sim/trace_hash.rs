//! A fingerprint of all that was delivered and dropped, in order.

use xxhash_rust::xxh3::Xxh3;

use super::network::Fate;
use crate::time::Nanos;

/// XXH3 with 128 bits over fixed-size little-endian records: the same on every machine.
pub(super) struct TraceHash(Box<Xxh3>);

impl TraceHash {
    pub(super) fn new() -> Self {
        Self(Box::new(Xxh3::new()))
    }

    /// Adds the end of a packet's life.
    pub(super) fn add(&mut self, now: Nanos, fate: &Fate) {
        let (packet, end) = match fate {
            Fate::Delivered {
                packet,
                destination,
            } => (packet, [0, *destination as u32]),
            Fate::Dropped { packet, place } => (packet, place.code()),
        };
        let mut record = [0; 40];
        record[0..8].copy_from_slice(&now.to_le_bytes());
        record[8..16].copy_from_slice(&packet.number.to_le_bytes());
        record[16..24].copy_from_slice(&packet.sent_at.to_le_bytes());
        record[24..28].copy_from_slice(&packet.application.to_le_bytes());
        record[28..32]
            .copy_from_slice(&(packet.ip_bytes << 1 | u32::from(packet.is_answer())).to_le_bytes());
        record[32..36].copy_from_slice(&end[0].to_le_bytes());
        record[36..40].copy_from_slice(&end[1].to_le_bytes());
        self.0.update(&record);
    }

    /// 32 hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }
}
