//! Interfaces of the experiment as the kernel sees them: device names, addresses, link-layer
//! addresses.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use experiment::addressing::Lookup;
use experiment::resolved::{Experiment, HopDirection, Interface, Layer, NodeKind, ParentDevice};

use crate::LiveError;
use crate::network::first_hop::{Shaping, directions_from};
use crate::network::netlink::Mac;

/// Longest device name (`IFNAMSIZ` - 1).
const LONGEST_NAME_BYTES: usize = 15;

/// Names that the kernel or its settings use for something else.
const RESERVED_NAMES: [&str; 5] = ["lo", "all", "default", ".", ".."];

/// Smallest MTU with which the kernel runs IPv6 on a device (RFC 8200, section 5).
const SMALLEST_MTU_OF_IPV6_BYTES: u32 = 1280;

/// The two address families, for steps that are done once for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];
}

/// An address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefixed {
    pub(super) address: IpAddr,
    pub(super) length: u8,
}

/// The kind of a host or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Host,
    Router,
    /// A switch or an access point.
    Switch,
    /// All controlled switches.
    Openflow,
}

impl PlaceKind {
    /// Returns whether it has addresses and routes.
    pub(super) fn is_routed(self) -> bool {
        matches!(self, Self::Host | Self::Router)
    }
}

/// The place of all controlled switches. Nodes of the description never have a name of this
/// form.
pub(super) const FABRIC: &str = "(fabric)";

/// A host or node as it is to be built.
#[derive(Clone, Debug)]
pub(super) struct PlacePlan {
    pub(super) id: String,
    pub(super) kind: PlaceKind,
    /// Index among the experiment's hosts; `None` for a node that is no host.
    pub(super) host: Option<usize>,
    /// Whether this program builds it. Another machine builds it otherwise.
    pub(super) is_here: bool,
    /// Indices of its interfaces.
    pub(super) interfaces: Vec<usize>,
}

/// An interface as it is to be built.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) id: String,
    /// Index of its place.
    pub(super) place: usize,
    /// Index of its host or node, hosts first.
    pub(super) node: usize,
    /// Index of its link.
    pub(super) link: usize,
    pub(super) device: String,
    /// The device of the machine whose child it is; `None` at an emulated link.
    pub(super) parent: Option<ParentDevice>,
    pub(super) layer: Layer,
    pub(super) mtu_bytes: u32,
    pub(super) up: bool,
    /// Whether its host holds back packets that the link cannot take yet, in a queueing discipline
    /// of the kernel.
    pub(super) feels_link: bool,
    /// The shaping at the start.
    pub(super) shaping: Option<Shaping>,
    ipv4: Option<Prefixed>,
    ipv6: Option<Prefixed>,
    /// The addresses behind which NATs hide it.
    outside: Vec<IpAddr>,
}

impl Port {
    pub(super) fn prefixed(&self, family: Family) -> Option<Prefixed> {
        match family {
            Family::V4 => self.ipv4,
            Family::V6 => self.ipv6,
        }
    }

    pub(super) fn address(&self, family: Family) -> Option<IpAddr> {
        self.prefixed(family).map(|prefixed| prefixed.address)
    }

    /// Returns its own address and the addresses that NATs show instead.
    pub(super) fn all_addresses(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        let of_family = move |address: &IpAddr| address.is_ipv4() == (family == Family::V4);
        let own = self.address(family);
        let outside = self.outside.iter().copied().filter(of_family);
        own.into_iter()
            .chain(outside.filter(move |_| own.is_some()))
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = Prefixed> {
        self.ipv4.into_iter().chain(self.ipv6)
    }
}

/// Hosts, nodes and interfaces, by their indices in the experiment.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) places: Vec<PlacePlan>,
    pub(super) ports: Vec<Port>,
    /// Indices of the interfaces of each host and node, hosts first.
    pub(super) interfaces_of_node: Vec<Vec<usize>>,
    /// Indices of the interfaces at the ends `a` and `b` of each link.
    pub(super) ends: Vec<[usize; 2]>,
    pub(super) port_of: HashMap<String, usize>,
    pub(super) link_of: HashMap<String, usize>,
    pub(super) place_of: HashMap<String, usize>,
}

impl Layout {
    /// `machine` is the machine of this program; `None` is the one that runs the experiment.
    pub(super) fn new(experiment: &Experiment, machine: Option<&str>) -> Result<Self, LiveError> {
        let lookup = Lookup::new(experiment);
        let (mut places, place_of) = places_of(experiment, machine);
        let node_of = index_by_id(ids_of_nodes(experiment));
        let mut interfaces_of_node = vec![Vec::new(); node_of.len()];
        let link_of = index_by_id(experiment.links.iter().map(|link| &link.id));
        let port_of = index_by_id(experiment.interfaces.iter().map(|interface| &interface.id));
        let mut ports = Vec::with_capacity(experiment.interfaces.len());
        for (index, interface) in experiment.interfaces.iter().enumerate() {
            let place = place_of[&interface.node];
            let link = link_of[&interface.link];
            let node = node_of[&interface.node];
            places[place].interfaces.push(index);
            interfaces_of_node[node].push(index);
            let outside = lookup.outside_addresses(&interface.id);
            let layer = experiment.links[link].layer;
            let mut port = port(interface, [place, node, link], layer, outside)?;
            if places[place].kind == PlaceKind::Openflow {
                port.device = device_in_fabric(index);
            }
            ports.push(port);
        }
        let links = experiment.links.iter();
        let ends = links
            .map(|link| [port_of[&link.a], port_of[&link.b]])
            .collect();
        let mut layout = Self {
            places,
            ports,
            interfaces_of_node,
            ends,
            port_of,
            link_of,
            place_of,
        };
        layout.check_names()?;
        layout.add_shaping(experiment);
        Ok(layout)
    }

    fn add_shaping(&mut self, experiment: &Experiment) {
        for direction in directions_from(experiment, false) {
            let link = &experiment.links[direction / 2];
            let port = &mut self.ports[self.ends[direction / 2][direction % 2]];
            port.feels_link = true;
            let described = link.direction(HopDirection::BOTH[direction % 2]);
            port.shaping = Shaping::before(described, port.layer, port.mtu_bytes);
        }
    }

    fn check_names(&self) -> Result<(), LiveError> {
        for place in &self.places {
            let mut taken = BTreeMap::new();
            for &index in &place.interfaces {
                let port = &self.ports[index];
                if RESERVED_NAMES.contains(&port.device.as_str()) {
                    let why = format!(
                        "{}: the kernel keeps the name {} for itself; call the interface otherwise",
                        port.id, port.device
                    );
                    return Err(LiveError::Failed(why));
                }
                if let Some(other) = taken.insert(&port.device, &port.id) {
                    let why = format!(
                        "{other} and {}: both would be the device {}, as a name has at most {LONGEST_NAME_BYTES} bytes; call one otherwise",
                        port.id, port.device
                    );
                    return Err(LiveError::Failed(why));
                }
            }
        }
        Ok(())
    }

    pub(super) fn kind_at(&self, port: usize) -> PlaceKind {
        self.places[self.ports[port].place].kind
    }

    /// Returns the interface at the other end of the link.
    pub(super) fn peer(&self, port: usize) -> usize {
        let [a, b] = self.ends[self.ports[port].link];
        if a == port { b } else { a }
    }
}

fn index_by_id<'a>(ids: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    ids.enumerate()
        .map(|(index, id)| (id.clone(), index))
        .collect()
}

fn ids_of_nodes(experiment: &Experiment) -> impl Iterator<Item = &String> {
    let hosts = experiment.hosts.iter().map(|host| &host.id);
    hosts.chain(experiment.nodes.iter().map(|node| &node.id))
}

/// Returns the places, and the index of the place of each host and node. All controlled switches
/// share one.
fn places_of(
    experiment: &Experiment,
    machine: Option<&str>,
) -> (Vec<PlacePlan>, HashMap<String, usize>) {
    let place = |id: &String, kind, host| PlacePlan {
        id: id.clone(),
        kind,
        host,
        is_here: host.and_then(|host: usize| experiment.hosts[host].machine()) == machine,
        interfaces: Vec::new(),
    };
    let hosts = experiment.hosts.iter().enumerate();
    let hosts = hosts.map(|(index, host)| place(&host.id, PlaceKind::Host, Some(index)));
    let mut places: Vec<PlacePlan> = hosts.collect();
    let mut place_of = index_by_id(places.iter().map(|place| &place.id));
    let mut fabric = None;
    for node in &experiment.nodes {
        let kind = match node.kind {
            NodeKind::Router => PlaceKind::Router,
            NodeKind::Switch | NodeKind::Ap => PlaceKind::Switch,
            NodeKind::Openflow => PlaceKind::Openflow,
        };
        let next = places.len();
        let index = match kind {
            PlaceKind::Openflow => *fabric.get_or_insert(next),
            _ => next,
        };
        place_of.insert(node.id.clone(), index);
        if index == next {
            let id = match kind {
                PlaceKind::Openflow => &FABRIC.to_owned(),
                _ => &node.id,
            };
            places.push(place(id, kind, None));
        }
    }
    (places, place_of)
}

fn port(
    interface: &Interface,
    [place, node, link]: [usize; 3],
    layer: Layer,
    outside: Vec<IpAddr>,
) -> Result<Port, LiveError> {
    let ipv6 = match interface.mtu_bytes {
        SMALLEST_MTU_OF_IPV6_BYTES.. => &interface.ipv6,
        _ => &None,
    };
    Ok(Port {
        id: interface.id.clone(),
        place,
        node,
        link,
        device: device_name(&interface.id),
        parent: interface.device.clone(),
        layer,
        mtu_bytes: interface.mtu_bytes,
        up: interface.up,
        feels_link: false,
        shaping: None,
        ipv4: prefixed(&interface.id, &interface.ipv4)?,
        ipv6: prefixed(&interface.id, ipv6)?,
        outside,
    })
}

/// Returns the name of the device of an interface of a controlled switch, by the index of the
/// interface in the experiment. All these switches share a namespace.
pub(crate) fn device_in_fabric(interface: usize) -> String {
    format!("p{interface}")
}

/// Returns the part behind the dot, cut to the length that the kernel allows.
fn device_name(interface: &str) -> String {
    let name = interface
        .split_once('.')
        .map_or(interface, |(_, name)| name);
    let mut end = name.len().min(LONGEST_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

fn prefixed(interface: &str, text: &Option<String>) -> Result<Option<Prefixed>, LiveError> {
    let Some(text) = text else { return Ok(None) };
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length: u8 = length.parse().ok().filter(|length| *length <= longest)?;
        Some(Prefixed { address, length })
    });
    match parsed {
        Some(prefixed) => Ok(Some(prefixed)),
        None => Err(LiveError::Failed(format!(
            "{interface}: found address {text}, allowed is one with a prefix length, as in {}/24 or {}/64",
            Ipv4Addr::new(10, 1, 1, 1),
            Ipv6Addr::new(0xfd00, 1, 1, 0, 0, 0, 0, 1),
        ))),
    }
}

/// Returns the link-layer address of an interface: locally administered, its index in the last four
/// bytes.
pub(crate) fn mac_of(port: usize) -> Mac {
    let [a, b, c, d] = (port as u32).to_be_bytes();
    [0x02, 0x00, a, b, c, d]
}

/// Returns the link-layer address of the bridge of a switch; no interface has the same.
pub(super) fn mac_of_bridge(place: usize) -> Mac {
    let [a, b, c, d] = (place as u32).to_be_bytes();
    [0x02, 0x01, a, b, c, d]
}
