//! Middleboxes: elements at the ends of links that change TCP.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Experiment;
use crate::time::Nanos;

/// A middlebox between an interface and its link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Middlebox {
    /// Id of the interface at which it is placed.
    pub at: String,
    /// Which packets it processes.
    pub direction: MiddleboxDirection,
    /// What it does to them.
    pub element: Element,
}

/// Which packets a middlebox processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MiddleboxDirection {
    /// Packets from the interface to the link.
    Leaving,
    /// Packets from the link to the interface.
    Arriving,
    /// All packets.
    Both,
}

impl MiddleboxDirection {
    /// Returns the name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leaving => "leaving",
            Self::Arriving => "arriving",
            Self::Both => "both",
        }
    }
}

/// What a middlebox does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Element {
    /// Removes options.
    StripOptions(Selection),
    /// Drops segments that carry the options.
    DropOptions(Selection),
    /// Shifts sequence numbers, by a random amount for each connection.
    RewriteSequence {},
    /// Hides a host behind other addresses and ports.
    Nat(Nat),
    /// Splits segments.
    Split(Split),
    /// Joins consecutive segments.
    Coalesce(Coalesce),
    /// Changes bytes of the payload.
    ChangeBytes(ChangeBytes),
    /// Inserts bytes into the data, and shifts all later sequence numbers.
    InsertBytes(InsertBytes),
    /// Sends packets twice.
    Duplicate(Duplicate),
    /// Acknowledges data before the receiver has it.
    AcknowledgeEarly(AcknowledgeEarly),
}

impl Element {
    /// Returns the `kind` in the JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StripOptions(_) => "strip_options",
            Self::DropOptions(_) => "drop_options",
            Self::RewriteSequence {} => "rewrite_sequence",
            Self::Nat(_) => "nat",
            Self::Split(_) => "split",
            Self::Coalesce(_) => "coalesce",
            Self::ChangeBytes(_) => "change_bytes",
            Self::InsertBytes(_) => "insert_bytes",
            Self::Duplicate(_) => "duplicate",
            Self::AcknowledgeEarly(_) => "acknowledge_early",
        }
    }
}

/// A selection of MPTCP options in some segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The options selected.
    pub options: Vec<OptionName>,
    /// The segments in which options are selected.
    pub segments: Vec<SegmentKind>,
    /// Bytes that the connection must have carried in one direction before the selection applies.
    pub after_bytes: u64,
}

/// The MPTCP options (RFC 8684, section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the RFC's own names")]
pub enum OptionName {
    MpCapable,
    MpJoin,
    Dss,
    AddAddr,
    RemoveAddr,
    MpPrio,
    MpFail,
    MpFastclose,
    MpTcprst,
}

/// Segments by their flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// SYN: the first segment of a connection.
    Syn,
    /// SYN/ACK: the answer to it.
    SynAck,
    /// All other segments.
    NonSyn,
}

/// The outside addresses of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nat {
    /// Replaces IPv4 addresses.
    pub ipv4: Ipv4Addr,
    /// Replaces IPv6 addresses.
    pub ipv6: Ipv6Addr,
}

/// How segments are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Largest payload of a piece in bytes.
    pub largest_bytes: u32,
    /// Which pieces carry the MPTCP options.
    pub options: PiecesWithOptions,
}

/// Which pieces of a segment keep its MPTCP options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PiecesWithOptions {
    /// All.
    All,
    /// The first.
    First,
}

/// How segments are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coalesce {
    /// Largest payload of a joined segment in bytes.
    pub largest_bytes: u32,
    /// How long a segment is held for the next one.
    pub hold_ns: Nanos,
}

/// Which bytes are changed. Exactly one of the two fields is set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeBytes {
    /// The byte after the first `after_bytes` bytes in each direction of a connection, whenever it
    /// is sent.
    #[serde(deserialize_with = "Option::deserialize")]
    pub after_bytes: Option<u64>,
    /// One byte of each segment, with this probability.
    #[serde(deserialize_with = "Option::deserialize")]
    pub probability: Option<f64>,
}

/// How many bytes are inserted, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InsertBytes {
    /// Number of bytes inserted.
    pub bytes: u32,
    /// Number of bytes before them in each direction of a connection.
    pub after_bytes: u64,
}

/// Which packets are duplicated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// Probability for each packet.
    pub probability: f64,
}

/// How far data is acknowledged ahead of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeEarly {
    /// Largest amount of data, in bytes, kept for each receiver of a connection.
    pub buffer_bytes: u64,
}

impl Experiment {
    /// Returns the interface hidden by a middlebox that is a NAT: its index and the outside
    /// addresses. `None` if it is not a NAT.
    pub fn hidden(&self, middlebox: &Middlebox) -> Option<(usize, Nat)> {
        let Element::Nat(nat) = middlebox.element else {
            return None;
        };
        let at = self.interface_index(&middlebox.at)?;
        let hidden = match middlebox.direction {
            MiddleboxDirection::Arriving => self.other_end(at)?,
            _ => at,
        };
        Some((hidden, nat))
    }

    fn interface_index(&self, id: &str) -> Option<usize> {
        self.interfaces.iter().position(|one| one.id == id)
    }

    /// Returns the interface at the other end of the link of an interface.
    fn other_end(&self, interface: usize) -> Option<usize> {
        let interface = &self.interfaces[interface];
        let link = self.links.iter().find(|one| one.id == interface.link)?;
        let other = if link.a == interface.id {
            &link.b
        } else {
            &link.a
        };
        self.interface_index(other)
    }
}
