//! Path managers: which subflows a connection has.
//!
//! A policy is told what happens to one connection and answers with commands, both in the words of the Linux kernel's
//! netlink family `mptcp_pm`. It reads no clock and touches no socket, so the same policy drives the protocol engine and,
//! through netlink, the kernel. Whoever drives it keeps five promises:
//!
//! 1. It makes the policy when the connection is created, and hands it every event of that connection in order, the last
//!    being the drop of the policy when the connection closes.
//! 2. It carries out commands in the order given. A subflow that cannot even be tried is answered by
//!    [`Event::OpenFailed`]; one that was tried, by [`Event::SubflowEstablished`] or [`Event::SubflowClosed`].
//! 3. It merges the changes of local addresses with [`AddressChanges`], one for all connections of a host, so that
//!    [`Event::AddressUp`] and [`Event::AddressDown`] come after the delay that the host's behaviour says.
//! 4. When the peer joins a local address, it asks for the ID of that ([`PathManager::local_id`]), if it is who gives IDs: the
//!    kernel does so itself, and says which in [`Event::SubflowEstablished`].
//! 5. It calls [`PathManager::handle_timeout`] at or after the instant that [`PathManager::poll_timeout`] names, which may
//!    change with every call.
//!
//! When the peer removes an address, the stack itself closes the subflows to it that are dead (RFC 8684, section 3.4.2).

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

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sent the first SYN; only this side opens subflows.
    Opener,
    /// It listened.
    Acceptor,
}

/// Both ends of a subflow; it identifies the subflow on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourTuple {
    /// This side's address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Those of a packet, as its receiver sees them.
    pub fn of_receiver(packet: &Packet) -> Self {
        Self {
            local: SocketAddr::new(packet.destination, packet.segment.destination_port),
            remote: SocketAddr::new(packet.source, packet.segment.source_port),
        }
    }

    /// Those of a packet, as its sender sees them.
    pub fn of_sender_of(packet: &Packet) -> Self {
        let Self { local, remote } = Self::of_receiver(packet);
        Self {
            local: remote,
            remote: local,
        }
    }

    /// Those of a packet that met with an error, as its sender sees them.
    pub fn of_sender(error: &IcmpError) -> Self {
        Self {
            local: error.sender,
            remote: error.receiver,
        }
    }

    /// Its addresses without the ports.
    pub fn pair(&self) -> AddressPair {
        AddressPair {
            local: self.local.ip(),
            remote: self.remote.ip(),
        }
    }
}

/// A local address and a remote one between which packets can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPair {
    /// This side's address.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
}

/// What a policy knows of its connection from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Which side this is.
    pub role: Role,
    /// The initial subflow.
    pub initial: FourTuple,
    /// The pairs that the network routes for this connection, in order of preference. The address family may be another one
    /// than that of the initial subflow.
    pub pairs: Arc<[AddressPair]>,
    /// Local addresses that are not usable now.
    pub down: BTreeSet<IpAddr>,
    /// Local addresses whose subflows are backup ones.
    pub backup: BTreeSet<IpAddr>,
}

/// What happens to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is fully established (RFC 8684, section 3.1): from now on subflows can be opened and addresses announced.
    Established,
    /// A local address is usable (again).
    AddressUp(IpAddr),
    /// A local address, or its interface, is gone.
    AddressDown(IpAddr),
    /// The subflows of a local address are to be backup ones from now on, or regular ones again.
    Backup {
        /// The address.
        local: IpAddr,
        /// Whether they are backup.
        on: bool,
    },
    /// The peer announced an address (ADD_ADDR).
    Announced {
        /// Its ID.
        id: AddressId,
        /// The address.
        address: IpAddr,
        /// The port to connect to, if not that of the initial subflow.
        port: Option<u16>,
    },
    /// The peer removed an address (REMOVE_ADDR). Events about those of its subflows that are dead follow.
    Removed {
        /// Its ID.
        id: AddressId,
    },
    /// A further subflow is established, whoever opened it.
    SubflowEstablished {
        /// Which.
        subflow: FourTuple,
        /// ID of its local address.
        local_id: AddressId,
        /// ID of its remote address.
        remote_id: AddressId,
    },
    /// A subflow is closed, or could not be established.
    SubflowClosed {
        /// Which; it may be the initial one.
        subflow: FourTuple,
    },
    /// A pair is not to be tried again for as long as there is another way, unless the peer announces its address anew: a
    /// handshake failed, or a reset says that its reason stays (RFC 8684, sections 3.6 and 3.9.3). That the subflow is closed
    /// follows. The kernel does not tell it.
    Unfit {
        /// Between which addresses.
        pair: AddressPair,
    },
    /// The last subflow is closed, and data have got through, either way, since it was the last time: what closes subflows
    /// lets some through. That the subflow is closed follows. The kernel does not tell it.
    Progress,
    /// A command to open a subflow was refused at once.
    OpenFailed {
        /// Between which addresses.
        pair: AddressPair,
    },
}

/// What the stack is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Tell the peer of a local address (ADD_ADDR).
    Announce {
        /// The ID it gets.
        id: AddressId,
        /// The address.
        address: IpAddr,
        /// The port that the peer is to join at; without, that of the initial subflow.
        port: Option<u16>,
    },
    /// Tell the peer that a local address is gone (REMOVE_ADDR); subflows stay.
    Remove {
        /// Its ID.
        id: AddressId,
        /// The address.
        address: IpAddr,
    },
    /// Open a subflow, from a port that the stack chooses.
    OpenSubflow {
        /// From which address.
        local: IpAddr,
        /// Its ID.
        local_id: AddressId,
        /// Where to.
        remote: SocketAddr,
        /// Whether it is a backup one (flag B of MP_JOIN).
        backup: bool,
        /// Routers that its packets pass, in order (loose source route, RFC 791, section 3.1); mostly none.
        via: Vec<Ipv4Addr>,
    },
    /// Close a subflow: by FIN if it works, else by RST.
    CloseSubflow {
        /// Which.
        subflow: FourTuple,
    },
    /// Make a subflow a backup one, or a regular one again (MP_PRIO).
    SetBackup {
        /// Which.
        subflow: FourTuple,
        /// Whether it is to be a backup one.
        backup: bool,
    },
}

/// The policy for one connection.
pub trait PathManager: Debug + Send {
    /// Takes an event and appends what is to be done to `commands`.
    fn handle(&mut self, now: Nanos, event: &Event, commands: &mut Vec<Command>);

    /// The ID of a local address that the peer joins at that port, the one it has in commands; none from a policy that numbers no
    /// addresses. Then the stack gives one.
    fn local_id(&mut self, _local: SocketAddr) -> Option<AddressId> {
        None
    }

    /// When [`PathManager::handle_timeout`] is to be called next, if ever.
    fn poll_timeout(&self) -> Option<Nanos> {
        None
    }

    /// What was to wait until now.
    fn handle_timeout(&mut self, _now: Nanos, _commands: &mut Vec<Command>) {}
}

/// Parameters that a description can give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// `full_mesh` and `n_diff_ports`: what becomes of subflows that failed; the others open nothing again.
    pub recreation: Recreation,
    /// `n_diff_ports`: subflows in all, the initial one included.
    pub subflows: Option<u32>,
    /// `binder`: the routers that each further subflow passes.
    pub gateways: Gateways,
    /// `kernel_endpoints`: the host's endpoints; without them those that the connection's pairs ask for.
    pub endpoints: Option<Vec<Endpoint>>,
    /// `kernel_endpoints`: the host's limits.
    pub limits: Limits,
}

/// Makes a policy for a connection.
pub type Constructor = fn(&Connection, &Parameters) -> Box<dyn PathManager>;

/// All policies, by name.
pub const PATH_MANAGERS: &[(&str, Constructor)] = &[
    ("passive", |connection, _| {
        Box::new(Passive::new(connection))
    }),
    ("full_mesh", |connection, parameters| {
        Box::new(FullMesh::new(connection, parameters.recreation))
    }),
    ("n_diff_ports", |connection, parameters| {
        Box::new(NDiffPorts::new(connection, parameters))
    }),
    ("binder", |connection, parameters| {
        Box::new(Binder::new(connection, parameters))
    }),
    ("kernel_endpoints", |connection, parameters| {
        Box::new(KernelEndpoints::new(connection, parameters))
    }),
];

/// The constructor of the policy of that name.
pub fn by_name(name: &str) -> Option<Constructor> {
    let found = PATH_MANAGERS.iter().find(|(its_name, _)| *its_name == name);
    found.map(|(_, constructor)| *constructor)
}
