//! Builds the network of an experiment.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use emulation::first_hop::{HostQueues, host_directions};
use emulation::links::Links;
use experiment::addressing::{Lookup, pairs_on_the_way};
use experiment::next_hop::FiveTuple;
use experiment::resolved::{self, Experiment, Hop, HopDirection, InvalidDirection, Path};

use super::forwarding::Forwarding;
use super::middleboxes::Middleboxes;
use super::plain_hops::PlainHops;
use super::routes::{ChosenPath, RouteId, Routes};
use super::{Interface, Network, Passage};
use crate::captures::Captures;
use crate::event_queue::EntityId;
use crate::packet::Segments;

/// The IP protocol number of UDP.
const UDP: u8 = 17;

impl Network {
    /// Returns the network of a valid experiment, varied by `seed`.
    ///
    /// # Errors
    /// Fails if the link model refuses a direction.
    pub(crate) fn new(
        experiment: &Experiment,
        seed: u64,
        captures: Captures,
    ) -> Result<Self, InvalidDirection> {
        let interface_of = indices(experiment.interfaces.iter().map(|interface| &interface.id));
        let ends = experiment.links.iter();
        let ends = ends.map(|link| [&link.a, &link.b].map(|id| interface_of[id] as u32));
        let ends: Vec<_> = ends.collect();
        let middleboxes = Middleboxes::new(experiment, seed);
        let passages = experiment.interfaces.iter().enumerate();
        let passages = passages.map(|(index, interface)| match interface.up {
            true => middleboxes.passage(index),
            false => Passage::Down,
        });
        let mut network = Self {
            interfaces: interfaces(experiment, &ends),
            passages: passages.collect(),
            plain: PlainHops::new(2 * ends.len()),
            middleboxes,
            ends,
            links: Links::new(experiment, seed)?,
            host_queues: HostQueues::new(host_directions(experiment)),
            first_host_queue: EntityId(u32::MAX),
            newly_waiting: None,
            segments: Segments::default(),
            captures,
            routes: Routes::default(),
            forwarding: Forwarding::new(experiment, seed),
            interface_of,
            interface_at: interfaces_at(experiment),
            link_of: indices(experiment.links.iter().map(|link| &link.id)),
            flow_of: indices(experiment.flows.iter().map(|flow| &flow.id)),
            routes_of_path: HashMap::new(),
        };
        for direction in 0..2 * experiment.links.len() {
            network.update_plain(direction);
        }
        Ok(network)
    }

    /// Adds the routes of a TCP flow. A segment between two addresses of the flow takes the route
    /// of their path.
    pub(crate) fn add_flow(&mut self, lookup: &Lookup<'_>, index: usize) {
        for (nth, path) in lookup.experiment.flows[index].paths.iter().enumerate() {
            let pairs = pairs_on_the_way(lookup, &path.local, &path.remote);
            if path.routed {
                let chosen = self.chosen_path(path);
                for pair in pairs {
                    self.routes.assign_chosen(index, pair, chosen);
                }
            } else {
                let route = self.add_listed((index, nth), path);
                for pair in pairs {
                    self.routes.assign(index, pair, route);
                }
            }
        }
    }

    /// Adds the route of a path for UDP packets from the first of `ports` to the second, and the
    /// route back. `place` is the index of a flow and that of its path. Returns the route there.
    pub(crate) fn add_path(
        &mut self,
        place: (usize, usize),
        path: &Path,
        ports: [u16; 2],
    ) -> RouteId {
        if !path.routed {
            return self.add_listed(place, path);
        }
        let chosen = self.chosen_path(path);
        let [source, destination] = self.addresses_between([chosen.local, chosen.remote]);
        let tuple = FiveTuple {
            source: SocketAddr::new(source, ports[0]),
            destination: SocketAddr::new(destination, ports[1]),
            protocol: UDP,
        };
        let route = self.routes.add_chosen(&mut self.forwarding, chosen, tuple);
        route.expect("checked: routers lead there")
    }

    fn add_listed(&mut self, place: (usize, usize), path: &Path) -> RouteId {
        let [local, remote] = self.ends_of_path(path);
        let hops = self.directions(&path.hops);
        let route = self.routes.add_listed(local, remote, &hops);
        self.routes_of_path.entry(place).or_default().push(route);
        route
    }

    pub(super) fn directions(&self, hops: &[Hop]) -> Vec<u32> {
        hops.iter().map(|hop| self.direction(hop)).collect()
    }

    fn chosen_path(&self, path: &Path) -> ChosenPath {
        let [local, remote] = self.ends_of_path(path);
        let last = path.hops.len() - 1;
        ChosenPath {
            local,
            remote,
            ends: [0, last].map(|place| self.direction(&path.hops[place])),
        }
    }

    fn ends_of_path(&self, path: &Path) -> [usize; 2] {
        [&path.local, &path.remote].map(|id| self.interface_of[id])
    }

    fn direction(&self, hop: &Hop) -> u32 {
        direction(self.link_of[&hop.link], hop)
    }
}

/// Returns the number of the direction of a hop over link `link`.
pub(crate) fn direction(link: usize, hop: &Hop) -> u32 {
    let side = match hop.direction {
        HopDirection::Forward => 0,
        HopDirection::Backward => 1,
    };
    2 * link as u32 + side
}

fn interfaces_at(experiment: &Experiment) -> HashMap<IpAddr, usize> {
    let interfaces = experiment.interfaces.iter().enumerate();
    let addresses = interfaces.flat_map(|(index, interface)| {
        let addresses = interface.addresses().into_iter();
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

fn interfaces(experiment: &Experiment, ends: &[[u32; 2]]) -> Vec<Interface> {
    let hosts: HashSet<_> = experiment.hosts.iter().map(|host| &host.id).collect();
    let nodes = experiment.interfaces.iter().map(|one| &one.node);
    let nodes: BTreeMap<_, _> = nodes.zip(0..).collect();
    let mut outgoing = vec![0; experiment.interfaces.len()];
    for (direction, interface) in ends.iter().flatten().enumerate() {
        outgoing[*interface as usize] = direction;
    }
    let new = |(interface, outgoing): (&resolved::Interface, usize)| Interface {
        outgoing,
        node: nodes[&interface.node],
        is_port: !hosts.contains(&interface.node),
        is_up: interface.up,
        port_is_down: false,
        addresses: interface.addresses(),
        has_address: interface.ipv4.is_some() || interface.ipv6.is_some(),
        dropped_leaving: 0,
        dropped_arriving: 0,
        dropped_no_address: 0,
        dropped_no_route: 0,
        sent_beyond: 0,
        received_beyond: 0,
    };
    experiment
        .interfaces
        .iter()
        .zip(outgoing)
        .map(new)
        .collect()
}
