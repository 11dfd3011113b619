//! A TCP connection, which may be one of several subflows.

use std::net::SocketAddr;

use experiment::time::Nanos;
use mptcp::wire::Nonce;
use serde::Serialize;

use super::Side;
use super::sender::Sender;

/// How a subflow was assigned to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The initial subflow.
    Initial,
    /// Joined by MP_JOIN.
    Join,
    /// Assigned by its DSNs, because its SYN is not in the capture.
    ByData,
    /// Plain TCP.
    Plain,
}

/// How a subflow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubflowEnd {
    /// When it ended, since the start of the capture.
    #[serde(skip)]
    pub at: Nanos,
    /// "fin" or "reset".
    pub how: &'static str,
    /// The reason given by a reset (RFC 8684, section 3.6).
    pub reason: Option<u8>,
    /// The side that ended it.
    pub by: Side,
    /// Number of the packet that did.
    pub packet: u64,
}

/// The HMAC that a host sent in MP_JOIN (RFC 8684, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Number of the packet that carried it.
    pub packet: u64,
    /// Whether it is that of the keys and nonces in the capture. Null if some of them are missing,
    /// or in version 0.
    pub is_right: Option<bool>,
}

/// The SYNs of the opener of a subflow, retransmissions included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SynCounts {
    /// Those with an MPTCP option.
    pub with_mptcp: u64,
    /// Those without.
    pub without_mptcp: u64,
    /// Those whose options were captured in part, without an MPTCP option in that part.
    pub options_cut: u64,
}

/// A subflow.
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) connection: usize,
    /// Indexed by side of the connection.
    pub(super) ends: [Sender; 2],
    pub(super) opener: Option<Side>,
    pub(super) role: Role,
    /// The nonces of its MP_JOINs, by side.
    pub(super) nonces: [Option<Nonce>; 2],
    /// The first HMAC of each side, or the first wrong one.
    pub(super) proofs: [Option<Proof>; 2],
    pub(super) syns: SynCounts,
    pub(super) first_at: Nanos,
    pub(super) last_at: Nanos,
    /// When the SYN/ACK was seen.
    pub(super) answered_at: Option<Nanos>,
    /// When the third packet of the handshake was seen.
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
            proofs: [None; 2],
            syns: SynCounts::default(),
            first_at: now,
            last_at: now,
            answered_at: None,
            established_at: None,
            usable_at: None,
            end: None,
        }
    }

    /// Returns the side with an address.
    pub(super) fn side_of(&self, address: SocketAddr) -> Side {
        if self.ends[0].address == address {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Exchanges the two sides of the connection.
    pub(super) fn swap_sides(&mut self) {
        self.ends.swap(0, 1);
        self.opener = self.opener.map(|side| !side);
        self.nonces.swap(0, 1);
        self.proofs.swap(0, 1);
    }

    /// Returns whether it carried payload.
    pub(super) fn has_data(&self) -> bool {
        self.ends.iter().any(|end| end.counts.bytes > 0)
    }
}
