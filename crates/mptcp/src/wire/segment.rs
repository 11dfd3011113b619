//! A TCP segment (RFC 9293, section 3.1) with its options.

use std::fmt;
use std::net::IpAddr;
use std::ops::{BitOr, BitOrAssign};

use super::checksum::Sum;
use super::error::{Header, ParseError};
use super::tcp::{TCP_HEADER_LEN, TCP_PROTOCOL, TcpView};
use super::tcp_options::{IgnoredOptions, MAX_OPTIONS_LEN, OptionBytes, TcpOptions};
use crate::payload::Payload;
use crate::seq::SeqNr;

/// The control bits of a TCP segment (RFC 9293, section 3.1), as an 8-bit field.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No control bits.
    pub const NONE: Self = Self(0);
    /// FIN: the sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// SYN: synchronizes sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// RST: resets the connection.
    pub const RST: Self = Self(0x04);
    /// PSH: the receiver should deliver the data to the application at once.
    pub const PSH: Self = Self(0x08);
    /// ACK: the acknowledgment field is valid.
    pub const ACK: Self = Self(0x10);
    /// URG: the urgent pointer is valid. The engine never sets this flag and reads urgent data as
    /// ordinary data (RFC 6093).
    pub const URG: Self = Self(0x20);
    /// ECE: echoes a congestion mark (RFC 3168, section 6.1).
    pub const ECE: Self = Self(0x40);
    /// CWR: the congestion window was reduced (RFC 3168, section 6.1).
    pub const CWR: Self = Self(0x80);

    /// Returns whether all bits of `others` are set in `self`.
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

/// A TCP segment: the fields of the header, options and payload. The urgent pointer and the
/// reserved bits are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub destination_port: u16,
    /// The sequence number of the first byte of payload, or of the SYN.
    pub seq: SeqNr,
    /// The next sequence number that the sender expects. Valid only if [`Flags::ACK`] is set.
    pub ack: SeqNr,
    /// The control bits.
    pub flags: Flags,
    /// The window field, in units of 2^shift bytes, where shift is the shift count of the sender.
    /// In a SYN, the unit is one byte.
    pub window: u16,
    /// The TCP options, including those of MPTCP.
    pub options: TcpOptions,
    /// The data of the segment.
    pub payload: Payload,
}

impl Segment {
    /// Returns the number of sequence numbers that the segment occupies (SEG.LEN of RFC 9293): one
    /// for each byte of payload, for a SYN and for a FIN.
    pub fn seq_len(&self) -> u32 {
        let syn = u32::from(self.flags.contains(Flags::SYN));
        let fin = u32::from(self.flags.contains(Flags::FIN));
        self.payload.len() + syn + fin
    }

    /// Returns the first sequence number after the segment: `seq` plus [`Segment::seq_len`].
    pub fn end(&self) -> SeqNr {
        self.seq + self.seq_len()
    }

    /// Returns the length of header, options and payload in bytes.
    ///
    /// # Panics
    /// Panics if the options exceed [`MAX_OPTIONS_LEN`] bytes.
    pub fn wire_len(&self) -> usize {
        let options = self.options.wire_len();
        assert!(options <= MAX_OPTIONS_LEN, "{options} bytes of options");
        TCP_HEADER_LEN + options + self.payload.len() as usize
    }

    /// Creates a segment from `view`, which [`check`] has verified, and `payload`. Also returns how
    /// many options were ignored.
    #[inline]
    pub(super) fn of_view(view: &TcpView<'_>, payload: Payload) -> (Self, IgnoredOptions) {
        let (options, ignored) = TcpOptions::parse(view.options());
        let segment = Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            options,
            payload,
        };
        (segment, ignored)
    }

    /// Returns the length in bytes of the segment with `options` in serialized form: header,
    /// options and payload.
    pub(super) fn len_with(&self, options: &OptionBytes) -> usize {
        TCP_HEADER_LEN + options.len() + self.payload.len() as usize
    }

    /// Appends the bytes of the segment to `to`. `options` are the segment's options as
    /// [`TcpOptions::emit`] returns them. `source` and `destination` are the addresses that the
    /// checksum covers.
    pub(super) fn emit(
        &self,
        options: &OptionBytes,
        source: IpAddr,
        destination: IpAddr,
        to: &mut Vec<u8>,
    ) {
        let checksum_at = to.len() + 16;
        let len = self.len_with(options);
        let mut sum = Sum::of_pseudo_header(source, destination, TCP_PROTOCOL, len);
        // Each part is summed from its source, because reading back bytes that were just written is
        // slow.
        let mut put = |bytes: &[u8]| {
            sum.add_bytes(bytes);
            to.extend_from_slice(bytes);
        };
        put(&self.header(options.len()));
        put(options);
        self.payload.for_each_chunk(put);
        to[checksum_at..checksum_at + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    }

    /// Returns the fixed part of the header, with a checksum of zero.
    fn header(&self, options_len: usize) -> [u8; TCP_HEADER_LEN] {
        let mut header = [0; TCP_HEADER_LEN];
        header[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        header[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        header[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        // Data offset in the upper four bits: the length of header and options in 32-bit words.
        header[12] = (((TCP_HEADER_LEN + options_len) / 4) << 4) as u8;
        header[13] = self.flags.0;
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        header
    }
}

/// Creates a view of `segment`, which must be complete, and verifies its checksum.
///
/// # Errors
/// Fails if the header is incomplete, or if the checksum does not match a segment from `source` to
/// `destination`.
#[inline]
pub(super) fn check(
    segment: &[u8],
    source: IpAddr,
    destination: IpAddr,
) -> Result<TcpView<'_>, ParseError> {
    let view = TcpView::new(segment)?;
    let mut sum = Sum::of_pseudo_header(source, destination, TCP_PROTOCOL, segment.len());
    sum.add_bytes(segment);
    if !sum.is_right() {
        return Err(ParseError::Checksum {
            header: Header::Tcp,
        });
    }
    Ok(view)
}
