//! The TCP header (RFC 9293, section 3.1).

use super::error::{Header, ParseError};
use super::fields::{u16_at, u32_at};
use super::options::OptionsIter;
use super::segment::Flags;
use crate::seq::SeqNr;

/// Bytes of a TCP header without options.
pub(crate) const TCP_HEADER_LEN: usize = 20;
/// The protocol number of TCP in IP.
pub const TCP_PROTOCOL: u8 = 6;

/// A borrowed TCP segment. Lengths are checked once at creation, so the accessors cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a> {
    header: &'a [u8; TCP_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// Creates a view of the segment that `bytes` consists of. TCP has no length field, so the
    /// payload ends with `bytes`.
    ///
    /// # Errors
    /// Fails if the header is incomplete, or if its length field is too small.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = Header::Tcp.split(bytes)?;
        let header_len = usize::from(header[12] >> 4) * 4;
        let (options, payload) = Header::Tcp.split_options(rest, header_len, TCP_HEADER_LEN)?;
        Ok(Self {
            header,
            options,
            payload,
        })
    }

    /// Creates a view of a segment. `bytes` may hold only the first part of the segment, as in a
    /// capture.
    ///
    /// The fixed header must be complete. Options can be truncated; [`TcpView::header_len`] returns
    /// the length stated in the header.
    ///
    /// # Errors
    /// Fails if the fixed header is incomplete, or if its length field is too small.
    pub fn from_prefix(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = Header::Tcp.split(bytes)?;
        let header_len = usize::from(header[12] >> 4) * 4;
        let options_len = Header::Tcp.len_after(header_len, TCP_HEADER_LEN)?;
        let (options, payload) = rest.split_at(options_len.min(rest.len()));
        Ok(Self {
            header,
            options,
            payload,
        })
    }

    /// Returns the port of the sender.
    pub fn source_port(&self) -> u16 {
        u16_at(self.header, 0)
    }

    /// Returns the port of the receiver.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.header, 2)
    }

    /// Returns the sequence number of the first byte of payload, or of the SYN.
    pub fn seq(&self) -> SeqNr {
        SeqNr(u32_at(self.header, 4))
    }

    /// Returns the next sequence number that the sender expects. Valid only if the ACK flag is set.
    pub fn ack(&self) -> SeqNr {
        SeqNr(u32_at(self.header, 8))
    }

    /// Returns the control bits of the lower byte: CWR, ECE, URG, ACK, PSH, RST, SYN and FIN.
    pub fn flags(&self) -> Flags {
        Flags(self.header[13])
    }

    /// Returns the window field, before window scaling is applied. The unit depends on the shift
    /// count of the sender.
    pub fn window(&self) -> u16 {
        u16_at(self.header, 14)
    }

    /// Returns the length of the header in bytes, including options, as stated in the header.
    pub fn header_len(&self) -> usize {
        usize::from(self.header[12] >> 4) * 4
    }

    /// Returns an iterator over the options, as pairs of kind and value.
    pub fn options(&self) -> OptionsIter<'a> {
        OptionsIter::new(self.options)
    }

    /// Returns the bytes of all options, including padding. If the segment is truncated, some bytes
    /// can be missing.
    pub fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// Returns the bytes of payload that are present.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
