//! The controlled switches of an experiment: their numbers, and what is at each of their ports.
//! Every controller can compute the same from the resolved experiment alone.

use experiment::addressing::Lookup;
use experiment::resolved::{Experiment, Interface, NodeKind};
use serde::Serialize;

use crate::network::hosts::{device_in_fabric, mac_of};

/// A controlled switch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Switch {
    pub(crate) name: String,
    /// The name of its bridge in Open vSwitch.
    pub(crate) bridge: String,
    /// 16 hexadecimal digits.
    pub(crate) datapath_id: String,
    pub(crate) ports: Vec<Port>,
}

/// A port of a switch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Port {
    /// The OpenFlow port number.
    pub(crate) number: u32,
    pub(crate) interface: String,
    pub(crate) device: String,
    pub(crate) mac: String,
    pub(crate) link: String,
    /// The host or node at the other end of the link.
    pub(crate) far_node: String,
    #[serde(skip)]
    pub(crate) index: usize,
}

/// An interface of a host.
#[derive(Clone, Debug, Serialize)]
struct HostInterface {
    host: String,
    interface: String,
    mac: String,
    addresses: Vec<String>,
}

/// The file that a controller can read.
#[derive(Serialize)]
struct Document<'a> {
    switches: &'a [Switch],
    hosts: Vec<HostInterface>,
}

/// Returns the controlled switches, in the order of the description.
pub(crate) fn switches(experiment: &Experiment) -> Vec<Switch> {
    let lookup = Lookup::new(experiment);
    let nodes = experiment.nodes.iter().enumerate();
    let controlled = nodes.filter(|(_, node)| node.kind == NodeKind::Openflow);
    let switch = controlled.map(|(index, node)| Switch {
        name: node.id.clone(),
        bridge: format!("s{}", index + 1),
        datapath_id: format!("{:016x}", index + 1),
        ports: ports(&lookup, &node.id),
    });
    switch.collect()
}

fn ports(lookup: &Lookup<'_>, node: &str) -> Vec<Port> {
    let interfaces = lookup.experiment.interfaces.iter().enumerate();
    let own = interfaces.filter(|(_, interface)| interface.node == node);
    let port = own.map(|(index, interface)| Port {
        number: index as u32 + 1,
        interface: interface.id.clone(),
        device: device_in_fabric(index),
        mac: mac(index),
        link: interface.link.clone(),
        far_node: far_node(lookup, interface),
        index,
    });
    port.collect()
}

fn far_node(lookup: &Lookup<'_>, interface: &Interface) -> String {
    let mut links = lookup.experiment.links.iter();
    let link = links.find(|link| link.id == interface.link);
    let far = link.map(|link| match link.a == interface.id {
        true => &link.b,
        false => &link.a,
    });
    let far = far.and_then(|far| lookup.interface(far));
    far.map(|far| far.node.clone()).unwrap_or_default()
}

fn mac(interface: usize) -> String {
    mac_of(interface)
        .map(|byte| format!("{byte:02x}"))
        .join(":")
}

/// Returns the text of the file that lists the switches and the interfaces of hosts.
pub(crate) fn document(experiment: &Experiment, switches: &[Switch]) -> String {
    let lookup = Lookup::new(experiment);
    let interfaces = experiment.interfaces.iter().enumerate();
    let of_hosts = interfaces.filter(|(_, one)| lookup.host(&one.node).is_some());
    let hosts = of_hosts.map(|(index, interface)| HostInterface {
        host: interface.node.clone(),
        interface: interface.id.clone(),
        mac: mac(index),
        addresses: interface
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect(),
    });
    let document = Document {
        switches,
        hosts: hosts.collect(),
    };
    serde_json::to_string(&document).expect("it has only strings and numbers")
}
