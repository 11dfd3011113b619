//! The counters of links in the result of a run.

use experiment::resolved::{HopDirection, Link};
use serde::Serialize;

use crate::link::DropReason;
use crate::links::LinkState;

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
    /// Packets that an access network gave up sending again.
    pub dropped_retries: u64,
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
            dropped_retries: dropped(DropReason::Retries),
        }
    }
}
