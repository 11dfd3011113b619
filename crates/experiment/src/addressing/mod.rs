//! Addresses and ports of flows: where a flow is accepted, which address pairs its paths route, and
//! what an address belongs to.

mod lookup;
mod places;

use std::net::IpAddr;

use mptcp::pm::AddressPair;

use crate::resolved::{Flow, FlowEnd, Path, Transport};

pub use lookup::Lookup;
pub use places::{Ends, Place, Places};

/// The port of the first flow. The other flows follow, and then the probes.
const FIRST_PORT: u16 = 5001;

/// Returns the port at which flow `index` is accepted. `None` if there are more flows than ports.
pub fn port_of_flow(index: usize) -> Option<u16> {
    u16::try_from(index)
        .ok()
        .and_then(|index| FIRST_PORT.checked_add(index))
}

/// Returns the index of the flow that would be accepted at `port`. The experiment may have fewer
/// flows.
pub fn flow_at_port(port: u16) -> Option<usize> {
    port.checked_sub(FIRST_PORT).map(usize::from)
}

/// The largest number of flows that can have a port.
pub const MOST_FLOWS: usize = (u16::MAX - FIRST_PORT) as usize + 1;

/// Returns the host at an end of a flow.
pub fn host_at(flow: &Flow, side: FlowEnd) -> &str {
    match side {
        FlowEnd::From => &flow.from,
        FlowEnd::To => &flow.to,
    }
}

/// Returns the opposite end.
pub fn other_end(side: FlowEnd) -> FlowEnd {
    match side {
        FlowEnd::From => FlowEnd::To,
        FlowEnd::To => FlowEnd::From,
    }
}

/// The address pairs that the paths of a flow route, seen from one of its ends. Each path has its
/// pairs of both families.
#[derive(Clone, Debug)]
pub struct PathPairs(Vec<Vec<AddressPair>>);

impl PathPairs {
    /// Returns the pairs of `paths`, seen from `end`.
    pub fn new(lookup: &Lookup<'_>, paths: &[Path], end: FlowEnd) -> Self {
        let between = |path: &Path| match end {
            FlowEnd::From => pairs_between(lookup, &path.local, &path.remote),
            FlowEnd::To => pairs_between(lookup, &path.remote, &path.local),
        };
        paths.iter().map(between).collect()
    }

    /// Returns all pairs without duplicates, because several paths may join the same two addresses.
    pub fn all(&self) -> Vec<AddressPair> {
        unique(self.0.iter().flatten())
    }

    /// Returns the pair on which a connection begins: that of the first path, over IPv4 if both
    /// ends have it.
    ///
    /// # Panics
    /// Panics if there is no path.
    pub fn initial(&self) -> AddressPair {
        self.0[0][0]
    }

    /// Returns the pairs of a connection that begins at `initial`: each path in the same family, or
    /// in the other family where an end has no address of this one.
    pub fn of_connection(&self, initial: IpAddr) -> Vec<AddressPair> {
        let is_alike = |pair: &&AddressPair| pair.local.is_ipv4() == initial.is_ipv4();
        unique(
            self.0
                .iter()
                .filter_map(|path| path.iter().find(is_alike).or(path.first())),
        )
    }
}

impl FromIterator<Vec<AddressPair>> for PathPairs {
    /// Collects the pairs of each path.
    fn from_iter<T: IntoIterator<Item = Vec<AddressPair>>>(paths: T) -> Self {
        Self(paths.into_iter().collect())
    }
}

/// Returns whether the connections of a flow use both families.
pub fn mixes_families(lookup: &Lookup<'_>, flow: &Flow) -> bool {
    let pairs = PathPairs::new(lookup, &flow.paths, FlowEnd::From);
    let initial = pairs.initial().local;
    let is_other = |pair: &AddressPair| pair.local.is_ipv4() != initial.is_ipv4();
    flow.transport == Transport::Mptcp && pairs.of_connection(initial).iter().any(is_other)
}

fn unique<'a>(pairs: impl Iterator<Item = &'a AddressPair>) -> Vec<AddressPair> {
    let mut known = Vec::new();
    for pair in pairs {
        if !known.contains(pair) {
            known.push(*pair);
        }
    }
    known
}

/// Returns the address pairs of two interfaces, IPv4 first.
pub fn pairs_between(lookup: &Lookup<'_>, near: &str, far: &str) -> Vec<AddressPair> {
    pairs_of(&lookup.addresses(near), &lookup.addresses(far))
}

/// Returns the address pairs that packets between two interfaces can carry on the way: those of the
/// interfaces, and the outside addresses of NATs that hide them.
pub fn pairs_on_the_way(lookup: &Lookup<'_>, near: &str, far: &str) -> Vec<AddressPair> {
    let [near, far] = [near, far].map(|end| {
        let mut addresses = lookup.addresses(end);
        addresses.extend(lookup.outside_addresses(end));
        addresses
    });
    pairs_of(&near, &far)
}

/// Returns all pairs of the same family, in the order of `near`.
pub fn pairs_of(near: &[IpAddr], far: &[IpAddr]) -> Vec<AddressPair> {
    let mut pairs = Vec::new();
    for &local in near {
        let alike = far
            .iter()
            .filter(|remote| remote.is_ipv4() == local.is_ipv4());
        pairs.extend(alike.map(|&remote| AddressPair { local, remote }));
    }
    pairs
}
