//! Why bytes are no packet.

use std::error::Error;
use std::fmt;

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// There are fewer bytes than a header says or needs.
    Truncated {
        /// The header.
        header: Header,
        /// Bytes that there are.
        found_bytes: usize,
        /// Bytes that there must be.
        needed_bytes: usize,
    },
    /// A header's own length is impossible.
    Length {
        /// The header.
        header: Header,
        /// Bytes that its field says.
        found_bytes: usize,
        /// The fewest that it may say.
        least_bytes: usize,
    },
    /// Neither IPv4 nor IPv6.
    Version {
        /// The first four bits.
        found: u8,
    },
    /// A fragment of a packet; who sends and receives segments sees to it that there are none (RFC 9293, section 3.7.2).
    Fragment,
    /// Another transport than the one asked for.
    Protocol {
        /// Its protocol number.
        found: u8,
        /// The one asked for.
        expected: u8,
    },
    /// A message of ICMP that tells of no error, or of one that says nothing to TCP.
    NoError {
        /// Its type.
        kind: u8,
    },
    /// The bytes are not those that were sent.
    Checksum {
        /// Whose checksum it is.
        header: Header,
    },
}

/// A header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// RFC 791, section 3.1.
    Ipv4,
    /// RFC 8200, section 3.
    Ipv6,
    /// RFC 8200, section 4.
    Ipv6Extension,
    /// RFC 9293, section 3.1.
    Tcp,
    /// RFC 768.
    Udp,
    /// RFC 792; RFC 4443, section 2.1.
    Icmp,
}

/// What views check before they take a header apart.
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

    /// The fixed part of the header, and what follows it.
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

    /// The header's options and what follows the header, from what follows its fixed part.
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

    /// What is left of a length behind its first bytes.
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
