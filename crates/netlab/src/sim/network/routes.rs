//! The ways that packets take: hop by hop as the description has them, and the same hops back.
//!
//! Nobody searches: what no path leads over carries nothing. Routes do not follow failures, since nobody tells the senders.

/// One direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct RouteId(u32);

impl RouteId {
    /// The same hops the other way.
    pub(in crate::sim) fn reversed(self) -> Self {
        Self(self.0 ^ 1)
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
pub(super) struct Routes(Vec<Route>);

impl Routes {
    /// Adds a path from the interface `local` to the interface `remote`, and gives the route there.
    pub(super) fn add(&mut self, local: usize, remote: usize, directions: Box<[u32]>) -> RouteId {
        let route = RouteId(self.0.len() as u32);
        // Directions 2k and 2k + 1 are the two of one link.
        let back = directions.iter().rev().map(|direction| direction ^ 1);
        let back = Route {
            source: remote,
            destination: local,
            directions: back.collect(),
        };
        self.0.push(Route {
            source: local,
            destination: remote,
            directions,
        });
        self.0.push(back);
        route
    }

    pub(super) fn get(&self, route: RouteId) -> &Route {
        &self.0[route.0 as usize]
    }
}
