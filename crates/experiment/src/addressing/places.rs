//! Maps addresses to the interfaces, links and hosts of the description.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::addressing::{host_at, port_of_flow};
use crate::resolved::{Experiment, Flow};

/// The interfaces, links and flows of an experiment, by address.
pub struct Places {
    interface_of: HashMap<IpAddr, String>,
    link_of_interface: HashMap<String, String>,
    flows: Vec<Flow>,
}

/// The two ends of a subflow: the data sender's and the data receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    /// Address and port of the data sender.
    pub local: SocketAddr,
    /// Address and port of the data receiver.
    pub remote: SocketAddr,
}

/// A subflow in terms of the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Id of the interface of the data sender.
    pub interface: Option<&'a str>,
    /// Id of the interface of the data receiver.
    pub remote_interface: Option<&'a str>,
    /// Id of the first link of the path.
    pub link: Option<&'a str>,
    /// Id of the host that opened the subflow.
    pub opened_by: &'a str,
}

impl Places {
    /// Returns the places of an experiment.
    pub fn new(experiment: &Experiment) -> Self {
        let mut interface_of = HashMap::new();
        let mut link_of_interface = HashMap::new();
        for interface in &experiment.interfaces {
            let addresses = interface.addresses().into_iter();
            interface_of.extend(addresses.map(|address| (address, interface.id.clone())));
            link_of_interface.insert(interface.id.clone(), interface.link.clone());
        }
        let hidden = experiment.middleboxes.iter();
        for (interface, nat) in hidden.filter_map(|middlebox| experiment.hidden(middlebox)) {
            let id = &experiment.interfaces[interface].id;
            let outside = [IpAddr::V4(nat.ipv4), IpAddr::V6(nat.ipv6)];
            interface_of.extend(outside.map(|address| (address, id.clone())));
        }
        Self {
            interface_of,
            link_of_interface,
            flows: experiment.flows.clone(),
        }
    }

    /// Returns the id of the host that sends the data of a flow.
    pub fn sender(&self, flow: usize) -> &str {
        &self.flows[flow].from
    }

    /// Returns the place of a subflow of a flow.
    pub fn place(&self, flow: usize, ends: Ends) -> Place<'_> {
        let interface = self.interface_of.get(&ends.local.ip());
        let remote_interface = self.interface_of.get(&ends.remote.ip());
        Place {
            interface: interface.map(String::as_str),
            remote_interface: remote_interface.map(String::as_str),
            link: self.link(flow, interface, remote_interface),
            opened_by: self.opener(flow, ends),
        }
    }

    /// Returns the first link of the path. If the ends belong to no path of the description,
    /// returns the link of the local interface.
    fn link(&self, flow: usize, local: Option<&String>, remote: Option<&String>) -> Option<&str> {
        let paths = &self.flows[flow].paths;
        let path = paths
            .iter()
            .find(|path| Some(&path.local) == local && Some(&path.remote) == remote);
        let first = path.and_then(|path| path.hops.first());
        let link = first.map(|hop| &hop.link);
        link.or_else(|| self.link_of_interface.get(local?))
            .map(String::as_str)
    }

    /// Returns the id of the opener: the end whose port is not the port at which the flow is
    /// accepted.
    fn opener(&self, flow: usize, ends: Ends) -> &str {
        let described = &self.flows[flow];
        let port = port_of_flow(flow);
        if Some(ends.local.port()) == port {
            &described.to
        } else if Some(ends.remote.port()) == port {
            &described.from
        } else {
            host_at(described, described.opened_by)
        }
    }
}
