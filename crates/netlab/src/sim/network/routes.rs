//! The ways that packets take: hop by hop as the description has them, and the same hops back; or as routers choose.
//!
//! What a router chooses depends on nothing but the ends of a packet, so it is asked once for all packets between two ports.
//! What no path leads over carries nothing. Routes do not follow failures, since nobody tells the senders.

use std::net::SocketAddr;

use mptcp::pm::AddressPair;
use rustc_hash::FxHashMap;

use super::forwarding::Forwarding;
use crate::flows::flow_at_port;
use crate::next_hop::FiveTuple;

/// One direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct RouteId(u32);

impl RouteId {
    /// The route the other way.
    pub(in crate::sim) fn reversed(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Different from that of all other routes.
    pub(in crate::sim) fn index(self) -> u64 {
        u64::from(self.0)
    }

    /// Whether it leads from the receiver of the path to its sender.
    pub(in crate::sim) fn is_back(self) -> bool {
        self.0 % 2 == 1
    }
}

/// A way through the network. Its ends need not be on its first and last link: a host answers for all its addresses.
pub(super) struct Route {
    /// The interface whose address is that of the sender.
    pub(super) source: u32,
    /// The interface whose address is that of the receiver.
    pub(super) destination: u32,
    /// Where its first link direction stands among those of all routes.
    pub(super) first_hop: u32,
}

/// A path between two interfaces whose links routers choose, but for the first and the last.
#[derive(Clone, Copy)]
pub(super) struct ChosenPath {
    pub(super) local: usize,
    pub(super) remote: usize,
    /// The first and the last link direction.
    pub(super) ends: [u32; 2],
}

/// What leads from one address to another.
enum Known {
    /// Routes that the description lists.
    Routes(Vec<RouteId>),
    /// A path, to be taken from its receiver if `is_back`.
    Chosen { path: ChosenPath, is_back: bool },
}

/// The number of TCP among transport protocols.
const TCP: u8 = 6;
/// Stands behind the last hop of a route.
const END: u32 = u32::MAX;

/// All routes: number 2k is path k there, number 2k + 1 the way back.
#[derive(Default)]
pub(super) struct Routes {
    routes: Vec<Route>,
    /// The link directions of all routes, one route after the other.
    hops: Vec<u32>,
    /// What leads from one address of a flow to another, both ways.
    of_flow: FxHashMap<(usize, AddressPair), Known>,
    /// The first flow with that pair: where a subflow goes to an announced port, its ports do not tell the flow.
    first_flow: FxHashMap<AddressPair, usize>,
    /// From one end of a subflow to the other: what routers chose, both ways, and the way back of what came with a source route.
    of_ends: FxHashMap<(SocketAddr, SocketAddr), RouteId>,
}

impl Routes {
    /// Adds a path from the interface `local` to the interface `remote`, and gives the route there.
    fn add(&mut self, local: usize, remote: usize, there: &[u32], back: &[u32]) -> RouteId {
        let route = RouteId(self.routes.len() as u32);
        for (source, destination, hops) in [(local, remote, there), (remote, local, back)] {
            self.routes.push(Route {
                source: source as u32,
                destination: destination as u32,
                first_hop: self.hops.len() as u32,
            });
            self.hops.extend(hops);
            self.hops.push(END);
        }
        route
    }

    /// Adds a path whose hops are known.
    pub(super) fn add_listed(&mut self, local: usize, remote: usize, hops: &[u32]) -> RouteId {
        // Directions 2k and 2k + 1 are the two of one link.
        let back: Vec<_> = hops.iter().rev().map(|direction| direction ^ 1).collect();
        self.add(local, remote, hops, &back)
    }

    /// Adds the path that routers choose for packets between these ports, if there is one. The way back is chosen for itself.
    pub(super) fn add_chosen(
        &mut self,
        forwarding: &mut Forwarding,
        path: ChosenPath,
        tuple: FiveTuple,
    ) -> Option<RouteId> {
        let answers = FiveTuple {
            source: tuple.destination,
            destination: tuple.source,
            ..tuple
        };
        let [first, last] = path.ends;
        let there = forwarding.way([first, last], &tuple)?;
        let back = forwarding.way([last ^ 1, first ^ 1], &answers)?;
        Some(self.add(path.local, path.remote, &there, &back))
    }

    pub(super) fn get(&self, route: RouteId) -> &Route {
        &self.routes[route.0 as usize]
    }

    /// The link direction of the hop that stands at this place; `None` behind the last of its route.
    pub(super) fn direction(&self, hop: u32) -> Option<usize> {
        let direction = self.hops[hop as usize];
        (direction != END).then_some(direction as usize)
    }

    /// Where the hop over a link direction stands in a route.
    pub(super) fn hop_over(&self, route: RouteId, direction: usize) -> Option<u32> {
        let hops = self.get(route).first_hop..;
        let mut hops = hops.map_while(|hop| Some((hop, self.direction(hop)?)));
        hops.find_map(|(hop, over)| (over == direction).then_some(hop))
    }

    /// Lets the segments of a flow between these addresses take a route, one of several perhaps, and its way back.
    pub(super) fn assign(&mut self, flow: usize, pair: AddressPair, route: RouteId) {
        for (pair, route) in [(pair, route), (back(pair), route.reversed())] {
            self.first_flow.entry(pair).or_insert(flow);
            let known = self.of_flow.entry((flow, pair));
            if let Known::Routes(routes) = known.or_insert(Known::Routes(Vec::new())) {
                routes.push(route);
            }
        }
    }

    /// Lets the segments of a flow between these addresses go where routers send them, and back.
    pub(super) fn assign_chosen(&mut self, flow: usize, pair: AddressPair, path: ChosenPath) {
        for (pair, is_back) in [(pair, false), (back(pair), true)] {
            self.first_flow.entry(pair).or_insert(flow);
            let known = Known::Chosen { path, is_back };
            self.of_flow.insert((flow, pair), known);
        }
    }

    /// The route of a segment between these two. Of several routes of a description, the opener's port chooses: subflows take
    /// them in turn, as they get their ports in turn.
    pub(super) fn between(
        &mut self,
        forwarding: &mut Forwarding,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<RouteId> {
        if let Some(route) = self.of_ends.get(&(source, destination)) {
            return Some(*route);
        }
        let (known, opened_from) = self.known(source, destination)?;
        match known {
            Known::Routes(routes) => Some(routes[usize::from(opened_from) % routes.len()]),
            Known::Chosen { path, is_back } => {
                let (path, is_back) = (*path, *is_back);
                let (from, to) = match is_back {
                    true => (destination, source),
                    false => (source, destination),
                };
                let route = self.choose(forwarding, path, from, to)?;
                Some(if is_back { route.reversed() } else { route })
            }
        }
    }

    /// The routes of the description that a segment between these two may take; none where routers choose.
    pub(super) fn listed_between(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<&[RouteId]> {
        match self.known(source, destination)? {
            (Known::Routes(routes), _) => Some(routes),
            (Known::Chosen { .. }, _) => None,
        }
    }

    /// Lets segments between these two take this route from now on.
    pub(super) fn pin(&mut self, source: SocketAddr, destination: SocketAddr, route: RouteId) {
        self.of_ends.insert((source, destination), route);
    }

    /// What leads from one end of a flow to the other, and the port that its opener has; the larger one if neither is the flow's.
    fn known(&self, source: SocketAddr, destination: SocketAddr) -> Option<(&Known, u16)> {
        let pair = AddressPair {
            local: source.ip(),
            remote: destination.ip(),
        };
        let ends = [
            (destination.port(), source.port()),
            (source.port(), destination.port()),
        ];
        let of_flow = ends.into_iter().find_map(|(accepted_at, opened_from)| {
            let known = self.of_flow.get(&(flow_at_port(accepted_at)?, pair))?;
            Some((known, opened_from))
        });
        of_flow.or_else(|| {
            let known = self.of_flow.get(&(*self.first_flow.get(&pair)?, pair))?;
            Some((known, source.port().max(destination.port())))
        })
    }

    /// The route that routers choose from the sender of a path to its receiver; they are asked once.
    fn choose(
        &mut self,
        forwarding: &mut Forwarding,
        path: ChosenPath,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<RouteId> {
        let tuple = FiveTuple {
            source,
            destination,
            protocol: TCP,
        };
        let route = self.add_chosen(forwarding, path, tuple)?;
        self.of_ends.insert((source, destination), route);
        self.of_ends.insert((destination, source), route.reversed());
        Some(route)
    }
}

fn back(pair: AddressPair) -> AddressPair {
    AddressPair {
        local: pair.remote,
        remote: pair.local,
    }
}
