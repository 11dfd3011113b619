//! All connections of a host: delivers packets to connections, keeps listeners, and assigns ports.
//!
//! A packet belongs to the connection that has a subflow between its addresses and ports. Any other
//! packet is one of these:
//!
//! - A SYN with MP_JOIN. The token names the connection, whatever the port (RFC 8684, section 3.2).
//!   An unknown token is answered with a reset that carries MP_TCPRST, and no state is kept.
//! - Another SYN to a listening port ([`Endpoint::listen`]). It starts a connection, which
//!   [`Endpoint::accept`] returns once it is established. While [`Config::max_half_open`]
//!   connections of the listener are not yet established, the SYN is answered with a SYN cookie
//!   (RFC 4987, section 3.6): no state is kept, and the third packet creates the connection.
//! - Anything else. It is answered with a reset (RFC 9293, section 3.10.7.1).
//!
//! A connection is opened between one pair of addresses, or between one of several pairs that lead
//! to the same host ([`Endpoint::connect_over`]). The endpoint assigns local ports to the subflows
//! that a path manager requests: ports from 49152 up, or those of [`Endpoint::use_ports_from`].
//! Changes of local addresses are collected for [`NetworkView::change_delay`] and then reported to
//! all connections.
//!
//! To decide about an incoming connection yourself, hold its SYN back and later call
//! [`Endpoint::accept_syn`] or [`Endpoint::refuse_packet`].
//!
//! # The order of calls
//! 1. Report an input: [`Endpoint::handle_packet`], [`Endpoint::handle_timeout`],
//!    [`Endpoint::handle_address_change`] or [`Endpoint::command`].
//! 2. Call [`Endpoint::poll_transmit`] until it returns `None`.
//! 3. Call [`Endpoint::poll_event`] until it returns `None`.
//! 4. Call [`Endpoint::poll_timeout`].
//!
//! A packet or a timeout wakes only its own connection. Call [`Endpoint::forget`] after
//! [`Event::Closed`] to release the connection.

mod host_queue;
mod passive_open;
mod ports;
mod syn_cookies;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rand_core::Rng;

use passive_open::Listener;
use ports::Ports;
use syn_cookies::SynCookies;

use crate::connection::{Algorithms, Config, Connection, Event, keys};
use crate::payload::Payload;
use crate::pm::{self, AddressChanges, AddressPair, FourTuple, Role};
use crate::seq::SeqNr;
use crate::time::Nanos;
use crate::wire::{
    AddressId, Ecn, Flags, Hops, IcmpError, Join, Key, MptcpOption, Packet, ResetReason, Segment,
    TcpOptions, Token, Version,
};

/// Identifies a connection of an endpoint. An endpoint never reuses an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// A function that creates the congestion control, scheduler and path manager of a new connection
/// from what is known about the connection.
pub type MakeAlgorithms = Box<dyn Fn(&pm::Connection) -> Algorithms + Send>;

/// The configuration and algorithms with which an endpoint creates connections.
pub struct Profile {
    /// The parameters of the connections, shared by all that are created with this profile.
    pub config: Arc<Config>,
    /// The function that creates the congestion control, scheduler and path manager of each
    /// connection.
    pub algorithms: MakeAlgorithms,
}

/// Reasons why [`Endpoint::connect`] or [`Endpoint::connect_over`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The local address and the address of the peer are of different families: one is IPv4, the
    /// other IPv6.
    #[error("{local} and {remote} are of different address families")]
    Families {
        /// The local address.
        local: IpAddr,
        /// The address of the peer.
        remote: IpAddr,
    },
    /// A subflow between these addresses and ports exists already.
    #[error("there is a connection from {local} to {remote} already")]
    InUse {
        /// The local address and port.
        local: SocketAddr,
        /// The address and port of the peer.
        remote: SocketAddr,
    },
    /// Every local port that the endpoint may assign is in use between this local address and this
    /// peer.
    #[error("no port is free from {local} to {remote}")]
    NoFreePort {
        /// The local address.
        local: IpAddr,
        /// The address and port of the peer.
        remote: SocketAddr,
    },
}

/// Owns all connections and listeners of a host.
pub struct Endpoint {
    rng: Box<dyn Rng + Send>,
    connections: BTreeMap<ConnectionId, Slot>,
    by_ends: BTreeMap<Ends, ConnectionId>,
    by_token: BTreeMap<Token, ConnectionId>,
    listeners: BTreeMap<u16, Listener>,
    network: NetworkView,
    changes: AddressChanges,
    /// Connections that may have something to send.
    awake: VecDeque<ConnectionId>,
    deadlines: BTreeSet<(Nanos, ConnectionId)>,
    events: VecDeque<(ConnectionId, Event)>,
    /// Packets to send that belong to no connection: resets, and SYN/ACKs with cookies.
    replies: VecDeque<Packet>,
    /// Created when the first cookie is sent.
    syn_cookies: Option<SynCookies>,
    next_id: u64,
    ports: Ports,
    /// Minimum time in TIME-WAIT before a port is reused, if no port is free; see
    /// [`Endpoint::reuse_ports_after`].
    reuse_after: Option<Nanos>,
}

/// The addresses that the network offers to the connections of a host.
#[derive(Clone, Debug, Default)]
pub struct NetworkView {
    /// Address pairs between which packets can travel, in order of preference. All connections
    /// share the list.
    pub pairs: Arc<[AddressPair]>,
    /// Local addresses that are unusable when the endpoint is created. Later changes are reported
    /// with [`Endpoint::handle_address_change`].
    pub down: BTreeSet<IpAddr>,
    /// Local addresses whose subflows have backup priority.
    pub backup: BTreeSet<IpAddr>,
    /// How long address changes are collected before they are reported to the connections, in
    /// nanoseconds. The time starts with the first change.
    pub change_delay: Nanos,
}

/// The addresses and ports of a subflow, as a map key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends {
    /// The peer's port in the upper 16 bits, the local port in the lower 16 bits.
    ports: u32,
    remote: IpAddr,
    local: IpAddr,
}

impl Ends {
    fn new((remote, remote_port): (IpAddr, u16), (local, local_port): (IpAddr, u16)) -> Self {
        Self {
            ports: u32::from(remote_port) << 16 | u32::from(local_port),
            remote,
            local,
        }
    }

    /// Returns the key of a received packet, as its receiver sees it.
    fn of_receiver(packet: &Packet) -> Self {
        let segment = &packet.segment;
        Self::new(
            (packet.source, segment.source_port),
            (packet.destination, segment.destination_port),
        )
    }
}

impl From<FourTuple> for Ends {
    fn from(FourTuple { local, remote }: FourTuple) -> Self {
        Self::new((remote.ip(), remote.port()), (local.ip(), local.port()))
    }
}

impl Ord for Ends {
    /// Compares ports first because they differ most, so a search compares few addresses.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_ports = self.ports.cmp(&other.ports);
        by_ports.then_with(|| (self.remote, self.local).cmp(&(other.remote, other.local)))
    }
}

impl PartialOrd for Ends {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Slot {
    connection: Box<Connection>,
    ends: Vec<Ends>,
    /// The entry of this connection in `deadlines`: its next timeout, or an earlier time.
    deadline: Option<Nanos>,
    is_awake: bool,
    /// The listening port of a connection that [`Endpoint::accept`] has not returned yet.
    accepted_at: Option<u16>,
}

impl Slot {
    /// Enters the next timeout of the connection in `deadlines`.
    ///
    /// An entry that is earlier than the timeout stays as it is, because nearly every packet
    /// postpones the timeout. When the entry is reached, the current timeout is entered.
    fn record_deadline(
        &mut self,
        id: ConnectionId,
        deadlines: &mut BTreeSet<(Nanos, ConnectionId)>,
    ) {
        let noted = self.deadline;
        let next = self.connection.poll_timeout();
        let Some(at) = next.filter(|at| noted.is_none_or(|noted| *at < noted)) else {
            return;
        };
        self.deadline = Some(at);
        if let Some(noted) = noted {
            deadlines.remove(&(noted, id));
        }
        deadlines.insert((at, id));
    }
}

impl Endpoint {
    /// Creates an endpoint for a host that sees `network`. The endpoint draws keys, sequence
    /// numbers, nonces and the secret of SYN cookies from `rng`.
    pub fn new(network: NetworkView, rng: Box<dyn Rng + Send>) -> Self {
        Self {
            changes: AddressChanges::new(network.change_delay, network.down.clone()),
            rng,
            connections: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            by_token: BTreeMap::new(),
            listeners: BTreeMap::new(),
            network,
            awake: VecDeque::new(),
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            syn_cookies: None,
            next_id: 0,
            ports: Ports::default(),
            reuse_after: None,
        }
    }

    /// Opens a connection from `local` to `remote` at the time `now` and returns its ID. If the
    /// port of `local` is 0, the endpoint assigns a free port.
    ///
    /// # Errors
    /// Fails if the addresses are of different families, if a subflow between these addresses and
    /// ports exists already, or if no local port is free.
    pub fn connect(
        &mut self,
        now: Nanos,
        local: SocketAddr,
        remote: SocketAddr,
        profile: &Profile,
    ) -> Result<ConnectionId, ConnectError> {
        self.connect_over(now, FourTuple { local, remote }, &[], profile)
    }

    /// Opens a connection to a host that can be reached over several address pairs, and returns its
    /// ID.
    ///
    /// The first SYN is sent on `primary`. [`Config::start`] determines when `others` are tried.
    /// For each local port that is 0, the endpoint assigns a free port.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Endpoint::connect`], for any of the pairs.
    pub fn connect_over(
        &mut self,
        now: Nanos,
        primary: FourTuple,
        others: &[FourTuple],
        profile: &Profile,
    ) -> Result<ConnectionId, ConnectError> {
        let four = self.free_ends(now, primary)?;
        let mut ways = vec![four];
        for other in others {
            let FourTuple { local, remote } = self.free_ends(now, *other)?;
            let way = FourTuple { local, remote };
            if ways.contains(&way) {
                return Err(ConnectError::InUse { local, remote });
            }
            ways.push(way);
        }
        let key = self.free_key(profile.config.version);
        let algorithms = (profile.algorithms)(&self.seen_by(Role::Opener, four));
        let config = profile.config.clone();
        let connection = Connection::open(now, config, algorithms, four, key, self.rng.as_mut());
        let id = self.add(connection, four, None);
        for way in ways.into_iter().skip(1) {
            let path_manager = (profile.algorithms)(&self.seen_by(Role::Opener, way)).path_manager;
            self.with(id, |connection, rng| {
                connection.add_way(now, way, path_manager, rng);
            });
            self.record_ends(id, way);
        }
        Ok(id)
    }

    /// Returns `four` with a local port assigned, or an error if it cannot be used.
    fn free_ends(&mut self, now: Nanos, four: FourTuple) -> Result<FourTuple, ConnectError> {
        let FourTuple { local, remote } = four;
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(ConnectError::Families {
                local: local.ip(),
                remote: remote.ip(),
            });
        }
        let port = match local.port() {
            0 => self.free_port(now, local.ip(), remote)?,
            port => port,
        };
        let local = SocketAddr::new(local.ip(), port);
        let four = FourTuple { local, remote };
        if self.by_ends.contains_key(&four.into()) {
            return Err(ConnectError::InUse { local, remote });
        }
        Ok(four)
    }

    /// Draws a key whose token no other connection has (RFC 8684, section 3.1).
    fn free_key(&mut self, version: Version) -> Key {
        loop {
            let key = self.rng.next_u64();
            if !self.has_token(version, key) {
                return key;
            }
        }
    }

    /// Returns whether a connection has the token of `key`.
    fn has_token(&self, version: Version, key: Key) -> bool {
        self.by_token.contains_key(&keys::token(version, key))
    }

    fn free_port(
        &mut self,
        now: Nanos,
        local: IpAddr,
        remote: SocketAddr,
    ) -> Result<u16, ConnectError> {
        let ends = |port| {
            let local = SocketAddr::new(local, port);
            Ends::from(FourTuple { local, remote })
        };
        let (by_ends, connections) = (&self.by_ends, &self.connections);
        let is_free = |port| !by_ends.contains_key(&ends(port));
        let is_reusable = |port| {
            let id = by_ends.get(&ends(port));
            let slot = id.and_then(|id| connections.get(id));
            let waits = slot.and_then(|slot| slot.connection.time_wait_age(now));
            let (waits, enough) = (waits.unwrap_or(0), self.reuse_after.unwrap_or(Nanos::MAX));
            waits >= enough
        };
        let found = self.ports.next(is_free, is_reusable);
        let port = found.ok_or(ConnectError::NoFreePort { local, remote })?;
        if let Some(&old) = self.by_ends.get(&ends(port)) {
            self.with(old, |connection, _| connection.end_time_wait(now));
            self.collect_output(now, old);
        }
        Ok(port)
    }

    /// Allows a port to be reused after `time_wait` nanoseconds in TIME-WAIT, if no port towards a
    /// peer is free.
    ///
    /// A new connection then takes the port of a closed one whose subflows have all been in
    /// TIME-WAIT for at least `time_wait`. All of these subflows must use timestamps, which
    /// distinguish old segments from new ones (RFC 6191 does the same for the acceptor). Without
    /// this call, ports stay in use until TIME-WAIT has passed.
    pub fn reuse_ports_after(&mut self, time_wait: Nanos) {
        self.reuse_after = Some(time_wait);
    }

    /// Makes the endpoint assign the local ports that `more` returns, instead of those from 49152
    /// up.
    ///
    /// The endpoint calls `more` for the first connection, and whenever all ports returned so far
    /// are in use towards a peer. `more` returns further ports, or an empty vector if there are
    /// none.
    pub fn use_ports_from(&mut self, more: Box<dyn FnMut() -> Vec<u16> + Send>) {
        self.ports = Ports::from(more);
    }

    fn seen_by(&self, role: Role, initial: FourTuple) -> pm::Connection {
        pm::Connection {
            role,
            initial,
            pairs: Arc::clone(&self.network.pairs),
            down: self.changes.down().clone(),
            backup: self.network.backup.clone(),
        }
    }

    fn add(
        &mut self,
        connection: Connection,
        four: FourTuple,
        accepted_at: Option<u16>,
    ) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.by_token.insert(connection.local_token(), id);
        self.by_ends.insert(four.into(), id);
        let slot = Slot {
            connection: Box::new(connection),
            ends: vec![four.into()],
            deadline: None,
            is_awake: true,
            accepted_at,
        };
        self.connections.insert(id, slot);
        self.awake.push_back(id);
        id
    }

    /// Processes `packet`, which arrived from the network at `now`. Delivers it to its connection,
    /// or answers it as described for this [module](self).
    pub fn handle_packet(&mut self, now: Nanos, packet: &Packet) {
        if let Some(&id) = self.by_ends.get(&Ends::of_receiver(packet)) {
            self.with(id, |connection, _| connection.handle_packet(now, packet));
            return;
        }
        let segment = &packet.segment;
        let four = FourTuple::of_receiver(packet);
        if segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK) {
            self.handle_syn(now, four, segment);
        } else if !self.resume_handshake(now, four, packet) {
            self.refuse(four, segment, None);
        }
    }

    /// Processes an ICMP error, which arrived at `now`, about a packet that this host sent. Ignores
    /// errors about packets of unknown connections.
    pub fn handle_icmp_error(&mut self, now: Nanos, error: &IcmpError) {
        if let Some(id) = self.connection_between(FourTuple::of_sender(error)) {
            self.with(id, |connection, _| connection.handle_icmp_error(now, error));
        }
    }

    fn handle_syn(&mut self, now: Nanos, four: FourTuple, syn: &Segment) {
        match join_token(syn) {
            Some(token) => self.handle_join(now, four, syn, token),
            None if self.listeners.contains_key(&four.local.port()) => {
                self.open_passively(now, four, syn)
            }
            None => self.refuse(four, syn, None),
        }
    }

    /// Answers a SYN with MP_JOIN. For an unknown token no state is kept (RFC 8684, section 3.2).
    fn handle_join(&mut self, now: Nanos, four: FourTuple, syn: &Segment, token: Token) {
        let id = self.by_token.get(&token).copied();
        let mut refused = Some(ResetReason::MPTCP_ERROR);
        if let Some(id) = id {
            let local_id = self.address_id(four.local.ip());
            self.with(id, |connection, rng| {
                refused = connection.accept_join(now, four, local_id, syn, rng).err();
            });
            self.record_ends(id, four);
        }
        if refused.is_some() {
            self.refuse(four, syn, refused);
        }
    }

    /// Returns the address ID of `address`: its position among the local addresses of the pairs,
    /// from 1. It is the same in all connections. Returns 0 for an unknown address.
    fn address_id(&self, address: IpAddr) -> AddressId {
        let mut known = Vec::new();
        for pair in self.network.pairs.iter() {
            if !known.contains(&pair.local) {
                known.push(pair.local);
            }
        }
        let place = known.iter().position(|local| *local == address);
        place.map_or(0, |place| AddressId::try_from(place + 1).unwrap_or(0))
    }

    /// Queues a reset in answer to `packet`, as if its port were closed (RFC 9293, section
    /// 3.10.7.1). A packet that is a reset itself gets no answer.
    pub fn refuse_packet(&mut self, packet: &Packet) {
        self.refuse(FourTuple::of_receiver(packet), &packet.segment, None);
    }

    /// Answers a segment that belongs to no connection with a reset, unless it is a reset itself
    /// (RFC 9293, section 3.10.7.1). `code` is the reason in its MP_TCPRST option.
    fn refuse(&mut self, four: FourTuple, segment: &Segment, code: Option<u8>) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        let has_ack = segment.flags.contains(Flags::ACK);
        let (seq, ack, flags) = match has_ack {
            true => (segment.ack, SeqNr(0), Flags::RST),
            false => (SeqNr(0), segment.end(), Flags::RST | Flags::ACK),
        };
        let mut options = TcpOptions::default();
        options
            .mptcp
            .extend(code.map(|code| MptcpOption::Reset(ResetReason::of(code))));
        self.replies.push_back(Packet {
            source: four.local.ip(),
            destination: four.remote.ip(),
            ecn: Ecn::NotCapable,
            via: Hops::default(),
            segment: Segment {
                source_port: four.local.port(),
                destination_port: four.remote.port(),
                seq,
                ack,
                flags,
                window: 0,
                options,
                payload: Payload::EMPTY,
            },
        });
    }

    /// Processes all timeouts that are due at `now`, and reports collected address changes to the
    /// connections if their delay is over.
    pub fn handle_timeout(&mut self, now: Nanos) {
        for (address, is_up) in self.changes.take(now) {
            self.notify_all(
                now,
                &match is_up {
                    true => pm::Event::AddressUp(address),
                    false => pm::Event::AddressDown(address),
                },
            );
        }
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            self.reach_deadline(now, id);
        }
    }

    /// Processes an entry of `deadlines` that is due. The connection may have postponed its timeout
    /// since.
    fn reach_deadline(&mut self, now: Nanos, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(&id) else {
            return;
        };
        slot.deadline = None;
        if slot.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.with(id, |connection, _| connection.handle_timeout(now));
        } else {
            slot.record_deadline(id, &mut self.deadlines);
        }
    }

    /// Records that the local `address` became usable (`is_up`) or unusable at `now`.
    ///
    /// The change is collected for [`NetworkView::change_delay`]. A later call to
    /// [`Endpoint::handle_timeout`] reports it to the connections.
    pub fn handle_address_change(&mut self, now: Nanos, address: IpAddr, is_up: bool) {
        self.changes.observe(now, address, is_up);
    }

    /// Sets (`on`) or clears the backup priority of the local address `local`. Reports the change
    /// to the path managers of all connections, and applies it to connections that are opened
    /// later.
    pub fn set_backup(&mut self, now: Nanos, local: IpAddr, on: bool) {
        match on {
            true => self.network.backup.insert(local),
            false => self.network.backup.remove(&local),
        };
        self.notify_all(now, &pm::Event::Backup { local, on });
    }

    fn notify_all(&mut self, now: Nanos, event: &pm::Event) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            self.with(id, |connection, _| {
                connection.handle_address_event(now, event)
            });
        }
    }

    /// Returns a reference to the connection `id`, or `None` if there is none. To change the
    /// connection, use [`Endpoint::command`].
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections
            .get(&id)
            .map(|slot| slot.connection.as_ref())
    }

    /// Returns the ID of the connection that has a subflow between the addresses and ports `four`,
    /// or `None` if there is none.
    pub fn connection_between(&self, four: FourTuple) -> Option<ConnectionId> {
        self.by_ends.get(&four.into()).copied()
    }

    /// Runs `command` on the connection `id` and returns its result, or `None` if the connection is
    /// unknown.
    ///
    /// Poll packets and events afterwards, because the command can produce both.
    pub fn command<T>(
        &mut self,
        id: ConnectionId,
        command: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        let mut answer = None;
        self.with(id, |connection, _| answer = Some(command(connection)));
        answer
    }

    /// Removes the connection `id` at once and returns it, or `None` if it is unknown. Later
    /// packets for it are answered with resets. Events that are already queued are still returned
    /// by [`Endpoint::poll_event`].
    pub fn forget(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        let slot = self.connections.remove(&id)?;
        for ends in &slot.ends {
            self.by_ends.remove(ends);
        }
        self.by_token.remove(&slot.connection.local_token());
        if let Some(deadline) = slot.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(listener) = slot
            .accepted_at
            .and_then(|port| self.listeners.get_mut(&port))
        {
            listener.half_open.remove(&id);
            listener.ready.retain(|other| *other != id);
        }
        Some(slot.connection)
    }

    fn with(&mut self, id: ConnectionId, action: impl FnOnce(&mut Connection, &mut dyn Rng)) {
        let Some(slot) = self.connections.get_mut(&id) else {
            return;
        };
        action(&mut slot.connection, self.rng.as_mut());
        if !std::mem::replace(&mut slot.is_awake, true) {
            self.awake.push_back(id);
        }
    }

    /// Returns the next packet to send at `now`, or `None` if no connection can send one. Poll
    /// until `None`, because the events of a connection become available to
    /// [`Endpoint::poll_event`] when it has nothing more to send.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        while let Some(&id) = self.awake.front() {
            if let Some(slot) = self.connections.get_mut(&id) {
                let packet = slot.connection.poll_transmit(now);
                if packet.is_some() {
                    return packet;
                }
            }
            self.awake.pop_front();
            self.collect_output(now, id);
        }
        None
    }

    /// Collects the events, timeout, ends and join requests of a connection that has nothing more
    /// to send.
    fn collect_output(&mut self, now: Nanos, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(&id) else {
            return;
        };
        slot.is_awake = false;
        let is_half_open = |port| {
            let listener = self.listeners.get(&port);
            listener.is_none_or(|listener| listener.half_open.contains(&id))
        };
        if slot.connection.closed().is_some() && slot.accepted_at.is_some_and(is_half_open) {
            self.forget(id);
            return;
        }
        while let Some(event) = slot.connection.poll_event() {
            if let (Event::Connected { .. }, Some(port)) = (&event, slot.accepted_at)
                && let Some(listener) = self.listeners.get_mut(&port)
            {
                listener.half_open.remove(&id);
                listener.ready.push_back(id);
            }
            self.events.push_back((id, event));
        }
        if slot.ends.len() > slot.connection.ends().count() {
            let is_gone =
                |ends: &mut Ends| !slot.connection.ends().any(|it| Ends::from(it) == *ends);
            for ends in slot.ends.extract_if(.., is_gone) {
                self.by_ends.remove(&ends);
            }
        }
        slot.record_deadline(id, &mut self.deadlines);
        let requests: Vec<_> = std::iter::from_fn(|| slot.connection.poll_join()).collect();
        for request in requests {
            self.join(now, id, &request);
        }
    }

    fn join(&mut self, now: Nanos, id: ConnectionId, request: &crate::connection::JoinRequest) {
        match self.free_port(now, request.local, request.remote) {
            Ok(port) => {
                self.with(id, |connection, rng| {
                    connection.join(now, request, port, rng)
                });
                self.record_ends(id, request.four(port));
            }
            Err(_) => self.with(id, |connection, _| connection.refuse_join(now, request)),
        }
    }

    fn record_ends(&mut self, id: ConnectionId, four: FourTuple) {
        let Some(slot) = self.connections.get_mut(&id) else {
            return;
        };
        let is_there = slot.connection.ends().any(|end| end == four);
        if is_there && self.by_ends.insert(four.into(), id).is_none() {
            slot.ends.reserve_exact(1);
            slot.ends.push(four.into());
        }
    }

    /// Returns the next event with the ID of its connection, or `None` if there is none.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        self.events.pop_front()
    }

    /// Returns the time of the next call to [`Endpoint::handle_timeout`], or `None` if no timer
    /// runs. The time may be too early, because a connection can postpone its timeout; the call
    /// then changes nothing.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let first = self.deadlines.first().map(|(at, _)| *at);
        first.into_iter().chain(self.changes.poll_timeout()).min()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Endpoint")
            .field("connections", &self.connections.len())
            .field("listeners", &self.listeners.keys())
            .finish_non_exhaustive()
    }
}

fn join_token(syn: &Segment) -> Option<Token> {
    syn.options.mptcp.iter().find_map(|option| match option {
        MptcpOption::Join(Join::Syn { token, .. }) => Some(*token),
        _ => None,
    })
}
