//! What is left of a run besides its tables.

use serde::Serialize;

use crate::middlebox::MiddleboxSummary;
use crate::schedule::EventRecord;
use crate::summary::{FlowSummary, LinkSummary};
use crate::time::Nanos;

/// The result of a run. Its JSON is what `finish` gives to Python.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// `failed` if a user's own algorithm ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
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
    /// Middleboxes in the order of declaration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub middleboxes: Vec<MiddleboxSummary>,
    /// Packets that applications sent, answers and probes included.
    pub packets: u64,
    /// Steps of the simulator.
    pub event_count: u64,
}
