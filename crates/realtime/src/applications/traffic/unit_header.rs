//! The first bytes of a data unit: its number, and when it was handed over on the clock that both
//! ends share.

use experiment::time::Nanos;

/// Bytes of a header. A smaller unit cannot be identified.
pub const UNIT_HEADER_BYTES: usize = 16;

/// The header of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitHeader {
    pub(super) number: u64,
    pub(super) sent_ns: Nanos,
}

impl UnitHeader {
    pub(super) fn to_bytes(self) -> [u8; UNIT_HEADER_BYTES] {
        let mut bytes = [0; UNIT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sent_ns.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; UNIT_HEADER_BYTES]) -> Self {
        let (number, sent_ns) = bytes.split_at(8);
        Self {
            number: u64::from_be_bytes(number.try_into().expect("half of 16 bytes")),
            sent_ns: u64::from_be_bytes(sent_ns.try_into().expect("half of 16 bytes")),
        }
    }

    /// Returns the header at the start of a datagram; `None` if it is too short.
    pub(super) fn at_start(datagram: &[u8]) -> Option<Self> {
        datagram.first_chunk().map(Self::from_bytes)
    }
}
