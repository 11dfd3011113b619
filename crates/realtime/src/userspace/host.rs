//! The thread of a host with the userspace stack: the engine, and the applications on its
//! connections.
//!
//! The thread acts when packets arrive, when a timer of its engine or an application is due, and on
//! order. It answers each packet before it reads the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::engine_config::{AddressChange, why_closed};
use experiment::time::Nanos;
use mptcp::connection::{self, Connection};
use mptcp::driver::{Driver, Event};
use mptcp::endpoint::{ConnectionId, Endpoint, Profile};
use mptcp::pm::FourTuple;
use mptcp::subflow::CloseReason;
use mptcp::wire::{IcmpError, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::session::{Report, Session};
use super::{Awaited, Message, Outgoing};
use crate::Clock;
use crate::applications::traffic::{Journal, MakeEnd, Opened, Openings, StreamEnd};
use crate::emulator::mailbox::Mailbox;
use crate::kernel::path_manager::{Note, PathEvent, What};
use crate::network::hosts::Departure;
use crate::network::offload::SuperPacket;
use crate::telemetry::ObservedEnd;

/// Packets handed to the emulator at once, because waking it costs more than writing one packet.
const BATCH_PACKETS: usize = 16;
/// How long packets wait before they are offered again to an emulator that had no room.
const TRY_AGAIN: Nanos = 1_000_000;

/// A flow with an end at this host.
pub(super) struct OwnFlow {
    /// Index of the flow in the experiment.
    pub(super) flow: usize,
    pub(super) id: String,
    pub(super) end: StreamEnd,
    pub(super) is_mptcp: bool,
}

/// Connections that this host opens.
pub(super) struct Opening {
    pub(super) own: Arc<OwnFlow>,
    pub(super) openings: Openings,
    pub(super) profile: Profile,
    /// The address pairs of the subflows to start with, that of the initial subflow first.
    pub(super) ways: Vec<FourTuple>,
}

/// Connections that this host accepts at a port.
pub(super) struct Acceptance {
    pub(super) own: Arc<OwnFlow>,
    pub(super) make_end: MakeEnd,
    pub(super) journal: Arc<dyn Journal>,
}

/// The state of the thread.
pub(crate) struct Host {
    id: String,
    /// Identifies a connection. The range differs from that of the kernel's sockets and of other
    /// hosts.
    next_cookie: u64,
    clock: Clock,
    driver: Driver<Session>,
    /// `None` for an opening with no connections left to open.
    openings: Vec<Option<Opening>>,
    /// When each opening opens its next connection.
    opens_at: BTreeSet<(Nanos, usize)>,
    acceptances: BTreeMap<u16, Acceptance>,
    outside: Outside,
    /// Its addresses that can neither send nor receive.
    unusable: BTreeSet<IpAddr>,
    outgoing: VecDeque<Outgoing>,
    /// The last packets of flows over links that take super-packets. Later packets may join them.
    gathered: Vec<SuperPacket>,
    /// The last reports of connections that are forgotten.
    gone: Vec<ObservedEnd>,
    path_events: Vec<PathEvent>,
    pub(super) is_over: bool,
}

/// The parts of which a host is made.
pub(super) struct Parts {
    pub(super) id: String,
    pub(super) index: usize,
    pub(super) endpoint: Endpoint,
    pub(super) openings: Vec<Opening>,
    pub(super) acceptances: BTreeMap<u16, Acceptance>,
    pub(super) outside: Outside,
    pub(super) unusable: BTreeSet<IpAddr>,
}

/// How packets leave a host.
pub(super) struct Outside {
    /// By source and destination.
    pub(super) departures: BTreeMap<(IpAddr, IpAddr), Departure>,
    pub(super) to_links: Arc<Mailbox<Outgoing>>,
    /// Whether super-packets may leave by each port.
    pub(super) takes_super_packets: Arc<[AtomicBool]>,
    /// Whether packets wait in this host for its links.
    pub(super) feels_links: bool,
}

impl Outside {
    /// Returns what identifies the packet when it leaves; `None` for packets without payload, which
    /// block nothing.
    fn awaited(&self, packet: &Packet) -> Option<Awaited> {
        let payload_bytes = packet.segment.payload.len();
        (self.feels_links && payload_bytes > 0).then(|| Awaited {
            four: FourTuple::of_sender_of(packet),
            payload_bytes,
        })
    }

    fn way_of(&self, packet: &Packet) -> Option<&Departure> {
        self.departures.get(&(packet.source, packet.destination))
    }
}

impl Departure {
    fn outgoing(&self, packet: &SuperPacket) -> Outgoing {
        Outgoing {
            port: self.port,
            bytes: packet.emit(&self.header),
            awaited: None,
        }
    }
}

impl Host {
    /// Creates the host. Its time 0 is that of the clock.
    pub(super) fn new(parts: Parts, clock: Clock) -> Self {
        let openings = parts.openings.iter().enumerate();
        let opens_at = openings.map(|(index, opening)| (opening.openings.next_at(), index));
        Self {
            next_cookie: (1 << 63) | (parts.index as u64) << 40,
            clock,
            opens_at: opens_at.collect(),
            id: parts.id,
            driver: Driver::new(parts.endpoint),
            openings: parts.openings.into_iter().map(Some).collect(),
            acceptances: parts.acceptances,
            outside: parts.outside,
            unusable: parts.unusable,
            outgoing: VecDeque::new(),
            gathered: Vec::new(),
            gone: Vec::new(),
            path_events: Vec::new(),
            is_over: false,
        }
    }

    /// Works until it is stopped.
    pub(super) fn run(&mut self, inbox: &Mailbox<Message>) {
        let mut messages = VecDeque::new();
        loop {
            inbox.take_into(&mut messages);
            for message in messages.drain(..) {
                match message {
                    Message::Packet(bytes) => self.receive(&bytes),
                    Message::Departed(packet) => self.departed(packet),
                    Message::Order(order) => order(self),
                }
            }
            self.do_what_is_due();
            self.outside.to_links.put_from(&mut self.outgoing);
            if self.is_over {
                return;
            }
            self.wait(inbox);
        }
    }

    /// Waits until something arrives or is due.
    fn wait(&self, inbox: &Mailbox<Message>) {
        let now = self.clock.now();
        let opening = self.opens_at.first().map(|(at, _)| *at);
        let retry = (!self.outgoing.is_empty()).then_some(now + TRY_AGAIN);
        let due = [opening, self.driver.poll_timeout(), retry];
        let timeout = due.into_iter().flatten().min().map(|at| {
            let left = at.saturating_sub(now);
            Timespec {
                tv_sec: (left / 1_000_000_000) as i64,
                tv_nsec: (left % 1_000_000_000) as _,
            }
        });
        let mut descriptors = [PollFd::new(inbox, PollFlags::IN)];
        // After an interrupted wait, nothing is due and the loop waits again.
        let _ = poll(&mut descriptors, timeout.as_ref());
    }

    fn receive(&mut self, bytes: &Arc<[u8]>) {
        let Ok((packet, _)) = Packet::parse(bytes) else {
            self.receive_error(bytes);
            return;
        };
        if self.unusable.contains(&packet.destination) {
            return;
        }
        let now = self.clock.now();
        self.driver.endpoint.handle_packet(now, &packet);
        self.answer(now);
    }

    /// Handles the departure of a packet, after which there may be room for others.
    fn departed(&mut self, packet: Awaited) {
        let now = self.clock.now();
        self.driver
            .endpoint
            .departed(packet.four, packet.payload_bytes);
        self.answer(now);
    }

    /// Handles an ICMP error about TCP. Malformed packets and other ICMP messages are ignored.
    fn receive_error(&mut self, bytes: &[u8]) {
        if let Ok(error) = IcmpError::parse(bytes) {
            let now = self.clock.now();
            self.driver.endpoint.handle_icmp_error(now, &error);
            self.answer(now);
        }
    }

    /// Sends what is ready and lets applications handle events, until nothing is left.
    fn answer(&mut self, now: Nanos) {
        loop {
            while let Some(packet) = self.next_packet(now) {
                self.send(packet);
            }
            self.send_gathered();
            match self.driver.poll_event() {
                Some(Event::Connection(id, event)) => self.handle_event(now, id, event),
                Some(Event::Forgotten(connection, mut session)) => {
                    self.gone.extend(session.report(&connection));
                }
                None => return,
            }
        }
    }

    /// Returns the next packet, or `None` while the emulator takes no more. Later packets wait in
    /// the engine.
    fn next_packet(&mut self, now: Nanos) -> Option<Packet> {
        if self.outgoing.len() >= BATCH_PACKETS {
            self.outside.to_links.put_from(&mut self.outgoing);
        }
        let has_room = self.outgoing.len() < BATCH_PACKETS;
        has_room
            .then(|| self.driver.endpoint.poll_transmit(now))
            .flatten()
    }

    /// Sends a packet. Packets without a route or from an unusable address are dropped.
    fn send(&mut self, packet: Packet) {
        if self.unusable.contains(&packet.source) {
            return;
        }
        let Some(way) = self.outside.way_of(&packet) else {
            return;
        };
        let mut flows = self.gathered.iter_mut();
        let place = flows.position(|gathered| gathered.is_of_flow(&packet));
        if let Some(place) = place {
            if self.gathered[place].append(&packet) {
                return;
            }
            let before = self.gathered.swap_remove(place);
            self.outgoing.push_back(way.outgoing(&before));
        }
        if self.outside.takes_super_packets[way.port].load(Ordering::Relaxed) {
            // Such a link takes packets at once, so no packet waits in the host for it.
            self.gathered.push(SuperPacket::of(packet));
            return;
        }
        let awaited = self.outside.awaited(&packet);
        self.outgoing.push_back(Outgoing {
            awaited,
            ..way.outgoing(&SuperPacket::of(packet))
        });
        if let Some(Awaited {
            four,
            payload_bytes,
        }) = awaited
        {
            self.driver.endpoint.waits_in_host(four, payload_bytes);
        }
    }

    /// Sends the gathered packets when no more can join them.
    fn send_gathered(&mut self) {
        for packet in self.gathered.drain(..) {
            let way = self.outside.way_of(packet.packet());
            self.outgoing.extend(way.map(|way| way.outgoing(&packet)));
        }
    }

    fn do_what_is_due(&mut self) {
        let now = self.clock.now();
        self.driver.handle_timeout(now);
        while let Some((at, index)) = self.opens_at.first().copied()
            && at <= now
        {
            self.opens_at.pop_first();
            self.open(now, index);
        }
        while let Some(id) = self.driver.poll_turn(now) {
            self.advance(now, id);
        }
        self.answer(now);
    }

    fn open(&mut self, now: Nanos, index: usize) {
        let Some(opening) = self.openings[index].take() else {
            return;
        };
        let (opened, left) = opening.openings.start(now);
        let Opened { end, journal } = opened;
        journal.record_connecting(now);
        let (first, others) = opening
            .ways
            .split_first()
            .expect("validated: a flow has a path");
        let made = self
            .driver
            .endpoint
            .connect_over(now, *first, others, &opening.profile);
        match made {
            Ok(id) => {
                let own = Arc::clone(&opening.own);
                self.add_session(id, Session::opened(own, end, journal));
            }
            Err(error) => journal.record_failure(error.to_string()),
        }
        if let Some(openings) = left {
            self.opens_at.insert((openings.next_at(), index));
            self.openings[index] = Some(Opening {
                openings,
                ..opening
            });
        }
    }

    fn handle_event(&mut self, now: Nanos, id: ConnectionId, event: connection::Event) {
        use connection::Event::{
            Closed, Connected, FellBack, Finished, Readable, SubflowClosed, SubflowEstablished,
            Writable,
        };
        match event {
            Connected { .. } => self.connected(now, id),
            FellBack => {}
            Readable | Writable | Finished => self.advance(now, id),
            SubflowEstablished { id: subflow, four } => {
                if let Some(session) = self.driver.get_mut(id) {
                    session.established.insert(subflow);
                }
                self.record(now, id, What::SubflowEstablished, Some(four), None);
            }
            SubflowClosed {
                id: subflow,
                four,
                counters,
                reason,
            } => {
                if let Some(session) = self.driver.get_mut(id) {
                    session.subflow_closed(subflow, four, *counters);
                }
                let why = (reason != CloseReason::Finished).then(|| why_closed(reason));
                self.record(now, id, What::SubflowClosed, Some(four), why);
            }
            Closed { reason } => self.closed(now, id, reason),
        }
    }

    /// Starts the applications of a connection that was established.
    fn connected(&mut self, now: Nanos, id: ConnectionId) {
        let Some(connection) = self.driver.endpoint.connection(id) else {
            return;
        };
        let initial = connection.initial();
        let first = connection.subflows().next().map(|subflow| subflow.id);
        if self.driver.get(id).is_none() && !self.accept(id, initial.local.port()) {
            self.driver.endpoint.command(id, Connection::abort);
            return;
        }
        let Some(session) = self.driver.get_mut(id) else {
            return;
        };
        session.established.extend(first);
        if session.opens {
            session.journal.record_established(now);
        }
        self.record(now, id, What::ConnectionCreated, Some(initial), None);
        self.advance(now, id);
    }

    /// Accepts a connection that another host opened. Returns whether a flow expects it.
    fn accept(&mut self, id: ConnectionId, port: u16) -> bool {
        self.driver.endpoint.accept(port);
        let Some(acceptance) = self.acceptances.get_mut(&port) else {
            return false;
        };
        let Some(end) = (acceptance.make_end)() else {
            return false;
        };
        let (own, journal) = (Arc::clone(&acceptance.own), Arc::clone(&acceptance.journal));
        self.add_session(id, Session::accepted(own, end, journal));
        true
    }

    fn add_session(&mut self, id: ConnectionId, mut session: Session) {
        session.cookie = self.next_cookie;
        self.next_cookie += 1;
        self.driver.insert(id, session);
    }

    /// Gives the application of a connection its turn.
    fn advance(&mut self, now: Nanos, id: ConnectionId) {
        let (clock, connection) = (self.clock, self.driver.endpoint.connection(id));
        if connection.is_some_and(Connection::is_connected) {
            self.driver.advance(id, |connection, session| {
                session.advance(now, clock, connection)
            });
        }
    }

    /// Handles the end of a connection. Its application has its last turn here or soon after.
    fn closed(&mut self, now: Nanos, id: ConnectionId, reason: CloseReason) {
        let Some(session) = self.driver.get(id) else {
            // No flow expected it.
            return;
        };
        if let Some(connection) = self.driver.endpoint.connection(id)
            && !connection.is_connected()
        {
            let FourTuple { local, remote } = connection.initial();
            let (source, why) = (local.ip(), why_closed(reason));
            let error = format!("connecting from {source} to {remote}: {why}");
            session.journal.record_failure(error);
        }
        self.advance(now, id);
        let why = (reason != CloseReason::Finished).then(|| why_closed(reason));
        self.record(now, id, What::ConnectionClosed, None, why);
        self.driver.release(id);
    }

    fn record(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        what: What,
        four: Option<FourTuple>,
        why: Option<&'static str>,
    ) {
        let (Some(connection), Some(session)) =
            (self.driver.endpoint.connection(id), self.driver.get(id))
        else {
            return;
        };
        if !session.own.is_mptcp {
            return;
        }
        let end = |end: fn(FourTuple) -> SocketAddr| four.map(|four| end(four).into());
        let note = Note {
            flow: Some(session.own.id.clone()),
            token: Some(connection.local_token()),
            local: end(|four| four.local),
            remote: end(|four| four.remote),
            why: why.map(str::to_owned),
            ..Note::new(what)
        };
        self.path_events.push(note.at(now, &self.id));
    }

    /// Returns the reports of all connections, including those forgotten since the last call, and
    /// the path events.
    pub(super) fn report(&mut self) -> Report {
        let mut ends = std::mem::take(&mut self.gone);
        let connections = self.driver.iter_mut();
        ends.extend(connections.filter_map(|(connection, session)| session.report(connection)));
        Report {
            ends,
            path_events: std::mem::take(&mut self.path_events),
        }
    }

    /// Carries out an action on an address of this host.
    pub(super) fn change(&mut self, change: &AddressChange) {
        let now = self.clock.now();
        if let Some(is_up) = change.is_usable() {
            let what = if is_up {
                What::AddressUp
            } else {
                What::AddressDown
            };
            for &address in change.addresses() {
                match is_up {
                    true => self.unusable.remove(&address),
                    false => self.unusable.insert(address),
                };
                let note = Note::new(what).local(address);
                self.path_events.push(note.at(now, &self.id));
            }
        }
        change.apply(now, &mut self.driver.endpoint);
        self.answer(now);
    }
}
