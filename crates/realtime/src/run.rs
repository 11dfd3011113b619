//! A run in real time: builds the network, carries out events when they are due, takes samples, and
//! returns a summary.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use experiment::algorithms::{Fault, Registry};
use experiment::resolved::{Action, Application, Experiment, Flow, HopDirection};
use experiment::samples::metrics::Group;
use experiment::samples::{TableError, Unit, UnitTable};
use experiment::schedule::{EventRecord, Schedule};
use experiment::time::Nanos;

use crate::applications::programs::{Caller, Programs};
use crate::applications::traffic::{FlowCounters, FlowResult, ProbeCounters, Traffic};
use crate::capabilities::check_action;
use crate::kernel::congestion::RunControls;
use crate::kernel::path_manager::{PathEvent, PathManagers};
use crate::kernel::subflow_times;
use crate::sampling::{Latest, Sampler};
use crate::summary::{self, Summary};
use crate::telemetry::{Fallback, FlowTelemetry, Telemetry};
use crate::userspace::Stacks;
use crate::userspace::capabilities::kernel_part;
use crate::{Clock, DirectionState, Emulator, Hosts, InterfaceState, LiveError};

/// The longest time between two checks of the threads of a run.
const LOOK_EVERY_NS: Nanos = 5_000_000;
/// The longest time that samples wait in memory.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// The folder of captures in the directory of the run.
const CAPTURES: &str = "captures";

/// A run of an experiment on this machine's kernel.
pub struct LiveRun {
    experiment: Experiment,
    clock: Clock,
    // In the order in which they must end.
    traffic: Traffic,
    programs: Programs,
    path_managers: PathManagers,
    controls: RunControls,
    stacks: Stacks,
    hosts: Hosts,
    emulator: Emulator,
    telemetry: Telemetry,
    fallbacks: Vec<Option<Fallback>>,
    counters_at_start: BTreeMap<String, BTreeMap<String, u64>>,
    path_events: Vec<PathEvent>,
    schedule: Schedule,
    sampler: Sampler,
    units: UnitTable,
    arriving_units: Receiver<Unit>,
    fault: Fault,
    now: Nanos,
    has_ended: bool,
    last_flush: Instant,
}

impl LiveRun {
    /// Builds hosts and links, verifies them, and starts the run at time 0. The userspace stack
    /// takes its algorithms from `registry`. The tables are `samples.arrows` and `units.arrows` in
    /// `directory`; captures are in its folder `captures`. Programs
    /// have the rights of `caller`, without one those of this process.
    ///
    /// # Errors
    /// The machine refuses, or the network is not as described. Nothing is left behind then.
    pub fn start(
        experiment: Experiment,
        seed: u64,
        directory: &Path,
        registry: &Registry,
        caller: Option<Caller>,
    ) -> Result<Self, LiveError> {
        let controls = RunControls::register(&kernel_part(&experiment))?;
        let (mut hosts, devices) = Hosts::build(&experiment)?;
        let captures = directory.join(CAPTURES);
        let emulator = Emulator::start(&experiment, seed, devices, &captures, Clock::start())?;
        hosts.verify(&experiment)?;
        let mut path_managers =
            PathManagers::start(&experiment, |id| hosts.namespace(id), Clock::start())?;
        let (units, arriving_units) = channel();
        let for_sockets = controls.as_in_kernel(&experiment);
        let mut traffic = Traffic::prepare(&for_sockets, seed, |id| hosts.namespace(id), units)?;
        let (mailboxes, roles) = (emulator.mailboxes(), traffic.take_roles());
        let stacks = Stacks::prepare(&experiment, seed, &hosts, mailboxes, roles, registry);
        let mut programs = Programs::prepare(
            &for_sockets,
            seed,
            |id| hosts.namespace(id),
            directory,
            caller,
        )?;
        let counters_at_start = hosts.counters()?;
        let clock = Clock::start();
        emulator.restart(clock)?;
        path_managers.restart(clock)?;
        let stacks = stacks.start(clock)?;
        let traffic = traffic.start(clock);
        programs.start(clock);
        let flows = experiment.flows.iter();
        let flow_ids: Vec<_> = flows.map(|flow| flow.id.clone()).collect();
        let mut run = Self {
            telemetry: Telemetry::new(&experiment, |id| hosts.namespace(id))?,
            fallbacks: vec![None; flow_ids.len()],
            counters_at_start,
            path_events: Vec::new(),
            schedule: Schedule::new(&experiment, seed),
            sampler: Sampler::create(directory, &experiment, &metrics())?,
            units: UnitTable::create(directory, &flow_ids)?,
            arriving_units,
            fault: registry.fault().clone(),
            now: 0,
            has_ended: false,
            last_flush: Instant::now(),
            clock,
            traffic,
            programs,
            path_managers,
            controls,
            stacks,
            hosts,
            emulator,
            experiment,
        };
        run.sample()?;
        Ok(run)
    }

    /// Returns the current time of the run.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Waits until `until`, carries out what is due, and returns whether the run has ended.
    ///
    /// # Errors
    /// A part of the run failed, or a table cannot be written.
    pub fn advance(&mut self, until: Nanos) -> Result<bool, LiveError> {
        let limit = until.min(self.experiment.duration_ns);
        while !self.has_ended && self.now < limit {
            self.clock.sleep_until(self.next_look().min(limit));
            self.now = self.clock.now();
            self.look()?;
        }
        self.has_ended |= self.now >= self.experiment.duration_ns;
        self.flush_if_due()?;
        Ok(self.has_ended)
    }

    fn next_look(&self) -> Nanos {
        let event = self.schedule.next_at().unwrap_or(Nanos::MAX);
        let tick = self.sampler.next_tick();
        event.min(tick).min(self.now + LOOK_EVERY_NS)
    }

    fn look(&mut self) -> Result<(), LiveError> {
        while let Some(action) = self.schedule.take_due(self.now) {
            let id = self.schedule.record().last().map(|event| event.id.clone());
            self.carry_out(&action, &id.unwrap_or_default())?;
        }
        self.note_what_arrived()?;
        if self.now >= self.sampler.next_tick() {
            self.sample()?;
        }
        let is_over = self.flows_are_done() || self.fault.why().is_some();
        self.has_ended |= self.now >= self.experiment.duration_ns || is_over;
        Ok(())
    }

    /// Returns whether there are finite flows and all of them have ended.
    fn flows_are_done(&self) -> bool {
        let kinds = [
            self.traffic.flows_are_done(),
            self.programs.flows_are_done(),
        ];
        let mut finite = kinds.into_iter().flatten().peekable();
        finite.peek().is_some() && finite.all(|are_done| are_done)
    }

    /// Carries out the action of the event with id `event`.
    fn carry_out(&mut self, action: &Action, event: &str) -> Result<(), LiveError> {
        if let Action::Exec { host, argv } = action {
            return self.programs.execute(host, argv, event);
        }
        self.emulator.apply(action)?;
        self.hosts.apply(action)?;
        self.stacks.apply(&self.experiment, action)?;
        self.path_managers.apply(action)
    }

    fn note_what_arrived(&mut self) -> Result<(), LiveError> {
        for unit in self.arriving_units.try_iter() {
            self.units.push(unit)?;
        }
        for answer in self.traffic.rtts() {
            let name = &self.traffic.probe_names()[answer.probe];
            let rtt = [("rtt_s", seconds(answer.rtt_ns))];
            self.sampler.record(answer.time_ns, name, &rtt)?;
        }
        self.path_events.extend(self.path_managers.events());
        Ok(())
    }

    fn sample(&mut self) -> Result<(), LiveError> {
        let network = self.emulator.state()?;
        for told in self.stacks.tell()? {
            self.telemetry.hear(told.ends);
            self.path_events.extend(told.path_events);
        }
        let flows = self.traffic.flows();
        let probes = self.traffic.probes();
        let mut sockets = self.traffic.sockets();
        sockets.extend(self.programs.sockets(self.now));
        let told = self.telemetry.sample(self.now, &sockets);
        drop(sockets);
        let sampler = &mut self.sampler;
        let now = self.now;
        sampler.begin_tick(now);
        let ours = self.experiment.flows.iter().zip(&flows);
        for (flow, counters) in ours.filter(|(flow, _)| !is_program(flow)) {
            let entity = format!("flows.{}", flow.id);
            sampler.record(now, &entity, &flow_values(counters))?;
        }
        let programs = self.experiment.flows.iter().zip(&told);
        for (flow, told) in programs.filter(|(flow, told)| tells_payload(flow, told)) {
            let entity = format!("flows.{}", flow.id);
            sampler.record(now, &entity, &payload_values(told))?;
        }
        let streams = self.experiment.flows.iter().zip(&told).enumerate();
        for (index, (flow, told)) in streams.filter(|(_, (_, told))| !told.connections.is_empty()) {
            let entity = format!("flows.{}", flow.id);
            sampler.record(now, &entity, &known(Group::Stream, told.values()))?;
            for subflow in &told.subflows {
                let entity = format!("{entity}.subflows.{}", subflow.number);
                sampler.record(now, &entity, &known(Group::Subflow, subflow.values()))?;
            }
            self.fallbacks[index] = self.fallbacks[index].or(told.fallback());
        }
        let names = self.experiment.links.iter().flat_map(|link| {
            HopDirection::BOTH.map(|direction| format!("links.{}.{}", link.id, direction.name()))
        });
        for (name, state) in names.zip(&network.directions) {
            sampler.record(now, &name, &direction_values(state))?;
        }
        let interfaces = self.experiment.interfaces.iter().zip(&network.interfaces);
        for (index, (interface, state)) in interfaces.enumerate() {
            let entity = format!("interfaces.{}", interface.id);
            let values = interface_values(self.hosts.is_up(index), state);
            sampler.record(now, &entity, &values)?;
        }
        for (name, counters) in self.traffic.probe_names().iter().zip(&probes) {
            sampler.record(now, name, &probe_values(counters))?;
        }
        Ok(())
    }

    fn flush_if_due(&mut self) -> Result<(), TableError> {
        if self.last_flush.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        self.last_flush = Instant::now();
        self.sampler.flush()?;
        self.units.flush()
    }

    /// Carries out an action that is not in the description, now.
    ///
    /// # Errors
    /// The action is wrong or cannot be carried out here, or the run has ended. Nothing has changed
    /// then.
    pub fn inject(&mut self, action: &Action) -> Result<EventRecord, LiveError> {
        let now = self.clock.now();
        if self.has_ended || now >= self.experiment.duration_ns {
            let ended = format!(
                "the run has ended at {} ns: nothing can be injected any more",
                self.now
            );
            return Err(LiveError::Refused(ended));
        }
        let refused = |why: String| LiveError::Refused(why);
        let valid = action.validate(&self.experiment);
        valid.map_err(|error| refused(error.to_string()))?;
        if let Some(missing) = check_action(&self.experiment, action).first() {
            return Err(refused(format!("{} ({})", missing.feature, missing.why)));
        }
        let event = self.schedule.injection(now, action);
        let event = event.map_err(|error| refused(error.to_string()))?;
        self.now = now;
        self.carry_out(action, &event.id)?;
        self.schedule.record_injected(event.clone());
        Ok(event)
    }

    /// Returns the results of the flows of applications and of programs.
    fn flow_results(&self) -> Vec<FlowResult> {
        let of_programs = self.programs.flows();
        let results = self.traffic.results().into_iter().zip(of_programs);
        let results = results.map(|(ours, programs)| programs.unwrap_or(ours));
        let mut results: Vec<_> = results.collect();
        for (flow, result) in self.experiment.flows.iter().zip(&mut results) {
            if matches!(flow.app, Application::Command { .. }) {
                result.bytes = self.payload_bytes(&flow.id);
            }
        }
        results
    }

    /// Returns the payload that arrived for a program's flow, as of the last sample. Where only the
    /// sender is known, returns what it sent.
    fn payload_bytes(&self, flow: &str) -> u64 {
        let values = self.sampler.latest().get(&format!("flows.{flow}"));
        let value = |metric| values.and_then(|values| values.get(metric));
        let bytes = value("bytes_in_order").or_else(|| value("bytes_sent"));
        bytes.map_or(0, |&bytes| bytes as u64)
    }

    /// Returns the values of the last samples.
    pub fn latest(&self) -> Latest {
        self.sampler.latest().clone()
    }

    /// Ends the run now, converts its tables to Parquet, and returns the summary.
    ///
    /// # Errors
    /// A part of the run failed, or a file cannot be written.
    pub fn finish(mut self) -> Result<Summary, LiveError> {
        self.has_ended = true;
        self.now = self.clock.now().min(self.experiment.duration_ns);
        self.traffic.stop()?;
        // Sampled now, because the sockets can be read only while the stacks and programs run.
        self.sample()?;
        self.stacks.stop()?;
        self.programs.stop()?;
        self.note_what_arrived()?;
        let results = self.flow_results();
        let programs = self.programs.results();
        let network = self.emulator.state()?;
        let hosts = summary::hosts(&mut self.hosts, &self.counters_at_start)?;
        let emulation = self.emulator.finish()?;
        self.path_events.extend(self.path_managers.finish()?);
        self.path_events.sort_by_key(|event| event.time_ns);
        self.sampler.finish()?;
        self.units.finish()?;
        let fault = self
            .fault
            .why()
            .map(|why| format!("at {} s: {why}", seconds(self.now)));
        let (status, why) = summary::status(fault, &emulation, &programs);
        let subflows = self.telemetry.results();
        let mut flows = summary::flows(&self.experiment, &results, subflows, &self.fallbacks);
        subflow_times::correct(&self.experiment, &self.path_events, &mut flows);
        Ok(Summary {
            end_ns: self.now,
            trace_hash: None,
            status,
            why,
            events: self.schedule.record().to_vec(),
            packets: network
                .interfaces
                .iter()
                .map(|interface| interface.sent)
                .sum(),
            links: summary::links(&self.experiment, &network, &emulation),
            middleboxes: emulation.middleboxes,
            flows,
            hosts,
            path_events: self.path_events,
            congestion_controls: self.controls.records(),
            programs,
            longest_standstill_s: emulation.longest_standstill_s,
        })
    }
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
fn tells_payload(flow: &Flow, told: &FlowTelemetry) -> bool {
    match flow.app {
        Application::Iperf3 { .. } => true,
        Application::Command { .. } => told.subflows_opened > 0,
        _ => false,
    }
}

/// Returns the names of all metrics that a run records, each once.
fn metrics() -> Vec<&'static str> {
    let mut metrics = Vec::new();
    for metric in Group::METRICS.into_iter().flatten() {
        if !metrics.contains(metric) {
            metrics.push(*metric);
        }
    }
    metrics
}

fn flow_values(counters: &FlowCounters) -> Vec<(&'static str, f64)> {
    let payload = [
        counters.bytes_sent,
        counters.bytes_received,
        counters.bytes_in_order,
    ];
    let packets = [counters.packets_sent, counters.packets_received];
    let payload = known(Group::Payload, reals(payload));
    [payload, known(Group::Packets, reals(packets))].concat()
}

/// Returns the payload that a program's sockets report, for flows that no application counts.
fn payload_values(told: &FlowTelemetry) -> Vec<(&'static str, f64)> {
    let [sent, received] = [told.bytes_sent, told.bytes_received];
    let values = [sent, received, received];
    known(Group::Payload, values.map(|bytes| Some(bytes? as f64)))
}

fn direction_values(state: &DirectionState) -> Vec<(&'static str, f64)> {
    let values = known(Group::Link, state.link.values());
    [values, known(Group::Lateness, state.late_s)].concat()
}

fn interface_values(is_up: bool, state: &InterfaceState) -> Vec<(&'static str, f64)> {
    let values = [
        u64::from(is_up),
        state.sent,
        state.received,
        state.dropped_interface_down,
    ];
    known(Group::Interface, reals(values))
}

fn probe_values(counters: &ProbeCounters) -> Vec<(&'static str, f64)> {
    known(Group::Probe, reals([counters.sent, counters.answered]))
}

/// Returns the metrics of a group whose values are known, with these values.
fn known(
    group: Group,
    values: impl IntoIterator<Item = impl Into<Option<f64>>>,
) -> Vec<(&'static str, f64)> {
    let values = Group::METRICS[group as usize].iter().zip(values);
    values
        .filter_map(|(metric, value)| Some((*metric, value.into()?)))
        .collect()
}

fn reals<const N: usize>(counters: [u64; N]) -> [f64; N] {
    counters.map(|counter| counter as f64)
}

fn seconds(duration: Nanos) -> f64 {
    duration as f64 / 1e9
}
