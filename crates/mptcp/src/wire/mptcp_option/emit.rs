//! Serialization of MPTCP options. Reserved bits are zero.

use std::net::IpAddr;

use super::{BACKUP, Capable, ECHO, Join, KIND, MptcpOption, SignalledAddress, subtype};
use crate::wire::tcp_options::{OptionBytes, put};

impl MptcpOption {
    /// Appends the option to `to`, including kind and length: [`MptcpOption::wire_len`] bytes.
    ///
    /// # Panics
    /// Panics if `to` has no space for it.
    pub fn emit(&self, to: &mut OptionBytes) {
        let (subtype, low) = self.subtype();
        put_subtype(self.wire_len(), subtype, low, to);
        match self {
            Self::Capable(capable) => capable.emit(to),
            Self::Join(join) => join.emit(to),
            Self::Dss(dss) => dss.emit(to),
            Self::AddAddress(address) => address.emit(to),
            Self::RemoveAddress(ids) => put(ids, to),
            Self::Priority { .. } => {}
            Self::Fail { data_seq } => put_reserved_and(data_seq.0, to),
            Self::FastClose { receiver_key } => put_reserved_and(*receiver_key, to),
            Self::Reset(reason) => put(&[reason.code], to),
            Self::Version0(option) => option.emit_body(to),
        }
    }

    /// Returns the subtype and the four bits after it.
    fn subtype(&self) -> (u8, u8) {
        match self {
            Self::Capable(capable) => (subtype::CAPABLE, capable.version()),
            Self::Join(join) => (subtype::JOIN, join.low_bits()),
            Self::Dss(_) => (subtype::DSS, 0),
            Self::AddAddress(address) => (subtype::ADD_ADDRESS, address.echo_bit()),
            Self::RemoveAddress(_) => (subtype::REMOVE_ADDRESS, 0),
            Self::Priority { backup } => (subtype::PRIORITY, backup_bit(*backup)),
            Self::Fail { .. } => (subtype::FAIL, 0),
            Self::FastClose { .. } => (subtype::FAST_CLOSE, 0),
            Self::Reset(reason) => (subtype::RESET, reason.flags),
            Self::Version0(option) => option.subtype(),
        }
    }
}

/// Appends kind, length, subtype and the four bits after it.
pub(in crate::wire) fn put_subtype(len: usize, subtype: u8, low: u8, to: &mut OptionBytes) {
    put(&[KIND, len as u8, subtype << 4 | low & 0x0f], to);
}

/// Appends the body of MP_FAIL or MP_FASTCLOSE: eight reserved bits and a number.
pub(in crate::wire) fn put_reserved_and(number: u64, to: &mut OptionBytes) {
    put(&[0], to);
    put(&number.to_be_bytes(), to);
}

pub(in crate::wire) fn put_address(address: IpAddr, to: &mut OptionBytes) {
    match address {
        IpAddr::V4(address) => put(&address.octets(), to),
        IpAddr::V6(address) => put(&address.octets(), to),
    }
}

pub(in crate::wire) fn backup_bit(backup: bool) -> u8 {
    if backup { BACKUP } else { 0 }
}

impl Capable {
    fn version(&self) -> u8 {
        match *self {
            Self::Syn { version, .. }
            | Self::SynAck { version, .. }
            | Self::Ack { version, .. } => version,
        }
    }

    fn emit(&self, to: &mut OptionBytes) {
        match *self {
            Self::Syn { flags, .. } => put(&[flags], to),
            Self::SynAck {
                flags, sender_key, ..
            } => {
                put(&[flags], to);
                put(&sender_key.to_be_bytes(), to);
            }
            Self::Ack {
                flags,
                sender_key,
                receiver_key,
                data,
                ..
            } => {
                put(&[flags], to);
                put(&sender_key.to_be_bytes(), to);
                put(&receiver_key.to_be_bytes(), to);
                if let Some(data) = data {
                    put(&data.len.to_be_bytes(), to);
                    put_checksum(data.checksum, to);
                }
            }
        }
    }
}

impl Join {
    pub(in crate::wire) fn low_bits(&self) -> u8 {
        match *self {
            Self::Syn { backup, .. } | Self::SynAck { backup, .. } => backup_bit(backup),
            Self::Ack { .. } => 0,
        }
    }

    pub(in crate::wire) fn emit(&self, to: &mut OptionBytes) {
        match *self {
            Self::Syn {
                address_id,
                token,
                nonce,
                ..
            } => {
                put(&[address_id], to);
                put(&token.to_be_bytes(), to);
                put(&nonce.to_be_bytes(), to);
            }
            Self::SynAck {
                address_id,
                truncated_hmac,
                nonce,
                ..
            } => {
                put(&[address_id], to);
                put(&truncated_hmac.to_be_bytes(), to);
                put(&nonce.to_be_bytes(), to);
            }
            Self::Ack { hmac } => {
                put(&[0], to);
                put(&hmac, to);
            }
        }
    }
}

impl SignalledAddress {
    fn echo_bit(&self) -> u8 {
        match self.truncated_hmac {
            None => ECHO,
            Some(_) => 0,
        }
    }

    fn emit(&self, to: &mut OptionBytes) {
        put(&[self.id], to);
        put_address(self.address, to);
        if let Some(port) = self.port {
            put(&port.to_be_bytes(), to);
        }
        if let Some(hmac) = self.truncated_hmac {
            put(&hmac.to_be_bytes(), to);
        }
    }
}

pub(super) fn put_checksum(checksum: Option<u16>, to: &mut OptionBytes) {
    if let Some(checksum) = checksum {
        put(&checksum.to_be_bytes(), to);
    }
}
