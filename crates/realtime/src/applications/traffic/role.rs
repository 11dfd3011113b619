//! The role of a host with the userspace stack in a flow: the same applications, over connections
//! of the engine.

use std::sync::Arc;

use experiment::resolved::FlowEnd;
use experiment::time::Nanos;

use super::StreamEnd;
use super::connection::{End, MakeEnd};
use super::record::Journal;
use super::short_flows::Transfers;

/// The role of a host in a flow over connections.
pub(crate) struct Role {
    /// Index of the flow in the experiment.
    pub(crate) flow: usize,
    /// Which end of the flow this is.
    pub(crate) side: FlowEnd,
    /// Whether this end sends or receives the flow's data.
    pub(crate) end: StreamEnd,
    pub(crate) part: Part,
}

pub(crate) enum Part {
    Opens(Openings),
    Accepts {
        make_end: MakeEnd,
        journal: Arc<dyn Journal>,
    },
}

/// The application of a connection, and its journal.
pub(crate) struct Opened {
    pub(crate) end: Box<dyn End>,
    pub(crate) journal: Arc<dyn Journal>,
}

/// The connections that a host opens for a flow.
pub(crate) enum Openings {
    /// One connection, at this time.
    One(Nanos, Opened),
    /// One connection for each transfer.
    Each(Transfers),
}

impl Openings {
    /// Returns when the next connection is opened.
    pub(crate) fn next_at(&self) -> Nanos {
        match self {
            Self::One(at, _) => *at,
            Self::Each(transfers) => transfers.next_at(),
        }
    }

    /// Returns the next connection, which is opened now, and the remaining ones.
    pub(crate) fn start(self, now: Nanos) -> (Opened, Option<Self>) {
        match self {
            Self::One(_, opened) => (opened, None),
            Self::Each(mut transfers) => (transfers.start(now), Some(Self::Each(transfers))),
        }
    }
}
