//! The routes of packets. They follow the hops of the description there and back, or the choices of
//! routers.
//!
//! The choice of a router depends only on the ends of a packet, so it is made once for all packets
//! between two ports. A link that is on no path carries nothing. A route changes only when an event
//! says so, because nothing reports failures to the senders.

use std::net::SocketAddr;

use experiment::addressing::flow_at_port;
use experiment::next_hop::FiveTuple;
use mptcp::pm::AddressPair;
use rustc_hash::FxHashMap;

use super::forwarding::Forwarding;

/// One direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RouteId(u32);

impl RouteId {
    /// Returns the route in the other direction.
    pub(crate) fn reversed(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Returns a number unique among all routes.
    pub(crate) fn index(self) -> u64 {
        u64::from(self.0)
    }

    /// Returns whether it leads from the receiver of the path to its sender.
    pub(crate) fn is_back(self) -> bool {
        self.0 % 2 == 1
    }
}

/// A route through the network. Its end interfaces need not be on its first and last link, because
/// a host accepts packets for all its addresses.
pub(super) struct Route {
    /// The interface with the address of the sender.
    pub(super) source: u32,
    /// The interface with the address of the receiver.
    pub(super) destination: u32,
    /// Index of its first link direction in the hops of all routes.
    pub(super) first_hop: u32,
}

/// A path between two interfaces whose links are chosen by routers, except the first and the last.
#[derive(Clone, Copy)]
pub(super) struct ChosenPath {
    pub(super) local: usize,
    pub(super) remote: usize,
    /// The first and the last link direction.
    pub(super) ends: [u32; 2],
}

/// The hops that a route had before it was rerouted. Packets may still be on them.
struct FormerWay {
    /// Index of the first hop.
    first_hop: u32,
    /// The node at which each hop begins.
    nodes: Vec<usize>,
}

/// The end of a former way at a node that is also on the new one.
struct Turn {
    /// The index of the hop by which packets continue.
    continuation: u32,
    /// The link direction that packets took here. Some may still be on it.
    former_direction: u32,
}

/// How packets get from one address to another.
enum Known {
    /// By routes that the description lists.
    Routes(Vec<RouteId>),
    /// By a path with chosen links, from its receiver to its sender if `is_back`.
    Chosen { path: ChosenPath, is_back: bool },
}

/// The IP protocol number of TCP.
const TCP: u8 = 6;
/// Marks the end of a route in the hops.
const END: u32 = u32::MAX;

/// All routes. Number 2k is path k, number 2k + 1 the route back.
#[derive(Default)]
pub(super) struct Routes {
    routes: Vec<Route>,
    /// The link directions of all routes, one route after another.
    hops: Vec<u32>,
    /// How packets of a flow get from one address to another, both ways.
    of_flow: FxHashMap<(usize, AddressPair), Known>,
    /// The first flow with an address pair. It identifies the flow of a subflow to an announced
    /// port, whose ports do not.
    first_flow: FxHashMap<AddressPair, usize>,
    /// Routes from one end of a subflow to the other: those chosen by routers, both ways, and
    /// routes back for segments with a source route.
    of_ends: FxHashMap<(SocketAddr, SocketAddr), RouteId>,
    /// The ways that rerouted routes had before.
    former_ways: FxHashMap<RouteId, Vec<FormerWay>>,
    /// Where former ways end, because their packets continue on another, by the index of the hop that
    /// is not taken any more.
    turns: FxHashMap<u32, Turn>,
}

impl Routes {
    /// Adds a path from interface `local` to interface `remote`. Returns the route there.
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

    /// Adds a path with known hops.
    pub(super) fn add_listed(&mut self, local: usize, remote: usize, hops: &[u32]) -> RouteId {
        // Directions 2k and 2k + 1 belong to the same link.
        let back: Vec<_> = hops.iter().rev().map(|direction| direction ^ 1).collect();
        self.add(local, remote, hops, &back)
    }

    /// Adds the path that routers choose for packets between two ports, if there is one. The route
    /// back is chosen separately.
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

    /// Sends packets of a route over other link directions. `node_before` returns the node at which
    /// a direction begins.
    ///
    /// A packet on a former way continues on it up to the first node that is also on the new one.
    pub(super) fn reroute(
        &mut self,
        route: RouteId,
        hops: &[u32],
        node_before: impl Fn(u32) -> usize,
    ) {
        let former = FormerWay {
            first_hop: self.get(route).first_hop,
            nodes: self.directions(route).map(&node_before).collect(),
        };
        let new_way = self.hops.len() as u32;
        self.hops.extend(hops);
        self.hops.push(END);
        self.routes[route.0 as usize].first_hop = new_way;
        let nodes = hops.iter().map(|hop| node_before(*hop));
        let on_new_way: FxHashMap<_, _> = nodes.zip(new_way..).collect();
        let ways = self.former_ways.entry(route).or_default();
        ways.push(former);
        let nodes = ways
            .iter()
            .flat_map(|way| (way.first_hop..).zip(&way.nodes));
        for (hop, node) in nodes {
            if let Some(continuation) = on_new_way.get(node) {
                let direction = std::mem::replace(&mut self.hops[hop as usize], END);
                let former_direction = match direction {
                    END => self.turns[&hop].former_direction,
                    direction => direction,
                };
                let continuation = *continuation;
                self.turns.insert(
                    hop,
                    Turn {
                        continuation,
                        former_direction,
                    },
                );
            }
        }
    }

    /// Returns the link directions of a route.
    fn directions(&self, route: RouteId) -> impl Iterator<Item = u32> {
        let hops = self.get(route).first_hop..;
        hops.map_while(|hop| self.direction(hop))
            .map(|direction| direction as u32)
    }

    /// Returns where a packet at the end of a way continues, if the route has another by now.
    pub(super) fn continuation(&self, end: u32) -> Option<u32> {
        self.turns.get(&end).map(|turn| turn.continuation)
    }

    /// Returns the link direction at index `hop`. `None` after the last hop of a route.
    pub(super) fn direction(&self, hop: u32) -> Option<usize> {
        let direction = self.hops[hop as usize];
        (direction != END).then_some(direction as usize)
    }

    /// Returns the link directions at index `hop` and behind it. The second is `None` after the last
    /// hop of a route.
    #[inline]
    pub(super) fn direction_and_next(&self, hop: u32) -> (usize, Option<usize>) {
        let direction = match self.hops[hop as usize] {
            END => self.turns[&hop].former_direction,
            direction => direction,
        };
        (direction as usize, self.direction(hop + 1))
    }

    /// Returns the index of the hop of a route over a link direction.
    pub(super) fn hop_over(&self, route: RouteId, direction: usize) -> Option<u32> {
        let hops = self.get(route).first_hop..;
        let mut hops = hops.map_while(|hop| Some((hop, self.direction(hop)?)));
        hops.find_map(|(hop, over)| (over == direction).then_some(hop))
    }

    /// Adds a route, and its reverse, for the segments of a flow between two addresses. There may
    /// be several.
    pub(super) fn assign(&mut self, flow: usize, pair: AddressPair, route: RouteId) {
        for (pair, route) in [(pair, route), (back(pair), route.reversed())] {
            self.first_flow.entry(pair).or_insert(flow);
            let known = self.of_flow.entry((flow, pair));
            if let Known::Routes(routes) = known.or_insert(Known::Routes(Vec::new())) {
                routes.push(route);
            }
        }
    }

    /// Lets routers choose the routes of the segments of a flow between two addresses, both ways.
    pub(super) fn assign_chosen(&mut self, flow: usize, pair: AddressPair, path: ChosenPath) {
        for (pair, is_back) in [(pair, false), (back(pair), true)] {
            self.first_flow.entry(pair).or_insert(flow);
            let known = Known::Chosen { path, is_back };
            self.of_flow.insert((flow, pair), known);
        }
    }

    /// Returns the route of a segment between two ends. The port of the opener selects among
    /// several routes of a description. Subflows use them in turn, because they get their ports in
    /// turn.
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

    /// Returns the routes of the description for segments between two ends. `None` if routers
    /// choose.
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

    /// Sets the route of all further segments between two ends.
    pub(super) fn pin(&mut self, source: SocketAddr, destination: SocketAddr, route: RouteId) {
        self.of_ends.insert((source, destination), route);
    }

    /// Returns how packets get from one end of a flow to the other, and the port of the opener. If
    /// neither port is the flow's, the larger port counts as the opener's.
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

    /// Returns the route that routers choose from one end to the other, and remembers it.
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
