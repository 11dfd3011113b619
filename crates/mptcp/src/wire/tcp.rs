//! The header of TCP (RFC 9293, section 3.1).

use super::error::{Header, ParseError};
use super::fields::{u16_at, u32_at};
use super::options::OptionsIter;
use super::segment::Flags;
use crate::seq::SeqNr;

/// Bytes of a TCP header without options.
pub(crate) const TCP_HEADER_LEN: usize = 20;
/// TCP's number in IP.
pub const TCP_PROTOCOL: u8 = 6;

/// A segment in memory. What `new` has checked, no accessor can fail at.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a> {
    header: &'a [u8; TCP_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// The segment that `bytes` are. TCP has no length of its own: the payload ends where they end.
    ///
    /// # Errors
    /// The header is not all there, or shorter than it may be.
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

    /// A segment of which a capture kept no more than the first bytes, the fixed header among them: options as far as they are
    /// there, and [`TcpView::header_len`] as the header says.
    ///
    /// # Errors
    /// The fixed header is not all there, or says less than its own length.
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

    /// Port of the sender.
    pub fn source_port(&self) -> u16 {
        u16_at(self.header, 0)
    }

    /// Port of the receiver.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.header, 2)
    }

    /// Number of the first byte, or of the SYN.
    pub fn seq(&self) -> SeqNr {
        SeqNr(u32_at(self.header, 4))
    }

    /// The next number expected.
    pub fn ack(&self) -> SeqNr {
        SeqNr(u32_at(self.header, 8))
    }

    /// Control bits.
    pub fn flags(&self) -> Flags {
        Flags(self.header[13])
    }

    /// The receive window, not scaled back.
    pub fn window(&self) -> u16 {
        u16_at(self.header, 14)
    }

    /// Bytes of the header, options included.
    pub fn header_len(&self) -> usize {
        usize::from(self.header[12] >> 4) * 4
    }

    /// Options as pairs of kind and content.
    pub fn options(&self) -> OptionsIter<'a> {
        OptionsIter::new(self.options)
    }

    /// The bytes of all options and their paddings.
    pub fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// Data.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
