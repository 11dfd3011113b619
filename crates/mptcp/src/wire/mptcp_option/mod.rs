//! The options of MPTCP version 1 (RFC 8684).
//!
//! To the network, a subflow is an ordinary TCP connection. Everything that makes it part of an
//! MPTCP connection is in TCP options of one [kind](KIND). The upper four bits of the third byte
//! hold the subtype:
//!
//! | subtype | option | length in bytes | sent in |
//! |---|---|---|---|
//! | 0 | MP_CAPABLE | 4; 12; 20, 22, 24 | SYN; SYN/ACK; third packet, and with the first data |
//! | 1 | MP_JOIN | 12; 16; 24 | SYN; SYN/ACK; third packet |
//! | 2 | DSS | 4 to 28 | data and acknowledgments |
//! | 3 | ADD_ADDR | 8 to 30 | any segment of an established subflow |
//! | 4 | REMOVE_ADDR | 3 + IDs | any segment of an established subflow |
//! | 5 | MP_PRIO | 3 | any segment of an established subflow |
//! | 6 | MP_FAIL | 12 | after a wrong checksum, also on a RST |
//! | 7 | MP_FASTCLOSE | 12 | ACK or RST |
//! | 8 | MP_TCPRST | 4 | RST |
//!
//! **Connections** start with MP_CAPABLE ([`Capable`], section 3.1). The SYN only proposes a
//! version. The SYN/ACK carries the acceptor's key. The third packet carries both keys, so the
//! acceptor needs no state until then. Because the third packet can be lost, the first data carries
//! both keys again, together with its [`InitialMapping`]. Each key determines its host's token,
//! which names the connection, and its initial DSN.
//!
//! **Joins** use MP_JOIN ([`Join`], section 3.2). The SYN names the connection by its token. Both
//! hosts prove with HMACs over two nonces that they know the keys. The acceptor's HMAC is truncated
//! to 64 bits, because the SYN/ACK has no space for more; the opener's has 160 bits.
//!
//! **Data** has two sequence numbers: the SSN of the subflow, and the DSN of the connection. A DSS
//! ([`Dss`], section 3.3) relates them with a [`Mapping`] and acknowledges the connection's data
//! with a DATA_ACK. Either can be omitted, and either number can be sent in a [short
//! form](DataNumber). DATA_FIN ends the byte stream, as FIN ends the data of a subflow, and
//! occupies one DSN.
//!
//! **Addresses** are announced with ADD_ADDR ([`SignalledAddress`], section 3.4.1). Its HMAC
//! prevents an attacker from redirecting the connection. The receiver echoes an announcement,
//! because options are not retransmitted. REMOVE_ADDR (section 3.4.2) withdraws addresses by their
//! IDs. MP_PRIO (section 3.3.8) sets or clears the backup priority of a subflow.
//!
//! **Errors** use three options. MP_FAIL (section 3.7) reports data that was changed on the path.
//! MP_FASTCLOSE (section 3.5) aborts the whole connection, as RST aborts a subflow. MP_TCPRST
//! ([`ResetReason`], section 3.6) gives the reason of a RST.
//!
//! An option is ignored if it is malformed or if its subtype is not in the table, such as
//! MP_EXPERIMENTAL (15).

mod dss;
mod emit;
mod list;
mod parse;

use std::net::IpAddr;

pub use dss::{DataNumber, Dss, Mapping};
pub use list::MptcpOptions;

use super::mptcp_v0::MptcpOptionV0;
use super::tcp_options::MAX_OPTIONS_LEN;
use crate::seq::DataSeq;

pub(super) use emit::{backup_bit, put_address, put_reserved_and, put_subtype};
pub(super) use parse::{closed, complete, failed, join, removed_addresses, split_subtype};

/// The TCP option kind that all MPTCP options have in common (RFC 8684, section 3).
pub const KIND: u8 = 30;

/// The subtypes (RFC 8684, section 7.2).
pub(super) mod subtype {
    pub const CAPABLE: u8 = 0;
    pub const JOIN: u8 = 1;
    pub const DSS: u8 = 2;
    pub const ADD_ADDRESS: u8 = 3;
    pub const REMOVE_ADDRESS: u8 = 4;
    pub const PRIORITY: u8 = 5;
    pub const FAIL: u8 = 6;
    pub const FAST_CLOSE: u8 = 7;
    pub const RESET: u8 = 8;
}

/// Flag B of MP_JOIN and MP_PRIO: the subflow has backup priority.
pub(super) const BACKUP: u8 = 0x01;
/// Flag E of ADD_ADDR: the option is an echo.
const ECHO: u8 = 0x01;

/// A version of MPTCP that the engine supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Version 0 (RFC 6824), which the out-of-tree kernel used.
    Zero,
    /// Version 1 (RFC 8684).
    #[default]
    One,
}

impl Version {
    /// Returns the number of the version in MP_CAPABLE.
    pub fn number(self) -> u8 {
        match self {
            Self::Zero => 0,
            Self::One => 1,
        }
    }
}

/// Reasons why an option of a received segment is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// The kind of the TCP option or the subtype of the MPTCP option is unknown.
    Unknown,
    /// The length of the option is invalid for its kind or subtype, or its content is.
    Malformed,
    /// The segment has the same TCP option already, or too many MPTCP options.
    Surplus,
}

/// A key of a host for a connection, from which the host's token and initial DSN are computed (RFC
/// 8684, section 3.1).
pub type Key = u64;
/// Identifies a connection in the SYN of MP_JOIN: the first 32 bits of the hash of a key (RFC 8684,
/// section 3.2).
pub type Token = u32;
/// A random number that one host sends in MP_JOIN (RFC 8684, section 3.2).
pub type Nonce = u32;
/// The ID of an address in MPTCP options. 0 is the address of the initial subflow (RFC 8684,
/// section 3.4.1).
pub type AddressId = u8;

/// The maximum number of IDs in a REMOVE_ADDR, limited by the option space of a segment.
const MAX_REMOVED_ADDRESSES: usize = MAX_OPTIONS_LEN - 3;

/// The IDs in a REMOVE_ADDR: at least one, and at most as many as the option space can hold.
pub type RemovedAddresses = Box<[AddressId]>;

/// An option of MPTCP version 1 (RFC 8684). Large and rare variants are boxed, because options are
/// moved with each segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MptcpOption {
    /// MP_CAPABLE opens a connection (RFC 8684, section 3.1).
    Capable(Capable),
    /// MP_JOIN adds a subflow to a connection (RFC 8684, section 3.2).
    Join(Join),
    /// DSS maps data to the byte stream and acknowledges data of the connection (RFC 8684, section
    /// 3.3).
    Dss(Dss),
    /// ADD_ADDR announces an address or echoes an announcement (RFC 8684, section 3.4.1).
    AddAddress(Box<SignalledAddress>),
    /// REMOVE_ADDR withdraws addresses (RFC 8684, section 3.4.2).
    RemoveAddress(RemovedAddresses),
    /// MP_PRIO sets or clears the backup priority of the subflow that carries it (RFC 8684, section
    /// 3.3.8).
    Priority {
        /// Whether the subflow has backup priority (flag B).
        backup: bool,
    },
    /// MP_FAIL reports that data failed the checksum of its mapping (RFC 8684, section 3.7).
    Fail {
        /// DSN of the first byte of the mapping that failed.
        data_seq: DataSeq,
    },
    /// MP_FASTCLOSE aborts the whole connection (RFC 8684, section 3.5).
    FastClose {
        /// The key of the host that receives the option. It shows that the option is not forged.
        receiver_key: Key,
    },
    /// MP_TCPRST gives the reason of a RST (RFC 8684, section 3.6).
    Reset(ResetReason),
    /// An option in a form that only version 0 has: ADD_ADDR without an HMAC, or MP_PRIO with an
    /// address ID (RFC 6824, sections 3.4.1 and 3.3.8).
    Version0(Box<MptcpOptionV0>),
}

/// MP_CAPABLE in its three forms (RFC 8684, section 3.1). All eight flags are kept as received.
///
/// In version 0, the SYN has the form of the SYN/ACK, because it carries the opener's key, and only
/// the third packet has the third form (RFC 6824, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capable {
    /// MP_CAPABLE of a SYN. The parser accepts any version.
    Syn {
        /// The highest version that the sender supports.
        version: u8,
        /// The flags A to H, from the highest bit to the lowest.
        flags: u8,
    },
    /// MP_CAPABLE of a SYN/ACK, and of a SYN in version 0.
    SynAck {
        /// The negotiated version.
        version: u8,
        /// The flags A to H, from the highest bit to the lowest.
        flags: u8,
        /// The key of the host that sends the option.
        sender_key: Key,
    },
    /// MP_CAPABLE of the third packet, and of the first data until it is acknowledged.
    Ack {
        /// The negotiated version.
        version: u8,
        /// The flags A to H, from the highest bit to the lowest.
        flags: u8,
        /// The opener's key.
        sender_key: Key,
        /// The acceptor's key.
        receiver_key: Key,
        /// The mapping of the segment's payload, or `None` if the segment has no payload.
        data: Option<InitialMapping>,
    },
}

/// The mapping in MP_CAPABLE, which covers the first data of the connection. It starts with the
/// first byte of the byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialMapping {
    /// Length of the data in bytes.
    pub len: u16,
    /// Checksum of the mapping, if the connection uses checksums.
    pub checksum: Option<u16>,
}

impl Capable {
    /// Flag A of MP_CAPABLE: the sender requires checksums.
    pub const CHECKSUM_REQUIRED: u8 = 0x80;
    /// Flag B of MP_CAPABLE: reserved for extensions. Version 1 defines none.
    pub const EXTENSIBILITY: u8 = 0x40;
    /// Flag C of MP_CAPABLE: the peer must not join at the address and port of the initial subflow.
    pub const NO_JOIN_TO_INITIAL: u8 = 0x20;
    /// Flag H of MP_CAPABLE: the connection uses HMAC-SHA256, or HMAC-SHA1 in version 0.
    pub const HMAC_SHA256: u8 = 0x01;
}

/// MP_JOIN in its three forms (RFC 8684, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// MP_JOIN of a SYN.
    Syn {
        /// Whether the subflow has backup priority (flag B).
        backup: bool,
        /// ID of the source address of the SYN.
        address_id: AddressId,
        /// The token of the host that receives the SYN, which identifies the connection.
        token: Token,
        /// The random number of the host that sends the SYN.
        nonce: Nonce,
    },
    /// MP_JOIN of a SYN/ACK.
    SynAck {
        /// Whether the subflow has backup priority (flag B).
        backup: bool,
        /// ID of the source address of the SYN/ACK.
        address_id: AddressId,
        /// The first 64 bits of the HMAC of the host that sends the SYN/ACK.
        truncated_hmac: u64,
        /// The random number of the host that sends the SYN/ACK.
        nonce: Nonce,
    },
    /// MP_JOIN of the third packet.
    Ack {
        /// The first 160 bits of the HMAC of the host that sent the SYN.
        hmac: [u8; 20],
    },
}

/// ADD_ADDR (RFC 8684, section 3.4.1): announces an address, or echoes an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalledAddress {
    /// ID of the address.
    pub id: AddressId,
    /// The announced address.
    pub address: IpAddr,
    /// The port at which the address accepts joins; `None` for the port of the initial subflow.
    pub port: Option<u16>,
    /// The last 64 bits of the HMAC of the announcement. `None` in an echo.
    pub truncated_hmac: Option<u64>,
}

/// MP_TCPRST: the reason why a subflow is reset (RFC 8684, section 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetReason {
    /// The flags U, V, W and T, as received.
    pub flags: u8,
    /// The reason code (RFC 8684, section 3.6), such as [`ResetReason::MPTCP_ERROR`].
    pub code: u8,
}

impl ResetReason {
    /// Flag T of MP_TCPRST: the reason is transient, so a later join may succeed.
    pub const TRANSIENT: u8 = 0x01;
    /// Reason code 0 of MP_TCPRST: the error is not specified.
    pub const UNSPECIFIED: u8 = 0;
    /// Reason code 1 of MP_TCPRST: MPTCP options are invalid, such as an unknown token.
    pub const MPTCP_ERROR: u8 = 1;
    /// Reason code 2 of MP_TCPRST: the host lacks resources for the subflow.
    pub const LACK_OF_RESOURCES: u8 = 2;
    /// Reason code 3 of MP_TCPRST: the sender's policy prohibits the subflow.
    pub const PROHIBITED: u8 = 3;
    /// Reason code 4 of MP_TCPRST: too much data is outstanding on the subflow that other subflows
    /// have delivered already.
    pub const TOO_MUCH_OUTSTANDING_DATA: u8 = 4;
    /// Reason code 5 of MP_TCPRST: the performance of the subflow is too low.
    pub const BAD_PERFORMANCE: u8 = 5;
    /// Reason code 6 of MP_TCPRST: a middlebox makes MPTCP options on the subflow invalid.
    pub const MIDDLEBOX: u8 = 6;

    /// Creates a reason with `code`. Sets flag T unless the code is [`Self::MPTCP_ERROR`],
    /// [`Self::PROHIBITED`] or [`Self::MIDDLEBOX`], because these reasons are lasting properties of
    /// the peer or the path.
    pub fn of(code: u8) -> Self {
        let stays = matches!(code, Self::MPTCP_ERROR | Self::PROHIBITED | Self::MIDDLEBOX);
        let flags = if stays { 0 } else { Self::TRANSIENT };
        Self { flags, code }
    }

    /// Returns whether the reason is transient (flag T), so a later join may succeed.
    pub fn is_transient(self) -> bool {
        self.flags & Self::TRANSIENT != 0
    }
}

impl MptcpOption {
    /// Returns the length of the option in bytes, including kind and length, without padding.
    pub fn wire_len(&self) -> usize {
        match self {
            Self::Capable(capable) => capable.wire_len(),
            Self::Join(join) => join.wire_len(),
            Self::Dss(dss) => dss.wire_len(),
            Self::AddAddress(address) => address.wire_len(),
            Self::RemoveAddress(ids) => 3 + ids.len(),
            Self::Priority { .. } => 3,
            Self::Fail { .. } | Self::FastClose { .. } => 12,
            Self::Reset(_) => 4,
            Self::Version0(option) => option.wire_len(),
        }
    }
}

impl Capable {
    fn wire_len(&self) -> usize {
        match self {
            Self::Syn { .. } => 4,
            Self::SynAck { .. } => 12,
            Self::Ack { data, .. } => {
                20 + data.map_or(0, |data| 2 + two_if(data.checksum.is_some()))
            }
        }
    }
}

impl Join {
    pub(super) fn wire_len(&self) -> usize {
        match self {
            Self::Syn { .. } => 12,
            Self::SynAck { .. } => 16,
            Self::Ack { .. } => 24,
        }
    }
}

impl SignalledAddress {
    fn wire_len(&self) -> usize {
        let address = if self.address.is_ipv4() { 4 } else { 16 };
        let hmac = if self.truncated_hmac.is_some() { 8 } else { 0 };
        4 + address + two_if(self.port.is_some()) + hmac
    }
}

fn two_if(present: bool) -> usize {
    2 * usize::from(present)
}
