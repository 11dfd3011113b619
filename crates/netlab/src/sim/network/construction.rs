//! The network of an experiment.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use super::routes::{RouteId, Routes};
use super::{Interface, Network};
use crate::flows::{addresses_at, pairs_between};
use crate::links::Links;
use crate::resolved::{self, Experiment, Hop, HopDirection, InvalidDirection, Path};
use crate::sim::captures::Captures;
use crate::sim::packet::Segments;

impl Network {
    /// The network of a valid experiment, as the seed varies it.
    ///
    /// # Errors
    /// A direction that the link model refuses.
    pub(in crate::sim) fn new(
        experiment: &Experiment,
        seed: u64,
        captures: Captures,
    ) -> Result<Self, InvalidDirection> {
        let interface_of = indices(experiment.interfaces.iter().map(|interface| &interface.id));
        let links = experiment.links.iter();
        Ok(Self {
            interfaces: interfaces(experiment),
            ends: links
                .map(|link| [&link.a, &link.b].map(|id| interface_of[id]))
                .collect(),
            links: Links::new(experiment, seed)?,
            segments: Segments::default(),
            captures,
            routes: Routes::default(),
            interface_of,
            interface_at: interfaces_at(experiment),
            link_of: indices(experiment.links.iter().map(|link| &link.id)),
        })
    }

    /// Makes the ways of a flow over TCP known: a segment between two of its addresses takes that of their path.
    pub(in crate::sim) fn add_flow(&mut self, experiment: &Experiment, index: usize) {
        for path in &experiment.flows[index].paths {
            let route = self.add_path(path);
            for pair in pairs_between(experiment, &path.local, &path.remote) {
                self.routes.assign(index, pair, route);
            }
        }
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

fn interfaces_at(experiment: &Experiment) -> HashMap<IpAddr, usize> {
    let interfaces = experiment.interfaces.iter().enumerate();
    let addresses = interfaces.flat_map(|(index, interface)| {
        let addresses = addresses_at(interface).into_iter();
        addresses.map(move |address| (address, index))
    });
    addresses.collect()
}

fn indices<'a>(ids: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    ids.cloned()
        .enumerate()
        .map(|(index, id)| (id, index))
        .collect()
}

fn interfaces(experiment: &Experiment) -> Vec<Interface> {
    let hosts: HashSet<_> = experiment.hosts.iter().map(|host| &host.id).collect();
    let nodes = experiment.interfaces.iter().map(|one| &one.node);
    let nodes: BTreeMap<_, _> = nodes.zip(0..).collect();
    let new = |interface: &resolved::Interface| Interface {
        node: nodes[&interface.node],
        is_port: !hosts.contains(&interface.node),
        is_up: interface.up,
        port_is_down: false,
        address: addresses_at(interface).first().copied(),
        has_address: interface.ipv4.is_some() || interface.ipv6.is_some(),
        sent: 0,
        received: 0,
        dropped_interface_down: 0,
        dropped_no_address: 0,
        dropped_no_route: 0,
    };
    experiment.interfaces.iter().map(new).collect()
}
