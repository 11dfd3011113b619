//! Hosts: the protocol engine of each, and the applications that use it.
//!
//! A host is one entity of the event queue. It acts when a packet arrives, when a deadline of its
//! engine or of an application expires, or when an address changes. Afterwards
//! [`Hosts::poll_transmit`] takes out its packets one by one, and lets applications react in
//! between.

mod connections;
mod record;
mod session;
mod subflows;

use std::collections::BTreeSet;

use experiment::addressing::{Lookup, Places, host_at, other_end, port_of_flow};
use experiment::algorithms::Registry;
use experiment::engine_config::{AddressChange, network_views, profile, ways};
use experiment::resolved::{self, Action, Application, Experiment, Flow, FlowEnd, Transport};
use experiment::rng::Generator;
use experiment::summary::{FlowSummary, PathSummary};
use experiment::time::Nanos;
use experiment::traffic::{Intervals, StreamEnd, start_of, stream_end};
use mptcp::connection::Connection;
use mptcp::driver::{Driver, Event};
use mptcp::endpoint::{Endpoint, NetworkView, Profile};
use mptcp::pm::FourTuple;
use mptcp::wire;

use record::Transfer;
pub(super) use record::{FlowRecord, Notes};
use session::Session;

/// All hosts, and the flows between them that are not UDP.
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// Host of each interface.
    host_of_interface: Vec<Option<usize>>,
    streams: Vec<Stream>,
    /// Index of the stream of each flow.
    stream_of_flow: Vec<Option<usize>>,
    notes: Notes,
}

/// A flow over TCP or MPTCP.
struct Stream {
    app: Application,
    is_multipath: bool,
    opened_by: FlowEnd,
    unit_bytes: u64,
    opening: Profile,
    /// The addresses and ports of a new connection. The local port is not chosen yet.
    first: FourTuple,
    /// Further paths on which the handshake is tried at the same time.
    others: Vec<FourTuple>,
    /// For short flows: the time between them.
    intervals: Option<Intervals>,
    opened: u64,
    record: FlowRecord,
}

struct Host {
    driver: Driver<Slot>,
    /// When streams open their first or next connection.
    openings: BTreeSet<(Nanos, usize)>,
}

/// An end of a connection of a stream.
struct Slot {
    stream: usize,
    side: FlowEnd,
    end: StreamEnd,
    opens: bool,
    transfer: Transfer,
    /// `None` before the connection is established, and after it has ended.
    session: Option<Box<dyn Session>>,
}

impl Slot {
    fn new(stream: &Stream, index: usize, side: FlowEnd, transfer: Transfer) -> Self {
        Self {
            stream: index,
            side,
            end: stream_end(&stream.app, side),
            opens: stream.opened_by == side,
            transfer,
            session: None,
        }
    }
}

impl Host {
    fn new(host: &resolved::Host, seed: u64, network: NetworkView) -> Self {
        let rng = Generator::new(seed, &format!("host/{}", host.id));
        Self {
            driver: Driver::new(Endpoint::new(network, Box::new(rng.into_bits()))),
            openings: BTreeSet::new(),
        }
    }

    fn open_connections(&self) -> impl Iterator<Item = (&Connection, &Slot)> {
        let known = self.driver.iter();
        let open = known.filter(|(_, connection, _)| connection.closed().is_none());
        open.map(|(_, connection, slot)| (connection, slot))
    }
}

impl Hosts {
    /// Returns the hosts of an experiment that `check` accepts, for `seed`.
    pub(super) fn new(lookup: &Lookup<'_>, seed: u64, registry: &Registry) -> Self {
        let experiment = lookup.experiment;
        let interfaces = experiment.interfaces.iter();
        let mut hosts = Self {
            hosts: experiment
                .hosts
                .iter()
                .zip(network_views(lookup))
                .map(|(host, network)| Host::new(host, seed, network))
                .collect(),
            host_of_interface: interfaces
                .map(|interface| lookup.host(&interface.node))
                .collect(),
            streams: Vec::new(),
            stream_of_flow: Vec::new(),
            notes: Notes::default(),
        };
        for (index, flow) in experiment.flows.iter().enumerate() {
            let is_stream = flow.transport != Transport::Udp;
            let place = is_stream.then_some(hosts.streams.len());
            hosts.stream_of_flow.push(place);
            if is_stream {
                hosts.add_stream(lookup, seed, registry, index, flow);
            }
        }
        hosts
    }

    fn add_stream(
        &mut self,
        lookup: &Lookup<'_>,
        seed: u64,
        registry: &Registry,
        index: usize,
        flow: &Flow,
    ) {
        let port = port_of_flow(index).expect("checked: there are as many ports");
        let made = |side| profile(lookup, flow, side, seed, registry);
        let acceptor = other_end(flow.opened_by);
        let accepting = self.host_mut(lookup, flow, acceptor);
        accepting.driver.endpoint.listen(port, made(acceptor));
        let mut ways = ways(lookup, flow, port).into_iter();
        let first = ways.next().expect("validated: a flow has a path");
        let start = start_of(lookup.experiment, flow, seed);
        let first_opening = (start, self.streams.len());
        let opening = self.host_mut(lookup, flow, flow.opened_by);
        opening.openings.insert(first_opening);
        self.streams.push(Stream {
            app: flow.app.clone(),
            is_multipath: flow.transport == Transport::Mptcp,
            opened_by: flow.opened_by,
            unit_bytes: lookup.experiment.measure.unit_bytes,
            opening: made(flow.opened_by),
            first,
            others: ways.collect(),
            intervals: Intervals::of(flow, seed),
            opened: 0,
            record: FlowRecord::new(index, flow, start),
        });
    }

    fn host_mut(&mut self, lookup: &Lookup<'_>, flow: &Flow, side: FlowEnd) -> &mut Host {
        let host = lookup.host(host_at(flow, side));
        &mut self.hosts[host.expect("validated: the host of a flow exists")]
    }

    /// Returns the number of hosts.
    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the host of an interface.
    pub(super) fn host_of(&self, interface: usize) -> usize {
        self.host_of_interface[interface].expect("only hosts are destinations")
    }

    /// Returns the record of a flow that is not UDP.
    pub(super) fn record(&self, flow: usize) -> Option<&FlowRecord> {
        let stream = self.stream_of_flow[flow]?;
        Some(&self.streams[stream].record)
    }

    /// Returns whether an end of a connection of a flow has unacknowledged data.
    pub(super) fn has_data_to_send(&self, flow: usize) -> bool {
        let stream = self.stream_of_flow[flow];
        self.hosts.iter().any(|host| {
            host.open_connections().any(|(connection, slot)| {
                Some(slot.stream) == stream && connection.unacked_bytes() > 0
            })
        })
    }

    /// Delivers a packet to a host.
    pub(super) fn deliver(&mut self, now: Nanos, host: usize, packet: &wire::Packet) {
        self.hosts[host].driver.endpoint.handle_packet(now, packet);
    }

    /// Records that a packet of a host waits in it for its first link.
    pub(super) fn hold(&mut self, host: usize, four: FourTuple, payload_bytes: u32) {
        let endpoint = &mut self.hosts[host].driver.endpoint;
        endpoint.waits_in_host(four, payload_bytes);
    }

    /// Records that a packet which waited in a host has left.
    pub(super) fn release(&mut self, host: usize, four: FourTuple, payload_bytes: u32) {
        let endpoint = &mut self.hosts[host].driver.endpoint;
        endpoint.departed(four, payload_bytes);
    }

    /// Handles all that is due at a host.
    pub(super) fn wake(&mut self, now: Nanos, host: usize) {
        self.hosts[host].driver.handle_timeout(now);
        while let Some((at, stream)) = self.hosts[host].openings.first().copied()
            && at <= now
        {
            self.hosts[host].openings.pop_first();
            self.open(now, host, stream);
        }
        while let Some(id) = self.hosts[host].driver.poll_turn(now) {
            self.advance(now, host, id);
        }
    }

    /// Returns when a host acts next.
    pub(super) fn next_wake(&self, host: usize) -> Option<Nanos> {
        let host = &self.hosts[host];
        let opening = host.openings.first().map(|(at, _)| *at);
        opening.into_iter().chain(host.driver.poll_timeout()).min()
    }

    /// Returns the next packet that a host sends. Lets applications react to events until there is
    /// nothing more to do.
    pub(super) fn poll_transmit(&mut self, now: Nanos, host: usize) -> Option<wire::Packet> {
        loop {
            let driver = &mut self.hosts[host].driver;
            if let Some(packet) = driver.endpoint.poll_transmit(now) {
                return Some(packet);
            }
            if let Event::Connection(id, event) = driver.poll_event()? {
                self.handle_event(now, host, id, event);
            }
        }
    }

    /// Returns the notes since the last call, if there are any.
    pub(super) fn take_notes(&mut self) -> Option<Notes> {
        (!self.notes.is_empty()).then(|| std::mem::take(&mut self.notes))
    }

    /// Reports an action to the host whose addresses it affects, and returns that host. `None` if
    /// there is none.
    pub(super) fn handle_action(
        &mut self,
        now: Nanos,
        experiment: &Experiment,
        action: &Action,
    ) -> Option<usize> {
        let change = AddressChange::of(experiment, action)?;
        let host = self.host_of_interface[change.interface]?;
        change.apply(now, &mut self.hosts[host].driver.endpoint);
        Some(host)
    }

    /// Brings the records of all flows to the current time.
    pub(super) fn observe(&mut self) {
        for stream in &mut self.streams {
            stream.record.begin_observation();
        }
        let streams = &mut self.streams;
        for host in &self.hosts {
            for (connection, slot) in host.open_connections() {
                streams[slot.stream].record.observe(slot.end, connection);
            }
        }
    }

    /// Returns the results of flows that are not UDP, by flow.
    pub(super) fn summaries(&self, experiment: &Experiment) -> Vec<Option<FlowSummary>> {
        let places = Places::new(experiment);
        let flows = experiment.flows.iter().enumerate();
        flows
            .map(|(index, flow)| {
                let record = self.record(index)?;
                Some(FlowSummary {
                    id: flow.id.clone(),
                    start_ns: record.start(),
                    established_ns: record.established,
                    end_ns: record.end,
                    bytes: record.bytes_received,
                    path: PathSummary::new(&flow.paths[0]),
                    error: record.error.clone(),
                    fallback: record.fallback,
                    subflows: record.subflows.results(&places, index),
                })
            })
            .collect()
    }
}
