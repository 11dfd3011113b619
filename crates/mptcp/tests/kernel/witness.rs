//! Checks that the engine sends correctly: the bytes of a segment are those of the byte stream at
//! the place of their mapping.

use mptcp::connection::keys;
use mptcp::payload::Payload;
use mptcp::seq::DataSeq;
use mptcp::wire::{Capable, DataNumber, MptcpOption, Packet, Version};

/// Sees every packet of the engine before any middlebox.
pub struct Witness {
    seed: u32,
    /// The number of the first byte of the byte stream, once the key from which it follows was
    /// sent.
    first: Option<DataSeq>,
}

impl Witness {
    /// Creates a witness for the byte stream with that seed.
    pub fn new(seed: u32) -> Self {
        Self { seed, first: None }
    }

    /// Panics if a segment with a mapping of its own has bytes that contradict the mapping.
    pub fn see(&mut self, packet: &Packet) {
        let payload = &packet.segment.payload;
        for option in &packet.segment.options.mptcp {
            match option {
                MptcpOption::Capable(
                    Capable::SynAck { sender_key, .. } | Capable::Ack { sender_key, .. },
                ) => self.first = Some(keys::initial_data_seq(Version::One, *sender_key) + 1),
                MptcpOption::Dss(dss) => {
                    let own = dss.mapping().filter(|mapping| {
                        !payload.is_empty() && u32::from(mapping.len) == payload.len()
                    });
                    if let (Some(mapping), Some(first)) = (own, self.first)
                        && let DataNumber::Long(data_seq) = mapping.data_seq
                    {
                        let offset = data_seq.0.wrapping_sub(first.0);
                        let expected = Payload::stream(self.seed, offset, payload.len());
                        assert_eq!(*payload, expected, "we sent other bytes at {offset}");
                    }
                }
                _ => {}
            }
        }
    }
}
