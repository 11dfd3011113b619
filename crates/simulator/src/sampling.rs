//! Takes the samples of a run.

use experiment::resolved::{Experiment, HopDirection};
use experiment::run::{RunRecord, Samples};
use experiment::samples::TableError;
use experiment::samples::metrics::Group;
use experiment::time::Nanos;

use crate::flows::Flows;
use crate::hosts::FlowRecord;
use crate::network::Network;

/// Samples all entities.
pub(super) struct Sampler {
    /// The entities that exist from the start: flows, link directions, interfaces and probes.
    entities: Vec<usize>,
    /// Entities of the subflows of each flow.
    subflows: Vec<Vec<usize>>,
    /// For each flow, how many of its first subflows have nothing more to report.
    silent: Vec<usize>,
    /// The probe of each flow.
    pub(super) probe_of_flow: Vec<Option<usize>>,
    /// The probe of each datagram application.
    pub(super) probe_of_app: Vec<Option<usize>>,
}

impl Sampler {
    /// Returns the sampler of a run with `flows`, whose entities it adds to `record`.
    pub(super) fn new(record: &mut RunRecord, flows: &Flows) -> Self {
        let names = names(&record.experiment, flows).into_iter();
        let entities = names.map(|name| record.samples.entity(&name)).collect();
        let count = record.experiment.flows.len();
        let mut probe_of_flow = vec![None; count];
        let mut probe_of_app = vec![None; flows.apps().len()];
        for (index, probe) in flows.probes().iter().enumerate() {
            if let Some(flow) = probe.flow {
                probe_of_flow[flow] = Some(index);
            }
            if let Some(app) = probe.app {
                probe_of_app[app] = Some(index);
            }
        }
        Self {
            entities,
            subflows: vec![Vec::new(); count],
            silent: vec![0; count],
            probe_of_flow,
            probe_of_app,
        }
    }

    /// Takes a sample of all entities at `at`.
    ///
    /// # Errors
    /// Fails if the table cannot be written.
    pub(super) fn sample(
        &mut self,
        at: Nanos,
        record: &mut RunRecord,
        network: &mut Network,
        flows: &mut Flows,
    ) -> Result<(), TableError> {
        network.advance(at);
        flows.observe();
        record.samples.begin(at);
        let (samples, experiment) = (&mut record.samples, &record.experiment);
        let mut entities = self.entities.iter().copied();
        for (flow, entity) in (0..self.subflows.len()).zip(&mut entities) {
            sample_flow(samples, entity, flow, flows)?;
        }
        for (direction, entity) in (0..2 * experiment.links.len()).zip(&mut entities) {
            let state = network.link_state(direction);
            samples.record(entity, Group::Link, state.values())?;
            if let Some(values) = state.access_values() {
                samples.record(entity, Group::Access, values)?;
            }
        }
        for (interface, entity) in (0..experiment.interfaces.len()).zip(&mut entities) {
            let counters = network.interface_counters(interface);
            samples.record(entity, Group::Interface, reals(counters))?;
        }
        for (probe, entity) in (0..flows.probes().len()).zip(entities) {
            samples.record(entity, Group::Probe, reals(flows.probe_counters(probe)))?;
        }
        for flow in 0..self.subflows.len() {
            if let Some(stream) = flows.record(flow) {
                self.sample_subflows(record, flow, stream)?;
            }
        }
        Ok(())
    }

    /// Samples the subflows of a flow. Subflows closed before the last sample are not sampled
    /// again.
    fn sample_subflows(
        &mut self,
        record: &mut RunRecord,
        flow: usize,
        stream: &FlowRecord,
    ) -> Result<(), TableError> {
        let samples = &mut record.samples;
        let entities = &mut self.subflows[flow];
        for number in entities.len()..stream.subflows.count() {
            let id = &record.experiment.flows[flow].id;
            entities.push(samples.entity(&format!("flows.{id}.subflows.{number}")));
        }
        let first = self.silent[flow];
        for (entity, subflow) in entities.iter().zip(stream.subflows.iter()).skip(first) {
            samples.record(*entity, Group::Subflow, subflow.values())?;
        }
        let subflows = stream.subflows.iter().skip(first);
        self.silent[flow] += subflows.take_while(|subflow| !subflow.is_open()).count();
        Ok(())
    }
}

fn sample_flow(
    samples: &mut Samples,
    entity: usize,
    flow: usize,
    flows: &Flows,
) -> Result<(), TableError> {
    // All bytes that an application has received were read in order: a datagram never waits for
    // another, and the network never duplicates packets.
    let payload = |sent: u64, received: u64| reals([sent, received, received]);
    if let Some(stream) = flows.record(flow) {
        let payload = payload(stream.bytes_sent, stream.bytes_received);
        samples.record(entity, Group::Payload, payload)?;
        samples.record(entity, Group::Stream, stream.values())?;
        if stream.is_video {
            let playback = stream.video.values(samples.last_at());
            samples.record(entity, Group::Video, playback)?;
        }
    } else if let Some(app) = flows.app_of(flow) {
        let counters = app.counters();
        let payload = payload(counters.bytes_sent, counters.bytes_received);
        let packets = reals([counters.packets_sent, counters.packets_received]);
        samples.record(entity, Group::Payload, payload)?;
        samples.record(entity, Group::Packets, packets)?;
    }
    Ok(())
}

fn reals<const N: usize>(counters: [u64; N]) -> [f64; N] {
    counters.map(|counter| counter as f64)
}

/// Returns the names of the entities that exist from the start.
fn names(experiment: &Experiment, flows: &Flows) -> Vec<String> {
    let names = experiment.flows.iter();
    let names = names.map(|flow| format!("flows.{}", flow.id));
    let directions = experiment.links.iter().flat_map(|link| {
        HopDirection::BOTH.map(|direction| format!("links.{}.{}", link.id, direction.name()))
    });
    let interfaces = experiment.interfaces.iter();
    let interfaces = interfaces.map(|interface| format!("interfaces.{}", interface.id));
    let probes = flows.probes().iter().map(|probe| probe.name.clone());
    let names = names.chain(directions).chain(interfaces);
    names.chain(probes).collect()
}
