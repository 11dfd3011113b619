//! `kernel_endpoints`: models the in-kernel path manager of mainline Linux, as of 6.12 to 7.3, for
//! the engine.
//!
//! On the kernel back-end, the kernel manages paths itself. Interfaces and IP addresses are not
//! followed: a connection uses each endpoint once, whatever becomes of its subflow. Not modelled
//! are endpoints that change during a connection, a peer that forbids joins at its initial address
//! (flag C of MP_CAPABLE), and an acceptor that sends its next announcement only after the echo of
//! the last.

use super::Entry;
use crate::algorithm::{Description, External, Parameter, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::subflows::Subflows;
use super::{
    AddressId, AddressPair, Command, Connection, Event, FourTuple, Nanos, Parameters, PathManager,
    Role,
};

/// The largest limits that a kernel is known to accept: 7.2 and newer. Others accept fewer.
const MOST_FURTHER_SUBFLOWS: u32 = 64;

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "kernel_endpoints",
        aliases: &[],
        summary: "Opens the subflows that the in-kernel path manager would open with the same endpoints and limits",
        source: "Linux 6.12 to 7.3",
        parameters: &[
            Parameter {
                name: "endpoints",
                unit: "",
                meaning: "the endpoints of the host that each interface belongs to, in the order of `ip mptcp endpoint`",
                computed_default: Some(
                    "the interfaces of the flow's other paths: subflow on the side that opens the connection, signal on the other side",
                ),
                value: Value::External(External::Endpoints),
            },
            Parameter {
                name: "subflows",
                unit: "subflows",
                meaning: "the maximum number of additional subflows, as in `ip mptcp limits`",
                computed_default: None,
                value: Value::Integer {
                    least: 0,
                    most: MOST_FURTHER_SUBFLOWS,
                    get: |given| Some(given.limits.subflows as u32),
                    set: |given, value| given.limits.subflows = value as usize,
                },
            },
            Parameter {
                name: "add_addr_accepted",
                unit: "addresses",
                meaning: "the maximum number of announced addresses to connect to, as in `ip mptcp limits`",
                computed_default: None,
                value: Value::Integer {
                    least: 0,
                    most: MOST_FURTHER_SUBFLOWS,
                    get: |given| Some(given.limits.add_addr_accepted as u32),
                    set: |given, value| given.limits.add_addr_accepted = value as usize,
                },
            },
        ],
    },
    make: |connection, given| Box::new(KernelEndpoints::new(connection, given)),
};

/// Flags of an endpoint: the bits of the kernel's `MPTCP_PM_ADDR_FLAG_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointFlags(u32);

impl EndpointFlags {
    /// The endpoint is announced to peers.
    pub const SIGNAL: Self = Self(1 << 0);
    /// A subflow is opened from the endpoint to the peer's initial address.
    pub const SUBFLOW: Self = Self(1 << 1);
    /// Subflows of the endpoint have backup priority.
    pub const BACKUP: Self = Self(1 << 2);
    /// Subflows are opened from the endpoint to all addresses of the peer.
    pub const FULLMESH: Self = Self(1 << 3);
    /// The kernel itself created the endpoint, because a subflow used a source address without one.
    pub const IMPLICIT: Self = Self(1 << 4);
    /// A subflow is opened from the endpoint to one announced address of the peer.
    pub const LAMINAR: Self = Self(1 << 5);

    const NAMED: [(Self, &'static str); 6] = [
        (Self::SIGNAL, "signal"),
        (Self::SUBFLOW, "subflow"),
        (Self::BACKUP, "backup"),
        (Self::FULLMESH, "fullmesh"),
        (Self::IMPLICIT, "implicit"),
        (Self::LAMINAR, "laminar"),
    ];

    /// Returns each flag with its name.
    pub fn named() -> impl Iterator<Item = (Self, &'static str)> {
        Self::NAMED.into_iter()
    }

    /// Converts the kernel's `bits`, as an application may set them.
    ///
    /// # Errors
    /// Fails for unknown bits, for `implicit`, and for `fullmesh` together with `signal`, as the
    /// kernel does.
    pub fn from_bits(bits: u32) -> Result<Self, InvalidFlags> {
        let (flags, all) = (
            Self(bits),
            Self::NAMED.iter().map(|(flag, _)| flag.0).sum::<u32>(),
        );
        if bits & !all != 0 {
            return Err(InvalidFlags::Unknown(bits & !all));
        }
        if flags.has(Self::IMPLICIT) {
            return Err(InvalidFlags::Implicit);
        }
        if flags.has(Self::SIGNAL) && flags.has(Self::FULLMESH) {
            return Err(InvalidFlags::SignalFullmesh);
        }
        Ok(flags)
    }

    /// Returns the flags as the kernel's bits.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether all flags of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names of the flags that are set in `bits`, lowest bit first. Bits without a name
    /// are skipped.
    pub fn names_of(bits: u32) -> impl Iterator<Item = &'static str> {
        let named = Self::NAMED.into_iter();
        named.filter_map(move |(flag, name)| Self(bits).has(flag).then_some(name))
    }
}

impl std::ops::BitOr for EndpointFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Reasons why bits cannot be converted to [`EndpointFlags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidFlags {
    /// Unknown bits are set. The value contains only these.
    Unknown(u32),
    /// `implicit` is set, which only the kernel may do.
    Implicit,
    /// `signal` and `fullmesh` are both set.
    SignalFullmesh,
}

impl fmt::Display for InvalidFlags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(bits) => {
                write!(
                    formatter,
                    "endpoint flags {bits:#x} are unknown; known are bits 0 to 5"
                )
            }
            Self::Implicit => formatter.write_str("endpoint flag implicit is the kernel's own"),
            Self::SignalFullmesh => {
                formatter.write_str("endpoint flags signal and fullmesh exclude each other")
            }
        }
    }
}

impl std::error::Error for InvalidFlags {}

/// An endpoint of a host: an address that `kernel_endpoints` announces or opens subflows from. Its
/// ID is its position in the host's list of endpoints, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address of the endpoint.
    pub address: IpAddr,
    /// The port on which the endpoint accepts joins, if it differs from the port of the initial
    /// subflow. The kernel allows a port only with [`EndpointFlags::SIGNAL`] and without
    /// [`EndpointFlags::SUBFLOW`].
    pub port: Option<u16>,
    /// The flags of the endpoint.
    pub flags: EndpointFlags,
}

impl Endpoint {
    /// Returns whether `end` belongs to this endpoint. An endpoint with a port matches only that
    /// port.
    fn is_at(&self, end: SocketAddr) -> bool {
        self.address == end.ip() && self.port.is_none_or(|port| port == end.port())
    }
}

/// Limits of a host that apply to each of its connections (`ip mptcp limits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of subflows in addition to the initial one, opened by either host.
    pub subflows: usize,
    /// Maximum number of addresses announced by the peer to which subflows are opened.
    pub add_addr_accepted: usize,
}

impl Default for Limits {
    /// The largest values that all kernels allow. Their own defaults, 2 and 0, are too small for
    /// most experiments.
    fn default() -> Self {
        Self {
            subflows: 8,
            add_addr_accepted: 8,
        }
    }
}

/// The state of an endpoint in one connection.
#[derive(Clone, Copy, Debug)]
struct Local {
    id: AddressId,
    endpoint: Endpoint,
    /// Whether the endpoint was used for a subflow or an announcement.
    is_used: bool,
}

impl Local {
    fn has(&self, flag: EndpointFlags) -> bool {
        self.endpoint.flags.has(flag)
    }
}

/// The path manager `kernel_endpoints`: models the in-kernel path manager of Linux for one
/// connection.
#[derive(Clone, Debug)]
pub struct KernelEndpoints {
    role: Role,
    initial: FourTuple,
    pairs: Arc<[AddressPair]>,
    limits: Limits,
    locals: Vec<Local>,
    subflows: Subflows,
    /// Number of further subflows that are opening or established.
    further: usize,
    opening: BTreeSet<(IpAddr, SocketAddr)>,
    /// Announced addresses of the peer to which subflows were opened, by ID.
    accepted: BTreeMap<AddressId, IpAddr>,
}

impl KernelEndpoints {
    /// Creates the policy for the new connection `connection`. Uses only `endpoints` and `limits`
    /// of `parameters`.
    ///
    /// If no endpoints are given, each further local address in the connection's pairs becomes one:
    /// with `subflow` at the opener and `signal` at the acceptor. Subnets without a common link are
    /// then joined too.
    pub fn new(connection: &Connection, parameters: &Parameters) -> Self {
        let endpoints = parameters.endpoints.clone();
        let endpoints = endpoints.unwrap_or_else(|| endpoints_of(connection));
        let mut connection = connection.clone();
        let backup = endpoints
            .iter()
            .filter(|one| one.flags.has(EndpointFlags::BACKUP));
        connection.backup.extend(backup.map(|one| one.address));
        let locals = (1..).zip(endpoints).map(|(id, endpoint)| {
            let is_used = endpoint.is_at(connection.initial.local);
            Local {
                id: if is_used { 0 } else { id },
                endpoint,
                is_used,
            }
        });
        Self {
            role: connection.role,
            initial: connection.initial,
            limits: parameters.limits,
            locals: locals.collect(),
            subflows: Subflows::new(&connection),
            pairs: connection.pairs,
            further: 0,
            opening: BTreeSet::new(),
            accepted: BTreeMap::new(),
        }
    }

    fn established(&mut self, commands: &mut Vec<Command>) {
        let unused = self.locals.iter_mut().filter(|one| !one.is_used);
        for local in unused.filter(|one| one.has(EndpointFlags::SIGNAL)) {
            // An endpoint that also opens subflows is marked as used by the subflow.
            local.is_used = !local.has(EndpointFlags::SUBFLOW);
            let (id, Endpoint { address, port, .. }) = (local.id, local.endpoint);
            commands.push(Command::Announce { id, address, port });
        }
        self.open_next(commands);
    }

    /// Opens subflows from unused endpoints, as many as the limit allows.
    fn open_next(&mut self, commands: &mut Vec<Command>) {
        if self.role == Role::Acceptor {
            return;
        }
        for index in 0..self.locals.len() {
            let local = self.locals[index];
            let address = local.endpoint.address;
            let is_alike = address.is_ipv4() == self.initial.remote.is_ipv4();
            if local.is_used || !local.has(EndpointFlags::SUBFLOW) || !is_alike {
                continue;
            }
            if self.further >= self.limits.subflows {
                return;
            }
            self.locals[index].is_used = true;
            for remote in self.remotes_for(&local) {
                self.open(address, local.id, remote, commands);
            }
        }
    }

    /// Returns the peer's initial address; with `fullmesh`, all remote addresses that have
    /// subflows.
    fn remotes_for(&self, local: &Local) -> Vec<SocketAddr> {
        let mut remotes = vec![self.initial.remote];
        if local.has(EndpointFlags::FULLMESH) {
            let others = self.subflows.remotes();
            remotes.extend(others.filter(|remote| *remote != self.initial.remote));
        }
        remotes
    }

    fn open(
        &mut self,
        local: IpAddr,
        local_id: AddressId,
        remote: SocketAddr,
        commands: &mut Vec<Command>,
    ) {
        let pair = AddressPair {
            local,
            remote: remote.ip(),
        };
        if self.further < self.limits.subflows && self.may_reach(pair) {
            self.further += 1;
            self.opening.insert((local, remote));
            commands.push(Command::OpenSubflow {
                local,
                local_id,
                remote,
                backup: self.subflows.is_backup(local),
                via: Vec::new(),
            });
        }
    }

    /// Returns whether there may be a route: the pair is known, or no pair with this remote address
    /// is. The kernel also tries without a route, which fails at once with ENETUNREACH and does not
    /// count against the limit. Addresses of different families never reach each other.
    fn may_reach(&self, pair: AddressPair) -> bool {
        if pair.local.is_ipv4() != pair.remote.is_ipv4() {
            return false;
        }
        let mut to_there = self
            .pairs
            .iter()
            .filter(|known| known.remote == pair.remote);
        self.pairs.contains(&pair) || to_there.next().is_none()
    }

    /// Handles an announcement of the peer. Opens subflows to the address, unless it has one or a
    /// limit is reached.
    fn announced(
        &mut self,
        id: AddressId,
        address: IpAddr,
        port: Option<u16>,
        commands: &mut Vec<Command>,
    ) {
        let remote = SocketAddr::new(address, port.unwrap_or(self.initial.remote.port()));
        let is_full = self.accepted.len() >= self.limits.add_addr_accepted
            || self.further >= self.limits.subflows;
        if self.role == Role::Acceptor || self.is_connected_to(address, port) || is_full {
            return;
        }
        let before = self.further;
        for (local, local_id) in self.locals_for(address) {
            self.open(local, local_id, remote, commands);
        }
        if id != 0 && self.further > before {
            self.accepted.insert(id, address);
        }
    }

    /// Returns whether a subflow to `address` is established or opening. If `port` is given, only
    /// subflows to that port count.
    fn is_connected_to(&self, address: IpAddr, port: Option<u16>) -> bool {
        let opening = self.opening.iter().map(|(_, remote)| *remote);
        let mut ends = self.subflows.remotes().chain(opening);
        ends.any(|end| end.ip() == address && port.is_none_or(|port| port == end.port()))
    }

    /// Returns the source addresses for subflows to an announced address: all `fullmesh` endpoints,
    /// or the next `laminar` one, or, if there is no such endpoint, the address that routing
    /// chooses.
    fn locals_for(&mut self, remote: IpAddr) -> Vec<(IpAddr, AddressId)> {
        let any = |flag| self.locals.iter().any(|one| one.has(flag));
        let is_alike = |one: &Local| one.endpoint.address.is_ipv4() == remote.is_ipv4();
        if any(EndpointFlags::FULLMESH) {
            let meshed = self
                .locals
                .iter()
                .filter(|one| one.has(EndpointFlags::FULLMESH));
            let meshed = meshed.filter(|one| is_alike(one));
            return meshed.map(|one| (one.endpoint.address, one.id)).collect();
        }
        if any(EndpointFlags::LAMINAR) {
            let mut laminar = self
                .locals
                .iter_mut()
                .filter(|one| one.has(EndpointFlags::LAMINAR));
            let next = laminar.find(|one| !one.is_used && is_alike(one));
            return next.map_or(Vec::new(), |one| {
                one.is_used = true;
                vec![(one.endpoint.address, one.id)]
            });
        }
        vec![self.route_to(remote)]
    }

    /// Returns the source address that routing chooses, with its ID.
    fn route_to(&mut self, remote: IpAddr) -> (IpAddr, AddressId) {
        let routed = self.pairs.iter().find(|pair| pair.remote == remote);
        let address = routed.map_or(self.initial.local.ip(), |pair| pair.local);
        // Port 0 matches no endpoint that has a port, because outgoing subflows use other ports.
        (address, self.id_of(SocketAddr::new(address, 0)))
    }

    /// Returns the ID of `local`. An address without endpoint gets the next free ID, as an implicit
    /// endpoint.
    fn id_of(&mut self, local: SocketAddr) -> AddressId {
        if local.ip() == self.initial.local.ip() {
            return 0;
        }
        let known = self.locals.iter().find(|one| one.endpoint.is_at(local));
        let id = known.map(|one| one.id);
        id.unwrap_or_else(|| self.add_implicit(local.ip()))
    }

    fn add_implicit(&mut self, address: IpAddr) -> AddressId {
        // If the peer joins more addresses than there are IDs, no state is kept for the rest.
        let Ok(id) = AddressId::try_from(self.locals.len() + 1) else {
            return AddressId::MAX;
        };
        self.locals.push(Local {
            id,
            endpoint: Endpoint {
                address,
                port: None,
                flags: EndpointFlags::IMPLICIT,
            },
            is_used: true,
        });
        id
    }

    /// Counts an established subflow. The acceptor closes subflows beyond the limit.
    fn joined(&mut self, subflow: FourTuple, commands: &mut Vec<Command>) {
        self.opening.remove(&(subflow.local.ip(), subflow.remote));
        if self.role == Role::Acceptor {
            self.further += 1;
            if self.further > self.limits.subflows {
                commands.push(Command::CloseSubflow { subflow });
            }
        }
    }

    /// Uses the room for the next endpoint. The endpoint of the closed subflow is not used again.
    fn closed(&mut self, commands: &mut Vec<Command>) {
        self.further = self.further.saturating_sub(1);
        self.open_next(commands);
    }
}

fn endpoints_of(connection: &Connection) -> Vec<Endpoint> {
    let flags = match connection.role {
        Role::Opener => EndpointFlags::SUBFLOW,
        Role::Acceptor => EndpointFlags::SIGNAL,
    };
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for address in connection.pairs.iter().map(|pair| pair.local) {
        let is_known = endpoints.iter().any(|one| one.address == address);
        if address != connection.initial.local.ip() && !is_known {
            endpoints.push(Endpoint {
                address,
                port: None,
                flags,
            });
        }
    }
    endpoints
}

impl PathManager for KernelEndpoints {
    fn local_id(&mut self, local: SocketAddr) -> Option<AddressId> {
        Some(self.id_of(local))
    }

    fn handle(&mut self, _now: Nanos, event: &Event, commands: &mut Vec<Command>) {
        self.subflows.handle(event, commands);
        match *event {
            Event::Established => self.established(commands),
            Event::Announced { id, address, port } => {
                self.announced(id, address, port, commands);
            }
            Event::Removed { id } => {
                self.accepted.remove(&id);
            }
            Event::SubflowEstablished { subflow, .. } => self.joined(subflow, commands),
            Event::SubflowClosed { subflow } if subflow != self.initial => {
                self.opening.remove(&(subflow.local.ip(), subflow.remote));
                self.closed(commands);
            }
            Event::OpenFailed { pair } => {
                let is_other = |(local, remote): &(IpAddr, SocketAddr)| {
                    (*local, remote.ip()) != (pair.local, pair.remote)
                };
                self.opening.retain(is_other);
                self.closed(commands);
            }
            Event::SubflowClosed { .. }
            | Event::Unfit { .. }
            | Event::Progress
            | Event::AddressUp(_)
            | Event::AddressDown(_)
            | Event::Backup { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
