//! The options of Multipath TCP, version 1 (RFC 8684).
//!
//! To the network a subflow is a TCP connection. All that makes it a part of a larger one stands in TCP options of one
//! [kind](KIND), told apart by a subtype in the upper four bits of their third byte:
//!
//! | subtype | option | bytes | where |
//! |---|---|---|---|
//! | 0 | MP_CAPABLE | 4; 12; 20, 22, 24 | SYN; SYN/ACK; third packet, and with the first data |
//! | 1 | MP_JOIN | 12; 16; 24 | SYN; SYN/ACK; third packet |
//! | 2 | DSS | 4 to 28 | data and acknowledgments |
//! | 3 | ADD_ADDR | 8 to 30 | any segment of an established subflow |
//! | 4 | REMOVE_ADDR | 3 + IDs | the same |
//! | 5 | MP_PRIO | 3 | the same |
//! | 6 | MP_FAIL | 12 | after a wrong checksum, also on a RST |
//! | 7 | MP_FASTCLOSE | 12 | ACK or RST |
//! | 8 | MP_TCPRST | 4 | RST |
//!
//! **A connection begins** with MP_CAPABLE ([`Capable`], section 3.1). The SYN only asks for a version; the SYN/ACK brings the
//! key of who accepts, and the third packet repeats it beside the key of who opened, so that who accepts needs no state until
//! then. As the third packet may get lost, the first data bear both keys again, and with them their [`InitialMapping`]. From
//! its key follow each side's token, which names the connection, and its first data sequence number.
//!
//! **A subflow joins** with MP_JOIN ([`Join`], section 3.2): the SYN names the connection by its token, and both sides prove
//! with HMACs over two random numbers that they know the keys. The HMAC of who accepts is cut to 64 bits, because the SYN/ACK
//! has no space for more; that of who opened has 160.
//!
//! **Data** has two numbers: that of TCP in its subflow, and that of the whole connection. A DSS ([`Dss`], section 3.3) says
//! which belongs to which by a [`Mapping`] and acknowledges the connection's data by a DATA_ACK; either may be left out, and
//! either number may be sent in a [short form](DataNumber). DATA_FIN ends the data as FIN ends those of a subflow, and takes a
//! number too.
//!
//! **Addresses** that a host has besides are told by ADD_ADDR ([`SignalledAddress`], section 3.4.1), with an HMAC against
//! who would lure the connection away, and are echoed, because an option alone is not retransmitted. REMOVE_ADDR (section
//! 3.4.2) takes them back by their IDs. MP_PRIO (section 3.3.8) makes a subflow a backup one, or an ordinary one again.
//!
//! **What goes wrong** is said by MP_FAIL (section 3.7), where data was changed on the way; MP_FASTCLOSE (section 3.5) aborts
//! the whole connection as RST does one subflow; and MP_TCPRST ([`ResetReason`], section 3.6) tells the reason of a RST.
//!
//! An option that does not have the form of its subtype, or has a subtype not in this list, is ignored; MP_EXPERIMENTAL (15)
//! is such a one.

mod dss;
mod emit;
mod list;
mod parse;

use std::net::IpAddr;

pub use dss::{DataNumber, Dss, Mapping};
pub use list::MptcpOptions;

use super::tcp_options::MAX_OPTIONS_LEN;
use crate::seq::DataSeq;

pub(super) use emit::{backup_bit, put_address, put_reserved_and, put_subtype};
pub(super) use parse::{closed, complete, failed, join, removed_addresses, split_subtype};

/// The kind of all of them among the options of TCP.
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

/// Flag B of MP_JOIN and MP_PRIO: a backup subflow.
pub(super) const BACKUP: u8 = 0x01;
/// Flag E of ADD_ADDR: the answer to one.
const ECHO: u8 = 0x01;

/// Why an option is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// The kind or the subtype is not known.
    Unknown,
    /// It has not the length or form of its kind or subtype.
    Malformed,
    /// It stands where there was enough of its kind before.
    Surplus,
}

/// A key of a connection (RFC 8684, section 3.1).
pub type Key = u64;
/// What names a connection in MP_JOIN (RFC 8684, section 3.2): the first 32 bits of the hash of its key.
pub type Token = u32;
/// The random number of one side of MP_JOIN.
pub type Nonce = u32;
/// An address of a connection; 0 is the one the initial subflow started from.
pub type AddressId = u8;

/// IDs in a REMOVE_ADDR that fill the options of a segment.
const MAX_REMOVED_ADDRESSES: usize = MAX_OPTIONS_LEN - 3;

/// IDs of a REMOVE_ADDR: at least one, and no more than a segment's options have room for.
pub type RemovedAddresses = Box<[AddressId]>;

/// An option of Multipath TCP, version 1. It is moved with each segment, so what is large and rare stands elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MptcpOption {
    /// MP_CAPABLE (section 3.1).
    Capable(Capable),
    /// MP_JOIN (section 3.2).
    Join(Join),
    /// DSS (section 3.3).
    Dss(Dss),
    /// ADD_ADDR (section 3.4.1).
    AddAddress(Box<SignalledAddress>),
    /// REMOVE_ADDR (section 3.4.2).
    RemoveAddress(RemovedAddresses),
    /// MP_PRIO (section 3.3.8): whether the subflow it came on is a backup one.
    Priority {
        /// Flag B.
        backup: bool,
    },
    /// MP_FAIL (section 3.7): the data from this number on did not arrive as it was sent.
    Fail {
        /// Where the mapping that failed starts.
        data_seq: DataSeq,
    },
    /// MP_FASTCLOSE (section 3.5).
    FastClose {
        /// The key of who receives it.
        receiver_key: Key,
    },
    /// MP_TCPRST (section 3.6).
    Reset(ResetReason),
}

/// MP_CAPABLE. Flags are those of the figure in RFC 8684, section 3.1, all eight as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capable {
    /// In the SYN. Any version is understood as far as this.
    Syn {
        /// The highest version that the sender speaks.
        version: u8,
        /// Flags A to H.
        flags: u8,
    },
    /// In the SYN/ACK.
    SynAck {
        /// The version that is spoken.
        version: u8,
        /// Flags A to H.
        flags: u8,
        /// The key of who accepts.
        sender_key: Key,
    },
    /// In the third packet, and with data until it is acknowledged.
    Ack {
        /// The version that is spoken.
        version: u8,
        /// Flags A to H.
        flags: u8,
        /// The key of who opened.
        sender_key: Key,
        /// The key of who accepts.
        receiver_key: Key,
        /// What the data of the segment is, if there is any.
        data: Option<InitialMapping>,
    },
}

/// Which data MP_CAPABLE maps: the first of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialMapping {
    /// How many bytes.
    pub len: u16,
    /// The checksum over the mapping, if the connection uses them.
    pub checksum: Option<u16>,
}

impl Capable {
    /// A: checksums are required.
    pub const CHECKSUM_REQUIRED: u8 = 0x80;
    /// B: extensions, not understood by this version.
    pub const EXTENSIBILITY: u8 = 0x40;
    /// C: no subflows to the address and port of the initial one.
    pub const NO_JOIN_TO_INITIAL: u8 = 0x20;
    /// H: HMAC-SHA256.
    pub const HMAC_SHA256: u8 = 0x01;
}

/// MP_JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// In the SYN.
    Syn {
        /// Flag B.
        backup: bool,
        /// ID of the address it comes from.
        address_id: AddressId,
        /// Which connection of the receiver.
        token: Token,
        /// The random number of who opens.
        nonce: Nonce,
    },
    /// In the SYN/ACK.
    SynAck {
        /// Flag B.
        backup: bool,
        /// ID of the address it comes from.
        address_id: AddressId,
        /// The first 64 bits of the HMAC of who accepts.
        truncated_hmac: u64,
        /// The random number of who accepts.
        nonce: Nonce,
    },
    /// In the third packet.
    Ack {
        /// The first 160 bits of the HMAC of who opened.
        hmac: [u8; 20],
    },
}

/// ADD_ADDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalledAddress {
    /// Its ID.
    pub id: AddressId,
    /// The address.
    pub address: IpAddr,
    /// Where it listens, if not at the port of the initial subflow.
    pub port: Option<u16>,
    /// The last 64 bits of the HMAC; none in an echo.
    pub truncated_hmac: Option<u64>,
}

/// MP_TCPRST: why a subflow is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetReason {
    /// Flags U, V, W and T, as received.
    pub flags: u8,
    /// The code of section 3.6.
    pub code: u8,
}

impl ResetReason {
    /// T: the reason may pass.
    pub const TRANSIENT: u8 = 0x01;
    /// No reason.
    pub const UNSPECIFIED: u8 = 0;
    /// Something of MPTCP is wrong.
    pub const MPTCP_ERROR: u8 = 1;
    /// No resources.
    pub const LACK_OF_RESOURCES: u8 = 2;
    /// Not allowed here.
    pub const PROHIBITED: u8 = 3;
    /// Too much data unacknowledged.
    pub const TOO_MUCH_OUTSTANDING_DATA: u8 = 4;
    /// Too slow or too lossy.
    pub const BAD_PERFORMANCE: u8 = 5;
    /// A middlebox changes or hides what is sent.
    pub const MIDDLEBOX: u8 = 6;

    /// What is sent with that code: of these reasons only those that lie in the subflow, and not in the path or the peer, pass.
    pub fn of(code: u8) -> Self {
        let stays = matches!(code, Self::MPTCP_ERROR | Self::PROHIBITED | Self::MIDDLEBOX);
        let flags = if stays { 0 } else { Self::TRANSIENT };
        Self { flags, code }
    }

    /// Whether another try may go well (flag T).
    pub fn is_transient(self) -> bool {
        self.flags & Self::TRANSIENT != 0
    }
}

impl MptcpOption {
    /// Bytes of the option, without padding.
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
