//! The summary of a run.

use emulation::LinkSummary;
use emulation::middlebox::MiddleboxSummary;
use experiment::schedule::EventRecord;
use experiment::summary::FlowSummary;
use experiment::time::Nanos;
use serde::Serialize;

/// The result of a run. Its JSON is what `finish` returns to Python.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// `failed` if a user's own algorithm ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When the run ended.
    pub end_ns: Nanos,
    /// 128-bit XXH3 hash over all packets delivered and dropped, in hexadecimal.
    pub trace_hash: String,
    /// Events that happened.
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
