//! Path managers: policies that decide which subflows a connection has.
//!
//! A policy receives the events of one connection and answers with commands. Both use the terms of
//! the Linux kernel's netlink family `mptcp_pm`. A policy reads no clock and uses no socket, so the
//! same policy drives the engine and, through netlink, the kernel. The driver must do the
//! following:
//!
//! 1. Create the policy together with the connection and report every event of the connection in
//!    order. Drop the policy when the connection closes.
//! 2. Execute commands in the given order. Answer [`Command::OpenSubflow`] with
//!    [`Event::OpenFailed`] if the subflow cannot be attempted, and otherwise with
//!    [`Event::SubflowEstablished`] or [`Event::SubflowClosed`].
//! 3. Merge changes of local addresses with one [`AddressChanges`] for all connections of a host,
//!    so that [`Event::AddressUp`] and [`Event::AddressDown`] arrive after the configured delay.
//! 4. Ask [`PathManager::local_id`] for the ID of a local address that the peer joins, if the
//!    driver assigns IDs. The kernel assigns IDs itself and reports them in
//!    [`Event::SubflowEstablished`].
//! 5. Call [`PathManager::handle_timeout`] at or after the time that [`PathManager::poll_timeout`]
//!    returns. This time can change with every call.
//!
//! When the peer withdraws an address, the stack itself closes the dead subflows to it (RFC 8684,
//! section 3.4.2).

mod address_changes;
mod address_ids;
mod binder;
mod full_mesh;
mod kernel_endpoints;
mod n_diff_ports;
mod passive;
mod retry;
mod sorted_map;
mod subflows;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::algorithm;
pub use crate::time::Nanos;
pub use crate::wire::AddressId;
use crate::wire::{IcmpError, Packet};
pub use address_changes::AddressChanges;
pub use binder::{Binder, Gateways, InvalidGateways, source_route_len};
pub use full_mesh::FullMesh;
pub use kernel_endpoints::{Endpoint, EndpointFlags, InvalidFlags, KernelEndpoints, Limits};
pub use n_diff_ports::NDiffPorts;
pub use passive::Passive;
pub use retry::{Recreation, Waits};

/// The role of the local host in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The host that sent the first SYN. Only this host opens subflows.
    Opener,
    /// The host that answered the first SYN.
    Acceptor,
}

/// The addresses and ports of a subflow, which identify the subflow on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourTuple {
    /// The local address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Returns the addresses and ports of `packet` as its receiver sees them.
    pub fn of_receiver(packet: &Packet) -> Self {
        Self {
            local: SocketAddr::new(packet.destination, packet.segment.destination_port),
            remote: SocketAddr::new(packet.source, packet.segment.source_port),
        }
    }

    /// Returns the addresses and ports of `packet` as its sender sees them.
    pub fn of_sender_of(packet: &Packet) -> Self {
        let Self { local, remote } = Self::of_receiver(packet);
        Self {
            local: remote,
            remote: local,
        }
    }

    /// Returns the addresses and ports of the packet that `error` reports, as its sender sees them.
    pub fn of_sender(error: &IcmpError) -> Self {
        Self {
            local: error.sender,
            remote: error.receiver,
        }
    }

    /// Returns the addresses without the ports.
    pub fn pair(&self) -> AddressPair {
        AddressPair {
            local: self.local.ip(),
            remote: self.remote.ip(),
        }
    }
}

/// A local and a remote address between which a subflow can exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPair {
    /// The local address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
}

/// The initial state of a connection, as its policy receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The role of the local host.
    pub role: Role,
    /// The initial subflow.
    pub initial: FourTuple,
    /// The address pairs that the network routes, in order of preference. Their address family can
    /// differ from that of the initial subflow.
    pub pairs: Arc<[AddressPair]>,
    /// Local addresses that are currently unusable.
    pub down: BTreeSet<IpAddr>,
    /// Local addresses whose subflows have backup priority.
    pub backup: BTreeSet<IpAddr>,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is fully established (RFC 8684, section 3.1). From now on, subflows can be
    /// opened and addresses announced.
    Established,
    /// The local address in the value is usable (again).
    AddressUp(IpAddr),
    /// The local address in the value, or its interface, is gone.
    AddressDown(IpAddr),
    /// The backup priority of all subflows from a local address changed.
    Backup {
        /// The local address.
        local: IpAddr,
        /// Whether its subflows have backup priority.
        on: bool,
    },
    /// The peer announced an address (ADD_ADDR).
    Announced {
        /// ID of the address.
        id: AddressId,
        /// The announced address.
        address: IpAddr,
        /// The port to connect to, if it differs from the port of the initial subflow.
        port: Option<u16>,
    },
    /// The peer withdrew an address (REMOVE_ADDR). Events about its dead subflows follow.
    Removed {
        /// ID of the withdrawn address.
        id: AddressId,
    },
    /// A further subflow is established. Either host may have opened it.
    SubflowEstablished {
        /// The subflow.
        subflow: FourTuple,
        /// ID of the subflow's local address.
        local_id: AddressId,
        /// ID of the subflow's remote address.
        remote_id: AddressId,
    },
    /// A subflow was closed, or could not be established.
    SubflowClosed {
        /// The subflow. It can be the initial one.
        subflow: FourTuple,
    },
    /// An address pair must not be retried while another pair works, unless the peer announces its
    /// address again.
    ///
    /// The handshake on the pair failed, or a reset gave a permanent reason (RFC 8684, sections 3.6
    /// and 3.9.3). [`Event::SubflowClosed`] follows. The kernel does not report this event.
    Unfit {
        /// The addresses of the subflow.
        pair: AddressPair,
    },
    /// The last subflow closed, but data was delivered in either direction since the connection was
    /// last without subflows. Policies forget earlier failures, because whatever closes the
    /// subflows does not block all traffic.
    ///
    /// [`Event::SubflowClosed`] follows. The kernel does not report this event.
    Progress,
    /// A [`Command::OpenSubflow`] was refused before a SYN was sent.
    OpenFailed {
        /// The addresses between which the subflow was to be opened.
        pair: AddressPair,
    },
}

/// A command of a policy to the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Announce a local address to the peer (ADD_ADDR).
    Announce {
        /// ID of the address.
        id: AddressId,
        /// The address to announce.
        address: IpAddr,
        /// The port on which the peer can join. `None` for the port of the initial subflow.
        port: Option<u16>,
    },
    /// Withdraw a local address (REMOVE_ADDR). Its subflows stay open.
    Remove {
        /// ID of the address.
        id: AddressId,
        /// The address to withdraw.
        address: IpAddr,
    },
    /// Open a subflow. The stack chooses the local port.
    OpenSubflow {
        /// The local address.
        local: IpAddr,
        /// ID of the local address.
        local_id: AddressId,
        /// The peer's address and port.
        remote: SocketAddr,
        /// Whether the subflow has backup priority (flag B of MP_JOIN).
        backup: bool,
        /// Routers that the subflow's packets must pass, in order (loose source route, RFC 791,
        /// section 3.1). Usually empty.
        via: Vec<Ipv4Addr>,
    },
    /// Close a subflow: with FIN if it works, otherwise with RST.
    CloseSubflow {
        /// The subflow.
        subflow: FourTuple,
    },
    /// Set or clear the backup priority of a subflow (MP_PRIO).
    SetBackup {
        /// The subflow.
        subflow: FourTuple,
        /// Whether the subflow gets backup priority.
        backup: bool,
    },
}

/// The path management policy of one connection.
pub trait PathManager: Debug + Send {
    /// Handles `event`, which happened at `now`. Appends the resulting commands to `commands`.
    fn handle(&mut self, now: Nanos, event: &Event, commands: &mut Vec<Command>);

    /// Returns the ID of the local address `_local`, to which the peer opens a subflow. If the
    /// policy assigns a new ID for it, the policy's later commands use this ID too. Returns `None`
    /// if the policy has no ID for the address; the stack then assigns one.
    fn local_id(&mut self, _local: SocketAddr) -> Option<AddressId> {
        None
    }

    /// Returns when to call [`PathManager::handle_timeout`] next, or `None` if no timeout is
    /// pending.
    fn poll_timeout(&self) -> Option<Nanos> {
        None
    }

    /// Handles the timeouts that are due at `_now`. Appends the resulting commands to `_commands`.
    fn handle_timeout(&mut self, _now: Nanos, _commands: &mut Vec<Command>) {}
}

/// Parameters of all path managers. Each path manager uses only its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Whether failed subflows are reopened. Used by `full_mesh` and `n_diff_ports`; the other path
    /// managers reopen nothing.
    pub recreation: Recreation,
    /// Number of subflows, including the initial one; 2 if `None`. Used by `n_diff_ports`.
    pub subflows: Option<u32>,
    /// The routers that the packets of each further subflow pass. Used by `binder`.
    pub gateways: Gateways,
    /// The endpoints of the host. If `None`, they follow from the address pairs of the connection.
    /// Used by `kernel_endpoints`.
    pub endpoints: Option<Vec<Endpoint>>,
    /// The limits of the host. Used by `kernel_endpoints`.
    pub limits: Limits,
}

/// A function that creates a path manager for one connection. It takes the initial state of the
/// connection and the [`Parameters`] of all path managers, and uses only those of its own.
pub type Constructor = fn(&Connection, &Parameters) -> Box<dyn PathManager>;

/// A row of [`PATH_MANAGERS`]: the description of a path manager and its constructor.
pub type Entry = algorithm::Entry<Parameters, Constructor>;

/// All path managers of the engine, with their descriptions and constructors.
pub const PATH_MANAGERS: &[Entry] = &[
    passive::ROW,
    full_mesh::ROW,
    n_diff_ports::ROW,
    binder::ROW,
    kernel_endpoints::ROW,
];

/// Returns the names of all path managers in the order of [`PATH_MANAGERS`], without their aliases.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    PATH_MANAGERS.iter().map(|one| one.description.name)
}

/// Returns the constructor of the path manager named `name`, or `None` if there is none. Aliases
/// are not accepted.
pub fn by_name(name: &str) -> Option<Constructor> {
    let mut path_managers = PATH_MANAGERS.iter();
    let found = path_managers.find(|entry| entry.description.name == name);
    found.map(|entry| entry.make)
}
