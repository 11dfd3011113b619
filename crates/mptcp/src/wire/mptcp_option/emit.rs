//! Options as bytes. What is reserved is zero.

use std::net::IpAddr;

use super::{
    BACKUP, Capable, DataNumber, Dss, ECHO, Join, KIND, Mapping, MptcpOption, SignalledAddress,
    dss, subtype,
};
use crate::wire::tcp_options::{OptionBytes, put};

impl MptcpOption {
    /// Appends the option, kind and length included, [`MptcpOption::wire_len`] bytes.
    ///
    /// # Panics
    /// There is no space for it.
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
        }
    }

    /// The subtype and the four bits after it.
    fn subtype(&self) -> (u8, u8) {
        match self {
            Self::Capable(capable) => (subtype::CAPABLE, capable.version()),
            Self::Join(join) => (subtype::JOIN, join.low_bits()),
            Self::Dss(_) => (subtype::DSS, 0),
            Self::AddAddress(SignalledAddress { truncated_hmac, .. }) => {
                let echo = if truncated_hmac.is_none() { ECHO } else { 0 };
                (subtype::ADD_ADDRESS, echo)
            }
            Self::RemoveAddress(_) => (subtype::REMOVE_ADDRESS, 0),
            Self::Priority { backup } => (subtype::PRIORITY, backup_bit(*backup)),
            Self::Fail { .. } => (subtype::FAIL, 0),
            Self::FastClose { .. } => (subtype::FAST_CLOSE, 0),
            Self::Reset(reason) => (subtype::RESET, reason.flags),
        }
    }
}

/// Appends kind, length, subtype and the four bits after it.
pub(in crate::wire) fn put_subtype(len: usize, subtype: u8, low: u8, to: &mut OptionBytes) {
    put(&[KIND, len as u8, subtype << 4 | low & 0x0f], to);
}

/// MP_FAIL and MP_FASTCLOSE: eight reserved bits and a number.
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

impl Dss {
    fn flags(&self) -> u8 {
        let fin = if self.data_fin { dss::FIN } else { 0 };
        let ack = match self.data_ack {
            None => 0,
            Some(DataNumber::Short(_)) => dss::ACK_PRESENT,
            Some(DataNumber::Long(_)) => dss::ACK_PRESENT | dss::ACK_LONG,
        };
        let mapping = match self.mapping.map(|mapping| mapping.data_seq) {
            None => 0,
            Some(DataNumber::Short(_)) => dss::MAPPING_PRESENT,
            Some(DataNumber::Long(_)) => dss::MAPPING_PRESENT | dss::SEQ_LONG,
        };
        fin | ack | mapping
    }

    pub(in crate::wire) fn emit(&self, to: &mut OptionBytes) {
        put(&[self.flags()], to);
        if let Some(data_ack) = self.data_ack {
            data_ack.emit(to);
        }
        if let Some(mapping) = self.mapping {
            mapping.emit(to);
        }
    }
}

impl Mapping {
    fn emit(&self, to: &mut OptionBytes) {
        self.data_seq.emit(to);
        put(&self.subflow_seq.to_be_bytes(), to);
        put(&self.len.to_be_bytes(), to);
        put_checksum(self.checksum, to);
    }
}

impl DataNumber {
    fn emit(self, to: &mut OptionBytes) {
        match self {
            Self::Short(low) => put(&low.to_be_bytes(), to),
            Self::Long(number) => put(&number.0.to_be_bytes(), to),
        }
    }
}

impl SignalledAddress {
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

fn put_checksum(checksum: Option<u16>, to: &mut OptionBytes) {
    if let Some(checksum) = checksum {
        put(&checksum.to_be_bytes(), to);
    }
}
