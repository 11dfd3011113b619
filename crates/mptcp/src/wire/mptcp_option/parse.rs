//! Options from their bytes. What is reserved is not looked at.

use std::net::IpAddr;

use super::{
    BACKUP, Capable, DataNumber, Dss, ECHO, InitialMapping, Join, Mapping, MptcpOption,
    OptionError, RemovedAddresses, ResetReason, SignalledAddress, dss, subtype,
};
use crate::seq::DataSeq;
use crate::wire::fields::Reader;

impl MptcpOption {
    /// Reads an option's content, which is what follows kind and length. The length alone tells the forms of MP_CAPABLE and
    /// of MP_JOIN from each other; whether the segment may bear that form is for its receiver to check.
    ///
    /// # Errors
    /// The subtype is not one of version 1, or the content has not the form of its subtype.
    pub fn parse(content: &[u8]) -> Result<Self, OptionError> {
        let (subtype, low, mut body) = split_subtype(content)?;
        let body = &mut body;
        let option = match subtype {
            subtype::CAPABLE => capable(low, body).map(Self::Capable),
            subtype::JOIN => join(low, body).map(Self::Join),
            subtype::DSS => data_sequence_signal(body).map(Self::Dss),
            subtype::ADD_ADDRESS => signalled_address(low, body).map(Self::AddAddress),
            subtype::REMOVE_ADDRESS => removed_addresses(body).map(Self::RemoveAddress),
            subtype::PRIORITY => Some(Self::Priority {
                backup: low & BACKUP != 0,
            }),
            subtype::FAIL => failed(body).map(|data_seq| Self::Fail { data_seq }),
            subtype::FAST_CLOSE => {
                closed(body).map(|receiver_key| Self::FastClose { receiver_key })
            }
            subtype::RESET => body
                .u8()
                .map(|code| Self::Reset(ResetReason { flags: low, code })),
            _ => return Err(OptionError::Unknown),
        };
        complete(option, body)
    }
}

/// The subtype, the four bits after it, and the rest.
pub(in crate::wire) fn split_subtype(content: &[u8]) -> Result<(u8, u8, Reader<'_>), OptionError> {
    let (first, body) = content.split_first().ok_or(OptionError::Malformed)?;
    Ok((first >> 4, first & 0x0f, Reader(body)))
}

/// An option whose bytes were there and are used up.
#[inline]
pub(in crate::wire) fn complete<T>(option: Option<T>, body: &Reader<'_>) -> Result<T, OptionError> {
    option
        .filter(|_| body.is_empty())
        .ok_or(OptionError::Malformed)
}

fn capable(version: u8, body: &mut Reader<'_>) -> Option<Capable> {
    let flags = body.u8()?;
    if body.is_empty() {
        return Some(Capable::Syn { version, flags });
    }
    let sender_key = body.u64()?;
    if body.is_empty() {
        return Some(Capable::SynAck {
            version,
            flags,
            sender_key,
        });
    }
    Some(Capable::Ack {
        version,
        flags,
        sender_key,
        receiver_key: body.u64()?,
        data: unless_empty(body, initial_mapping)?,
    })
}

fn initial_mapping(body: &mut Reader<'_>) -> Option<InitialMapping> {
    Some(InitialMapping {
        len: body.u16()?,
        checksum: unless_empty(body, Reader::u16)?,
    })
}

/// A field that may be left out at the end; the outer `None` if it is there but cut off.
fn unless_empty<'a, T>(
    body: &mut Reader<'a>,
    parse: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    if body.is_empty() {
        return Some(None);
    }
    parse(body).map(Some)
}

pub(in crate::wire) fn join(low: u8, body: &mut Reader<'_>) -> Option<Join> {
    let backup = low & BACKUP != 0;
    let len = body.len();
    let address_id = body.u8()?;
    match len {
        9 => Some(Join::Syn {
            backup,
            address_id,
            token: body.u32()?,
            nonce: body.u32()?,
        }),
        13 => Some(Join::SynAck {
            backup,
            address_id,
            truncated_hmac: body.u64()?,
            nonce: body.u32()?,
        }),
        // In the place of the ID are reserved bits.
        _ => body.octets().map(|hmac| Join::Ack { hmac }),
    }
}

#[inline]
pub(in crate::wire) fn data_sequence_signal(body: &mut Reader<'_>) -> Option<Dss> {
    let flags = body.u8()?;
    let has = |flag| flags & flag != 0;
    let mut signal = Dss {
        data_fin: has(dss::FIN),
        ..Dss::default()
    };
    if has(dss::ACK_PRESENT) {
        signal.data_ack = Some(data_number(has(dss::ACK_LONG), body)?);
    }
    if has(dss::MAPPING_PRESENT) {
        signal.mapping = Some(mapping(has(dss::SEQ_LONG), body)?);
    }
    Some(signal)
}

#[inline]
fn mapping(is_long: bool, body: &mut Reader<'_>) -> Option<Mapping> {
    Some(Mapping {
        data_seq: data_number(is_long, body)?,
        subflow_seq: body.u32()?,
        len: body.u16()?,
        checksum: unless_empty(body, Reader::u16)?,
    })
}

#[inline]
fn data_number(is_long: bool, body: &mut Reader<'_>) -> Option<DataNumber> {
    if is_long {
        body.u64().map(|number| DataNumber::Long(DataSeq(number)))
    } else {
        body.u32().map(DataNumber::Short)
    }
}

fn signalled_address(low: u8, body: &mut Reader<'_>) -> Option<SignalledAddress> {
    let is_echo = low & ECHO != 0;
    let hmac_len = if is_echo { 0 } else { 8 };
    let id = body.u8()?;
    let address = match body.len().checked_sub(hmac_len)? {
        4 | 6 => IpAddr::from(body.octets::<4>()?),
        _ => IpAddr::from(body.octets::<16>()?),
    };
    let has_port = body.len() > hmac_len;
    Some(SignalledAddress {
        id,
        address,
        port: if has_port { Some(body.u16()?) } else { None },
        truncated_hmac: if is_echo { None } else { Some(body.u64()?) },
    })
}

pub(in crate::wire) fn removed_addresses(body: &mut Reader<'_>) -> Option<RemovedAddresses> {
    let ids = RemovedAddresses::try_from(body.0).ok()?;
    body.0 = &[];
    (!ids.is_empty()).then_some(ids)
}

pub(in crate::wire) fn failed(body: &mut Reader<'_>) -> Option<DataSeq> {
    body.u8()?;
    body.u64().map(DataSeq)
}

pub(in crate::wire) fn closed(body: &mut Reader<'_>) -> Option<u64> {
    body.u8()?;
    body.u64()
}
