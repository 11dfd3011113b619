//! What the results of all back-ends have in common.

use serde::Serialize;

use crate::link::DropReason;
use crate::links::LinkState;
use crate::places::{Ends, Places};
use crate::resolved::{HopDirection, Link, Path};
use crate::time::Nanos;

/// The result of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowSummary {
    /// Its id.
    pub id: String,
    /// When its first connection was opened, or its first datagram sent.
    pub start_ns: Nanos,
    /// When its first connection stood; none of datagrams.
    pub established_ns: Option<Nanos>,
    /// When its last byte arrived; none if it was not done when the run ended.
    pub end_ns: Option<Nanos>,
    /// Payload delivered in order.
    pub bytes: u64,
    /// The path of its first subflow.
    pub path: PathSummary,
    /// Why it could not go on.
    pub error: Option<String>,
    /// Why it was plain TCP although it was meant to be Multipath TCP.
    pub fallback: Option<&'static str>,
    /// Its subflows, in the order in which they were established.
    pub subflows: Vec<SubflowResult>,
}

/// A subflow in the result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubflowResult {
    /// Its number.
    pub id: usize,
    /// The data sender's address and port.
    pub local: String,
    /// The data receiver's address and port.
    pub remote: String,
    /// Id of the interface that has `local`.
    pub interface: Option<String>,
    /// Id of the interface that has `remote`.
    pub remote_interface: Option<String>,
    /// Id of the first link between them.
    pub link: Option<String>,
    /// When it was established; on the kernel the first sample in which it was.
    pub opened_ns: Nanos,
    /// When it was closed, if that was before the end; on the kernel the last sample in which it was open.
    pub closed_ns: Option<Nanos>,
    /// Payload that it carried in the direction of the flow's data.
    pub bytes: u64,
    /// Payload sent again on it.
    pub retransmitted_bytes: u64,
    /// Id of the host that opened it.
    pub opened_by: String,
}

impl SubflowResult {
    /// The subflow with that number between these ends, of a flow; nothing is known of it yet.
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

/// A path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathSummary {
    /// Interface of the sender.
    pub local: String,
    /// Interface of the receiver.
    pub remote: String,
    /// The first link.
    pub link: String,
}

impl PathSummary {
    /// The ends of a path of the description, which has at least one hop.
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
    /// Bytes, overhead counted, that left the serializer.
    pub wire_bytes: u64,
    /// Packets that left the serializer.
    pub wire_packets: u64,
    /// Packets given to the link.
    pub offered_packets: u64,
    /// Packets that arrived.
    pub delivered_packets: u64,
    /// Packets that found the queue full.
    pub dropped_queue_full: u64,
    /// Packets that active queue management dropped.
    pub dropped_aqm: u64,
    /// Packets that the loss model dropped.
    pub dropped_loss: u64,
    /// Packets dropped because the link was out of service.
    pub dropped_link_down: u64,
}

impl LinkSummary {
    /// Both directions of a link, in the order of [`HopDirection::BOTH`].
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
