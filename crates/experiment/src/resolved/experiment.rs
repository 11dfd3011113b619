//! The experiment as a whole: its network, its flows, its events and its measurements.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::validation::validate;
use super::{
    Access, Action, Control, Direction, Flow, HopDirection, Host, Machine, Middlebox, ResolvedError,
};
use crate::time::Nanos;

/// The schema that this program reads.
pub const SCHEMA: &str = "mptcplab/experiment/3";

/// A resolved experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Name of this member of its family.
    pub name: String,
    /// A title of one line.
    #[serde(deserialize_with = "Option::deserialize")]
    pub title: Option<String>,
    /// A longer description.
    #[serde(deserialize_with = "Option::deserialize")]
    pub description: Option<String>,
    /// The profiles that supplied values.
    pub profiles: Vec<String>,
    /// The values that this member has for the parameters of the family.
    pub parameters: Map<String, Value>,
    /// The latest end of the run.
    pub duration_ns: Nanos,
    /// What differs between seeds.
    pub vary: Vary,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The routers, switches, access points and OpenFlow switches.
    pub nodes: Vec<Node>,
    /// All interfaces of hosts and nodes.
    pub interfaces: Vec<Interface>,
    /// Sets of interfaces without a router between them.
    pub subnets: Vec<Subnet>,
    /// Serializers shared by several links.
    pub media: Vec<Medium>,
    /// Links, each between two interfaces.
    pub links: Vec<Link>,
    /// The access networks that carry packets of links in place of serializers.
    pub access: Vec<Access>,
    /// The middleboxes at the ends of links. Packets that leave an interface pass its middleboxes
    /// in this order.
    pub middleboxes: Vec<Middlebox>,
    /// How switches of kind `openflow` are controlled. `None` if there are none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub control: Option<Control>,
    /// Flows.
    pub flows: Vec<Flow>,
    /// The events, in ascending order of time.
    pub events: Vec<Event>,
    /// What is measured.
    pub measure: Measure,
    /// The expectations. They are evaluated by the reader of the samples.
    pub expect: Vec<String>,
    /// Files with users' own algorithms that flows name.
    pub user_code: Vec<UserCode>,
    /// Maps fields of the description to where their values come from. Back-ends ignore it.
    #[schemars(with = "BTreeMap<String, String>")]
    pub origins: IgnoredAny,
}

impl Experiment {
    /// Reads and validates the JSON. Afterwards every id refers to something and every number is in
    /// its range.
    ///
    /// # Errors
    /// Fails if the JSON is malformed, does not match the schema, or contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, ResolvedError> {
        let experiment: Self = serde_json::from_str(text)?;
        validate(&experiment)?;
        Ok(experiment)
    }

    /// Returns the machines of its hosts, each once, in the order of the hosts.
    pub fn machines(&self) -> Vec<&Machine> {
        let mut found: Vec<&Machine> = Vec::new();
        for machine in self.hosts.iter().filter_map(|host| host.machine.as_ref()) {
            if found.iter().all(|one| one.id != machine.id) {
                found.push(machine);
            }
        }
        found
    }

    /// Returns the machine of a host; `None` for the one that runs the experiment, which has all
    /// nodes.
    pub fn machine_of(&self, node: &str) -> Option<&str> {
        let host = self.hosts.iter().find(|host| host.id == node);
        host.and_then(Host::machine)
    }
}

/// A file with users' own algorithms.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserCode {
    /// The file as flows name it: the part before the colon, if there is one.
    pub file: String,
    /// Its text, or the bytes of an eBPF object in base64.
    pub source: String,
}

/// What differs between seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// Each flow starts later by a draw from [0, `start_ns`).
    pub start_ns: Nanos,
    /// The delay of each link is scaled by 1 plus or minus at most `rtt_ppm` millionths. Both
    /// directions get the same factor.
    pub rtt_ppm: u32,
    /// The time between two events is scaled by 1 plus or minus at most `events_ppm` millionths. It
    /// changes by at most [`crate::schedule::MOST_MOVED_NS`].
    pub events_ppm: u32,
}

/// A node that forwards.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Id, unique among hosts and nodes.
    pub id: String,
    /// The kind of node.
    pub kind: NodeKind,
    /// How it chooses among several equal next hops. `None` leaves the choice to the paths of the
    /// flows.
    #[serde(deserialize_with = "Option::deserialize")]
    pub next_hop: Option<NextHop>,
}

/// How a router chooses among the next hops of equally short routes. All packets between two ports
/// take the same next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextHop {
    /// By a hash of the addresses.
    EcmpL3,
    /// By a hash of addresses and ports.
    EcmpL4,
    /// At random for each pair of addresses and ports, with the seed of the run.
    Random,
    /// In turn, by the sum of the two ports.
    ByPort,
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Forwards between subnets.
    Router,
    /// Forwards within a subnet, invisible at the IP layer.
    Switch,
    /// A switch with a radio.
    Ap,
    /// A switch that forwards according to the entries in its tables, which a controller installs.
    Openflow,
}

/// The attachment of a host or node to a link.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Id, such as `client.wlan0`.
    pub id: String,
    /// Id of its host or node.
    pub node: String,
    /// Id of its link.
    pub link: String,
    /// Id of its subnet.
    pub subnet: u64,
    /// IPv4 address with prefix length. Ports of switches have none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ipv4: Option<String>,
    /// IPv6 address with prefix length. Ports of switches have none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ipv6: Option<String>,
    /// Length of the largest IP packet in bytes.
    pub mtu_bytes: u32,
    /// Whether the interface is up at the start.
    pub up: bool,
    /// The device of its host's machine by which it takes part in a real link. `None` for an
    /// interface at an emulated link.
    #[serde(deserialize_with = "Option::deserialize")]
    pub device: Option<ParentDevice>,
}

impl Interface {
    /// Returns its addresses, IPv4 first.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let texts = [&self.ipv4, &self.ipv6].into_iter().flatten();
        let addresses = texts.filter_map(|text| text.split('/').next()?.parse().ok());
        addresses.collect()
    }
}

/// A device that a machine has. The interface of a host is a child of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParentDevice {
    /// Its name on the machine.
    pub name: String,
    /// The kind of the child. `None` is macvlan, or ipvlan if the device is wireless.
    #[serde(deserialize_with = "Option::deserialize")]
    pub child: Option<ChildKind>,
}

/// A kind of device that takes part in the network of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildKind {
    /// With a link-layer address of its own.
    Macvlan,
    /// With the link-layer address of its parent.
    Ipvlan,
}

impl ChildKind {
    /// Returns its name, as ip(8) has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
        }
    }
}

/// A set of interfaces without a router between them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subnet {
    /// Id.
    pub id: u64,
    /// IPv4 prefix.
    pub ipv4: String,
    /// IPv6 prefix.
    pub ipv6: String,
}

/// A serializer shared by several links.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// Id, unique among media.
    pub id: String,
    /// The rate in bit/s. `None` leaves each link its own rate.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_bps: Option<u64>,
    /// Bytes per packet that the rate covers in addition to the IP length.
    pub overhead_bytes: u32,
}

/// A link between two interfaces.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Id, unique among links.
    pub id: String,
    /// Interface at one end.
    pub a: String,
    /// Interface at the other end.
    pub b: String,
    /// Id of the medium that both directions share with other links. `None` gives each direction
    /// its own serializer.
    #[serde(deserialize_with = "Option::deserialize")]
    pub medium: Option<String>,
    /// The layer of the traffic that the link carries on a real network.
    pub layer: Layer,
    /// Whether it is a link between devices that machines have. Both directions then describe
    /// nothing, because the link is not emulated.
    pub real: bool,
    /// From `a` to `b`.
    pub forward: Direction,
    /// From `b` to `a`.
    pub backward: Direction,
}

impl Link {
    /// Returns the id of the interface at which a direction begins.
    pub fn beginning(&self, side: HopDirection) -> &str {
        match side {
            HopDirection::Forward => &self.a,
            HopDirection::Backward => &self.b,
        }
    }

    /// Returns the parameters of a direction.
    pub fn direction(&self, side: HopDirection) -> &Direction {
        match side {
            HopDirection::Forward => &self.forward,
            HopDirection::Backward => &self.backward,
        }
    }
}

/// The layer of the traffic that a link carries. It does not affect the link model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "u8")]
#[schemars(extend("enum" = [2, 3]))]
pub enum Layer {
    /// Ethernet frames.
    Two,
    /// IP packets.
    Three,
}

impl TryFrom<u8> for Layer {
    type Error = String;

    fn try_from(layer: u8) -> Result<Self, Self::Error> {
        match layer {
            2 => Ok(Self::Two),
            3 => Ok(Self::Three),
            _ => Err(format!("layer: found {layer}, allowed is 2 or 3")),
        }
    }
}

/// An action at a given time.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Id, unique among events.
    pub id: String,
    /// Id of the event in the description from which this event was derived.
    #[serde(deserialize_with = "Option::deserialize")]
    pub parent: Option<String>,
    /// When it happens.
    pub at_ns: Nanos,
    /// What happens.
    pub action: Action,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Interval between samples.
    pub every_ns: Nanos,
    /// Ids of the interfaces whose packets are captured.
    pub captures: Vec<String>,
    /// Size of a data unit of a byte stream. With UDP a unit is a datagram.
    pub unit_bytes: u64,
    /// Interval between probes on every path of every flow. `None` sends no probes.
    #[serde(deserialize_with = "Option::deserialize")]
    pub probe_rtt_ns: Option<Nanos>,
}
