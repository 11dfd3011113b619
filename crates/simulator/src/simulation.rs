//! A run: the loop over events, with its inputs and outputs.

use std::net::SocketAddr;
use std::path::Path;

use emulation::LinkSummary;
use experiment::algorithms::Registry;
use experiment::capabilities::{Capabilities, Missing};
use experiment::resolved::{Action, Experiment, InvalidDirection};
use experiment::run::{Run, RunError, RunRecord};
use experiment::samples::metrics::Group;
use experiment::samples::{TableError, Unit};
use experiment::schedule::EventRecord;
use experiment::time::{Nanos, seconds};
use thiserror::Error;

use crate::capabilities::capabilities;
use crate::captures::{Captures, CapturesError};
use crate::check::check;
use crate::datagrams::Arrival;
use crate::event_queue::{Deadlines, EntityId, QueueKind};
use crate::flows::Flows;
use crate::handling::{Handling, Reception};
use crate::network::{FIRST_CHANNEL, Fate, Network, Waiting};
use crate::packet::{Content, Datagram, Packet};
use crate::sampling::Sampler;
use crate::stall::Stalls;
use crate::summary::Summary;
use crate::trace_hash::TraceHash;

/// Number of events between two readings of the wall clock.
const EVENTS_PER_CLOCK_READ: u64 = 4096;

const SCHEDULE: EntityId = EntityId(0);

/// Why a run cannot start or continue.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// The link model refuses a direction.
    #[error(transparent)]
    Direction(#[from] InvalidDirection),
    /// The experiment needs features that the simulator lacks.
    #[error("the simulator cannot run this: {}", list(.0))]
    Unsupported(Vec<Missing>),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A capture cannot be written.
    #[error(transparent)]
    Captures(#[from] CapturesError),
}

impl From<SimulationError> for RunError {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Table(_) | SimulationError::Captures(_) => Self::File(error.into()),
            error => Self::Refused(error.into()),
        }
    }
}

fn list(missing: &[Missing]) -> String {
    let reasons = missing
        .iter()
        .map(|missing| format!("{} ({})", missing.feature, missing.why));
    reasons.collect::<Vec<_>>().join("; ")
}

/// A run of an experiment with one seed.
pub struct Simulation {
    record: RunRecord,
    network: Network,
    flows: Flows,
    handling: Handling,
    /// How late each datagram application sends next.
    app_lateness: Vec<Nanos>,
    registry: Registry,
    stalls: Stalls,
    /// When the next sample or the next check for stalls is due.
    next_observation: Nanos,
    /// Whether a host or an application has acted since the last check whether flows have ended.
    has_acted: bool,
    deadlines: Deadlines,
    sampler: Sampler,
    trace_hash: TraceHash,
    event_count: u64,
    packets: u64,
}

impl Simulation {
    /// Creates a run at time 0. Its tables are `samples.csv` and `units.csv` in `directory`.
    ///
    /// # Errors
    /// Fails if the simulator cannot run the experiment, or if a table or capture cannot be
    /// written.
    pub fn new(
        experiment: Experiment,
        seed: u64,
        directory: &Path,
        queue: QueueKind,
        registry: Registry,
    ) -> Result<Self, SimulationError> {
        let missing = check(&experiment, &registry);
        if !missing.is_empty() {
            return Err(SimulationError::Unsupported(missing));
        }
        let captures = Captures::create(directory, &experiment)?;
        let mut network = Network::new(&experiment, seed, captures)?;
        let flows = Flows::new(&experiment, seed, &registry, &mut network);
        let actors = flows.apps().len() + flows.hosts().count();
        let actors_end = FIRST_CHANNEL as usize + network.channel_count() + actors;
        network.set_middlebox_entity(EntityId(actors_end as u32));
        network.set_first_host_queue(EntityId(actors_end as u32 + 1));
        let entities = actors_end + 1 + network.host_queue_count();
        let mut record = RunRecord::create(directory, experiment, seed)?;
        let mut simulation = Self {
            stalls: Stalls::new(&record.experiment),
            next_observation: 0,
            has_acted: true,
            deadlines: Deadlines::new(queue, entities),
            sampler: Sampler::new(&mut record, &flows),
            handling: Handling::new(&record.experiment, seed),
            app_lateness: vec![0; flows.apps().len()],
            trace_hash: TraceHash::new(),
            record,
            network,
            flows,
            registry,
            event_count: 0,
            packets: 0,
        };
        simulation.begin()?;
        Ok(simulation)
    }

    fn begin(&mut self) -> Result<(), SimulationError> {
        self.deadlines.set(SCHEDULE, self.record.schedule.next_at());
        for index in 0..self.flows.apps().len() {
            self.draw_lateness(index);
            self.schedule_app(index);
        }
        for host in 0..self.flows.hosts().count() {
            self.schedule_host(host);
        }
        Ok(self.sample(0)?)
    }

    /// Advances to `limit`, before which no event happens.
    fn rest_until(&mut self, limit: Nanos) -> Result<(), TableError> {
        self.observe_before(limit)?;
        if self.record.has_ended {
            return Ok(());
        }
        self.record.now = self.record.now.max(limit);
        if self.record.is_complete() {
            self.end()?;
        }
        Ok(())
    }

    fn step(&mut self, at: Nanos, entity: EntityId) -> Result<(), SimulationError> {
        if self.next_observation < at {
            self.observe_before(at)?;
            if self.record.has_ended {
                return Ok(());
            }
        }
        self.record.now = at;
        self.event_count += 1;
        if self.event_count.is_multiple_of(EVENTS_PER_CLOCK_READ) {
            self.record.flush_if_due()?;
        }
        match self.network.channel_of(entity) {
            Some(channel) => self.run_channel(channel)?,
            None => self.run(entity)?,
        }
        if std::mem::take(&mut self.has_acted) {
            self.end_if_done()?;
        }
        Ok(())
    }

    fn end_if_done(&mut self) -> Result<(), TableError> {
        if self.flows.are_done(self.record.now) || self.registry.fault().why().is_some() {
            self.end()?;
        }
        Ok(())
    }

    /// Checks for stalls and takes the samples due before `at`, unless the run ends.
    #[cold]
    fn observe_before(&mut self, at: Nanos) -> Result<(), TableError> {
        self.look_before(at)?;
        if self.record.has_ended {
            return Ok(());
        }
        self.sample_before(at)?;
        self.next_observation = self.stalls.next_look().min(self.record.samples.next_at());
        Ok(())
    }

    /// Checks before `at` whether flows with a user's own algorithms have stalled. If one has, the
    /// run ends there.
    fn look_before(&mut self, at: Nanos) -> Result<(), TableError> {
        while self.stalls.next_look() < at && !self.record.has_ended {
            let then = self.stalls.next_look();
            if let Some(why) = self.stalls.look(then, self.flows.hosts()) {
                self.registry.fault().record(why);
                self.record.now = then;
                self.end()?;
            }
        }
        Ok(())
    }

    /// Takes the samples due before `at`. A sample shows the effects of all events up to its time.
    fn sample_before(&mut self, at: Nanos) -> Result<(), TableError> {
        while self.record.samples.next_at() < at {
            self.sample(self.record.samples.next_at())?;
        }
        Ok(())
    }

    fn sample(&mut self, at: Nanos) -> Result<(), TableError> {
        let (network, flows) = (&mut self.network, &mut self.flows);
        self.sampler.sample(at, &mut self.record, network, flows)
    }

    /// Runs an entity that is not a channel.
    fn run(&mut self, entity: EntityId) -> Result<(), SimulationError> {
        self.has_acted = true;
        if entity == SCHEDULE {
            return self.run_schedule();
        }
        let app = (entity.0 - FIRST_CHANNEL) as usize - self.network.channel_count();
        match app.checked_sub(self.flows.apps().len()) {
            None => self.run_app(app)?,
            Some(host) => match host.checked_sub(self.flows.hosts().count()) {
                None => self.turn_to_host(host)?,
                Some(0) => self.run_middleboxes()?,
                Some(behind) => self.run_host_queue(behind - 1)?,
            },
        }
        Ok(())
    }

    fn run_schedule(&mut self) -> Result<(), SimulationError> {
        while let Some(action) = self.record.schedule.take_due(self.record.now) {
            self.carry_out(&action)?;
        }
        self.deadlines.set(SCHEDULE, self.record.schedule.next_at());
        Ok(())
    }

    /// Applies an action to the network and reports it to the host it affects.
    fn carry_out(&mut self, action: &Action) -> Result<(), SimulationError> {
        self.has_acted = true;
        self.stalls.record(action);
        self.network
            .apply(self.record.now, action, &mut self.deadlines)?;
        let told =
            self.flows
                .hosts_mut()
                .handle_action(self.record.now, &self.record.experiment, action);
        match told {
            Some(host) => Ok(self.run_host(host)?),
            None => Ok(()),
        }
    }

    fn run_app(&mut self, index: usize) -> Result<(), TableError> {
        let packet = self.flows.app_mut(index).send(self.record.now);
        self.draw_lateness(index);
        self.originate(packet)?;
        self.schedule_app(index);
        Ok(())
    }

    /// Draws how late an application sends its next datagram.
    fn draw_lateness(&mut self, index: usize) {
        let host = self
            .flows
            .hosts()
            .host_of(self.flows.apps()[index].source());
        self.app_lateness[index] = self.handling.lateness(host);
    }

    fn schedule_app(&mut self, index: usize) {
        let entity = FIRST_CHANNEL as usize + self.network.channel_count() + index;
        let due = self.flows.apps()[index].next_send();
        // A datagram that had to wait is due now.
        let next = due.map(|at| {
            at.saturating_add(self.app_lateness[index])
                .max(self.record.now)
        });
        self.deadlines.set(EntityId(entity as u32), next);
    }

    /// Handles the packets that waited at a host, and its timers.
    fn turn_to_host(&mut self, host: usize) -> Result<(), TableError> {
        while let Some(packet) = self.handling.take_due(self.record.now, host) {
            self.handle(&packet, host)?;
        }
        if self.handling.take_timer(self.record.now, host) {
            self.flows.hosts_mut().wake(self.record.now, host);
            return self.run_host(host);
        }
        self.schedule_host(host);
        Ok(())
    }

    /// Sends all packets of a host.
    fn run_host(&mut self, host: usize) -> Result<(), TableError> {
        while let Some(segment) = self.flows.hosts_mut().poll_transmit(self.record.now, host) {
            let ports = [
                segment.segment.source_port,
                segment.segment.destination_port,
            ];
            let source = SocketAddr::new(segment.source, ports[0]);
            let destination = SocketAddr::new(segment.destination, ports[1]);
            match self.network.route(source, destination, &segment.via) {
                Some(route) => {
                    let packet = self.network.segments.send(route, segment);
                    self.originate(packet)?;
                }
                None => self.network.refuse(source.ip()),
            }
        }
        if let Some(notes) = self.flows.hosts_mut().take_notes() {
            for unit in notes.units {
                self.record.units.push(unit)?;
            }
            for (flow, rtt) in notes.answers {
                self.record_rtt(self.sampler.probe_of_flow[flow], rtt)?;
            }
        }
        self.schedule_host(host);
        Ok(())
    }

    fn schedule_host(&mut self, host: usize) {
        let timer = self.flows.hosts().next_wake(host);
        let next = self.handling.next(host, timer);
        // An overdue deadline is due now.
        let next = next.map(|at| at.max(self.record.now));
        self.deadlines.set(self.entity_of_host(host), next);
    }

    fn entity_of_host(&self, host: usize) -> EntityId {
        let first = FIRST_CHANNEL as usize + self.network.channel_count() + self.flows.apps().len();
        EntityId((first + host) as u32)
    }

    fn run_channel(&mut self, channel: usize) -> Result<(), TableError> {
        let now = self.record.now;
        loop {
            let fate = self
                .network
                .leave_channel(now, channel, &mut self.deadlines);
            let is_over = fate.is_none();
            if let Some(Some(fate)) = fate {
                self.settle(fate)?;
            }
            // Usually one packet arrives at a time, and another poll would find nothing.
            let next = self.network.schedule(now, channel, &mut self.deadlines);
            if is_over || next != Some(now) {
                return Ok(());
            }
        }
    }

    fn run_middleboxes(&mut self) -> Result<(), TableError> {
        self.network.wake_middleboxes(self.record.now);
        while let Some(fate) = self
            .network
            .leave_middleboxes(self.record.now, &mut self.deadlines)
        {
            if let Some(fate) = fate {
                self.settle(fate)?;
            }
        }
        self.network.schedule_middleboxes(&mut self.deadlines);
        Ok(())
    }

    fn originate(&mut self, packet: Packet) -> Result<(), TableError> {
        self.packets += 1;
        let fate = self
            .network
            .originate(self.record.now, packet, &mut self.deadlines);
        if let Some((place, waiting)) = self.network.take_newly_waiting() {
            self.hold(place, waiting);
        }
        match fate {
            Some(fate) => self.settle(fate),
            None => Ok(()),
        }
    }

    /// Reports to the sender of a packet that it waits in its host.
    #[cold]
    fn hold(&mut self, place: usize, waiting: Waiting) {
        match waiting {
            Waiting::Segment {
                four,
                payload_bytes,
            } => {
                let host = self.host_of_queue(place);
                self.flows.hosts_mut().hold(host, four, payload_bytes);
            }
            Waiting::Datagram { application } => self.flows.app_mut(application).hold(),
            Waiting::Other => {}
        }
    }

    /// Reports to senders which packets have left the queue of their host, and lets them continue.
    fn run_host_queue(&mut self, place: usize) -> Result<(), TableError> {
        let host = self.host_of_queue(place);
        while let Some(waiting) = self.network.leave_host_queue(self.record.now, place) {
            match waiting {
                Waiting::Segment {
                    four,
                    payload_bytes,
                } => {
                    let hosts = self.flows.hosts_mut();
                    hosts.release(host, four, payload_bytes);
                }
                Waiting::Datagram { application } => {
                    self.flows.app_mut(application).release();
                    self.schedule_app(application);
                }
                Waiting::Other => {}
            }
        }
        self.run_host(host)?;
        self.network
            .schedule_host_queue(self.record.now, place, &mut self.deadlines);
        Ok(())
    }

    fn host_of_queue(&self, place: usize) -> usize {
        let interface = self.network.interface_of_host_queue(place);
        self.flows.hosts().host_of(interface)
    }

    /// Adds a packet's fate to the trace hash and reports it to the receiver or the application.
    fn settle(&mut self, fate: Fate) -> Result<(), TableError> {
        self.has_acted = true;
        self.trace_hash
            .add(self.record.now, &fate, &self.network.segments);
        match fate {
            Fate::Delivered {
                packet,
                destination,
            } => self.deliver(&packet, destination),
            Fate::Dropped { packet, .. } => {
                match packet.content {
                    Content::Datagram(datagram) => {
                        self.flows.app_mut(datagram.application as usize).lose();
                    }
                    Content::Segment(segment) => self.network.segments.forget(segment.id),
                }
                Ok(())
            }
        }
    }

    fn deliver(&mut self, packet: &Packet, interface: usize) -> Result<(), TableError> {
        let host = self.flows.hosts().host_of(interface);
        match self.handling.receive(self.record.now, host, packet) {
            Reception::Now => return self.handle(packet, host),
            Reception::Waits => {}
            Reception::Until(at) => {
                let next = Some(at.max(self.record.now));
                self.deadlines.set(self.entity_of_host(host), next);
            }
        }
        Ok(())
    }

    /// Handles an arrived packet at its host.
    fn handle(&mut self, packet: &Packet, host: usize) -> Result<(), TableError> {
        match packet.content {
            Content::Datagram(datagram) => self.deliver_datagram(packet, datagram),
            Content::Segment(segment) => {
                let segments = &mut self.network.segments;
                let hosts = self.flows.hosts_mut();
                hosts.deliver(self.record.now, host, segments.get(segment.id));
                segments.forget(segment.id);
                self.run_host(host)
            }
        }
    }

    fn deliver_datagram(&mut self, packet: &Packet, datagram: Datagram) -> Result<(), TableError> {
        let app = datagram.application as usize;
        let arrival = self
            .flows
            .app_mut(app)
            .receive(self.record.now, packet, datagram);
        match arrival {
            Arrival::Received => self.record_unit(datagram),
            Arrival::Echoed(answer) => {
                self.record_unit(datagram)?;
                self.originate(answer)
            }
            Arrival::Answered { rtt } => self.record_rtt(self.sampler.probe_of_app[app], rtt),
        }
    }

    fn record_unit(&mut self, datagram: Datagram) -> Result<(), TableError> {
        let app = &self.flows.apps()[datagram.application as usize];
        // Probes requested by `measure` are not data.
        let Some(flow) = app.flow() else {
            return Ok(());
        };
        self.record.units.push(Unit {
            flow,
            unit: datagram.number,
            bytes: app.size_bytes(),
            sent_ns: datagram.sent_at,
            received_ns: self.record.now,
            delivered_ns: self.record.now,
        })
    }

    fn record_rtt(&mut self, probe: Option<usize>, rtt: Nanos) -> Result<(), TableError> {
        let Some(probe) = probe else {
            return Ok(());
        };
        let entity = &self.flows.probes()[probe].name;
        let (now, rtt_s) = (self.record.now, seconds(rtt));
        self.record
            .samples
            .record_at(now, entity, Group::Rtt, [rtt_s])
    }

    fn end(&mut self) -> Result<(), TableError> {
        self.record.has_ended = true;
        self.sample_before(self.record.now)?;
        self.sample_last()
    }

    fn sample_last(&mut self) -> Result<(), TableError> {
        if self.record.samples.last_at() == self.record.now {
            return Ok(());
        }
        self.sample(self.record.now)
    }

    /// Ends the run now, converts its tables to Parquet, and returns the summary.
    ///
    /// # Errors
    /// Fails if a table or capture cannot be written.
    pub fn finish(mut self) -> Result<Summary, SimulationError> {
        self.sample_last()?;
        let summary = self.summary();
        self.network.captures.finish()?;
        self.record.finish()?;
        Ok(summary)
    }

    fn summary(&self) -> Summary {
        let why = self.registry.fault().why();
        let now_s = seconds(self.record.now);
        Summary {
            status: why.map(|_| "failed"),
            why: why.map(|why| format!("at {now_s} s of simulated time: {why}")),
            end_ns: self.record.now,
            trace_hash: self.trace_hash.hex(),
            events: self.record.schedule.record().to_vec(),
            flows: self.flows.summaries(&self.record.experiment),
            links: self.link_summaries(),
            middleboxes: self.network.middlebox_summaries(),
            packets: self.packets,
            event_count: self.event_count,
        }
    }

    fn link_summaries(&self) -> Vec<LinkSummary> {
        let links = self.record.experiment.links.iter().enumerate();
        links
            .flat_map(|(index, link)| {
                let states = [2 * index, 2 * index + 1];
                LinkSummary::of_link(link, states.map(|state| self.network.link_state(state)))
            })
            .collect()
    }
}

impl Run for Simulation {
    fn record(&self) -> &RunRecord {
        &self.record
    }

    fn advance(&mut self, until: Nanos) -> Result<bool, RunError> {
        let limit = until.min(self.record.experiment.duration_ns);
        while !self.record.has_ended {
            match self.deadlines.pop_before(limit) {
                Some((at, entity)) => self.step(at, entity)?,
                None => {
                    self.rest_until(limit)?;
                    break;
                }
            }
        }
        self.record.flush_if_due()?;
        Ok(self.record.has_ended)
    }

    fn inject(&mut self, action: &Action) -> Result<EventRecord, RunError> {
        let check = |experiment: &Experiment| {
            let capabilities = capabilities(&self.registry);
            let capabilities = Capabilities::new(&capabilities);
            let missing = capabilities.check_action(experiment, "action", action);
            if missing.is_empty() {
                return Ok(());
            }
            Err(SimulationError::Unsupported(missing).into())
        };
        let event = self.record.admit(self.record.now, action, check)?;
        self.carry_out(action)?;
        self.record.schedule.record_injected(event.clone());
        Ok(event)
    }

    fn finish_as_json(self: Box<Self>) -> Result<String, RunError> {
        Ok(serde_json::to_string(&self.finish()?)?)
    }
}
