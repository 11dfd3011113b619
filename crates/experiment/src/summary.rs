//! The parts of a result that all back-ends share.

use serde::Serialize;

use crate::addressing::{Ends, Places};
use crate::resolved::Path;
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
