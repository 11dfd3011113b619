//! Middleboxes: what stands at the ends of links and does not leave TCP as it is.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::Experiment;
use crate::time::Nanos;

/// A middlebox between an interface and its link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Middlebox {
    /// Id of the interface before which it stands.
    pub at: String,
    /// Whose packets it works on.
    pub direction: MiddleboxDirection,
    /// What it does.
    pub element: Element,
}

/// Which packets a middlebox works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MiddleboxDirection {
    /// Those that go from the interface to the link.
    Leaving,
    /// Those that go from the link to the interface.
    Arriving,
    /// All.
    Both,
}

impl MiddleboxDirection {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leaving => "leaving",
            Self::Arriving => "arriving",
            Self::Both => "both",
        }
    }
}

/// What a middlebox does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Element {
    /// Takes options out.
    StripOptions(Selection),
    /// Drops the segments that have such options.
    DropOptions(Selection),
    /// Shifts sequence numbers by a random amount for each connection.
    RewriteSequence {},
    /// Hides a host behind other addresses and ports.
    Nat(Nat),
    /// Cuts segments.
    Split(Split),
    /// Joins segments that follow each other.
    Coalesce(Coalesce),
    /// Changes a byte of the data.
    ChangeBytes(ChangeBytes),
    /// Puts bytes between the data, and shifts all later sequence numbers.
    InsertBytes(InsertBytes),
    /// Sends packets twice.
    Duplicate(Duplicate),
    /// Acknowledges data before the receiver has it.
    AcknowledgeEarly(AcknowledgeEarly),
}

impl Element {
    /// The `kind` of its JSON.
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

/// Options of Multipath TCP in some segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Which options.
    pub options: Vec<OptionName>,
    /// In which segments.
    pub segments: Vec<SegmentKind>,
    /// How much data the connection has carried, in one direction or the other, before it begins.
    pub after_bytes: u64,
}

/// The options of Multipath TCP (RFC 8684, section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// The first of a connection.
    Syn,
    /// The answer to it.
    SynAck,
    /// All others.
    NonSyn,
}

/// The addresses that are seen outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nat {
    /// In place of an IPv4 address.
    pub ipv4: Ipv4Addr,
    /// In place of an IPv6 address.
    pub ipv6: Ipv6Addr,
}

/// How segments are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The most payload of a piece.
    pub largest_bytes: u32,
    /// Which pieces have the options of Multipath TCP.
    pub options: PiecesWithOptions,
}

/// Which pieces of a segment keep its options of Multipath TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PiecesWithOptions {
    /// All.
    All,
    /// The first.
    First,
}

/// How segments are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coalesce {
    /// The most payload of what comes of it.
    pub largest_bytes: u32,
    /// How long a segment waits for the next one.
    pub hold_ns: Nanos,
}

/// Which bytes are changed: one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeBytes {
    /// The byte behind that many others of each connection, whenever it comes.
    #[serde(deserialize_with = "Option::deserialize")]
    pub after_bytes: Option<u64>,
    /// A byte of each segment with this probability.
    #[serde(deserialize_with = "Option::deserialize")]
    pub probability: Option<f64>,
}

/// What is inserted, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InsertBytes {
    /// How many.
    pub bytes: u32,
    /// Behind so many bytes of each connection.
    pub after_bytes: u64,
}

/// What is sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// Probability for each packet.
    pub probability: f64,
}

/// How far data is acknowledged ahead of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeEarly {
    /// The most data of a connection that it keeps until the receiver has it.
    pub buffer_bytes: u64,
}

impl Experiment {
    /// The interface that is hidden by a middlebox, if that is a NAT: by the index of the interface, the addresses that others see.
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

    /// The interface at the other end of the link of an interface.
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
