//! The numbers of a script and of the stack: keys, sequence numbers, nonces, and the places of
//! bytes.

use std::collections::BTreeMap;

use mptcp::connection::keys::{self, Keys, Nonces};
use mptcp::payload::Payload;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::wire::{Capable, Join, Key, MptcpOption, Segment, Version};

use crate::script::Sender;

/// The peer's key.
const PEER_KEY: Key = 2;

/// The nonce of the peer in every join.
const PEER_NONCE: u32 = 0x5eed_0001;

/// Keys by the names that a script gives them, and by owner.
pub struct Session {
    pub names: BTreeMap<String, Key>,
    ours: Option<Key>,
}

impl Session {
    pub fn new() -> Self {
        Self {
            names: BTreeMap::new(),
            ours: None,
        }
    }

    /// Returns the key of a side.
    pub fn key_of(&self, sender: Sender) -> Result<Key, String> {
        match sender {
            Sender::Ours => self.ours.ok_or("our key was not sent yet".to_owned()),
            Sender::Peer => Ok(PEER_KEY),
        }
    }

    /// Returns both keys as the sender sees them.
    pub fn keys_of(&self, sender: Sender) -> Result<Keys, String> {
        Ok(Keys {
            local: self.key_of(sender)?,
            remote: self.key_of(sender.other())?,
        })
    }

    /// Returns the number of the `nth` byte that this side sends; 1 is the first.
    pub fn data_seq(&self, sender: Sender, nth: u64) -> Result<DataSeq, String> {
        Ok(keys::initial_data_seq(Version::One, self.key_of(sender)?) + nth)
    }

    /// Returns which byte of this side has a number.
    pub fn nth(&self, sender: Sender, number: DataSeq) -> i64 {
        let key = self.key_of(sender).unwrap_or_default();
        number.distance_from(keys::initial_data_seq(Version::One, key))
    }

    /// Learns the stack's key from a segment that it sent.
    pub fn learn(&mut self, sent: &Segment) {
        for option in &sent.options.mptcp {
            if let MptcpOption::Capable(
                Capable::SynAck { sender_key, .. } | Capable::Ack { sender_key, .. },
            ) = option
            {
                self.ours.get_or_insert(*sender_key);
            }
        }
    }
}

/// One subflow.
pub struct Flow {
    /// The stack's port, and the peer's.
    pub ports: [u16; 2],
    /// The stack's initial sequence number; the peer's is 0.
    pub iss: SeqNr,
    our_nonce: u32,
    /// The places of bytes, of both senders: number of the first, count, and offset in the byte
    /// stream.
    mappings: Vec<(Sender, u32, u32, u64)>,
}

impl Flow {
    pub fn new(ports: [u16; 2]) -> Self {
        Self {
            ports,
            iss: SeqNr(0),
            our_nonce: 0,
            mappings: Vec::new(),
        }
    }

    /// Returns the nonces of a join as the sender sees them.
    pub fn nonces_of(&self, sender: Sender) -> Nonces {
        match sender {
            Sender::Ours => Nonces {
                local: self.our_nonce,
                remote: PEER_NONCE,
            },
            Sender::Peer => Nonces {
                local: PEER_NONCE,
                remote: self.our_nonce,
            },
        }
    }

    /// Returns the sequence number from which this side's numbers count.
    pub fn base_of(&self, sender: Sender) -> SeqNr {
        match sender {
            Sender::Ours => self.iss,
            Sender::Peer => SeqNr(0),
        }
    }

    /// Learns the stack's numbers from a segment that it sent.
    pub fn learn(&mut self, sent: &Segment) {
        if sent.flags.contains(mptcp::wire::Flags::SYN) {
            self.iss = sent.seq;
        }
        for option in &sent.options.mptcp {
            if let MptcpOption::Join(Join::Syn { nonce, .. } | Join::SynAck { nonce, .. }) = option
            {
                self.our_nonce = *nonce;
            }
        }
    }

    pub fn map(&mut self, sender: Sender, first: u32, len: u32, place: u64) {
        self.mappings.push((sender, first, len, place));
    }

    /// Returns the bytes with that number: those of a mapping, or in their order on the subflow as
    /// in plain TCP.
    pub fn payload(&self, sender: Sender, seq: u32, len: u32) -> Payload {
        let covers = |mapping: &&(Sender, u32, u32, u64)| {
            mapping.0 == sender && mapping.1 <= seq && seq < mapping.1 + mapping.2
        };
        let mapping = self.mappings.iter().rev().find(covers);
        let place = mapping.map_or(u64::from(seq).saturating_sub(1), |(_, first, _, place)| {
            place + u64::from(seq - first)
        });
        sender.stream(place, len)
    }
}

impl Sender {
    pub fn other(self) -> Self {
        match self {
            Self::Ours => Self::Peer,
            Self::Peer => Self::Ours,
        }
    }

    /// Returns a part of the byte stream of this side's application.
    pub fn stream(self, place: u64, len: u32) -> Payload {
        Payload::stream(self as u32 + 1, place, len)
    }
}
