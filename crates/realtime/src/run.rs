//! A run in real time: builds the network, carries out events when they are due, takes samples, and
//! returns a summary.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use experiment::algorithms::{Fault, Registry};
use experiment::capabilities::Missing;
use experiment::resolved::{Action, Application, Experiment};
use experiment::run::{Run, RunError, RunRecord};
use experiment::samples::Unit;
use experiment::samples::metrics::Group;
use experiment::schedule::{EventRecord, events_of};
use experiment::time::{Nanos, seconds};
use experiment::traffic::last_endless_start;

use crate::applications::programs::{Caller, Programs};
use crate::applications::traffic::{FlowResult, ProbeAnswer, Traffic};
use crate::capabilities::check_action;
use crate::kernel::congestion::RunControls;
use crate::kernel::path_manager::{PathEvent, PathManagers};
use crate::kernel::subflow_times;
use crate::machines::{MachineConnection, Machines, merge_counters, merge_probes};
use crate::summary::{self, Summary};
use crate::switches::Switches;
use crate::telemetry::{Fallback, Telemetry};
use crate::userspace::Stacks;
use crate::userspace::capabilities::kernel_part;
use crate::{Clock, DeviceKind, Emulator, Hosts, LiveError, sampling};

/// The longest time between two checks of the threads of a run.
const LOOK_EVERY_NS: Nanos = 5_000_000;
/// The folder of captures in the directory of the run.
const CAPTURES: &str = "captures";

/// A run of an experiment on this machine's kernel.
pub struct LiveRun {
    record: RunRecord,
    clock: Clock,
    // In the order in which they must end.
    traffic: Traffic,
    programs: Programs,
    path_managers: PathManagers,
    controls: RunControls,
    stacks: Stacks,
    switches: Option<Switches>,
    machines: Machines,
    hosts: Hosts,
    emulator: Emulator,
    telemetry: Telemetry,
    fallbacks: Vec<Option<Fallback>>,
    counters_at_start: BTreeMap<String, BTreeMap<String, u64>>,
    path_events: Vec<PathEvent>,
    /// The shortest round trip over real links, by their ids.
    real_rtts: BTreeMap<String, Nanos>,
    arriving_units: Receiver<Unit>,
    fault: Fault,
    /// When the last of the flows that do not end by themselves starts.
    last_endless_start: Nanos,
    /// Whether the others had ended before that, so that the run lasts for its whole duration.
    outlasts_flows: bool,
}

/// What a run with controlled switches or other machines needs beside its experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controlling<'a> {
    /// The resolved experiment as JSON, for the controller and the other machines.
    pub resolved: &'a str,
    /// Program and arguments of our controller. It gets the path of the experiment as a further
    /// argument. An experiment with a controller of its own does not use it.
    pub controller: &'a [String],
}

impl LiveRun {
    /// Builds hosts and links, verifies them, and starts the run at time 0. The userspace stack
    /// takes its algorithms from `registry`. The tables are `samples.csv` and `units.csv` in
    /// `directory`; captures are in its folder `captures`. Programs and controllers have the rights
    /// of `caller`, without one those of this process. `machines` are connections to the machines of
    /// the experiment.
    ///
    /// # Errors
    /// The machine refuses, or the network is not as described. Nothing is left behind then.
    pub fn start(
        experiment: Experiment,
        seed: u64,
        directory: &Path,
        registry: &Registry,
        caller: Option<Caller>,
        controlling: Controlling<'_>,
        machines: Vec<MachineConnection>,
    ) -> Result<Self, LiveError> {
        let controls = RunControls::register(&kernel_part(&experiment))?;
        let (mut hosts, mut devices) =
            Hosts::build_part(&experiment, None, DeviceKind::of_this_machine())?;
        let mut machines = Machines::build(&experiment, controlling.resolved, seed, machines)?;
        devices.extend(machines.take_devices());
        let captures = directory.join(CAPTURES);
        let emulator = Emulator::start(&experiment, seed, devices, &captures, Clock::start())?;
        let mut switches = Switches::start(&experiment, &hosts, controlling, caller.as_ref())?;
        let real_rtts = hosts.verify_beside(&experiment, machines.verify()?)?;
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
        machines.prepare()?;
        let clock = machines.begin()?;
        emulator.restart(clock)?;
        path_managers.restart(clock)?;
        if let Some(switches) = &mut switches {
            switches.begin(&events_of(&experiment, seed), clock)?;
        }
        clock.wait_for_start();
        let stacks = stacks.start(clock)?;
        let traffic = traffic.start(clock);
        programs.start(clock);
        let mut run = Self {
            telemetry: Telemetry::new(&experiment, |id| hosts.namespace(id))?,
            last_endless_start: last_endless_start(&experiment, seed),
            outlasts_flows: false,
            fallbacks: vec![None; experiment.flows.len()],
            counters_at_start,
            path_events: Vec::new(),
            real_rtts,
            record: RunRecord::create(directory, experiment, seed)?,
            arriving_units,
            fault: registry.fault().clone(),
            clock,
            traffic,
            programs,
            path_managers,
            controls,
            stacks,
            switches,
            machines,
            hosts,
            emulator,
        };
        run.sample()?;
        Ok(run)
    }

    fn next_look(&self) -> Nanos {
        let event = self.record.schedule.next_at().unwrap_or(Nanos::MAX);
        let tick = self.record.samples.next_at();
        let controller = self.switches.as_ref().and_then(Switches::next_at);
        let next = event.min(tick).min(controller.unwrap_or(Nanos::MAX));
        next.min(self.record.now + LOOK_EVERY_NS)
    }

    fn look(&mut self) -> Result<(), LiveError> {
        while let Some(action) = self.record.schedule.take_due(self.record.now) {
            let id = self
                .record
                .schedule
                .record()
                .last()
                .map(|event| event.id.clone());
            let id = id.unwrap_or_default();
            self.carry_out(&action, &id)?;
            let switches = self.switches.as_ref();
            if let Some(at) = switches.and_then(|switches| switches.changed_at(&id)) {
                self.record.schedule.correct_last(at);
            }
        }
        if let Some(switches) = &mut self.switches {
            switches.look(&mut self.record)?;
        }
        self.record_arrivals()?;
        if self.record.now >= self.record.samples.next_at() {
            self.sample()?;
        }
        let flows_are_done = self.flows_are_done();
        self.outlasts_flows |= flows_are_done && self.record.now < self.last_endless_start;
        let is_over = (flows_are_done && !self.outlasts_flows) || self.fault.why().is_some();
        self.record.has_ended |= is_over || self.record.is_complete();
        Ok(())
    }

    /// Returns whether there are finite flows and all of them have ended.
    fn flows_are_done(&self) -> bool {
        let kinds = [
            self.traffic
                .flows_are_done_beside(self.machines.flows_over()),
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
        if let Some(switches) = &mut self.switches
            && switches.apply(action, event)?
        {
            return Ok(());
        }
        self.emulator.apply(action)?;
        self.hosts.apply(action)?;
        self.machines.apply(&self.record.experiment, action)?;
        self.stacks.apply(&self.record.experiment, action)?;
        self.path_managers.apply(action)
    }

    fn record_arrivals(&mut self) -> Result<(), LiveError> {
        self.record_units(self.arriving_units.try_iter().collect())?;
        self.record_answers(self.traffic.rtts())?;
        self.path_events.extend(self.path_managers.events());
        Ok(())
    }

    fn record_units(&mut self, units: Vec<Unit>) -> Result<(), LiveError> {
        let mut units = units.into_iter();
        Ok(units.try_for_each(|unit| self.record.units.push(unit))?)
    }

    fn record_answers(&mut self, answers: Vec<ProbeAnswer>) -> Result<(), LiveError> {
        for answer in answers {
            let name = &self.traffic.probe_names()[answer.probe];
            let rtt = [seconds(answer.rtt_ns)];
            let samples = &mut self.record.samples;
            samples.record_at(answer.time_ns, name, Group::Rtt, rtt)?;
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<(), LiveError> {
        self.machines.request_reports()?;
        let network = self.emulator.state()?;
        for report in self.stacks.report()? {
            self.telemetry.add_reports(report.ends);
            self.path_events.extend(report.path_events);
        }
        let mut flows = self.traffic.flows();
        let mut probes = self.traffic.probes();
        for report in self.machines.reports()? {
            merge_counters(&mut flows, &report.flows);
            merge_probes(&mut probes, &report.probes);
            self.record_units(report.units)?;
            self.record_answers(report.answers)?;
            self.telemetry.add_reports(report.ends);
            self.path_events.extend(report.path_events);
        }
        let mut sockets = self.traffic.sockets();
        sockets.extend(self.programs.sockets(self.record.now));
        let told = self.telemetry.sample(self.record.now, &sockets);
        drop(sockets);
        for (fallback, told) in self.fallbacks.iter_mut().zip(&told) {
            *fallback = fallback.or(told.fallback());
        }
        let record = &mut self.record;
        record.samples.begin(record.now);
        sampling::record_payload(record, &flows, &told)?;
        sampling::record_streams(record, &told)?;
        sampling::record_network(record, &network, &self.hosts)?;
        sampling::record_probes(record, self.traffic.probe_names(), &probes)?;
        Ok(())
    }

    /// Returns the results of the flows of applications and of programs.
    fn flow_results(&self) -> Vec<FlowResult> {
        let of_programs = self.programs.flows();
        let results = self.traffic.results().into_iter().zip(of_programs);
        let results = results.map(|(ours, programs)| programs.unwrap_or(ours));
        let mut results: Vec<_> = results.collect();
        let latest = self.latest();
        for (flow, result) in self.record.experiment.flows.iter().zip(&mut results) {
            if matches!(flow.app, Application::Command { .. }) {
                result.bytes = sampling::payload_bytes(&latest, flow);
            }
        }
        results
    }

    /// Ends the run now, converts its tables to Parquet, and returns the summary.
    ///
    /// # Errors
    /// A part of the run failed, or a file cannot be written.
    pub fn finish(mut self) -> Result<Summary, LiveError> {
        self.record.now = self.clock.now().min(self.record.experiment.duration_ns);
        self.traffic.stop()?;
        self.machines.stop()?;
        // Sampled now, because the sockets can be read only while the stacks and programs run.
        self.sample()?;
        self.stacks.stop()?;
        self.programs.stop()?;
        self.record_arrivals()?;
        let control = match &mut self.switches {
            Some(switches) => Some(switches.stop(&mut self.record)?),
            None => None,
        };
        let mut results = self.flow_results();
        let elsewhere = self.machines.finish()?;
        elsewhere.complete(&self.record.experiment, &mut results);
        let programs = self.programs.results();
        let network = self.emulator.state()?;
        let mut hosts = summary::hosts(&mut self.hosts, &self.counters_at_start)?;
        hosts.extend(elsewhere.hosts);
        hosts.sort_by(|one, other| one.id.cmp(&other.id));
        let emulation = self.emulator.finish()?;
        self.path_events.extend(self.path_managers.finish()?);
        self.path_events.extend(elsewhere.path_events);
        self.real_rtts.extend(elsewhere.real_rtts);
        self.path_events.sort_by_key(|event| event.time_ns);
        let fault = self
            .fault
            .why()
            .map(|why| format!("at {} s: {why}", seconds(self.record.now)));
        let why_invalid = elsewhere.why_invalid.or(emulation.why_invalid.clone());
        let (status, why) = summary::status(fault, why_invalid, &programs);
        let subflows = self.telemetry.results();
        let mut flows =
            summary::flows(&self.record.experiment, &results, subflows, &self.fallbacks);
        subflow_times::correct(&self.record.experiment, &self.path_events, &mut flows);
        let summary = Summary {
            end_ns: self.record.now,
            trace_hash: None,
            status,
            why,
            events: self.record.schedule.record().to_vec(),
            packets: network
                .interfaces
                .iter()
                .map(|interface| interface.sent)
                .sum(),
            links: summary::links(&self.record.experiment, &network, &emulation),
            real_links: summary::real_links(&self.record.experiment, &self.real_rtts),
            middleboxes: emulation.middleboxes,
            flows,
            hosts,
            path_events: self.path_events,
            congestion_controls: self.controls.records(),
            programs,
            control,
            machines: elsewhere.summaries,
            longest_standstill_s: emulation.longest_standstill_s,
        };
        self.record.finish()?;
        Ok(summary)
    }
}

impl Run for LiveRun {
    fn record(&self) -> &RunRecord {
        &self.record
    }

    fn advance(&mut self, until: Nanos) -> Result<bool, RunError> {
        let limit = until.min(self.record.experiment.duration_ns);
        while !self.record.has_ended && self.record.now < limit {
            self.clock.sleep_until(self.next_look().min(limit));
            self.record.now = self.clock.now();
            self.look()?;
        }
        self.record.has_ended |= self.record.is_complete();
        self.record.flush_if_due()?;
        Ok(self.record.has_ended)
    }

    fn inject(&mut self, action: &Action) -> Result<EventRecord, RunError> {
        let check = |experiment: &Experiment| match check_action(experiment, action).first() {
            Some(Missing { feature, why }) => {
                Err(LiveError::Refused(format!("{feature} ({why})")).into())
            }
            None => Ok(()),
        };
        let event = self.record.admit(self.clock.now(), action, check)?;
        self.carry_out(action, &event.id)?;
        self.record.schedule.record_injected(event.clone());
        Ok(event)
    }

    fn finish_as_json(self: Box<Self>) -> Result<String, RunError> {
        Ok(serde_json::to_string(&self.finish()?)?)
    }
}
