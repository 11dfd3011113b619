//! What is sampled, and the table it goes to.

use std::collections::BTreeMap;
use std::path::Path;

use super::apps::App;
use super::network::Network;
use crate::links::LinkState;
use crate::resolved::{Experiment, HopDirection};
use crate::samples::{SampleTable, TableError};
use crate::time::{NANOS_PER_SECOND, Nanos};

/// The values of the last samples: entity, metric, value.
pub type Latest = BTreeMap<String, BTreeMap<&'static str, f64>>;

/// Something that metrics belong to; the number is its index in its list.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Flow(usize),
    LinkDirection(usize),
    Interface(usize),
    Probe(usize),
}

const FLOW_METRICS: [&str; 5] = [
    "bytes_sent",
    "bytes_received",
    "bytes_in_order",
    "packets_sent",
    "packets_received",
];
const LINK_METRICS: [&str; 11] = LinkState::METRICS;
const INTERFACE_METRICS: [&str; 5] = [
    "up",
    "sent_packets",
    "received_packets",
    "dropped_interface_down",
    "dropped_no_address",
];
const PROBE_METRICS: [&str; 2] = ["sent", "answered"];
const RTT_METRIC: &str = "rtt_s";

impl Subject {
    fn metrics(self) -> &'static [&'static str] {
        match self {
            Self::Flow(_) => &FLOW_METRICS,
            Self::LinkDirection(_) => &LINK_METRICS,
            Self::Interface(_) => &INTERFACE_METRICS,
            Self::Probe(_) => &PROBE_METRICS,
        }
    }

    /// The values of its metrics, in their order.
    fn values(self, network: &Network, apps: &[App], into: &mut Vec<f64>) {
        match self {
            Self::Flow(index) => flow_values(&apps[index], into),
            Self::LinkDirection(index) => into.extend(network.link_state(index).values()),
            Self::Interface(index) => {
                let interface = &network.interfaces()[index];
                into.push(if interface.is_up() { 1.0 } else { 0.0 });
                let counters = [
                    interface.sent,
                    interface.received,
                    interface.dropped_interface_down,
                    interface.dropped_no_address,
                ];
                extend(into, &counters);
            }
            Self::Probe(index) => {
                let answered = apps[index].probe().map_or(0, |probe| probe.answered());
                extend(into, &[apps[index].counters().packets_sent, answered]);
            }
        }
    }
}

fn extend(into: &mut Vec<f64>, counters: &[u64]) {
    into.extend(counters.iter().map(|counter| *counter as f64));
}

fn flow_values(app: &App, into: &mut Vec<f64>) {
    let counters = app.counters();
    // The network never duplicates, and a datagram waits for no other.
    let in_order = counters.bytes_received;
    let values = [
        counters.bytes_sent,
        counters.bytes_received,
        in_order,
        counters.packets_sent,
        counters.packets_received,
    ];
    extend(into, &values);
}

/// Writes the sample table.
pub(super) struct Sampler {
    table: SampleTable,
    /// Names, in the order of `subjects`.
    entities: Vec<String>,
    subjects: Vec<Subject>,
    metrics: Vec<&'static str>,
    /// By application: its place among the subjects as a probe.
    probe_subjects: Vec<Option<usize>>,
    every: Nanos,
    last: Option<Nanos>,
    latest: Vec<f64>,
    latest_rtt: Vec<Option<f64>>,
}

impl Sampler {
    /// Creates the table. `probes` are the names of applications that are probes, by application.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn create(
        directory: &Path,
        experiment: &Experiment,
        probes: &[Option<String>],
    ) -> Result<Self, TableError> {
        let (subjects, entities): (Vec<_>, Vec<_>) =
            subjects(experiment, probes).into_iter().unzip();
        let kinds: [&[&str]; 5] = [
            &FLOW_METRICS,
            &LINK_METRICS,
            &INTERFACE_METRICS,
            &PROBE_METRICS,
            &[RTT_METRIC],
        ];
        let metrics = kinds.concat();
        let mut probe_subjects = vec![None; probes.len()];
        for (place, subject) in subjects.iter().enumerate() {
            if let Subject::Probe(app) = subject {
                probe_subjects[*app] = Some(place);
            }
        }
        Ok(Self {
            table: SampleTable::create(directory, &entities, &metrics)?,
            entities,
            subjects,
            metrics,
            latest_rtt: vec![None; probe_subjects.len()],
            probe_subjects,
            every: experiment.measure.every_ns,
            last: None,
            latest: Vec::new(),
        })
    }

    /// When the next regular sample is due.
    pub(super) fn next_tick(&self) -> Nanos {
        self.last
            .map_or(0, |last| (last / self.every + 1) * self.every)
    }

    /// When the last sample was taken.
    pub(super) fn last(&self) -> Option<Nanos> {
        self.last
    }

    /// Takes a sample of everything.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(super) fn sample(
        &mut self,
        now: Nanos,
        network: &mut Network,
        apps: &[App],
    ) -> Result<(), TableError> {
        network.advance(now);
        self.last = Some(now);
        self.latest.clear();
        for (place, subject) in self.subjects.iter().enumerate() {
            let first = self.latest.len();
            subject.values(network, apps, &mut self.latest);
            let metric = first_metric(*subject);
            for (offset, value) in self.latest[first..].iter().enumerate() {
                self.table.push(now, place, metric + offset, *value)?;
            }
        }
        for (rtt, app) in self.latest_rtt.iter_mut().zip(apps) {
            *rtt = app.probe().and_then(|probe| probe.last_rtt()).map(seconds);
        }
        Ok(())
    }

    /// Adds the round-trip time of a probe that was answered now.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(super) fn note_rtt(
        &mut self,
        now: Nanos,
        app: usize,
        rtt: Nanos,
    ) -> Result<(), TableError> {
        match self.probe_subjects[app] {
            Some(place) => self
                .table
                .push(now, place, self.metrics.len() - 1, seconds(rtt)),
            None => Ok(()),
        }
    }

    /// The values of the last sample.
    pub(super) fn latest(&self) -> Latest {
        let mut values = self.latest.iter();
        let mut latest = Latest::new();
        for (name, subject) in self.entities.iter().zip(&self.subjects) {
            let metrics = subject
                .metrics()
                .iter()
                .copied()
                .zip(values.by_ref().copied());
            let mut metrics: BTreeMap<_, _> = metrics.collect();
            if let Subject::Probe(app) = subject {
                metrics.extend(self.latest_rtt[*app].map(|rtt| (RTT_METRIC, rtt)));
            }
            latest.insert(name.clone(), metrics);
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

fn seconds(duration: Nanos) -> f64 {
    duration as f64 / NANOS_PER_SECOND as f64
}

/// The place of the subject's first metric among all metrics.
fn first_metric(subject: Subject) -> usize {
    let link = FLOW_METRICS.len();
    let interface = link + LINK_METRICS.len();
    let probe = interface + INTERFACE_METRICS.len();
    match subject {
        Subject::Flow(_) => 0,
        Subject::LinkDirection(_) => link,
        Subject::Interface(_) => interface,
        Subject::Probe(_) => probe,
    }
}

fn subjects(experiment: &Experiment, probes: &[Option<String>]) -> Vec<(Subject, String)> {
    let flows = (0..).map(Subject::Flow).zip(
        experiment
            .flows
            .iter()
            .map(|flow| format!("flows.{}", flow.id)),
    );
    let directions = experiment.links.iter().flat_map(|link| {
        HopDirection::BOTH.map(|direction| format!("links.{}.{}", link.id, direction.name()))
    });
    let interfaces = experiment
        .interfaces
        .iter()
        .map(|interface| format!("interfaces.{}", interface.id));
    let probes = probes
        .iter()
        .enumerate()
        .filter_map(|(app, name)| Some((Subject::Probe(app), name.clone()?)));
    flows
        .chain((0..).map(Subject::LinkDirection).zip(directions))
        .chain((0..).map(Subject::Interface).zip(interfaces))
        .chain(probes)
        .collect()
}
