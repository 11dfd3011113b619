//! Rows of the sample table, from what applications, sockets and the emulator report.
//!
//! Values stay the latest after their sample, because nothing reports a connection once it is gone.

use experiment::resolved::{Application, Flow, HopDirection};
use experiment::run::{Latest, RunRecord};
use experiment::samples::TableError;
use experiment::samples::metrics::{Group, INTERFACE};

use crate::applications::traffic::{FlowCounters, ProbeCounters};
use crate::telemetry::FlowTelemetry;
use crate::{Hosts, InterfaceState, NetworkState};

/// Adds the payload and packets that applications counted, and the payload of programs that their
/// sockets report.
pub(crate) fn record_payload(
    record: &mut RunRecord,
    counters: &[FlowCounters],
    told: &[FlowTelemetry],
) -> Result<(), TableError> {
    let (samples, now) = (&mut record.samples, record.now);
    let ours = record.experiment.flows.iter().zip(counters);
    for (flow, counters) in ours.filter(|(flow, _)| !is_program(flow)) {
        let entity = &entity_of(flow);
        let payload = [
            counters.bytes_sent,
            counters.bytes_received,
            counters.bytes_in_order,
        ];
        let packets = [counters.packets_sent, counters.packets_received];
        samples.record_at(now, entity, Group::Payload, reals(payload))?;
        samples.record_at(now, entity, Group::Packets, reals(packets))?;
    }
    let programs = record.experiment.flows.iter().zip(told);
    for (flow, told) in programs.filter(|(flow, told)| reports_payload(flow, told)) {
        let entity = &entity_of(flow);
        let payload = [told.bytes_sent, told.bytes_received, told.bytes_received];
        let payload = payload.map(|bytes| Some(bytes? as f64));
        samples.record_at(now, entity, Group::Payload, payload)?;
    }
    Ok(())
}

/// Adds what sockets report of flows and their subflows.
pub(crate) fn record_streams(
    record: &mut RunRecord,
    told: &[FlowTelemetry],
) -> Result<(), TableError> {
    let (samples, now) = (&mut record.samples, record.now);
    let streams = record.experiment.flows.iter().zip(told);
    for (flow, told) in streams.filter(|(_, told)| !told.connections.is_empty()) {
        let entity = &entity_of(flow);
        samples.record_at(now, entity, Group::Stream, told.values())?;
        for subflow in &told.subflows {
            let entity = &format!("{entity}.subflows.{}", subflow.number);
            samples.record_at(now, entity, Group::Subflow, subflow.values())?;
        }
    }
    Ok(())
}

/// Adds the states of links and interfaces.
pub(crate) fn record_network(
    record: &mut RunRecord,
    network: &NetworkState,
    hosts: &Hosts,
) -> Result<(), TableError> {
    let (samples, now) = (&mut record.samples, record.now);
    let directions = record
        .experiment
        .links
        .iter()
        .flat_map(|link| HopDirection::BOTH.map(|direction| (link, direction.name())));
    let states = directions.zip(&network.directions);
    for ((link, direction), state) in states.filter(|((link, _), _)| !link.real) {
        let name = format!("links.{}.{direction}", link.id);
        samples.record_at(now, &name, Group::Link, state.link.values())?;
        if let Some(values) = state.link.access_values() {
            samples.record_at(now, &name, Group::Access, values)?;
        }
        samples.record_at(now, &name, Group::Lateness, state.late_s)?;
    }
    let interfaces = record.experiment.interfaces.iter().zip(&network.interfaces);
    for (index, (interface, state)) in interfaces.enumerate() {
        let entity = &format!("interfaces.{}", interface.id);
        let counted = interface.device.is_none().then_some(state);
        let values = interface_values(hosts.is_up(index), counted);
        samples.record_at(now, entity, Group::Interface, values)?;
    }
    Ok(())
}

/// Returns the values of [`INTERFACE`]. Packets at a real link are not counted.
fn interface_values(is_up: bool, state: Option<&InterfaceState>) -> [Option<f64>; INTERFACE.len()] {
    let known = |value: u64| value as f64;
    [
        Some(known(u64::from(is_up))),
        state.map(|state| known(state.sent)),
        state.map(|state| known(state.received)),
        state.map(|state| known(state.dropped_interface_down)),
        None,
        None,
    ]
}

/// Adds the counters of probes.
pub(crate) fn record_probes(
    record: &mut RunRecord,
    names: &[String],
    probes: &[ProbeCounters],
) -> Result<(), TableError> {
    let (samples, now) = (&mut record.samples, record.now);
    for (name, counters) in names.iter().zip(probes) {
        let values = reals([counters.sent, counters.answered]);
        samples.record_at(now, name, Group::Probe, values)?;
    }
    Ok(())
}

/// Returns the payload that arrived for a flow, as of the last sample. Where only the sender is
/// known, returns what it sent.
pub(crate) fn payload_bytes(latest: &Latest, flow: &Flow) -> u64 {
    let values = latest.get(&entity_of(flow));
    let value = |metric| values.and_then(|values| values.get(metric));
    let bytes = value("bytes_in_order").or_else(|| value("bytes_sent"));
    bytes.map_or(0, |&bytes| bytes as u64)
}

fn entity_of(flow: &Flow) -> String {
    format!("flows.{}", flow.id)
}

/// Returns whether a program sends a flow's data.
fn is_program(flow: &Flow) -> bool {
    matches!(
        flow.app,
        Application::Iperf3 { .. } | Application::Command { .. }
    )
}

/// Returns whether a flow's payload is known from its sockets. For a command, it is unknown before
/// it has a connection.
fn reports_payload(flow: &Flow, told: &FlowTelemetry) -> bool {
    match flow.app {
        Application::Iperf3 { .. } => true,
        Application::Command { .. } => told.subflows_opened > 0,
        _ => false,
    }
}

fn reals<const N: usize>(counters: [u64; N]) -> [f64; N] {
    counters.map(|counter| counter as f64)
}
