//! The flows of a run and the probes of `measure`. UDP is simulated datagram by datagram, all other
//! flows between hosts with a stack.

use std::collections::BTreeSet;

use experiment::addressing::Lookup;
use experiment::algorithms::Registry;
use experiment::resolved::{Application, Experiment, Flow, Path, Transport};
use experiment::summary::{FlowSummary, PathSummary};
use experiment::time::Nanos;
use experiment::traffic::{Pace, last_endless_start, start_of};

use crate::datagrams::{App, Behaviour, Datagrams, Probe, Timing, ports};
use crate::hosts::{FlowRecord, Hosts};
use crate::network::{Network, RouteId};
use crate::packet::datagram_headers_bytes;

/// Payload in bytes of the probes requested by `measure`.
const PROBE_BYTES: u32 = 64;

/// All senders of a run.
pub(super) struct Flows {
    apps: Vec<App>,
    hosts: Hosts,
    /// Index of the datagram application of each UDP flow.
    app_of_flow: Vec<Option<usize>>,
    probes: Vec<ProbeName>,
    /// Flows that end by themselves and were not yet seen to have ended.
    unfinished: Vec<usize>,
    /// When the last of the flows that do not end by themselves starts.
    last_endless_start: Nanos,
}

/// A source of round-trip times: a flow, or a probe requested by `measure`.
pub(super) struct ProbeName {
    /// Name of its entity.
    pub(super) name: String,
    /// Index of the flow, if it is a flow other than UDP.
    pub(super) flow: Option<usize>,
    /// Index of the datagram application, if it is one.
    pub(super) app: Option<usize>,
}

impl Flows {
    /// Returns the flows of an experiment that `check` accepts.
    pub(super) fn new(
        experiment: &Experiment,
        seed: u64,
        registry: &Registry,
        network: &mut Network,
    ) -> Self {
        let lookup = Lookup::new(experiment);
        let mut flows = Self {
            apps: Vec::new(),
            hosts: Hosts::new(&lookup, seed, registry),
            app_of_flow: Vec::new(),
            probes: Vec::new(),
            unfinished: Vec::new(),
            last_endless_start: last_endless_start(experiment, seed),
        };
        for (index, flow) in experiment.flows.iter().enumerate() {
            let is_udp = flow.transport == Transport::Udp;
            flows.app_of_flow.push(is_udp.then_some(flows.apps.len()));
            match is_udp {
                true => flows.add_datagrams(start_of(experiment, flow, seed), network, index, flow),
                false => flows.add_stream(&lookup, network, index, flow),
            }
        }
        if let Some(every) = experiment.measure.probe_rtt_ns {
            flows.add_probes(experiment, network, every);
        }
        let count = experiment.flows.len();
        flows.unfinished = (0..count).filter(|flow| flows.is_finite(*flow)).collect();
        flows
    }

    fn add_stream(
        &mut self,
        lookup: &Lookup<'_>,
        network: &mut Network,
        index: usize,
        flow: &Flow,
    ) {
        network.add_flow(lookup, index);
        if let Application::Probe { .. } = flow.app {
            self.probes.push(ProbeName {
                name: format!("probes.{}", flow.id),
                flow: Some(index),
                app: None,
            });
        }
    }

    fn add_datagrams(&mut self, start: Nanos, network: &mut Network, index: usize, flow: &Flow) {
        let (behaviour, size_bytes, duration) = match flow.app {
            Application::Cbr {
                rate_bps,
                size_bytes,
                duration_ns,
            } => {
                let pace = Pace::constant(rate_bps, size_bytes);
                (Behaviour::Cbr(pace), size_bytes, duration_ns)
            }
            Application::Probe {
                every_ns,
                size_bytes,
                duration_ns,
            } => {
                let probe = Probe::new(every_ns);
                (Behaviour::Probe(probe), size_bytes, duration_ns)
            }
            _ => unreachable!("refused by check"),
        };
        let timing = Timing { start, duration };
        let is_probe = matches!(behaviour, Behaviour::Probe(_));
        let name = is_probe.then(|| format!("probes.{}", flow.id));
        let route = network.add_path((index, 0), &flow.paths[0], ports(self.apps.len()));
        let flow = Some(index);
        self.add_app(network, (flow, route), size_bytes, timing, behaviour, name);
    }

    /// Adds one probe for each path, however many flows use it.
    fn add_probes(&mut self, experiment: &Experiment, network: &mut Network, every: Nanos) {
        let mut probed = BTreeSet::new();
        for (place, path) in paths(experiment) {
            if probed.insert((&path.local, &path.remote)) {
                let timing = Timing {
                    start: 0,
                    duration: None,
                };
                let name = format!("probes.{}-{}", path.local, path.remote);
                let probe = Behaviour::Probe(Probe::new(every));
                let route = network.add_path(place, path, ports(self.apps.len()));
                let flow = None;
                self.add_app(
                    network,
                    (flow, route),
                    PROBE_BYTES,
                    timing,
                    probe,
                    Some(name),
                );
            }
        }
    }

    fn add_app(
        &mut self,
        network: &Network,
        (flow, route): (Option<usize>, RouteId),
        size_bytes: u32,
        timing: Timing,
        behaviour: Behaviour,
        probe_name: Option<String>,
    ) {
        let [source, _] = network.addresses_of(route);
        let datagrams = Datagrams {
            application: self.apps.len() as u32,
            route,
            source: network.source_of(route),
            size_bytes,
            headers_bytes: datagram_headers_bytes(source),
        };
        self.probes.extend(probe_name.map(|name| ProbeName {
            name,
            flow: None,
            app: Some(self.apps.len()),
        }));
        self.apps.push(App::new(flow, datagrams, timing, behaviour));
    }

    /// Returns the applications over UDP.
    pub(super) fn apps(&self) -> &[App] {
        &self.apps
    }

    /// Returns an application over UDP.
    pub(super) fn app_mut(&mut self, index: usize) -> &mut App {
        &mut self.apps[index]
    }

    /// Returns the application of a UDP flow.
    pub(super) fn app_of(&self, flow: usize) -> Option<&App> {
        Some(&self.apps[self.app_of_flow[flow]?])
    }

    /// Returns the record of a flow that is not UDP.
    pub(super) fn record(&self, flow: usize) -> Option<&FlowRecord> {
        self.hosts.record(flow)
    }

    /// Returns the hosts.
    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns the hosts for changes.
    pub(super) fn hosts_mut(&mut self) -> &mut Hosts {
        &mut self.hosts
    }

    /// Returns all sources of round-trip times.
    pub(super) fn probes(&self) -> &[ProbeName] {
        &self.probes
    }

    /// Returns how many probes were sent and answered.
    pub(super) fn probe_counters(&self, probe: usize) -> [u64; 2] {
        let ProbeName { flow, app, .. } = self.probes[probe];
        let of_app = app.map(|app| {
            let app = &self.apps[app];
            let answered = app.probe().map_or(0, Probe::answered);
            [app.counters().packets_sent, answered]
        });
        let record = flow.and_then(|flow| self.record(flow));
        let of_flow = record.map(|record| [record.probes_sent, record.probes_answered]);
        of_app.or(of_flow).unwrap_or_default()
    }

    /// Brings the records of connections to the current time.
    pub(super) fn observe(&mut self) {
        self.hosts.observe();
    }

    fn is_finite(&self, flow: usize) -> bool {
        let record = self.record(flow).map(FlowRecord::is_finite);
        record
            .or_else(|| self.app_of(flow).map(App::is_finite))
            .unwrap_or(false)
    }

    fn is_over(&self, flow: usize) -> bool {
        let record = self.record(flow).map(FlowRecord::is_over);
        let is_sent = |app: &App| app.end().is_some();
        record
            .or_else(|| self.app_of(flow).map(is_sent))
            .unwrap_or(false)
    }

    /// Returns whether the last of the flows that end by themselves has just ended, and all others
    /// have started.
    #[inline]
    pub(super) fn are_done(&mut self, now: Nanos) -> bool {
        while let Some(flow) = self.unfinished.last().copied() {
            if !self.is_over(flow) {
                return false;
            }
            self.unfinished.pop();
            if self.unfinished.is_empty() {
                return now >= self.last_endless_start;
            }
        }
        false
    }

    /// Returns the results of all flows, in the order of the experiment.
    pub(super) fn summaries(&self, experiment: &Experiment) -> Vec<FlowSummary> {
        let flows = experiment.flows.iter().enumerate();
        let of_streams = self.hosts.summaries(experiment);
        flows
            .zip(of_streams)
            .map(|((index, flow), of_stream)| {
                of_stream.unwrap_or_else(|| self.datagram_summary(index, flow))
            })
            .collect()
    }

    fn datagram_summary(&self, index: usize, flow: &Flow) -> FlowSummary {
        let app = self.app_of(index);
        FlowSummary {
            id: flow.id.clone(),
            start_ns: app.map_or(flow.start_ns, App::start),
            established_ns: None,
            end_ns: app.and_then(App::end),
            bytes: app.map_or(0, |app| app.counters().bytes_received),
            path: PathSummary::new(&flow.paths[0]),
            error: None,
            fallback: None,
            subflows: Vec::new(),
        }
    }
}

/// Returns all paths of all flows, each with the index of its flow and its own.
fn paths(experiment: &Experiment) -> impl Iterator<Item = ((usize, usize), &Path)> {
    let flows = experiment.flows.iter().enumerate();
    flows.flat_map(|(flow, described)| {
        let paths = described.paths.iter().enumerate();
        paths.map(move |(nth, path)| ((flow, nth), path))
    })
}
