//! The ways that packets take: hop by hop as the description has them, and the same hops back.
//!
//! Nobody searches: what no path leads over carries nothing. Routes do not follow failures, since nobody tells the senders.

use std::net::SocketAddr;

use mptcp::pm::AddressPair;
use rustc_hash::FxHashMap;

use crate::flows::flow_at_port;

/// One direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct RouteId(u32);

impl RouteId {
    /// The same hops the other way.
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
    pub(super) source: usize,
    /// The interface whose address is that of the receiver.
    pub(super) destination: usize,
    /// Link directions in the order in which they are passed.
    directions: Box<[u32]>,
}

impl Route {
    /// The link direction of hop `hop`, from 0; `None` behind the last.
    pub(super) fn direction(&self, hop: u32) -> Option<usize> {
        let direction = self.directions.get(hop as usize)?;
        Some(*direction as usize)
    }
}

/// All routes: number 2k is path k there, number 2k + 1 the way back.
#[derive(Default)]
pub(super) struct Routes {
    routes: Vec<Route>,
    /// The routes of a flow between two addresses, both directions.
    of_flow: FxHashMap<(usize, AddressPair), Vec<RouteId>>,
    /// The ways back of what came with a source route, by both ends.
    pinned: FxHashMap<(SocketAddr, SocketAddr), RouteId>,
}

impl Routes {
    /// Adds a path from the interface `local` to the interface `remote`, and gives the route there.
    pub(super) fn add(&mut self, local: usize, remote: usize, directions: Box<[u32]>) -> RouteId {
        let route = RouteId(self.routes.len() as u32);
        // Directions 2k and 2k + 1 are the two of one link.
        let back = directions.iter().rev().map(|direction| direction ^ 1);
        let back = Route {
            source: remote,
            destination: local,
            directions: back.collect(),
        };
        self.routes.push(Route {
            source: local,
            destination: remote,
            directions,
        });
        self.routes.push(back);
        route
    }

    pub(super) fn get(&self, route: RouteId) -> &Route {
        &self.routes[route.0 as usize]
    }

    /// Lets the segments of a flow between these addresses take a route, one of several perhaps, and its way back.
    pub(super) fn assign(&mut self, flow: usize, pair: AddressPair, route: RouteId) {
        let back = AddressPair {
            local: pair.remote,
            remote: pair.local,
        };
        for (pair, route) in [(pair, route), (back, route.reversed())] {
            self.of_flow.entry((flow, pair)).or_default().push(route);
        }
    }

    /// The route of a segment between these two. Of several, its opener's port chooses: subflows take them in turn, as they
    /// get their ports in turn.
    pub(super) fn between(&self, source: SocketAddr, destination: SocketAddr) -> Option<RouteId> {
        if let Some(route) = self.pinned.get(&(source, destination)) {
            return Some(*route);
        }
        let (routes, opened_from) = self.choices(source, destination)?;
        Some(routes[usize::from(opened_from) % routes.len()])
    }

    /// All routes that a segment between these two may take.
    pub(super) fn all_between(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<&[RouteId]> {
        self.choices(source, destination).map(|(routes, _)| routes)
    }

    /// Lets segments between these two take this route from now on.
    pub(super) fn pin(&mut self, source: SocketAddr, destination: SocketAddr, route: RouteId) {
        self.pinned.insert((source, destination), route);
    }

    /// The routes of a flow between two ends, and the port that its opener has.
    fn choices(&self, source: SocketAddr, destination: SocketAddr) -> Option<(&[RouteId], u16)> {
        let pair = AddressPair {
            local: source.ip(),
            remote: destination.ip(),
        };
        let ends = [
            (destination.port(), source.port()),
            (source.port(), destination.port()),
        ];
        ends.into_iter().find_map(|(accepted_at, opened_from)| {
            let routes = self.of_flow.get(&(flow_at_port(accepted_at)?, pair))?;
            Some((routes.as_slice(), opened_from))
        })
    }
}
