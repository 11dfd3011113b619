//! Translates an experiment into the configuration of the engine at its hosts. Used in virtual and
//! in real time.

mod profile;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use mptcp::endpoint::{Endpoint, NetworkView};
use mptcp::pm::{AddressPair, FourTuple};
use mptcp::subflow::CloseReason;

use crate::addressing::Lookup;
use crate::addressing::{PathPairs, host_at};
use crate::resolved::{Action, Experiment, Flow, FlowEnd, Handshake, Transport};
use crate::time::Nanos;

pub use profile::profile;

/// Returns for each host its view of the network at the start.
pub fn network_views(lookup: &Lookup<'_>) -> Vec<NetworkView> {
    let hosts = lookup.experiment.hosts.iter();
    let views = pairs_of_hosts(lookup)
        .into_iter()
        .zip(addresses_that_are_down(lookup));
    hosts
        .zip(views)
        .map(|(host, (pairs, down))| NetworkView {
            pairs: pairs.into(),
            down,
            backup: BTreeSet::new(),
            change_delay: host.behaviour().path_manager_delay_ns,
        })
        .collect()
}

/// Returns for each host all address pairs that its MPTCP flows route, in the order of the flows.
fn pairs_of_hosts(lookup: &Lookup<'_>) -> Vec<Vec<AddressPair>> {
    let experiment = lookup.experiment;
    let mut known = vec![BTreeSet::new(); experiment.hosts.len()];
    let mut all = vec![Vec::new(); experiment.hosts.len()];
    let flows = experiment.flows.iter();
    for flow in flows.filter(|flow| flow.transport == Transport::Mptcp) {
        for side in [FlowEnd::From, FlowEnd::To] {
            if let Some(host) = lookup.host(host_at(flow, side)) {
                let pairs = PathPairs::new(lookup, &flow.paths, side).all();
                all[host].extend(pairs.into_iter().filter(|pair| known[host].insert(*pair)));
            }
        }
    }
    all
}

/// Returns for each host the addresses that are down at the start.
fn addresses_that_are_down(lookup: &Lookup<'_>) -> Vec<BTreeSet<IpAddr>> {
    let mut down = vec![BTreeSet::new(); lookup.experiment.hosts.len()];
    let interfaces = lookup.experiment.interfaces.iter();
    for interface in interfaces.filter(|interface| !interface.up) {
        if let Some(host) = lookup.host(&interface.node) {
            down[host].extend(interface.addresses());
        }
    }
    down
}

/// Returns the four-tuples on which a connection of a flow starts, the primary one first. Local
/// ports are 0, because they are not chosen yet.
pub fn ways(lookup: &Lookup<'_>, flow: &Flow, port: u16) -> Vec<FourTuple> {
    let pairs = PathPairs::new(lookup, &flow.paths, flow.opened_by);
    let first = pairs.initial();
    let ways = match flow.handshake {
        Handshake::Primary => vec![first],
        Handshake::Race => pairs.of_connection(first.local),
    };
    let ways = ways.into_iter().map(|pair| FourTuple {
        local: SocketAddr::new(pair.local, 0),
        remote: SocketAddr::new(pair.remote, port),
    });
    ways.collect()
}

/// The effect of an action on the addresses of a host.
#[derive(Clone, Debug)]
pub struct AddressChange {
    /// Index of the interface that has the addresses.
    pub interface: usize,
    addresses: Vec<IpAddr>,
    kind: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Usable(bool),
    Backup(bool),
}

impl AddressChange {
    /// Returns the effect of an action. `None` if it affects no addresses.
    pub fn of(experiment: &Experiment, action: &Action) -> Option<Self> {
        let (id, kind) = match action {
            Action::InterfaceDown { interface } | Action::AddressRemove { interface } => {
                (interface, Change::Usable(false))
            }
            Action::InterfaceUp { interface } | Action::AddressAdd { interface } => {
                (interface, Change::Usable(true))
            }
            Action::SetBackup { interface, on } => (interface, Change::Backup(*on)),
            _ => return None,
        };
        let interfaces = &experiment.interfaces;
        let interface = interfaces.iter().position(|one| one.id == *id)?;
        Some(Self {
            interface,
            addresses: interfaces[interface].addresses(),
            kind,
        })
    }

    /// Returns the addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Returns whether the addresses become usable or unusable. `None` if that does not change.
    pub fn is_usable(&self) -> Option<bool> {
        match self.kind {
            Change::Usable(is_usable) => Some(is_usable),
            Change::Backup(_) => None,
        }
    }

    /// Reports the change to the engine of the host.
    pub fn apply(&self, now: Nanos, endpoint: &mut Endpoint) {
        for &address in &self.addresses {
            match self.kind {
                Change::Usable(is_up) => endpoint.handle_address_change(now, address, is_up),
                Change::Backup(on) => endpoint.set_backup(now, address, on),
            }
        }
    }
}

/// Returns why a connection ended, as a message for people.
pub fn why_closed(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Finished => "the connection was closed",
        CloseReason::Reset => "the connection was reset by the other side",
        CloseReason::Refused => "the connection was refused",
        CloseReason::TimedOut => "the other side did not answer any more",
        CloseReason::Aborted => "the connection was given up",
    }
}
