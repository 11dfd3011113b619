//! A connection: plain TCP, or MPTCP with its subflows.

use std::net::IpAddr;

use experiment::time::Nanos;
use mptcp::connection::keys::{Keys, initial_data_seq, token};
use mptcp::wire::{Key, Token, Version};

use super::data_stream::{DataStream, Streams};
use super::timeline::{EventKind, Timeline};
use super::{Side, Teller};

/// The most announcements of a connection that are kept.
const MOST_ANNOUNCED: usize = 256;

/// How a connection ended, as far as the capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// DATA_FIN from both sides, or from one before the capture ended.
    DataFin,
    /// MP_FASTCLOSE.
    FastClose,
    /// FINs on the only subflow.
    Fin,
    /// RST on the only subflow.
    Reset,
}

/// Why a connection fell back to plain TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// The SYN/ACK has no MP_CAPABLE.
    AnswerWithoutCapable,
    /// Data of a direction that never had a mapping came without a DSS option.
    DataWithoutMapping,
    /// Data came without a DSS option directly after the last mapping.
    DataAfterLastMapping,
    /// An infinite mapping.
    InfiniteMapping,
}

/// A fallback to plain TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fallback {
    pub(super) by: Teller,
    pub(super) cause: FallbackCause,
    pub(super) why: &'static str,
}

/// A signal that concerns the whole connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) by: Teller,
    /// The position in the data of the other side that it names.
    pub(super) position: Option<u64>,
}

/// An address that a side announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) by: Teller,
    pub(super) id: u8,
    pub(super) address: IpAddr,
    pub(super) port: Option<u16>,
    /// Whether the HMAC is that of the keys.
    pub(super) is_proved: Option<bool>,
    pub(super) was_echoed: bool,
    pub(super) was_withdrawn: bool,
}

/// A connection, with one data stream in each direction for all its subflows.
#[derive(Debug)]
pub(super) struct Connection {
    /// The MPTCP version. `None` for plain TCP.
    pub(super) version: Option<u8>,
    pub(super) keys: [Option<Key>; 2],
    pub(super) tokens: [Option<Token>; 2],
    pub(super) streams: Streams,
    pub(super) subflows: Vec<usize>,
    pub(super) timeline: Timeline,
    /// Whether each side sent a DSS option.
    pub(super) has_signalled: [bool; 2],
    /// Whether a side required checksums.
    pub(super) checksums: bool,
    /// When and why the connection fell back to plain TCP.
    pub(super) fallback: Option<Fallback>,
    /// The first packet of each side after the SYNs that has no MPTCP option, on the initial
    /// subflow.
    pub(super) bare_packets: [Option<u64>; 2],
    /// The first MP_FAIL and the first MP_FASTCLOSE.
    pub(super) failure: Option<Signal>,
    pub(super) abort: Option<Signal>,
    pub(super) announced: Vec<Announced>,
    pub(super) ending: Option<Ending>,
    pub(super) first_at: Nanos,
    pub(super) last_at: Nanos,
}

impl Connection {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            version: None,
            keys: [None; 2],
            tokens: [None; 2],
            streams: Streams::default(),
            subflows: Vec::new(),
            timeline: Timeline::default(),
            has_signalled: [false; 2],
            checksums: false,
            fallback: None,
            bare_packets: [None; 2],
            failure: None,
            abort: None,
            announced: Vec::new(),
            ending: None,
            first_at: now,
            last_at: now,
        }
    }

    /// Records an event.
    pub(super) fn note(&mut self, by: Teller, kind: EventKind, text: impl Into<String>) {
        self.timeline.note(by, kind, text.into());
    }

    /// Records the fallback to plain TCP. Returns whether it is the first.
    pub(super) fn fall_back(
        &mut self,
        by: Teller,
        cause: FallbackCause,
        why: &'static str,
    ) -> bool {
        if self.fallback.is_some() {
            return false;
        }
        self.fallback = Some(Fallback { by, cause, why });
        self.note(by, EventKind::Fallback, why);
        true
    }

    /// Records an announcement, or that one was repeated.
    pub(super) fn announce(&mut self, announced: Announced) {
        let is_known = |one: &&mut Announced| {
            (one.by.from, one.id, one.address, one.port)
                == (
                    announced.by.from,
                    announced.id,
                    announced.address,
                    announced.port,
                )
        };
        if let Some(known) = self.announced.iter_mut().find(is_known) {
            known.was_withdrawn = false;
        } else if self.announced.len() < MOST_ANNOUNCED {
            self.announced.push(announced);
        }
    }

    /// Returns the announcements of a side with an ID.
    pub(super) fn announced_by(
        &mut self,
        side: Side,
        id: u8,
    ) -> impl Iterator<Item = &mut Announced> {
        let all = self.announced.iter_mut();
        all.filter(move |one| one.by.from == side && one.id == id)
    }

    /// Records the key of a side. Returns whether it was unknown.
    pub(super) fn learn_key(&mut self, side: Side, key: Key) -> bool {
        if self.keys[side as usize].is_some() {
            return false;
        }
        self.keys[side as usize] = Some(key);
        let version = self.version();
        self.tokens[side as usize] = Some(token(version, key));
        let stream = &mut self.streams[side as usize];
        if stream.bytes == 0 && !stream.has_origin() {
            *stream = DataStream::from_first(Some(initial_data_seq(version, key)));
        }
        true
    }

    /// Returns the version that determines what follows from the keys.
    pub(super) fn version(&self) -> Version {
        match self.version {
            Some(0) => Version::Zero,
            _ => Version::One,
        }
    }

    /// Returns both keys, with that of `side` as the local one.
    pub(super) fn keys_of(&self, side: Side) -> Option<Keys> {
        Some(Keys {
            local: self.keys[side as usize]?,
            remote: self.keys[!side as usize]?,
        })
    }

    /// Returns whether no data was seen yet. Such a connection may turn out to be a part of
    /// another.
    pub(super) fn is_blank(&self) -> bool {
        self.streams
            .iter()
            .all(|stream| stream.bytes == 0 && !stream.has_origin())
    }
}
