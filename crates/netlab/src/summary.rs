//! The parts of a result that all back-ends share.

use serde::Serialize;

use crate::link::DropReason;
use crate::links::LinkState;
use crate::places::{Ends, Places};
use crate::resolved::{HopDirection, Link, Path};
use crate::time::Nanos;

/// The result of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowSummary {
    /// Id of the flow.
    pub id: String,
    /// When its first connection was opened or its first datagram was sent.
    pub start_ns: Nanos,
    /// When its first connection was established. `None` for datagrams.
    pub established_ns: Option<Nanos>,
    /// When its last byte arrived. `None` if the flow was not done at the end of the run.
    pub end_ns: Option<Nanos>,
    /// Payload bytes delivered in order.
    pub bytes: u64,
    /// The path of its first subflow.
    pub path: PathSummary,
    /// Why it could not continue.
    pub error: Option<String>,
    /// Why it used plain TCP although MPTCP was requested.
    pub fallback: Option<&'static str>,
    /// Its subflows, in the order in which they were established.
    pub subflows: Vec<SubflowResult>,
}

/// A subflow in the result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubflowResult {
    /// Number of the subflow.
    pub id: usize,
    /// Address and port of the data sender.
    pub local: String,
    /// Address and port of the data receiver.
    pub remote: String,
    /// Id of the interface with address `local`.
    pub interface: Option<String>,
    /// Id of the interface with address `remote`.
    pub remote_interface: Option<String>,
    /// Id of the first link of the path.
    pub link: Option<String>,
    /// When it was established. On the kernel back-end, the first sample in which it was, where
    /// no event tells.
    pub opened_ns: Nanos,
    /// When it was closed, if before the end. On the kernel back-end, the last sample in which it
    /// was open, where no event tells.
    pub closed_ns: Option<Nanos>,
    /// Payload bytes that it carried in the direction of the flow's data.
    pub bytes: u64,
    /// Payload bytes retransmitted on it.
    pub retransmitted_bytes: u64,
    /// Id of the host that opened it.
    pub opened_by: String,
}

impl SubflowResult {
    /// Returns subflow `id` of a flow between `ends`, with all counters at 0.
    pub fn new(places: &Places, flow: usize, id: usize, ends: Ends) -> Self {
        let place = places.place(flow, ends);
        Self {
            id,
            local: ends.local.to_string(),
            remote: ends.remote.to_string(),
            interface: place.interface.map(str::to_owned),
            remote_interface: place.remote_interface.map(str::to_owned),
            link: place.link.map(str::to_owned),
            opened_ns: 0,
            closed_ns: None,
            bytes: 0,
            retransmitted_bytes: 0,
            opened_by: place.opened_by.to_owned(),
        }
    }
}

/// A path in the result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathSummary {
    /// Id of the interface of the sender.
    pub local: String,
    /// Id of the interface of the receiver.
    pub remote: String,
    /// Id of the first link.
    pub link: String,
}

impl PathSummary {
    /// Returns the summary of a path of the description, which has at least one hop.
    pub fn new(path: &Path) -> Self {
        Self {
            local: path.local.clone(),
            remote: path.remote.clone(),
            link: path.hops[0].link.clone(),
        }
    }
}

/// The counters of a link direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkSummary {
    /// Id of the link.
    pub id: String,
    /// `forward` or `backward`.
    pub direction: &'static str,
    /// Bytes that left the serializer, overhead included.
    pub wire_bytes: u64,
    /// Packets that left the serializer.
    pub wire_packets: u64,
    /// Packets offered to the link.
    pub offered_packets: u64,
    /// Packets that arrived at the far end.
    pub delivered_packets: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue_full: u64,
    /// Packets dropped by active queue management.
    pub dropped_aqm: u64,
    /// Packets dropped by the loss model.
    pub dropped_loss: u64,
    /// Packets dropped because the link was out of service.
    pub dropped_link_down: u64,
}

impl LinkSummary {
    /// Returns the summaries of both directions of a link, in the order of [`HopDirection::BOTH`].
    pub fn of_link(link: &Link, states: [LinkState; 2]) -> [Self; 2] {
        let [forward, backward] = states;
        let [one, other] = HopDirection::BOTH;
        [
            Self::new(&link.id, one, &forward),
            Self::new(&link.id, other, &backward),
        ]
    }

    fn new(id: &str, direction: HopDirection, state: &LinkState) -> Self {
        let dropped = |reason: DropReason| state.dropped[reason as usize];
        Self {
            id: id.to_owned(),
            direction: direction.name(),
            wire_bytes: state.wire_bytes,
            wire_packets: state.wire_packets,
            offered_packets: state.offered_packets,
            delivered_packets: state.delivered_packets,
            dropped_queue_full: dropped(DropReason::QueueFull),
            dropped_aqm: dropped(DropReason::Aqm),
            dropped_loss: dropped(DropReason::Loss),
            dropped_link_down: dropped(DropReason::LinkDown),
        }
    }
}
