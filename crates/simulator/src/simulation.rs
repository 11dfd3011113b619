//! A run: the loop over events, with its inputs and outputs.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use emulation::LinkSummary;
use experiment::algorithms::Registry;
use experiment::capabilities::{Capabilities, Missing};
use experiment::resolved::{Action, Experiment, InvalidDirection, ResolvedError};
use experiment::samples::{TableError, Unit, UnitTable};
use experiment::schedule::{EventRecord, NoChange, Schedule};
use experiment::time::{NANOS_PER_SECOND, Nanos};
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
use crate::sampling::{Latest, Sampler};
use crate::stall::Stalls;
use crate::summary::Summary;
use crate::trace_hash::TraceHash;

/// The longest real time that samples wait in memory during a run. Real time affects only when
/// samples are written.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Number of events between two readings of the wall clock.
const EVENTS_PER_CLOCK_READ: u64 = 4096;

const SCHEDULE: EntityId = EntityId(0);

/// Why a run cannot start or continue.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// The experiment or an injected action is invalid.
    #[error(transparent)]
    Resolved(#[from] ResolvedError),
    /// The link model refuses a direction.
    #[error(transparent)]
    Direction(#[from] InvalidDirection),
    /// The experiment needs features that the simulator lacks.
    #[error("the simulator cannot run this: {}", list(.0))]
    Unsupported(Vec<Missing>),
    /// An injected action would change nothing.
    #[error(transparent)]
    NoChange(#[from] NoChange),
    /// An action was injected after the end.
    #[error("the run has ended at {0} ns: nothing can be injected any more")]
    Ended(Nanos),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A capture cannot be written.
    #[error(transparent)]
    Captures(#[from] CapturesError),
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
    flows: Flows,
    handling: Handling,
    /// How late each datagram application sends next.
    app_lateness: Vec<Nanos>,
    registry: Registry,
    schedule: Schedule,
    stalls: Stalls,
    deadlines: Deadlines,
    sampler: Sampler,
    units: UnitTable,
    trace_hash: TraceHash,
    now: Nanos,
    has_ended: bool,
    event_count: u64,
    packets: u64,
    last_flush: Instant,
}

impl Simulation {
    /// Creates a run at time 0. Its tables are `samples.arrows` and `units.arrows` in `directory`.
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
        let ids = experiment.flows.iter().map(|flow| flow.id.clone());
        let ids: Vec<_> = ids.collect();
        let actors = flows.apps().len() + flows.hosts().count();
        let actors_end = FIRST_CHANNEL as usize + network.channel_count() + actors;
        network.set_middlebox_entity(EntityId(actors_end as u32));
        network.set_first_host_queue(EntityId(actors_end as u32 + 1));
        let entities = actors_end + 1 + network.host_queue_count();
        let mut simulation = Self {
            schedule: Schedule::new(&experiment, seed),
            stalls: Stalls::new(&experiment),
            deadlines: Deadlines::new(queue, entities),
            sampler: Sampler::create(directory, &experiment, &flows)?,
            handling: Handling::new(&experiment, seed),
            app_lateness: vec![0; flows.apps().len()],
            units: UnitTable::create(directory, &ids)?,
            trace_hash: TraceHash::new(),
            experiment,
            network,
            flows,
            registry,
            now: 0,
            has_ended: false,
            event_count: 0,
            packets: 0,
            last_flush: Instant::now(),
        };
        simulation.begin()?;
        Ok(simulation)
    }

    fn begin(&mut self) -> Result<(), SimulationError> {
        self.deadlines.set(SCHEDULE, self.schedule.next_at());
        for index in 0..self.flows.apps().len() {
            self.draw_lateness(index);
            self.schedule_app(index);
        }
        for host in 0..self.flows.hosts().count() {
            self.schedule_host(host);
        }
        self.sampler.sample(0, &mut self.network, &mut self.flows)?;
        Ok(())
    }

    /// Returns the current time of the run.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Executes everything before `until`. Returns whether the run has ended.
    ///
    /// # Errors
    /// Fails if a table cannot be written.
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

    /// Advances to `limit`, before which no event happens.
    fn rest_until(&mut self, limit: Nanos) -> Result<(), SimulationError> {
        self.look_before(limit)?;
        if self.has_ended {
            return Ok(());
        }
        self.sample_before(limit)?;
        self.now = self.now.max(limit);
        if self.now >= self.experiment.duration_ns {
            self.end()?;
        }
        Ok(())
    }

    fn step(&mut self, at: Nanos, entity: EntityId) -> Result<(), SimulationError> {
        self.look_before(at)?;
        if self.has_ended {
            return Ok(());
        }
        self.sample_before(at)?;
        self.now = at;
        self.event_count += 1;
        if self.event_count.is_multiple_of(EVENTS_PER_CLOCK_READ) {
            self.flush_if_due()?;
        }
        self.run(entity)?;
        if self.flows.are_done() || self.registry.fault().why().is_some() {
            self.end()?;
        }
        Ok(())
    }

    /// Checks before `at` whether flows with a user's own algorithms have stalled. If one has, the
    /// run ends there.
    fn look_before(&mut self, at: Nanos) -> Result<(), TableError> {
        while self.stalls.next_look() < at && !self.has_ended {
            let then = self.stalls.next_look();
            if let Some(why) = self.stalls.look(then, self.flows.hosts()) {
                self.registry.fault().note(why);
                self.now = then;
                self.end()?;
            }
        }
        Ok(())
    }

    /// Takes the samples due before `at`. A sample shows the effects of all events up to its time.
    fn sample_before(&mut self, at: Nanos) -> Result<(), TableError> {
        while self.sampler.next_tick() < at {
            let tick = self.sampler.next_tick();
            self.sampler
                .sample(tick, &mut self.network, &mut self.flows)?;
        }
        Ok(())
    }

    fn run(&mut self, entity: EntityId) -> Result<(), SimulationError> {
        if entity == SCHEDULE {
            return self.run_schedule();
        }
        let channel = (entity.0 - FIRST_CHANNEL) as usize;
        let Some(app) = channel.checked_sub(self.network.channel_count()) else {
            return Ok(self.run_channel(channel)?);
        };
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
        while let Some(action) = self.schedule.take_due(self.now) {
            self.carry_out(&action)?;
        }
        self.deadlines.set(SCHEDULE, self.schedule.next_at());
        Ok(())
    }

    /// Applies an action to the network and reports it to the host it affects.
    fn carry_out(&mut self, action: &Action) -> Result<(), SimulationError> {
        self.stalls.note(action);
        self.network.apply(self.now, action, &mut self.deadlines)?;
        let told = self
            .flows
            .hosts_mut()
            .tell(self.now, &self.experiment, action);
        match told {
            Some(host) => Ok(self.run_host(host)?),
            None => Ok(()),
        }
    }

    fn run_app(&mut self, index: usize) -> Result<(), TableError> {
        let packet = self.flows.app_mut(index).send(self.now);
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
        let next = due.map(|at| at.saturating_add(self.app_lateness[index]).max(self.now));
        self.deadlines.set(EntityId(entity as u32), next);
    }

    /// Handles the packets that waited at a host, and its timers.
    fn turn_to_host(&mut self, host: usize) -> Result<(), TableError> {
        while let Some(packet) = self.handling.take_due(self.now, host) {
            self.handle(&packet, host)?;
        }
        if self.handling.take_timer(self.now, host) {
            self.flows.hosts_mut().wake(self.now, host);
            return self.run_host(host);
        }
        self.schedule_host(host);
        Ok(())
    }

    /// Sends all packets of a host.
    fn run_host(&mut self, host: usize) -> Result<(), TableError> {
        while let Some(segment) = self.flows.hosts_mut().poll_transmit(self.now, host) {
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
                self.units.push(unit)?;
            }
            for (flow, rtt) in notes.answers {
                self.sampler.note_flow_rtt(self.now, flow, rtt)?;
            }
        }
        self.schedule_host(host);
        Ok(())
    }

    fn schedule_host(&mut self, host: usize) {
        let timer = self.flows.hosts().next_wake(host);
        let next = self.handling.next(host, timer);
        // An overdue deadline is due now.
        let next = next.map(|at| at.max(self.now));
        self.deadlines.set(self.entity_of_host(host), next);
    }

    fn entity_of_host(&self, host: usize) -> EntityId {
        let first = FIRST_CHANNEL as usize + self.network.channel_count() + self.flows.apps().len();
        EntityId((first + host) as u32)
    }

    fn run_channel(&mut self, channel: usize) -> Result<(), TableError> {
        while let Some(output) = self.network.poll(self.now, channel) {
            let fate = self.network.handle(self.now, output, &mut self.deadlines);
            if let Some(fate) = fate {
                self.settle(fate)?;
            }
            // Usually one packet arrives at a time, and another poll would find nothing.
            let next = self
                .network
                .schedule(self.now, channel, &mut self.deadlines);
            if next != Some(self.now) {
                return Ok(());
            }
        }
        self.network
            .schedule(self.now, channel, &mut self.deadlines);
        Ok(())
    }

    fn run_middleboxes(&mut self) -> Result<(), TableError> {
        self.network.wake_middleboxes(self.now);
        while let Some(fate) = self
            .network
            .leave_middleboxes(self.now, &mut self.deadlines)
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
            .originate(self.now, packet, &mut self.deadlines);
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
        while let Some(waiting) = self.network.leave_host_queue(self.now, place) {
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
            .schedule_host_queue(self.now, place, &mut self.deadlines);
        Ok(())
    }

    fn host_of_queue(&self, place: usize) -> usize {
        let interface = self.network.interface_of_host_queue(place);
        self.flows.hosts().host_of(interface)
    }

    /// Adds a packet's fate to the trace hash and reports it to the receiver or the application.
    fn settle(&mut self, fate: Fate) -> Result<(), TableError> {
        self.trace_hash.add(self.now, &fate, &self.network.segments);
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
        match self.handling.receive(self.now, host, packet) {
            Reception::Now => return self.handle(packet, host),
            Reception::Waits => {}
            Reception::Until(at) => {
                let next = Some(at.max(self.now));
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
                hosts.deliver(self.now, host, segments.get(segment.id));
                segments.forget(segment.id);
                self.run_host(host)
            }
        }
    }

    fn deliver_datagram(&mut self, packet: &Packet, datagram: Datagram) -> Result<(), TableError> {
        let app = datagram.application as usize;
        let arrival = self.flows.app_mut(app).receive(self.now, packet, datagram);
        match arrival {
            Arrival::Received => self.note_unit(datagram),
            Arrival::Echoed(answer) => {
                self.note_unit(datagram)?;
                self.originate(answer)
            }
            Arrival::Answered { rtt } => self.sampler.note_app_rtt(self.now, app, rtt),
        }
    }

    fn note_unit(&mut self, datagram: Datagram) -> Result<(), TableError> {
        let app = &self.flows.apps()[datagram.application as usize];
        // Probes requested by `measure` are not data.
        let Some(flow) = app.flow() else {
            return Ok(());
        };
        self.units.push(Unit {
            flow,
            unit: datagram.number,
            bytes: app.size_bytes(),
            sent_ns: datagram.sent_at,
            received_ns: self.now,
            delivered_ns: self.now,
        })
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
        self.sampler
            .sample(self.now, &mut self.network, &mut self.flows)
    }

    fn flush_if_due(&mut self) -> Result<(), TableError> {
        if self.last_flush.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        self.last_flush = Instant::now();
        self.sampler.flush()?;
        self.units.flush()
    }

    /// Executes an action that is not part of the description, before all other events of the
    /// current time.
    ///
    /// # Errors
    /// Fails if the action is invalid or not supported by the simulator. Then nothing has changed.
    pub fn inject(&mut self, action: &Action) -> Result<EventRecord, SimulationError> {
        if self.has_ended {
            return Err(SimulationError::Ended(self.now));
        }
        action.validate(&self.experiment)?;
        let missing = Capabilities::new(&capabilities(&self.registry)).check_action(
            &self.experiment,
            "action",
            action,
        );
        if !missing.is_empty() {
            return Err(SimulationError::Unsupported(missing));
        }
        let event = self.schedule.injection(self.now, action)?;
        self.carry_out(action)?;
        self.schedule.record_injected(event.clone());
        Ok(event)
    }

    /// Returns the values of the last sample.
    pub fn latest(&self) -> Latest {
        self.sampler.latest()
    }

    /// Ends the run now, converts its tables to Parquet, and returns the summary.
    ///
    /// # Errors
    /// Fails if a table or capture cannot be written.
    pub fn finish(mut self) -> Result<Summary, SimulationError> {
        self.take_last_sample()?;
        let summary = self.summary();
        self.network.captures.finish()?;
        self.sampler.finish()?;
        self.units.finish()?;
        Ok(summary)
    }

    fn summary(&self) -> Summary {
        let why = self.registry.fault().why();
        let seconds = self.now as f64 / NANOS_PER_SECOND as f64;
        Summary {
            status: why.map(|_| "failed"),
            why: why.map(|why| format!("at {seconds} s of simulated time: {why}")),
            end_ns: self.now,
            trace_hash: self.trace_hash.hex(),
            events: self.schedule.record().to_vec(),
            flows: self.flows.summaries(&self.experiment),
            links: self.link_summaries(),
            middleboxes: self.network.middlebox_summaries(),
            packets: self.packets,
            event_count: self.event_count,
        }
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
