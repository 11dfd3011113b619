//! A TCP segment (RFC 9293, section 3.1) with the options in use.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use arrayvec::ArrayVec;

use super::MptcpOptions;
use crate::payload::Payload;
use crate::seq::SeqNr;

/// Bytes of a TCP header without options.
const HEADER_LEN: usize = 20;

/// The option space of a segment in bytes.
pub const MAX_OPTIONS_LEN: usize = 40;

/// The control bits of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Sequence numbers are synchronized.
    pub const SYN: Self = Self(0x02);
    /// The connection is reset.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts; we never send it and take urgent data as data (RFC 6093).
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168, section 6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168, section 6.1).
    pub const CWR: Self = Self(0x80);

    /// Whether all bits of `others` are set.
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let set = names
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 >> bit & 1 == 1);
        to.write_str(&set.map(|(_, name)| *name).collect::<Vec<_>>().join("|"))
    }
}

/// The timestamps option (RFC 7323, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval.
    pub value: u32,
    /// TSecr.
    pub echo: u32,
}

/// Received bytes `start..end` (RFC 2018, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// The first number of the block.
    pub start: SeqNr,
    /// The first number after it.
    pub end: SeqNr,
}

/// As many blocks as the option space can hold.
pub type SackBlocks = ArrayVec<SackBlock, 4>;

/// The options of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size in bytes (RFC 9293, section 3.7.1).
    pub mss: Option<u16>,
    /// Shift count of the window (RFC 7323, section 2.2), as received.
    pub window_scale: Option<u8>,
    /// Whether the sender can take selective acknowledgments (RFC 2018, section 2).
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgments; a first block at or below the acknowledgment, or within the second, is a duplicate's (RFC 2883).
    pub sack: SackBlocks,
    /// Options of Multipath TCP.
    pub mptcp: MptcpOptions,
}

impl TcpOptions {
    /// Bytes they take, padding included, if they are laid out as we do: the order of the fields, timestamps and SACK aligned
    /// to four bytes.
    pub fn wire_len(&self) -> usize {
        let mss: usize = if self.mss.is_some() { 4 } else { 0 };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        // With timestamps, the two bytes of SACK-permitted stand in the place of their padding.
        let sack_permitted = match (self.sack_permitted, self.timestamps) {
            (true, None) => 4,
            _ => 0,
        };
        let sack = match self.sack.len() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        let mptcp: usize = self.mptcp.iter().map(|option| option.wire_len()).sum();
        (mss + window_scale + timestamps + sack_permitted + sack + mptcp).next_multiple_of(4)
    }
}

/// A TCP segment. It is a value of fixed size: only [`Payload`] can refer to memory elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Number of the first byte, or of the SYN.
    pub seq: SeqNr,
    /// The next number expected, if [`Flags::ACK`] is set.
    pub ack: SeqNr,
    /// Control bits.
    pub flags: Flags,
    /// The receive window, not scaled back.
    pub window: u16,
    /// Options.
    pub options: TcpOptions,
    /// Data.
    pub payload: Payload,
}

impl Segment {
    /// Sequence numbers it takes (SEG.LEN of RFC 9293): data, SYN and FIN.
    pub fn seq_len(&self) -> u32 {
        let syn = u32::from(self.flags.contains(Flags::SYN));
        let fin = u32::from(self.flags.contains(Flags::FIN));
        self.payload.len() + syn + fin
    }

    /// The first number after it.
    pub fn end(&self) -> SeqNr {
        self.seq + self.seq_len()
    }

    /// Bytes of header, options and payload.
    ///
    /// # Panics
    /// The options take more than [`MAX_OPTIONS_LEN`] bytes, which is a mistake of who built the segment.
    pub fn wire_len(&self) -> usize {
        let options = self.options.wire_len();
        assert!(options <= MAX_OPTIONS_LEN, "{options} bytes of options");
        HEADER_LEN + options + self.payload.len() as usize
    }
}
