//! The options of MPTCP version 0 (RFC 6824).
//!
//! MP_JOIN, DSS, REMOVE_ADDR, MP_FAIL and MP_FASTCLOSE have the same form as in version 1. The
//! differences are:
//!
//! - MP_CAPABLE carries the sender's key from the SYN on, and never a mapping.
//! - ADD_ADDR has the IP version in the four bits after the subtype. It has no HMAC and no echo.
//! - MP_PRIO can name the address whose subflows it concerns. Without an address, it concerns the
//!   subflow that carries it.
//! - MP_TCPRST does not exist.

use std::net::IpAddr;

use super::fields::Reader;
use super::mptcp_option::{
    AddressId, BACKUP, Dss, Join, Key, OptionError, RemovedAddresses, backup_bit, closed, complete,
    failed, join, put_address, put_reserved_and, put_subtype, removed_addresses, split_subtype,
    subtype,
};
use super::tcp_options::{OptionBytes, put};
use crate::seq::DataSeq;

/// An option of MPTCP version 0 (RFC 6824).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MptcpOptionV0 {
    /// MP_CAPABLE opens a connection (RFC 6824, section 3.1).
    Capable {
        /// The version in the option. It is 0, unless a SYN proposes a later one.
        version: u8,
        /// The flags A to H, from the highest bit to the lowest.
        flags: u8,
        /// The key of the host that sends the option.
        sender_key: Key,
        /// The key of the host that receives the option. Only the third packet of the handshake
        /// carries it.
        receiver_key: Option<Key>,
    },
    /// MP_JOIN adds a subflow to a connection (RFC 6824, section 3.2).
    Join(Join),
    /// DSS maps data to the byte stream and acknowledges data of the connection (RFC 6824, section
    /// 3.3).
    Dss(Dss),
    /// ADD_ADDR announces an address (RFC 6824, section 3.4.1).
    AddAddress {
        /// ID of the address.
        id: AddressId,
        /// The announced address.
        address: IpAddr,
        /// The port at which the address accepts joins; `None` for the port of the initial subflow.
        port: Option<u16>,
    },
    /// REMOVE_ADDR withdraws addresses (RFC 6824, section 3.4.2).
    RemoveAddress(RemovedAddresses),
    /// MP_PRIO sets or clears the backup priority of subflows (RFC 6824, section 3.3.8).
    Priority {
        /// Whether the subflows get backup priority (flag B).
        backup: bool,
        /// ID of the sender's address whose subflows change their priority. `None` for the subflow
        /// that carries the option.
        address_id: Option<AddressId>,
    },
    /// MP_FAIL reports that data failed the checksum of its mapping (RFC 6824, section 3.6).
    Fail {
        /// DSN of the first byte of the mapping that failed.
        data_seq: DataSeq,
    },
    /// MP_FASTCLOSE aborts the whole connection (RFC 6824, section 3.5).
    FastClose {
        /// The key of the host that receives the option. It shows that the option is not forged.
        receiver_key: Key,
    },
}

impl MptcpOptionV0 {
    /// Parses `content`, the bytes of an option after its kind and length.
    ///
    /// # Errors
    /// Fails if the subtype is unknown in version 0, or if the content does not have the form of
    /// its subtype.
    pub fn parse(content: &[u8]) -> Result<Self, OptionError> {
        let (subtype, low, mut body) = split_subtype(content)?;
        let body = &mut body;
        let option = match subtype {
            subtype::CAPABLE => capable(low, body),
            subtype::JOIN => join(low, body).map(Self::Join),
            subtype::DSS => Dss::parse(body).map(Self::Dss),
            subtype::ADD_ADDRESS => added_address(low, body),
            subtype::REMOVE_ADDRESS => removed_addresses(body).map(Self::RemoveAddress),
            subtype::PRIORITY => Some(Self::Priority {
                backup: low & BACKUP != 0,
                address_id: body.u8(),
            }),
            subtype::FAIL => failed(body).map(|data_seq| Self::Fail { data_seq }),
            subtype::FAST_CLOSE => {
                closed(body).map(|receiver_key| Self::FastClose { receiver_key })
            }
            _ => return Err(OptionError::Unknown),
        };
        complete(option, body)
    }

    /// Appends the option to `to`, including kind and length: [`MptcpOptionV0::wire_len`] bytes.
    ///
    /// # Panics
    /// Panics if `to` has no space for it.
    pub fn emit(&self, to: &mut OptionBytes) {
        let (subtype, low) = self.subtype();
        put_subtype(self.wire_len(), subtype, low, to);
        self.emit_body(to);
    }

    /// Appends the bytes after the subtype.
    pub(super) fn emit_body(&self, to: &mut OptionBytes) {
        match self {
            Self::Capable {
                flags,
                sender_key,
                receiver_key,
                ..
            } => {
                put(&[*flags], to);
                put(&sender_key.to_be_bytes(), to);
                put(
                    receiver_key.map(u64::to_be_bytes).as_slice().as_flattened(),
                    to,
                );
            }
            Self::Join(join) => join.emit(to),
            Self::Dss(dss) => dss.emit(to),
            Self::AddAddress { id, address, port } => {
                put(&[*id], to);
                put_address(*address, to);
                put(port.map(u16::to_be_bytes).as_slice().as_flattened(), to);
            }
            Self::RemoveAddress(ids) => put(ids, to),
            Self::Priority { address_id, .. } => put(address_id.as_slice(), to),
            Self::Fail { data_seq } => put_reserved_and(data_seq.0, to),
            Self::FastClose { receiver_key } => put_reserved_and(*receiver_key, to),
        }
    }

    /// Returns the length of the option in bytes, including kind and length, without padding.
    pub fn wire_len(&self) -> usize {
        match self {
            Self::Capable { receiver_key, .. } => 12 + 8 * usize::from(receiver_key.is_some()),
            Self::Join(join) => join.wire_len(),
            Self::Dss(dss) => dss.wire_len(),
            Self::AddAddress { address, port, .. } => {
                let address_len = if address.is_ipv4() { 4 } else { 16 };
                4 + address_len + 2 * usize::from(port.is_some())
            }
            Self::RemoveAddress(ids) => 3 + ids.len(),
            Self::Priority { address_id, .. } => 3 + usize::from(address_id.is_some()),
            Self::Fail { .. } | Self::FastClose { .. } => 12,
        }
    }

    /// Returns the subtype and the four bits after it.
    pub(super) fn subtype(&self) -> (u8, u8) {
        match self {
            Self::Capable { version, .. } => (subtype::CAPABLE, *version),
            Self::Join(join) => (subtype::JOIN, join.low_bits()),
            Self::Dss(_) => (subtype::DSS, 0),
            Self::AddAddress { address, .. } => (subtype::ADD_ADDRESS, ip_version(address)),
            Self::RemoveAddress(_) => (subtype::REMOVE_ADDRESS, 0),
            Self::Priority { backup, .. } => (subtype::PRIORITY, backup_bit(*backup)),
            Self::Fail { .. } => (subtype::FAIL, 0),
            Self::FastClose { .. } => (subtype::FAST_CLOSE, 0),
        }
    }
}

fn capable(version: u8, body: &mut Reader<'_>) -> Option<MptcpOptionV0> {
    Some(MptcpOptionV0::Capable {
        version,
        flags: body.u8()?,
        sender_key: body.u64()?,
        receiver_key: body.u64(),
    })
}

fn added_address(ip_version: u8, body: &mut Reader<'_>) -> Option<MptcpOptionV0> {
    let id = body.u8()?;
    let address = match ip_version {
        4 => IpAddr::from(body.octets::<4>()?),
        6 => IpAddr::from(body.octets::<16>()?),
        _ => return None,
    };
    Some(MptcpOptionV0::AddAddress {
        id,
        address,
        port: body.u16(),
    })
}

fn ip_version(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}
