//! A run: the loop over events, and the inputs and outputs of its user.

use std::path::Path;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::apps::{App, Arrival};
use super::capabilities::capabilities;
use super::check::check;
use super::event_queue::{Deadlines, EntityId, QueueKind};
use super::network::{FIRST_CHANNEL, Fate, Network};
use super::packet::Packet;
use super::sampling::{Latest, Sampler};
use super::setup::Applications;
use super::summary::{FlowSummary, Summary};
use super::trace_hash::TraceHash;
use crate::capabilities::{Capabilities, Missing};
use crate::resolved::{Action, Experiment, InvalidDirection, ResolvedError};
use crate::samples::{TableError, Unit, UnitTable};
use crate::schedule::{EventRecord, NoChange, Schedule};
use crate::summary::{LinkSummary, PathSummary};
use crate::time::Nanos;

/// The longest that samples wait in memory while the run goes on. The wall clock decides when they are written, and nothing else.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Events between two looks at the wall clock.
const EVENTS_PER_CLOCK_READ: u64 = 4096;

const SCHEDULE: EntityId = EntityId(0);

/// Why a run cannot start or go on.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// The experiment, or an injected action, is wrong.
    #[error(transparent)]
    Resolved(#[from] ResolvedError),
    /// The link model refuses a direction.
    #[error(transparent)]
    Direction(#[from] InvalidDirection),
    /// The experiment asks for what the simulator cannot do.
    #[error("the simulator cannot run this: {}", list(.0))]
    Unsupported(Vec<Missing>),
    /// Something was injected that changes nothing.
    #[error(transparent)]
    NoChange(#[from] NoChange),
    /// Something was injected after the end.
    #[error("the run has ended at {0} ns: nothing can be injected any more")]
    Ended(Nanos),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] TableError),
}

fn list(missing: &[Missing]) -> String {
    let reasons = missing
        .iter()
        .map(|missing| format!("{} ({})", missing.feature, missing.why));
    reasons.collect::<Vec<_>>().join("; ")
}

/// A run of an experiment with one seed.
pub struct Simulation {
    experiment: Experiment,
    network: Network,
    apps: Vec<App>,
    schedule: Schedule,
    deadlines: Deadlines,
    sampler: Sampler,
    units: UnitTable,
    trace_hash: TraceHash,
    now: Nanos,
    has_ended: bool,
    event_count: u64,
    /// Answers that receivers sent; what applications sent by themselves they count.
    answers: u64,
    /// Flows that end by themselves and are not yet seen to have done so.
    unfinished: Vec<usize>,
    last_flush: Instant,
}

impl Simulation {
    /// A run at time 0, whose tables are `samples.arrows` and `units.arrows` in `directory`.
    ///
    /// # Errors
    /// What the simulator cannot do, or a table that cannot be written.
    pub fn new(
        experiment: Experiment,
        seed: u64,
        directory: &Path,
        queue: QueueKind,
    ) -> Result<Self, SimulationError> {
        let missing = check(&experiment);
        if !missing.is_empty() {
            return Err(SimulationError::Unsupported(missing));
        }
        let mut network = Network::new(&experiment, seed)?;
        let Applications { apps, probe_names } = Applications::new(&experiment, seed, &mut network);
        let flow_ids: Vec<_> = experiment
            .flows
            .iter()
            .map(|flow| flow.id.clone())
            .collect();
        let flows = 0..flow_ids.len();
        let unfinished = flows.filter(|flow| apps[*flow].is_finite()).collect();
        let entities = FIRST_CHANNEL as usize + network.channel_count() + apps.len();
        let mut simulation = Self {
            schedule: Schedule::new(&experiment),
            deadlines: Deadlines::new(queue.build(), entities),
            sampler: Sampler::create(directory, &experiment, &probe_names)?,
            units: UnitTable::create(directory, &flow_ids)?,
            trace_hash: TraceHash::new(),
            experiment,
            network,
            apps,
            now: 0,
            has_ended: false,
            event_count: 0,
            answers: 0,
            unfinished,
            last_flush: Instant::now(),
        };
        simulation.begin()?;
        Ok(simulation)
    }

    fn begin(&mut self) -> Result<(), SimulationError> {
        self.deadlines.set(SCHEDULE, self.schedule.next_at());
        for index in 0..self.apps.len() {
            self.schedule_app(index);
        }
        self.sampler.sample(0, &mut self.network, &self.apps)?;
        Ok(())
    }

    /// The present instant of the run.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Carries out everything before `until`, and returns whether the run has ended.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn advance(&mut self, until: Nanos) -> Result<bool, SimulationError> {
        let limit = until.min(self.experiment.duration_ns);
        while !self.has_ended {
            match self.deadlines.pop_before(limit) {
                Some((at, entity)) => self.step(at, entity)?,
                None => {
                    self.rest_until(limit)?;
                    break;
                }
            }
        }
        self.flush_if_due()?;
        Ok(self.has_ended)
    }

    /// Nothing happens up to `limit`.
    fn rest_until(&mut self, limit: Nanos) -> Result<(), SimulationError> {
        self.sample_before(limit)?;
        self.now = self.now.max(limit);
        if self.now >= self.experiment.duration_ns {
            self.end()?;
        }
        Ok(())
    }

    fn step(&mut self, at: Nanos, entity: EntityId) -> Result<(), SimulationError> {
        self.sample_before(at)?;
        self.now = at;
        self.event_count += 1;
        if self.event_count.is_multiple_of(EVENTS_PER_CLOCK_READ) {
            self.flush_if_due()?;
        }
        self.run(entity)?;
        if self.flows_are_done() {
            self.end()?;
        }
        Ok(())
    }

    /// Takes the samples that are due before `at`: a sample shows what all events up to its instant have done.
    fn sample_before(&mut self, at: Nanos) -> Result<(), TableError> {
        while self.sampler.next_tick() < at {
            self.sampler
                .sample(self.sampler.next_tick(), &mut self.network, &self.apps)?;
        }
        Ok(())
    }

    fn run(&mut self, entity: EntityId) -> Result<(), SimulationError> {
        if entity == SCHEDULE {
            return self.run_schedule();
        }
        let channel = (entity.0 - FIRST_CHANNEL) as usize;
        match channel.checked_sub(self.network.channel_count()) {
            Some(app) => self.run_app(app)?,
            None => self.run_channel(channel)?,
        }
        Ok(())
    }

    fn run_schedule(&mut self) -> Result<(), SimulationError> {
        while let Some(action) = self.schedule.take_due(self.now) {
            self.network.apply(self.now, &action, &mut self.deadlines)?;
        }
        self.deadlines.set(SCHEDULE, self.schedule.next_at());
        Ok(())
    }

    fn run_app(&mut self, index: usize) -> Result<(), TableError> {
        let packet = self.apps[index].send(self.now);
        self.schedule_app(index);
        self.originate(packet)
    }

    fn schedule_app(&mut self, index: usize) {
        let entity = FIRST_CHANNEL as usize + self.network.channel_count() + index;
        self.deadlines
            .set(EntityId(entity as u32), self.apps[index].next_send());
    }

    fn run_channel(&mut self, channel: usize) -> Result<(), TableError> {
        while let Some(output) = self.network.poll(self.now, channel) {
            let fate = self.network.handle(self.now, output, &mut self.deadlines);
            if let Some(fate) = fate {
                self.settle(fate)?;
            }
            // Most often one packet arrives at a time, and another poll would find nothing.
            if !self.network.is_due(self.now, channel) {
                break;
            }
        }
        self.network
            .schedule(self.now, channel, &mut self.deadlines);
        Ok(())
    }

    fn originate(&mut self, packet: Packet) -> Result<(), TableError> {
        match self
            .network
            .originate(self.now, packet, &mut self.deadlines)
        {
            Some(fate) => self.settle(fate),
            None => Ok(()),
        }
    }

    /// Lets the end of a packet's life be known to all it concerns.
    fn settle(&mut self, fate: Fate) -> Result<(), TableError> {
        self.trace_hash.add(self.now, &fate);
        match fate {
            Fate::Delivered { packet, .. } => self.deliver(&packet),
            Fate::Dropped { packet, .. } => {
                self.apps[packet.application as usize].lose();
                Ok(())
            }
        }
    }

    fn deliver(&mut self, packet: &Packet) -> Result<(), TableError> {
        let app = packet.application as usize;
        match self.apps[app].receive(self.now, packet) {
            Arrival::Received => self.note_unit(packet),
            Arrival::Echoed(answer) => {
                self.note_unit(packet)?;
                self.answers += 1;
                self.originate(answer)
            }
            Arrival::Answered { rtt } => self.sampler.note_rtt(self.now, app, rtt),
        }
    }

    fn note_unit(&mut self, packet: &Packet) -> Result<(), TableError> {
        let flow = packet.application as usize;
        // Probes that `measure` asks for come after the flows, and are no data.
        if flow >= self.experiment.flows.len() {
            return Ok(());
        }
        self.units.push(Unit {
            flow,
            unit: packet.number,
            bytes: packet.payload_bytes(),
            sent_ns: packet.sent_at,
            received_ns: self.now,
            delivered_ns: self.now,
        })
    }

    fn flow_apps(&self) -> &[App] {
        &self.apps[..self.experiment.flows.len()]
    }

    /// Whether the last of the flows that end by themselves has just done so.
    fn flows_are_done(&mut self) -> bool {
        while let Some(flow) = self.unfinished.last() {
            if self.apps[*flow].end().is_none() {
                return false;
            }
            self.unfinished.pop();
            if self.unfinished.is_empty() {
                return true;
            }
        }
        false
    }

    fn end(&mut self) -> Result<(), TableError> {
        self.has_ended = true;
        self.sample_before(self.now)?;
        self.take_last_sample()
    }

    fn take_last_sample(&mut self) -> Result<(), TableError> {
        if self.sampler.last() == Some(self.now) {
            return Ok(());
        }
        self.sampler.sample(self.now, &mut self.network, &self.apps)
    }

    fn flush_if_due(&mut self) -> Result<(), TableError> {
        if self.last_flush.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        self.last_flush = Instant::now();
        self.sampler.flush()?;
        self.units.flush()
    }

    /// Does something that the description does not have, now: before all else that happens at this instant.
    ///
    /// # Errors
    /// An action that is wrong or that the simulator cannot carry out; then nothing has changed.
    pub fn inject(&mut self, action: &Action) -> Result<EventRecord, SimulationError> {
        if self.has_ended {
            return Err(SimulationError::Ended(self.now));
        }
        action.validate(&self.experiment)?;
        let missing =
            Capabilities::new(capabilities()).check_action(&self.experiment, "action", action);
        if !missing.is_empty() {
            return Err(SimulationError::Unsupported(missing));
        }
        let event = self.schedule.injection(self.now, action)?;
        self.network.apply(self.now, action, &mut self.deadlines)?;
        self.schedule.record_injected(event.clone());
        Ok(event)
    }

    /// The values of the last sample.
    pub fn latest(&self) -> Latest {
        self.sampler.latest()
    }

    /// Ends the run where it is, turns its tables into Parquet, and sums it up.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn finish(mut self) -> Result<Summary, SimulationError> {
        self.take_last_sample()?;
        let summary = self.summary();
        self.sampler.finish()?;
        self.units.finish()?;
        Ok(summary)
    }

    fn summary(&self) -> Summary {
        Summary {
            end_ns: self.now,
            trace_hash: self.trace_hash.hex(),
            events: self.schedule.record().to_vec(),
            flows: self.flow_summaries(),
            links: self.link_summaries(),
            packets: self
                .apps
                .iter()
                .map(|app| app.counters().packets_sent)
                .sum::<u64>()
                + self.answers,
            event_count: self.event_count,
        }
    }

    fn flow_summaries(&self) -> Vec<FlowSummary> {
        let flows = self.experiment.flows.iter().zip(self.flow_apps());
        let sum_up = |(flow, app): (&crate::resolved::Flow, &App)| FlowSummary {
            id: flow.id.clone(),
            start_ns: app.start(),
            end_ns: app.end(),
            bytes: app.counters().bytes_received,
            path: PathSummary::new(&flow.paths[0]),
        };
        flows.map(sum_up).collect()
    }

    fn link_summaries(&self) -> Vec<LinkSummary> {
        let links = self.experiment.links.iter().enumerate();
        links
            .flat_map(|(index, link)| {
                let states = [2 * index, 2 * index + 1];
                LinkSummary::of_link(link, states.map(|state| self.network.link_state(state)))
            })
            .collect()
    }
}
