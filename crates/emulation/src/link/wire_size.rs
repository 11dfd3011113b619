//! The bytes of a packet on the wire.

use experiment::resolved::{Direction, Framing};

use super::Packet;

/// How many bytes a link counts for a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireSize {
    overhead_bytes: u32,
    framing: Framing,
}

impl WireSize {
    /// Returns the size that the direction of a link gives.
    pub(super) fn of_direction(direction: &Direction) -> Self {
        Self {
            overhead_bytes: direction.overhead_bytes,
            framing: direction.framing,
        }
    }

    /// Returns the size with a fixed number of bytes in addition to the IP packet.
    pub(super) fn plain(overhead_bytes: u32) -> Self {
        Self {
            overhead_bytes,
            framing: Framing::Plain,
        }
    }

    /// Returns the bytes of a packet.
    #[inline]
    pub(super) fn of(self, packet: &impl Packet) -> u32 {
        let bytes = packet.ip_bytes().saturating_add(self.overhead_bytes);
        self.framing.wire_bytes(bytes)
    }
}
