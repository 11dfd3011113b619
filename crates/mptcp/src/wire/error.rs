//! Errors of parsing packets.

use std::error::Error;
use std::fmt;

/// Reasons why bytes could not be parsed as a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The input is shorter than the header, or shorter than the length that the header states.
    Truncated {
        /// The header that is incomplete, or whose length field is too large.
        header: Header,
        /// Number of bytes present, from the start of this header.
        found_bytes: usize,
        /// Number of bytes needed, from the start of this header.
        needed_bytes: usize,
    },
    /// The length field of a header is smaller than the smallest valid length.
    Length {
        /// The header that contains the length field.
        header: Header,
        /// The value of the length field, in bytes.
        found_bytes: usize,
        /// The smallest valid length, in bytes.
        least_bytes: usize,
    },
    /// The version field of the IP header is not the version that the parser expects: 4 for IPv4, 6
    /// for IPv6.
    Version {
        /// The value of the version field, which is the upper half of the first byte.
        found: u8,
    },
    /// The packet is a fragment. TCP senders avoid fragmentation (RFC 9293, section 3.7.2).
    Fragment,
    /// The packet carries a transport protocol other than the one that the parser expects.
    Protocol {
        /// The protocol number in the packet.
        found: u8,
        /// The expected protocol number.
        expected: u8,
    },
    /// The ICMP message is not an error message, or it is an error that does not concern TCP.
    NoError {
        /// The type field of the ICMP message.
        kind: u8,
    },
    /// A checksum is wrong: the bytes were changed after they were sent.
    Checksum {
        /// The header with the wrong checksum.
        header: Header,
    },
}

/// Names a header in a [`ParseError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The IPv4 header (RFC 791, section 3.1).
    Ipv4,
    /// The fixed header of IPv6 (RFC 8200, section 3).
    Ipv6,
    /// An extension header of IPv6 (RFC 8200, section 4).
    Ipv6Extension,
    /// The TCP header (RFC 9293, section 3.1).
    Tcp,
    /// The UDP header (RFC 768).
    Udp,
    /// The header of ICMP (RFC 792) or ICMPv6 (RFC 4443, section 2.1).
    Icmp,
}

/// Length checks that views make before they read a header.
impl Header {
    pub(super) fn check_len(
        self,
        found_bytes: usize,
        needed_bytes: usize,
    ) -> Result<(), ParseError> {
        if found_bytes < needed_bytes {
            return Err(ParseError::Truncated {
                header: self,
                found_bytes,
                needed_bytes,
            });
        }
        Ok(())
    }

    /// Splits `bytes` into the fixed part of the header, of `LEN` bytes, and the bytes after it.
    /// Fails if `bytes` is shorter.
    pub(super) fn split<const LEN: usize>(
        self,
        bytes: &[u8],
    ) -> Result<(&[u8; LEN], &[u8]), ParseError> {
        bytes.split_first_chunk().ok_or(ParseError::Truncated {
            header: self,
            found_bytes: bytes.len(),
            needed_bytes: LEN,
        })
    }

    /// Splits `rest`, the bytes after the fixed part of the header, into options and payload.
    /// `header_len` is the length that the header states and `fixed_len` that of its fixed part,
    /// both in bytes. Fails if `rest` is shorter than the options.
    pub(super) fn split_options(
        self,
        rest: &[u8],
        header_len: usize,
        fixed_len: usize,
    ) -> Result<(&[u8], &[u8]), ParseError> {
        let options_len = self.len_after(header_len, fixed_len)?;
        rest.split_at_checked(options_len)
            .ok_or(ParseError::Truncated {
                header: self,
                found_bytes: fixed_len + rest.len(),
                needed_bytes: header_len,
            })
    }

    /// Returns `found_bytes` - `least_bytes`. Fails with [`ParseError::Length`] if `found_bytes`,
    /// the value of a length field, is smaller than `least_bytes`.
    pub(super) fn len_after(
        self,
        found_bytes: usize,
        least_bytes: usize,
    ) -> Result<usize, ParseError> {
        found_bytes
            .checked_sub(least_bytes)
            .ok_or(ParseError::Length {
                header: self,
                found_bytes,
                least_bytes,
            })
    }
}

impl fmt::Display for Header {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Ipv6Extension => "IPv6 extension",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Icmp => "ICMP",
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated {
                header,
                found_bytes,
                needed_bytes,
            } => write!(
                to,
                "{header}: {found_bytes} bytes, where the header asks for {needed_bytes}"
            ),
            Self::Length {
                header,
                found_bytes,
                least_bytes,
            } => write!(
                to,
                "{header}: a length of {found_bytes} bytes, at least {least_bytes} are allowed"
            ),
            Self::Version { found } => write!(to, "IP version {found}, 4 and 6 are known"),
            Self::Fragment => write!(to, "a fragment of an IP packet, whole ones are expected"),
            Self::Protocol { found, expected } => {
                write!(to, "IP protocol {found}, expected {expected}")
            }
            Self::NoError { kind } => {
                write!(to, "ICMP: type {kind} is no error of a packet on its way")
            }
            Self::Checksum { header } => write!(to, "{header}: the checksum is wrong"),
        }
    }
}

impl Error for ParseError {}
