//! Takes samples and writes them to their table.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::resolved::{Experiment, HopDirection};
use experiment::samples::metrics::Group;
use experiment::samples::{SampleTable, TableError};
use experiment::time::{NANOS_PER_SECOND, Nanos};

use crate::flows::Flows;
use crate::hosts::FlowRecord;
use crate::network::Network;

/// The values of the last samples, by entity and metric.
pub type Latest = BTreeMap<String, BTreeMap<&'static str, f64>>;

/// An entity that exists from the start, with its index in its list.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Flow(usize),
    LinkDirection(usize),
    Interface(usize),
    Probe(usize),
}

/// The names of all metrics without duplicates, and for each group the indices of its metrics.
struct Metrics {
    names: Vec<&'static str>,
    places: [Vec<usize>; Group::METRICS.len()],
}

impl Metrics {
    fn new() -> Self {
        let mut names: Vec<&'static str> = Vec::new();
        let places = Group::METRICS.map(|metrics| {
            let place = |name: &&'static str| {
                let known = names.iter().position(|other| other == name);
                known.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                })
            };
            metrics.iter().map(place).collect()
        });
        Self { names, places }
    }
}

/// Writes the sample table.
pub(super) struct Sampler {
    table: SampleTable,
    metrics: Metrics,
    /// Names of all entities, by their index in the table.
    entities: Vec<String>,
    /// The entities that exist from the start, in that order.
    subjects: Vec<Subject>,
    /// Entities of the subflows of each flow.
    subflows: Vec<Vec<usize>>,
    /// For each flow, how many of its first subflows have nothing more to report.
    silent: Vec<usize>,
    /// The probe entity of each flow.
    probe_of_flow: Vec<Option<usize>>,
    /// The probe entity of each datagram application.
    probe_of_app: Vec<Option<usize>>,
    every: Nanos,
    last: Option<Nanos>,
    next_tick: Nanos,
    /// Entity, metric and value of the last sample.
    rows: Vec<(usize, usize, f64)>,
    /// The last round-trip time of each probe, by entity.
    rtts: BTreeMap<usize, f64>,
}

impl Sampler {
    /// Creates the table of an experiment with `flows`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn create(
        directory: &Path,
        experiment: &Experiment,
        flows: &Flows,
    ) -> Result<Self, TableError> {
        let (subjects, entities): (Vec<_>, Vec<_>) =
            subjects(experiment, flows).into_iter().unzip();
        let metrics = Metrics::new();
        let mut probe_of_flow = vec![None; experiment.flows.len()];
        let mut probe_of_app = vec![None; flows.apps().len()];
        for (place, subject) in subjects.iter().enumerate() {
            if let Subject::Probe(probe) = subject {
                let probe = &flows.probes()[*probe];
                if let Some(flow) = probe.flow {
                    probe_of_flow[flow] = Some(place);
                }
                if let Some(app) = probe.app {
                    probe_of_app[app] = Some(place);
                }
            }
        }
        let count = experiment.flows.len();
        Ok(Self {
            table: SampleTable::create(directory, &entities, &metrics.names)?,
            probe_of_flow,
            probe_of_app,
            metrics,
            entities,
            subjects,
            subflows: vec![Vec::new(); count],
            silent: vec![0; count],
            every: experiment.measure.every_ns,
            last: None,
            next_tick: 0,
            rows: Vec::new(),
            rtts: BTreeMap::new(),
        })
    }

    /// Returns when the next regular sample is due.
    pub(super) fn next_tick(&self) -> Nanos {
        self.next_tick
    }

    /// Returns when the last sample was taken.
    pub(super) fn last(&self) -> Option<Nanos> {
        self.last
    }

    /// Takes a sample of all entities.
    ///
    /// # Errors
    /// Fails if the table cannot be written.
    pub(super) fn sample(
        &mut self,
        now: Nanos,
        network: &mut Network,
        flows: &mut Flows,
    ) -> Result<(), TableError> {
        network.advance(now);
        flows.observe();
        self.last = Some(now);
        self.next_tick = (now / self.every + 1) * self.every;
        self.rows.clear();
        for place in 0..self.subjects.len() {
            self.note_subject(now, place, network, flows);
        }
        for flow in 0..self.subflows.len() {
            if let Some(record) = flows.record(flow) {
                self.note_subflows(flow, record);
            }
        }
        for (entity, metric, value) in &self.rows {
            self.table.push(now, *entity, *metric, *value)?;
        }
        Ok(())
    }

    fn note_subject(&mut self, now: Nanos, place: usize, network: &Network, flows: &Flows) {
        match self.subjects[place] {
            Subject::Flow(flow) => self.note_flow(now, place, flow, flows),
            Subject::LinkDirection(index) => {
                let state = network.link_state(index);
                self.note(place, Group::Link, state.values());
            }
            Subject::Interface(index) => {
                let state = network.interface_state(index);
                let counters = [
                    u64::from(state.is_up),
                    state.sent,
                    state.received,
                    state.dropped_interface_down,
                    state.dropped_no_address,
                    state.dropped_no_route,
                ];
                self.note(place, Group::Interface, reals(counters));
            }
            Subject::Probe(probe) => {
                let counters = flows.probe_counters(probe);
                self.note(place, Group::Probe, reals(counters));
            }
        }
    }

    fn note_flow(&mut self, now: Nanos, place: usize, flow: usize, flows: &Flows) {
        if let Some(record) = flows.record(flow) {
            // All bytes that an application has received were read in order.
            let payload = [
                record.bytes_sent,
                record.bytes_received,
                record.bytes_received,
            ];
            self.note(place, Group::Payload, reals(payload));
            self.note(place, Group::Stream, record.values());
            if record.is_video {
                self.note_known(place, Group::Video, record.video.values(now));
            }
        } else if let Some(app) = flows.app_of(flow) {
            let counters = app.counters();
            // The network never duplicates packets, and a datagram never waits for another.
            let payload = [
                counters.bytes_sent,
                counters.bytes_received,
                counters.bytes_received,
            ];
            self.note(place, Group::Payload, reals(payload));
            let packets = [counters.packets_sent, counters.packets_received];
            self.note(place, Group::Packets, reals(packets));
        }
    }

    /// Records the subflows of a flow. Subflows closed before the last sample are not recorded
    /// again.
    fn note_subflows(&mut self, flow: usize, record: &FlowRecord) {
        let known = self.subflows[flow].len();
        let name = &self.entities[flow];
        let names =
            (known..record.subflows.count()).map(|number| format!("{name}.subflows.{number}"));
        for name in names.collect::<Vec<_>>() {
            self.subflows[flow].push(self.table.add_entity(&name));
            self.entities.push(name);
        }
        let first = self.silent[flow];
        for (number, subflow) in record.subflows.iter().enumerate().skip(first) {
            let place = self.subflows[flow][number];
            self.note_known(place, Group::Subflow, subflow.values());
        }
        let subflows = record.subflows.iter().skip(first);
        self.silent[flow] += subflows.take_while(|subflow| !subflow.is_open()).count();
    }

    fn note(&mut self, entity: usize, group: Group, values: impl IntoIterator<Item = f64>) {
        let places = &self.metrics.places[group as usize];
        let values = places.iter().zip(values);
        self.rows
            .extend(values.map(|(metric, value)| (entity, *metric, value)));
    }

    fn note_known(
        &mut self,
        entity: usize,
        group: Group,
        values: impl IntoIterator<Item = Option<f64>>,
    ) {
        let places = &self.metrics.places[group as usize];
        let values = places.iter().zip(values);
        self.rows
            .extend(values.filter_map(|(metric, value)| Some((entity, *metric, value?))));
    }

    /// Adds the round-trip time of a UDP probe that was answered now.
    ///
    /// # Errors
    /// Fails if the table cannot be written.
    pub(super) fn note_app_rtt(
        &mut self,
        now: Nanos,
        app: usize,
        rtt: Nanos,
    ) -> Result<(), TableError> {
        self.note_rtt(now, self.probe_of_app[app], rtt)
    }

    /// Adds the round-trip time of a probe in a connection of a flow.
    ///
    /// # Errors
    /// Fails if the table cannot be written.
    pub(super) fn note_flow_rtt(
        &mut self,
        now: Nanos,
        flow: usize,
        rtt: Nanos,
    ) -> Result<(), TableError> {
        self.note_rtt(now, self.probe_of_flow[flow], rtt)
    }

    fn note_rtt(&mut self, now: Nanos, place: Option<usize>, rtt: Nanos) -> Result<(), TableError> {
        let Some(place) = place else {
            return Ok(());
        };
        let rtt_s = rtt as f64 / NANOS_PER_SECOND as f64;
        self.rtts.insert(place, rtt_s);
        let metric = self.metrics.places[Group::Rtt as usize][0];
        self.table.push(now, place, metric, rtt_s)
    }

    /// Returns the values of the last sample.
    pub(super) fn latest(&self) -> Latest {
        let mut latest = Latest::new();
        let rtt = self.metrics.places[Group::Rtt as usize][0];
        let rtts = self.rtts.iter().map(|(place, rtt_s)| (*place, rtt, *rtt_s));
        for (entity, metric, value) in self.rows.iter().copied().chain(rtts) {
            let entity = latest.entry(self.entities[entity].clone()).or_default();
            entity.insert(self.metrics.names[metric], value);
        }
        latest
    }

    pub(super) fn flush(&mut self) -> Result<(), TableError> {
        self.table.flush()
    }

    pub(super) fn finish(self) -> Result<(), TableError> {
        self.table.finish()
    }
}

fn reals<const N: usize>(counters: [u64; N]) -> [f64; N] {
    counters.map(|counter| counter as f64)
}

/// Returns the entities that exist from the start. Flows come first, in the order of their indices.
fn subjects(experiment: &Experiment, flows: &Flows) -> Vec<(Subject, String)> {
    let names = experiment.flows.iter();
    let names = names.map(|flow| format!("flows.{}", flow.id));
    let directions = experiment.links.iter().flat_map(|link| {
        HopDirection::BOTH.map(|direction| format!("links.{}.{}", link.id, direction.name()))
    });
    let interfaces = experiment
        .interfaces
        .iter()
        .map(|interface| format!("interfaces.{}", interface.id));
    let probes = flows.probes().iter().map(|probe| probe.name.clone());
    (0..)
        .map(Subject::Flow)
        .zip(names)
        .chain((0..).map(Subject::LinkDirection).zip(directions))
        .chain((0..).map(Subject::Interface).zip(interfaces))
        .chain((0..).map(Subject::Probe).zip(probes))
        .collect()
}
