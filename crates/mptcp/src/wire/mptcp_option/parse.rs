//! Parsing of MPTCP options. Reserved bits are ignored.

use std::net::IpAddr;

use super::{
    BACKUP, Capable, Dss, ECHO, InitialMapping, Join, MAX_REMOVED_ADDRESSES, MptcpOption,
    OptionError, RemovedAddresses, ResetReason, SignalledAddress, subtype,
};
use crate::seq::DataSeq;
use crate::wire::fields::Reader;
use crate::wire::mptcp_v0::MptcpOptionV0;

impl MptcpOption {
    /// Parses `content`, the bytes of an option after its kind and length.
    ///
    /// The length alone distinguishes the forms of MP_CAPABLE and MP_JOIN. The receiver must check
    /// whether its segment may carry that form. It must also check whether its connection has the
    /// version of the option, which only MP_CAPABLE states.
    ///
    /// # Errors
    /// Fails if the subtype is unknown in version 1, or if the content does not have the form of
    /// its subtype.
    #[inline]
    pub fn parse(content: &[u8]) -> Result<Self, OptionError> {
        let (subtype, low, mut body) = split_subtype(content)?;
        match subtype {
            subtype::DSS => complete(Dss::parse(&mut body), &body).map(Self::Dss),
            _ => Self::parse_rare(subtype, low, &mut body)
                .or_else(|error| Self::parse_version_0(content).ok_or(error)),
        }
    }

    /// Parses an option in a form that only version 0 has.
    fn parse_version_0(content: &[u8]) -> Option<Self> {
        let option = MptcpOptionV0::parse(content).ok()?;
        let is_other = matches!(
            option,
            MptcpOptionV0::AddAddress { .. } | MptcpOptionV0::Priority { .. }
        );
        is_other.then(|| Self::Version0(Box::new(option)))
    }

    /// Parses any option except a DSS.
    fn parse_rare(subtype: u8, low: u8, body: &mut Reader<'_>) -> Result<Self, OptionError> {
        let option = match subtype {
            subtype::CAPABLE => capable(low, body).map(Self::Capable),
            subtype::JOIN => join(low, body).map(Self::Join),
            subtype::ADD_ADDRESS => {
                signalled_address(low, body).map(|it| Self::AddAddress(Box::new(it)))
            }
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

/// Returns the subtype, the four bits after it, and the remaining bytes.
pub(in crate::wire) fn split_subtype(content: &[u8]) -> Result<(u8, u8, Reader<'_>), OptionError> {
    let (first, body) = content.split_first().ok_or(OptionError::Malformed)?;
    Ok((first >> 4, first & 0x0f, Reader(body)))
}

/// Returns the option if it was parsed and no bytes are left over.
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

/// Parses an optional field at the end of an option. `Some(None)` if it is absent; `None` if it is
/// truncated.
pub(super) fn unless_empty<'a, T>(
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
        // Reserved bits take the place of the address ID.
        _ => body.octets().map(|hmac| Join::Ack { hmac }),
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
    let ids = std::mem::take(&mut body.0);
    let has_room = (1..=MAX_REMOVED_ADDRESSES).contains(&ids.len());
    has_room.then(|| ids.into())
}

pub(in crate::wire) fn failed(body: &mut Reader<'_>) -> Option<DataSeq> {
    body.u8()?;
    body.u64().map(DataSeq)
}

pub(in crate::wire) fn closed(body: &mut Reader<'_>) -> Option<u64> {
    body.u8()?;
    body.u64()
}
