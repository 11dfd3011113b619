//! What a host with our own stack does for a flow: the same applications, over connections that it makes itself.

use std::sync::Arc;

use netlab::resolved::FlowEnd;
use netlab::time::Nanos;

use super::StreamEnd;
use super::connection::{End, MakeEnd};
use super::record::Journal;
use super::short_flows::Transfers;

/// The part of a host in a flow over connections.
pub(crate) struct Role {
    /// Place of the flow among the experiment's.
    pub(crate) flow: usize,
    /// Which end of the flow this is.
    pub(crate) side: FlowEnd,
    /// The same, by what it does with the flow's data.
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

/// What is done with a connection, and who is told of it.
pub(crate) struct Opened {
    pub(crate) end: Box<dyn End>,
    pub(crate) journal: Arc<dyn Journal>,
}

/// The connections that a host opens for a flow, over time.
pub(crate) enum Openings {
    /// At this time.
    One(Nanos, Opened),
    /// One for each transfer.
    Each(Transfers),
}

impl Openings {
    /// When the next one is opened.
    pub(crate) fn next_at(&self) -> Nanos {
        match self {
            Self::One(at, _) => *at,
            Self::Each(transfers) => transfers.next_at(),
        }
    }

    /// The next one, which is opened now, and those that are left.
    pub(crate) fn start(self, now: Nanos) -> (Opened, Option<Self>) {
        match self {
            Self::One(_, opened) => (opened, None),
            Self::Each(mut transfers) => (transfers.start(now), Some(Self::Each(transfers))),
        }
    }
}
