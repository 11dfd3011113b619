//! The result of a run besides its tables. `finish` passes it to Python as JSON.

use std::collections::BTreeMap;

use emulation::LinkSummary;
use emulation::middlebox::MiddleboxSummary;
use experiment::resolved::Experiment;
use experiment::schedule::EventRecord;
use experiment::summary::{FlowSummary, PathSummary, SubflowResult};
use experiment::time::{Nanos, seconds};
use serde::{Deserialize, Serialize};

use crate::applications::programs::ProgramResult;
use crate::applications::traffic::FlowResult;
use crate::kernel::congestion::ControlRecord;
use crate::kernel::path_manager::PathEvent;
use crate::telemetry::Fallback;
use crate::{
    ControlSummary, EmulatorSummary, Hosts, LatenessSummary, LiveError, MachineSummary,
    NetworkState, Tables,
};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The run is complete and valid.
    Done,
    /// The run is complete, but the machine was too busy for valid results.
    Invalid,
    /// A program of a flow was killed from outside the run, or a user's own algorithm failed.
    Failed,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// When the run ended.
    pub end_ns: Nanos,
    /// Always `None`, because no two runs in real time are the same.
    pub trace_hash: Option<String>,
    /// How the run ended.
    pub status: Status,
    /// Why the run is not valid or failed.
    pub why: Option<String>,
    /// Events as they happened.
    pub events: Vec<EventRecord>,
    /// Flows in the order of declaration.
    pub flows: Vec<FlowSummary>,
    /// Directions of emulated links in the order of declaration.
    pub links: Vec<LateLink>,
    /// Real links in the order of declaration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub real_links: Vec<RealLink>,
    /// Middleboxes in the order of declaration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub middleboxes: Vec<MiddleboxSummary>,
    /// Packets that hosts and routers sent to links.
    pub packets: u64,
    /// Hosts and routers.
    pub hosts: Vec<HostSummary>,
    /// Events of the path managers.
    pub path_events: Vec<PathEvent>,
    /// Congestion controls in eBPF, by name.
    pub congestion_controls: Vec<ControlRecord>,
    /// Programs, in the order in which they were started.
    pub programs: Vec<ProgramResult>,
    /// What controlled switches and their controller did; `None` if there are none.
    pub control: Option<ControlSummary>,
    /// Machines of hosts, other than the one that ran the experiment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineSummary>,
    /// The longest standstill of the emulator, in seconds.
    pub longest_standstill_s: f64,
}

/// The counters of a link direction, and its lateness.
#[derive(Clone, Debug, Serialize)]
pub struct LateLink {
    /// As in the simulator.
    #[serde(flatten)]
    pub link: LinkSummary,
    /// How late its deliveries were.
    pub late: LatenessSummary,
}

/// What was measured of a real link before the run.
#[derive(Clone, Debug, Serialize)]
pub struct RealLink {
    /// Its id.
    pub id: String,
    /// The shortest round-trip time of an echo, which was measured before the run. `None` if no path
    /// crosses the link.
    pub rtt_s: Option<f64>,
}

/// The state of a host or router.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostSummary {
    /// Its id.
    pub id: String,
    /// The kernel's settings in effect.
    pub settings: BTreeMap<String, String>,
    /// Policy rules and routes at the end.
    #[serde(flatten)]
    pub tables: Tables,
    /// The growth of the kernel's counters.
    pub counters: BTreeMap<String, u64>,
}

/// Returns how a run ended, and why if it is not valid. `fault` is that of a user's own algorithm,
/// and `why_invalid` what makes its measurements invalid.
pub(crate) fn status(
    fault: Option<String>,
    why_invalid: Option<String>,
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
    match why_invalid {
        Some(why) => (Status::Invalid, Some(why)),
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
    let links = links.zip(emulation.lateness.chunks(2));
    let emulated = links.filter(|((link, _), _)| !link.real);
    emulated
        .flat_map(|((link, directions), late)| {
            let of_link = LinkSummary::of_link(link, [directions[0].link, directions[1].link]);
            of_link.into_iter().zip(late)
        })
        .map(|(link, late)| LateLink { link, late: *late })
        .collect()
}

/// Returns the real links with the shortest round trips, which are by their ids.
pub(crate) fn real_links(
    experiment: &Experiment,
    rtts_ns: &BTreeMap<String, Nanos>,
) -> Vec<RealLink> {
    let links = experiment.links.iter().filter(|link| link.real);
    links
        .map(|link| RealLink {
            id: link.id.clone(),
            rtt_s: rtts_ns.get(&link.id).copied().map(seconds),
        })
        .collect()
}

/// How the names of counters of Multipath TCP begin.
const OF_MPTCP: &str = "MPTcpExt";

/// Returns the state of hosts and routers. Counters are the growth since `before`; unchanged ones
/// are left out, except those of Multipath TCP, because kernels differ in those that they have.
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
            (growth > 0 || name.starts_with(OF_MPTCP)).then_some((name, growth))
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
