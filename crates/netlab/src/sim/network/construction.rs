//! The network of an experiment.

use std::collections::{HashMap, HashSet};

use super::routes::{RouteId, Routes};
use super::{Interface, Network};
use crate::links::Links;
use crate::resolved::{self, Experiment, Hop, HopDirection, InvalidDirection, Path};

impl Network {
    /// The network of a valid experiment, as the seed varies it.
    ///
    /// # Errors
    /// A direction that the link model refuses.
    pub(in crate::sim) fn new(
        experiment: &Experiment,
        seed: u64,
    ) -> Result<Self, InvalidDirection> {
        let interface_of = indices(experiment.interfaces.iter().map(|interface| &interface.id));
        let links = experiment.links.iter();
        Ok(Self {
            interfaces: interfaces(experiment),
            ends: links
                .map(|link| [&link.a, &link.b].map(|id| interface_of[id]))
                .collect(),
            links: Links::new(experiment, seed)?,
            routes: Routes::default(),
            interface_of,
            link_of: indices(experiment.links.iter().map(|link| &link.id)),
        })
    }

    /// Makes the way of a path known, there and back, and gives the route there.
    pub(in crate::sim) fn add_path(&mut self, path: &Path) -> RouteId {
        let direction = |hop: &Hop| {
            let side = match hop.direction {
                HopDirection::Forward => 0,
                HopDirection::Backward => 1,
            };
            2 * self.link_of[&hop.link] as u32 + side
        };
        let directions = path.hops.iter().map(direction).collect();
        let [local, remote] = [&path.local, &path.remote].map(|id| self.interface_of[id]);
        self.routes.add(local, remote, directions)
    }
}

fn indices<'a>(ids: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    ids.cloned()
        .enumerate()
        .map(|(index, id)| (id, index))
        .collect()
}

fn interfaces(experiment: &Experiment) -> Vec<Interface> {
    let hosts: HashSet<_> = experiment.hosts.iter().map(|host| &host.id).collect();
    let new = |interface: &resolved::Interface| Interface {
        is_port: !hosts.contains(&interface.node),
        is_up: interface.up,
        port_is_down: false,
        has_address: interface.ipv4.is_some() || interface.ipv6.is_some(),
        sent: 0,
        received: 0,
        dropped_interface_down: 0,
        dropped_no_address: 0,
    };
    experiment.interfaces.iter().map(new).collect()
}
