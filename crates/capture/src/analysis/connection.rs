//! A connection: plain TCP, or MPTCP with its subflows.

use experiment::time::Nanos;
use mptcp::connection::keys::{Keys, initial_data_seq, token};
use mptcp::seq::DataSeq;
use mptcp::wire::{Key, Token};
use sha1::{Digest, Sha1};

use super::data_stream::{DataStream, Streams};
use super::timeline::{EventKind, Timeline};
use super::{Side, Teller};

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
    pub(super) fallback: Option<(Nanos, &'static str)>,
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
    pub(super) fn fall_back(&mut self, by: Teller, why: &'static str) -> bool {
        if self.fallback.is_some() {
            return false;
        }
        self.fallback = Some((by.stamp.at, why));
        self.note(by, EventKind::Fallback, why);
        true
    }

    /// Records the key of a side. Returns whether it was unknown.
    pub(super) fn learn_key(&mut self, side: Side, key: Key) -> bool {
        if self.keys[side as usize].is_some() {
            return false;
        }
        self.keys[side as usize] = Some(key);
        let (token, first) = match self.version {
            Some(0) => by_sha1(key),
            _ => (token(key), initial_data_seq(key)),
        };
        self.tokens[side as usize] = Some(token);
        let stream = &mut self.streams[side as usize];
        if stream.bytes == 0 && !stream.has_origin() {
            *stream = DataStream::from_first(Some(first));
        }
        true
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

/// Returns token and initial DSN in version 0 (RFC 6824, section 3.1): the first 32 and the last 64
/// bits of the hash.
fn by_sha1(key: Key) -> (Token, DataSeq) {
    let hash: [u8; 20] = Sha1::digest(key.to_be_bytes()).into();
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    (number(&hash[..4]) as Token, DataSeq(number(&hash[12..])))
}
