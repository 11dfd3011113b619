//! The thread of a host with the userspace stack: the engine, and the applications on its
//! connections.
//!
//! The thread acts when packets arrive, when a timer of its engine or an application is due, and on
//! order. It answers each packet before it reads the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mptcp::connection::Event;
use mptcp::endpoint::{ConnectionId, Endpoint, Profile};
use mptcp::pm::FourTuple;
use mptcp::subflow::CloseReason;
use mptcp::wire::{IcmpError, Packet};
use netlab::stack::{AddressChange, why_closed};
use netlab::time::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::session::{Session, Told};
use super::{Awaited, Message, Outgoing};
use crate::Clock;
use crate::hosts::Departure;
use crate::mailbox::Mailbox;
use crate::offload::SuperPacket;
use crate::path_manager::{Note, PathEvent, What};
use crate::telemetry::EngineEnd;
use crate::traffic::{Journal, MakeEnd, Opened, Openings, StreamEnd};

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

/// What a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Open(usize),
    Session(ConnectionId),
}

/// The state of the thread.
pub(crate) struct Host {
    id: String,
    /// Identifies a connection. The range differs from that of the kernel's sockets and of other
    /// hosts.
    next_cookie: u64,
    clock: Clock,
    endpoint: Endpoint,
    sessions: BTreeMap<ConnectionId, Session>,
    timers: BTreeSet<(Nanos, Timer)>,
    /// `None` for an opening with no connections left to open.
    openings: Vec<Option<Opening>>,
    acceptances: BTreeMap<u16, Acceptance>,
    outside: Outside,
    /// Its addresses that can neither send nor receive.
    unusable: BTreeSet<IpAddr>,
    outgoing: VecDeque<Outgoing>,
    /// The last packets of flows over links that take super-packets. Later packets may join them.
    gathered: Vec<SuperPacket>,
    /// The last reports of connections that are forgotten.
    gone: Vec<EngineEnd>,
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
        let timers =
            openings.map(|(index, opening)| (opening.openings.next_at(), Timer::Open(index)));
        Self {
            next_cookie: (1 << 63) | (parts.index as u64) << 40,
            clock,
            timers: timers.collect(),
            id: parts.id,
            endpoint: parts.endpoint,
            sessions: BTreeMap::new(),
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

    /// Works until it is told to end.
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
        let timer = self.timers.first().map(|(at, _)| *at);
        let retry = (!self.outgoing.is_empty()).then_some(now + TRY_AGAIN);
        let due = [timer, self.endpoint.poll_timeout(), retry];
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
        self.endpoint.handle_packet(now, &packet);
        self.answer(now);
    }

    /// Handles the departure of a packet, after which there may be room for others.
    fn departed(&mut self, packet: Awaited) {
        let now = self.clock.now();
        self.endpoint.departed(packet.four, packet.payload_bytes);
        self.answer(now);
    }

    /// Handles an ICMP error about TCP. Malformed packets and other ICMP messages are ignored.
    fn receive_error(&mut self, bytes: &[u8]) {
        if let Ok(error) = IcmpError::parse(bytes) {
            let now = self.clock.now();
            self.endpoint.handle_icmp_error(now, &error);
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
            let Some((id, event)) = self.endpoint.poll_event() else {
                return;
            };
            self.handle_event(now, id, event);
        }
    }

    /// Returns the next packet, or `None` while the emulator takes no more. Later packets wait in
    /// the engine.
    fn next_packet(&mut self, now: Nanos) -> Option<Packet> {
        if self.outgoing.len() >= BATCH_PACKETS {
            self.outside.to_links.put_from(&mut self.outgoing);
        }
        let has_room = self.outgoing.len() < BATCH_PACKETS;
        has_room.then(|| self.endpoint.poll_transmit(now)).flatten()
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
            if self.gathered[place].take_in(&packet) {
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
            self.endpoint.waits_in_host(four, payload_bytes);
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
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some((at, timer)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            match timer {
                Timer::Open(index) => self.open(now, index),
                Timer::Session(id) => {
                    if let Some(session) = self.sessions.get_mut(&id) {
                        session.wakes_at = None;
                    }
                    self.advance(now, id);
                }
            }
        }
        self.answer(now);
    }

    fn open(&mut self, now: Nanos, index: usize) {
        let Some(opening) = self.openings[index].take() else {
            return;
        };
        let (opened, left) = opening.openings.start(now);
        let Opened { end, journal } = opened;
        journal.note_connecting(now);
        let (first, others) = opening
            .ways
            .split_first()
            .expect("validated: a flow has a path");
        let made = self
            .endpoint
            .connect_over(now, *first, others, &opening.profile);
        match made {
            Ok(id) => {
                let own = Arc::clone(&opening.own);
                self.add_session(id, Session::opened(own, end, journal));
            }
            Err(error) => journal.note_failure(error.to_string()),
        }
        if let Some(openings) = left {
            self.timers.insert((openings.next_at(), Timer::Open(index)));
            self.openings[index] = Some(Opening {
                openings,
                ..opening
            });
        }
    }

    fn handle_event(&mut self, now: Nanos, id: ConnectionId, event: Event) {
        match event {
            Event::Connected { .. } => self.connected(now, id),
            Event::FellBack => {}
            Event::Readable | Event::Writable => self.advance(now, id),
            Event::Finished => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.progress.peer_has_ended = true;
                }
                self.advance(now, id);
            }
            Event::SubflowEstablished { id: subflow, four } => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.established.insert(subflow);
                }
                self.note(now, id, What::SubflowEstablished, Some(four), None);
            }
            Event::SubflowClosed {
                id: subflow,
                four,
                counters,
                reason,
            } => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.subflow_closed(subflow, four, *counters);
                }
                let why = (reason != CloseReason::Finished).then(|| why_closed(reason));
                self.note(now, id, What::SubflowClosed, Some(four), why);
                self.forget_if_over(id);
            }
            Event::Closed { reason } => self.closed(now, id, reason),
        }
    }

    /// Starts the applications of a connection that was established.
    fn connected(&mut self, now: Nanos, id: ConnectionId) {
        let Some(connection) = self.endpoint.connection(id) else {
            return;
        };
        let initial = connection.initial();
        let first = connection.subflows().next().map(|subflow| subflow.id);
        if !self.sessions.contains_key(&id) && !self.accept(id, initial.local.port()) {
            self.endpoint.command(id, |connection| connection.abort());
            return;
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.established.extend(first);
        session.is_connected = true;
        if session.opens {
            session.journal.note_established(now);
        }
        self.note(now, id, What::ConnectionCreated, Some(initial), None);
        self.advance(now, id);
    }

    /// Accepts a connection that another host opened. Returns whether a flow expects it.
    fn accept(&mut self, id: ConnectionId, port: u16) -> bool {
        self.endpoint.accept(port);
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
        self.sessions.insert(id, session);
    }

    /// Gives the application of a connection its turn.
    fn advance(&mut self, now: Nanos, id: ConnectionId) {
        let Some(session) = self
            .sessions
            .get_mut(&id)
            .filter(|session| session.is_connected)
        else {
            return;
        };
        let clock = self.clock;
        let wakes_at = self
            .endpoint
            .command(id, |connection| session.advance(now, clock, connection))
            .flatten();
        if wakes_at == session.wakes_at {
            return;
        }
        if let Some(old) = std::mem::replace(&mut session.wakes_at, wakes_at) {
            self.timers.remove(&(old, Timer::Session(id)));
        }
        self.timers
            .extend(wakes_at.map(|at| (at, Timer::Session(id))));
    }

    /// Handles the end of a connection. The connection stays until its last subflow is gone,
    /// because late segments may arrive.
    fn closed(&mut self, now: Nanos, id: ConnectionId, reason: CloseReason) {
        let Some(session) = self.sessions.get_mut(&id) else {
            // No flow expected it.
            self.endpoint.forget(id);
            return;
        };
        session.progress.closed = Some(reason);
        if !session.is_connected
            && let Some(connection) = self.endpoint.connection(id)
        {
            let FourTuple { local, remote } = connection.initial();
            let (source, why) = (local.ip(), why_closed(reason));
            let error = format!("connecting from {source} to {remote}: {why}");
            session.journal.note_failure(error);
        }
        self.advance(now, id);
        let why = (reason != CloseReason::Finished).then(|| why_closed(reason));
        self.note(now, id, What::ConnectionClosed, None, why);
        self.forget_if_over(id);
    }

    fn forget_if_over(&mut self, id: ConnectionId) {
        let is_closed = |session: &Session| session.progress.closed.is_some();
        if !self.sessions.get(&id).is_some_and(is_closed) {
            return;
        }
        let connection = self.endpoint.connection(id);
        if connection.is_none_or(|it| it.subflows().next().is_none()) {
            let told = self.told(id);
            self.gone.extend(told);
            if let Some(at) = self
                .sessions
                .remove(&id)
                .and_then(|session| session.wakes_at)
            {
                self.timers.remove(&(at, Timer::Session(id)));
            }
            self.endpoint.forget(id);
        }
    }

    fn note(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        what: What,
        four: Option<FourTuple>,
        why: Option<&'static str>,
    ) {
        let (Some(connection), Some(session)) =
            (self.endpoint.connection(id), self.sessions.get(&id))
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

    /// Returns the current report of a connection.
    fn told(&mut self, id: ConnectionId) -> Option<EngineEnd> {
        let connection = self.endpoint.connection(id)?;
        self.sessions.get_mut(&id)?.tell(connection)
    }

    /// Returns the reports of all connections, including those forgotten since the last call, and
    /// the path events.
    pub(super) fn tell(&mut self) -> Told {
        let mut ends = std::mem::take(&mut self.gone);
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        ends.extend(ids.into_iter().filter_map(|id| self.told(id)));
        Told {
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
        change.tell(now, &mut self.endpoint);
        self.answer(now);
    }
}
