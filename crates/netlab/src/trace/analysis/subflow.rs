//! A TCP connection, which may be one of several subflows.

use std::net::SocketAddr;

use mptcp::wire::Nonce;
use serde::Serialize;

use super::Side;
use super::sender::Sender;
use crate::time::Nanos;

/// How a subflow came to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The first of a connection.
    Initial,
    /// By MP_JOIN.
    Join,
    /// Its SYN is not in the capture; its data sequence numbers tell where it belongs.
    ByData,
    /// Plain TCP.
    Plain,
}

/// How a subflow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubflowEnd {
    /// When, since the start of the capture.
    #[serde(skip)]
    pub at: Nanos,
    /// "fin" or "reset".
    pub how: &'static str,
    /// The reason that a reset gave (RFC 8684, section 3.6).
    pub reason: Option<u8>,
    /// Who.
    pub by: Side,
}

/// A subflow.
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) connection: usize,
    /// By side of the connection.
    pub(super) ends: [Sender; 2],
    pub(super) opener: Option<Side>,
    pub(super) role: Role,
    /// The random numbers of its MP_JOINs, by side.
    pub(super) nonces: [Option<Nonce>; 2],
    pub(super) first_at: Nanos,
    pub(super) last_at: Nanos,
    /// The SYN/ACK.
    pub(super) answered_at: Option<Nanos>,
    /// The third packet of the handshake.
    pub(super) established_at: Option<Nanos>,
    /// When it may carry data in both directions.
    pub(super) usable_at: Option<Nanos>,
    pub(super) end: Option<SubflowEnd>,
}

impl Subflow {
    pub(super) fn new(
        now: Nanos,
        connection: usize,
        [client, server]: [SocketAddr; 2],
        opener: Option<Side>,
        role: Role,
    ) -> Self {
        Self {
            connection,
            ends: [Sender::new(client), Sender::new(server)],
            opener,
            role,
            nonces: [None; 2],
            first_at: now,
            last_at: now,
            answered_at: None,
            established_at: None,
            usable_at: None,
            end: None,
        }
    }

    /// Which side has that address.
    pub(super) fn side_of(&self, address: SocketAddr) -> Side {
        if self.ends[0].address == address {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Takes the other view of who is the client of the connection.
    pub(super) fn swap_sides(&mut self) {
        self.ends.swap(0, 1);
        self.opener = self.opener.map(|side| !side);
        self.nonces.swap(0, 1);
    }

    /// Whether payload was seen on it.
    pub(super) fn has_data(&self) -> bool {
        self.ends.iter().any(|end| end.counts.bytes > 0)
    }
}
