//! The options of a captured segment that the analysis uses.

use arrayvec::ArrayVec;
use mptcp::seq::SeqNr;
use mptcp::wire::{
    Capable, Dss, KIND as MPTCP, Key, MptcpOption, MptcpOptionV0, OptionError, SackBlock,
    SignalledAddress,
};

use crate::TcpPacket;

/// Kinds of TCP options (RFC 7323, section 2.2; RFC 2018, section 3).
const WINDOW_SCALE: u8 = 3;
const SACK: u8 = 5;
/// The largest window scale that counts (RFC 7323, section 2.3).
const MOST_SCALE: u8 = 14;
/// Bytes of kind and length.
const OPTION_HEADER_LEN: u32 = 2;
/// Subtype and version of an MP_CAPABLE of version 0.
const CAPABLE_0: u8 = 0x00;
/// The most MPTCP options of a segment that are analyzed.
const MOST_MPTCP: usize = 4;
/// The most SACK blocks that fit into a header.
const MOST_BLOCKS: usize = 4;

/// An MPTCP option of either version.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// An option of version 1, or of version 0 with the same form.
    Option(MptcpOption),
    /// MP_CAPABLE of version 0, which carries keys from the SYN on.
    Capable0 {
        flags: u8,
        sender_key: Key,
        receiver_key: Option<Key>,
    },
}

/// The options of a segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) window_scale: Option<u8>,
    pub(super) sack: ArrayVec<SackBlock, MOST_BLOCKS>,
    pub(super) mptcp: ArrayVec<Told, MOST_MPTCP>,
    /// Bytes of the MPTCP options.
    pub(super) mptcp_len: u32,
    /// Number of MPTCP options with a wrong form or an unknown subtype.
    pub(super) not_understood: u32,
}

impl Options {
    /// Parses the options of a packet. `version` is the MPTCP version of the connection, if known.
    pub(super) fn of(packet: &TcpPacket<'_>, version: Option<u8>) -> Self {
        let mut options = Self::default();
        for (kind, content) in packet.options.clone() {
            match (kind, content) {
                (WINDOW_SCALE, [scale]) => options.window_scale = Some((*scale).min(MOST_SCALE)),
                (SACK, blocks) => options.sack.extend(sack_blocks(blocks)),
                (MPTCP, content) => options.add_mptcp(content, version),
                _ => {}
            }
        }
        options
    }

    fn add_mptcp(&mut self, content: &[u8], version: Option<u8>) {
        self.mptcp_len += OPTION_HEADER_LEN + content.len() as u32;
        let is_capable_0 = content.first() == Some(&CAPABLE_0);
        let told = if is_capable_0 || version == Some(0) {
            MptcpOptionV0::parse(content).map(told_by_version_0)
        } else {
            told_by_version_1(content)
        };
        let kept = told.is_ok_and(|told| self.mptcp.try_push(told).is_ok());
        self.not_understood += u32::from(!kept);
    }

    /// Returns the DSS option, if there is one.
    pub(super) fn dss(&self) -> Option<&Dss> {
        self.mptcp.iter().find_map(|told| match told {
            Told::Option(MptcpOption::Dss(dss)) => Some(dss),
            _ => None,
        })
    }

    /// Returns the MP_CAPABLE of version 1, if there is one.
    pub(super) fn capable(&self) -> Option<&Capable> {
        self.mptcp.iter().find_map(|told| match told {
            Told::Option(MptcpOption::Capable(capable)) => Some(capable),
            _ => None,
        })
    }
}

fn sack_blocks(content: &[u8]) -> impl Iterator<Item = SackBlock> {
    let (blocks, _) = content.as_chunks::<8>();
    blocks.iter().take(MOST_BLOCKS).map(|block| {
        let (start, end) = block.split_at(4);
        let number = |bytes: &[u8]| {
            SeqNr(
                bytes
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
            )
        };
        SackBlock {
            start: number(start),
            end: number(end),
        }
    })
}

fn told_by_version_1(content: &[u8]) -> Result<Told, OptionError> {
    match MptcpOption::parse(content)? {
        MptcpOption::Version0(_) => Err(OptionError::Malformed),
        option => Ok(Told::Option(option)),
    }
}

fn told_by_version_0(option: MptcpOptionV0) -> Told {
    Told::Option(match option {
        MptcpOptionV0::Capable {
            flags,
            sender_key,
            receiver_key,
            ..
        } => {
            return Told::Capable0 {
                flags,
                sender_key,
                receiver_key,
            };
        }
        MptcpOptionV0::Join(join) => MptcpOption::Join(join),
        MptcpOptionV0::Dss(dss) => MptcpOption::Dss(dss),
        MptcpOptionV0::AddAddress { id, address, port } => {
            MptcpOption::AddAddress(Box::new(SignalledAddress {
                id,
                address,
                port,
                truncated_hmac: None,
            }))
        }
        MptcpOptionV0::RemoveAddress(ids) => MptcpOption::RemoveAddress(ids),
        MptcpOptionV0::Priority { backup, .. } => MptcpOption::Priority { backup },
        MptcpOptionV0::Fail { data_seq } => MptcpOption::Fail { data_seq },
        MptcpOptionV0::FastClose { receiver_key } => MptcpOption::FastClose { receiver_key },
    })
}
