//! What this machine asks of the agent on another one, and the answers.
//!
//! Answers are `{"ok": VALUE}` or `{"error": TEXT}`. An empty line means that its sender is alive,
//! and `{"lost": TEXT}` in place of an answer that the connection is gone.

use std::collections::BTreeMap;

use experiment::resolved::Action;
use experiment::samples::Unit;
use experiment::time::Nanos;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::HostSummary;
use crate::applications::traffic::{FlowCounters, FlowResult, ProbeAnswer, ProbeCounters};
use crate::kernel::path_manager::PathEvent;
use crate::network::device::Key;
use crate::telemetry::ObservedEnd;

/// A request, with the type of its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Builds the hosts, and listens for packets of their interfaces: [`Ports`].
    Build(Build),
    /// Reads the machine's monotonic clock: nanoseconds.
    Clock,
    /// Verifies the paths that begin there, and answers the echoes of other machines until the next
    /// request: nothing.
    Verify,
    /// Opens listeners, and starts path managers: nothing.
    Prepare,
    /// Starts the flows when the machine's monotonic clock shows this time: nothing.
    Begin(u64),
    /// Reports what has happened since the last report: [`Report`].
    Report,
    /// Carries out an action on hosts: nothing.
    Apply(Action),
    /// Ends the traffic. Connections stay open: nothing.
    Stop,
    /// Ends the part: [`Ending`].
    Finish,
}

/// What a part is made of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Build {
    /// The name of the machine in the experiment.
    pub(super) machine: String,
    pub(super) seed: u64,
    /// The key of all tunnels of the run.
    pub(super) key: Key,
    /// Whether packets travel over network devices that the machine has for them, instead of as UDP
    /// datagrams.
    pub(super) over_devices: bool,
    pub(super) experiment: Box<RawValue>,
}

/// The port of the tunnel of each interface, or the number of its network device, by the
/// interface's index in the experiment.
pub(super) type Ports = Vec<(usize, u16)>;

/// Counters as of now, and events since the last report. Flows and probes are in the order of the
/// experiment.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) flows: Vec<FlowCounters>,
    pub(crate) flows_over: Vec<bool>,
    pub(crate) probes: Vec<ProbeCounters>,
    pub(crate) answers: Vec<ProbeAnswer>,
    pub(crate) units: Vec<Unit>,
    pub(crate) ends: Vec<ObservedEnd>,
    pub(crate) path_events: Vec<PathEvent>,
}

/// The results of a part.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) results: Vec<FlowResult>,
    pub(super) hosts: Vec<HostSummary>,
    pub(super) path_events: Vec<PathEvent>,
    /// The shortest round trip over real links that was measured there before the run, by the ids of
    /// the links.
    pub(super) real_rtts: BTreeMap<String, Nanos>,
    /// Packets that did not arrive there, and all that were sent.
    pub(super) losses: (u64, u64),
    /// The machine, as in the environment of a bundle.
    pub(super) machine: Value,
}
