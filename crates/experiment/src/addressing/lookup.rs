//! The parts of an experiment by id.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::resolved::{Experiment, Interface, Path};

/// An experiment with an index of its parts by id.
pub struct Lookup<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    hosts: HashMap<&'a str, usize>,
    interfaces: HashMap<&'a str, usize>,
    /// Smallest MTU by link.
    mtu_bytes: HashMap<&'a str, u32>,
    /// The smallest MTU of the links without a host at either end.
    mtu_between_nodes: Option<u32>,
}

impl<'a> Lookup<'a> {
    /// Indexes a valid experiment.
    pub fn new(experiment: &'a Experiment) -> Self {
        let hosts = experiment.hosts.iter().map(|host| host.id.as_str());
        let interfaces = &experiment.interfaces;
        let ids = interfaces.iter().map(|interface| interface.id.as_str());
        let mut lookup = Self {
            experiment,
            hosts: hosts.zip(0..).collect(),
            interfaces: ids.zip(0..).collect(),
            mtu_bytes: HashMap::new(),
            mtu_between_nodes: None,
        };
        for link in &experiment.links {
            let ends = [&link.a, &link.b].map(|id| lookup.interface(id));
            let [Some(a), Some(b)] = ends else { continue };
            let mtu = a.mtu_bytes.min(b.mtu_bytes);
            lookup.mtu_bytes.insert(&link.id, mtu);
            if lookup.host(&a.node).is_none() && lookup.host(&b.node).is_none() {
                let smallest = lookup.mtu_between_nodes.get_or_insert(mtu);
                *smallest = mtu.min(*smallest);
            }
        }
        lookup
    }

    /// Returns the index of a host.
    pub fn host(&self, id: &str) -> Option<usize> {
        self.hosts.get(id).copied()
    }

    /// Returns the index of an interface.
    pub fn interface_index(&self, id: &str) -> Option<usize> {
        self.interfaces.get(id).copied()
    }

    /// Returns the interface with an id.
    pub fn interface(&self, id: &str) -> Option<&'a Interface> {
        let index = self.interface_index(id)?;
        Some(&self.experiment.interfaces[index])
    }

    /// Returns the addresses of an interface, IPv4 first.
    pub fn addresses(&self, interface: &str) -> Vec<IpAddr> {
        self.interface(interface)
            .map(Interface::addresses)
            .unwrap_or_default()
    }

    /// Returns the outside addresses of the NATs that hide an interface.
    pub fn outside_addresses(&self, interface: &str) -> Vec<IpAddr> {
        let index = self.interface_index(interface);
        let middleboxes = self.experiment.middleboxes.iter();
        let hiding = middleboxes.filter_map(|middlebox| self.experiment.hidden(middlebox));
        let hiding = hiding.filter(|(hidden, _)| Some(*hidden) == index);
        hiding
            .flat_map(|(_, nat)| [IpAddr::V4(nat.ipv4), IpAddr::V6(nat.ipv6)])
            .collect()
    }

    /// Returns the smallest MTU on a path, over all possible links if routers choose them. `None`
    /// if the path has no links.
    pub fn path_mtu_bytes(&self, path: &Path) -> Option<u32> {
        let hops = path.hops.iter();
        let listed = hops.filter_map(|hop| self.mtu_bytes.get(hop.link.as_str()).copied());
        let between = self.mtu_between_nodes.filter(|_| path.routed);
        listed.chain(between).min()
    }
}
