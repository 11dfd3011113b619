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

/// The addresses and ports of a subflow. They identify it on its host.
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

/// A local and a remote address that packets can travel between.
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
    /// A local address is usable (again).
    AddressUp(IpAddr),
    /// A local address or its interface is gone.
    AddressDown(IpAddr),
    /// The backup priority of the subflows of a local address changed.
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
        /// ID of the address.
        id: AddressId,
    },
    /// A further subflow is established. Either host may have opened it.
    SubflowEstablished {
        /// The subflow.
        subflow: FourTuple,
        /// ID of its local address.
        local_id: AddressId,
        /// ID of its remote address.
        remote_id: AddressId,
    },
    /// A subflow was closed, or could not be established.
    SubflowClosed {
        /// The subflow. It can be the initial one.
        subflow: FourTuple,
    },
    /// A pair must not be retried while another pair works, unless the peer announces its address
    /// again.
    ///
    /// Its handshake failed, or a reset gave a permanent reason (RFC 8684, sections 3.6 and 3.9.3).
    /// [`Event::SubflowClosed`] follows. The kernel does not report this event.
    Unfit {
        /// The addresses of the subflow.
        pair: AddressPair,
    },
    /// The last subflow closed, but data was delivered in either direction since the connection was
    /// last without subflows. Whatever closes subflows thus does not block all traffic.
    ///
    /// [`Event::SubflowClosed`] follows. The kernel does not report this event.
    Progress,
    /// A command to open a subflow was refused before a SYN was sent.
    OpenFailed {
        /// The addresses of the subflow.
        pair: AddressPair,
    },
}

/// A command to the stack.
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
    /// Open a subflow from a port that the stack chooses.
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
    /// Handles an event. Appends the resulting commands to `commands`.
    fn handle(&mut self, now: Nanos, event: &Event, commands: &mut Vec<Command>);

    /// Returns the ID of the local address `local` that the peer joins, as used in commands. `None`
    /// if the policy does not assign IDs; the stack then assigns one.
    fn local_id(&mut self, _local: SocketAddr) -> Option<AddressId> {
        None
    }

    /// Returns when to call [`PathManager::handle_timeout`] next, or `None` if no timeout is
    /// pending.
    fn poll_timeout(&self) -> Option<Nanos> {
        None
    }

    /// Handles timeouts that are due at `now`. Appends the resulting commands to `commands`.
    fn handle_timeout(&mut self, _now: Nanos, _commands: &mut Vec<Command>) {}
}

/// Parameters of path managers, as given in a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// `full_mesh` and `n_diff_ports`: whether failed subflows are reopened. The other policies
    /// reopen nothing.
    pub recreation: Recreation,
    /// `n_diff_ports`: number of subflows, including the initial one.
    pub subflows: Option<u32>,
    /// `binder`: the routers that each further subflow passes.
    pub gateways: Gateways,
    /// `kernel_endpoints`: the host's endpoints. If `None`, endpoints follow from the connection's
    /// pairs.
    pub endpoints: Option<Vec<Endpoint>>,
    /// `kernel_endpoints`: the host's limits.
    pub limits: Limits,
}

/// Creates a policy for a connection.
pub type Constructor = fn(&Connection, &Parameters) -> Box<dyn PathManager>;

/// The row of a path manager.
pub type Entry = algorithm::Entry<Parameters, Constructor>;

/// All path managers.
pub const PATH_MANAGERS: &[Entry] = &[
    passive::ROW,
    full_mesh::ROW,
    n_diff_ports::ROW,
    binder::ROW,
    kernel_endpoints::ROW,
];

/// Returns the names of all path managers.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    PATH_MANAGERS.iter().map(|one| one.description.name)
}

/// Returns the constructor of the path manager named `name`.
pub fn by_name(name: &str) -> Option<Constructor> {
    let mut path_managers = PATH_MANAGERS.iter();
    let found = path_managers.find(|entry| entry.description.name == name);
    found.map(|entry| entry.make)
}
