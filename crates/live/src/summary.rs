//! What is left of a run besides its tables. Its JSON is what `finish` gives to Python.

use std::collections::BTreeMap;

use netlab::middlebox::MiddleboxSummary;
use netlab::resolved::Experiment;
use netlab::schedule::EventRecord;
use netlab::summary::{FlowSummary, LinkSummary, PathSummary, SubflowResult};
use netlab::time::Nanos;
use serde::Serialize;

use crate::congestion::ControlRecord;
use crate::path_manager::PathEvent;
use crate::programs::ProgramResult;
use crate::telemetry::Fallback;
use crate::traffic::FlowResult;
use crate::{EmulatorSummary, Hosts, LatenessSummary, LiveError, NetworkState, Tables};

/// Whether a run came to its end in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did.
    Done,
    /// It did, but the machine was too busy for its figures to be trusted.
    Invalid,
    /// A program of a flow was killed by somebody else.
    Failed,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// When the run ended.
    pub end_ns: Nanos,
    /// Always none: no two runs in real time are the same.
    pub trace_hash: Option<String>,
    /// How it ended.
    pub status: Status,
    /// Why it did not end well.
    pub why: Option<String>,
    /// Events as they happened.
    pub events: Vec<EventRecord>,
    /// Flows in the order of declaration.
    pub flows: Vec<FlowSummary>,
    /// Link directions in the order of declaration.
    pub links: Vec<LateLink>,
    /// Middleboxes in the order of declaration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub middleboxes: Vec<MiddleboxSummary>,
    /// Packets that hosts and routers gave to links.
    pub packets: u64,
    /// Hosts and routers.
    pub hosts: Vec<HostSummary>,
    /// What the path managers did and saw.
    pub path_events: Vec<PathEvent>,
    /// Congestion controls in eBPF, by name.
    pub congestion_controls: Vec<ControlRecord>,
    /// Programs, in the order in which they were started.
    pub programs: Vec<ProgramResult>,
    /// The longest that the emulator stood still, in seconds.
    pub longest_standstill_s: f64,
}

/// The counters of a link direction, and how late it was.
#[derive(Clone, Debug, Serialize)]
pub struct LateLink {
    /// As in the simulator.
    #[serde(flatten)]
    pub link: LinkSummary,
    /// How late its deliveries were.
    pub late: LatenessSummary,
}

/// A host or router as it was.
#[derive(Clone, Debug, Serialize)]
pub struct HostSummary {
    /// Its id.
    pub id: String,
    /// The kernel's settings in effect.
    pub settings: BTreeMap<String, String>,
    /// Policy rules and routes at the end.
    #[serde(flatten)]
    pub tables: Tables,
    /// By how much the kernel's counters grew.
    pub counters: BTreeMap<String, u64>,
}

/// How a run ended, and why if not well; `fault` is one of a user's own algorithms.
pub(crate) fn status(
    fault: Option<String>,
    emulation: &EmulatorSummary,
    programs: &[ProgramResult],
) -> (Status, Option<String>) {
    if fault.is_some() {
        return (Status::Failed, fault);
    }
    let was_killed = |program: &&ProgramResult| {
        program.flow.is_some() && program.signal.is_some() && !program.ended_by_run
    };
    if let Some(program) = programs.iter().find(was_killed) {
        let [argv, host] = [program.argv.join(" "), program.host.clone()];
        let why = format!(
            "{argv} on {host} was killed: signal {}",
            program.signal.unwrap_or(0)
        );
        return (Status::Failed, Some(why));
    }
    match &emulation.why_invalid {
        Some(why) => (Status::Invalid, Some(why.clone())),
        None => (Status::Done, None),
    }
}

pub(crate) fn flows(
    experiment: &Experiment,
    results: &[FlowResult],
    subflows: Vec<Vec<SubflowResult>>,
    fallbacks: &[Option<Fallback>],
) -> Vec<FlowSummary> {
    let flows = experiment.flows.iter().zip(results);
    flows
        .zip(subflows)
        .zip(fallbacks)
        .map(|(((flow, result), subflows), fallback)| FlowSummary {
            id: flow.id.clone(),
            start_ns: result.start_ns,
            established_ns: result.established_ns,
            end_ns: result.end_ns,
            bytes: result.bytes,
            path: PathSummary::new(&flow.paths[0]),
            error: result.error.clone(),
            fallback: fallback.map(Fallback::why),
            subflows,
        })
        .collect()
}

pub(crate) fn links(
    experiment: &Experiment,
    network: &NetworkState,
    emulation: &EmulatorSummary,
) -> Vec<LateLink> {
    let links = experiment.links.iter().zip(network.directions.chunks(2));
    let links = links.flat_map(|(link, directions)| {
        LinkSummary::of_link(link, [directions[0].link, directions[1].link])
    });
    let links = links.zip(&emulation.lateness);
    links
        .map(|(link, late)| LateLink { link, late: *late })
        .collect()
}

/// What became of hosts and routers; counters as they grew since `before`, those that did not are left out.
pub(crate) fn hosts(
    hosts: &mut Hosts,
    before: &BTreeMap<String, BTreeMap<String, u64>>,
) -> Result<Vec<HostSummary>, LiveError> {
    let mut settings = hosts.settings()?;
    let mut tables = hosts.tables()?;
    let summaries = hosts.counters()?.into_iter().map(|(id, after)| {
        let at_start = |name: &String| before.get(&id).and_then(|before| before.get(name));
        let grown = after.into_iter().filter_map(|(name, value)| {
            let growth = value.saturating_sub(at_start(&name).copied().unwrap_or(0));
            (growth > 0).then_some((name, growth))
        });
        HostSummary {
            counters: grown.collect(),
            settings: settings.remove(&id).unwrap_or_default(),
            tables: tables.remove(&id).unwrap_or_default(),
            id,
        }
    });
    Ok(summaries.collect())
}
