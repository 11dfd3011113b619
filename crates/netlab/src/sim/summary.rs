//! What is left of a run besides its tables.

use serde::Serialize;

use crate::schedule::EventRecord;
use crate::time::Nanos;

/// The result of a run. Its JSON is what `finish` gives to Python.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// When the run ended.
    pub end_ns: Nanos,
    /// XXH3 with 128 bits over all that was delivered and dropped, in hexadecimal digits.
    pub trace_hash: String,
    /// Events as they happened.
    pub events: Vec<EventRecord>,
    /// Flows in the order of declaration.
    pub flows: Vec<FlowSummary>,
    /// Link directions in the order of declaration.
    pub links: Vec<LinkSummary>,
    /// Packets that applications sent, answers and probes included.
    pub packets: u64,
    /// Steps of the simulator.
    pub event_count: u64,
}

/// The result of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowSummary {
    /// Its id.
    pub id: String,
    /// When it started.
    pub start_ns: Nanos,
    /// When its last packet arrived; `None` if it was not done when the run ended.
    pub end_ns: Option<Nanos>,
    /// Payload delivered in order.
    pub bytes: u64,
    /// The path it used.
    pub path: PathSummary,
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
