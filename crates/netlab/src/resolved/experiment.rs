//! The experiment as a whole: what there is, what happens, what is measured.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::validation::validate;
use super::{Action, Direction, Flow, HopDirection, Host, Middlebox, ResolvedError};
use crate::time::Nanos;

/// The schema this program reads.
pub const SCHEMA: &str = "mptcplab/experiment/1";

/// A resolved experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Name of this member of its family.
    pub name: String,
    /// One line for people.
    #[serde(deserialize_with = "Option::deserialize")]
    pub title: Option<String>,
    /// More for people.
    #[serde(deserialize_with = "Option::deserialize")]
    pub description: Option<String>,
    /// Profiles that gave values.
    pub profiles: Vec<String>,
    /// This member's values of the family's parameters.
    pub parameters: Map<String, Value>,
    /// When the run ends at the latest.
    pub duration_ns: Nanos,
    /// What differs between seeds.
    pub vary: Vary,
    /// End systems.
    pub hosts: Vec<Host>,
    /// What is between them.
    pub nodes: Vec<Node>,
    /// All interfaces of hosts and nodes.
    pub interfaces: Vec<Interface>,
    /// Sets of interfaces with no router between.
    pub subnets: Vec<Subnet>,
    /// Serializers shared by links.
    pub media: Vec<Medium>,
    /// Links, each between two interfaces.
    pub links: Vec<Link>,
    /// What stands at the ends of links; leaving packets pass those before one interface in this order.
    #[serde(default)]
    pub middleboxes: Vec<Middlebox>,
    /// Flows.
    pub flows: Vec<Flow>,
    /// The schedule, ascending in time.
    pub events: Vec<Event>,
    /// What is measured.
    pub measure: Measure,
    /// Expectations; whoever reads the samples judges them.
    pub expect: Vec<String>,
    /// Files of users' own algorithms that flows name.
    #[serde(default)]
    pub user_code: Vec<UserCode>,
    /// Where values came from; not kept.
    #[serde(default)]
    pub origins: IgnoredAny,
}

impl Experiment {
    /// Reads and validates the JSON: afterwards every id refers to something, and every number is in its range.
    ///
    /// # Errors
    /// JSON that is broken or not of the schema, and anything that contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, ResolvedError> {
        let experiment: Self = serde_json::from_str(text)?;
        validate(&experiment)?;
        Ok(experiment)
    }
}

/// A file with users' own algorithms.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserCode {
    /// As flows name it, before the colon if there is one.
    pub file: String,
    /// Its text; of an eBPF object its bytes in base64.
    pub source: String,
}

/// What differs between seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// Each flow starts later by a draw from [0, `start_ns`).
    pub start_ns: Nanos,
    /// Each link's delay is scaled by 1 plus or minus at most this many millionths, both directions alike.
    pub rtt_ppm: u32,
    /// The time between two events is scaled by 1 plus or minus at most this many millionths, and changed by no more
    /// than [`crate::schedule::MOST_MOVED_NS`].
    #[serde(default)]
    pub events_ppm: u32,
}

/// Something between hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Id, unique among hosts and nodes.
    pub id: String,
    /// What it is.
    pub kind: NodeKind,
    /// Which of several equal next hops it takes; `None` leaves that to the paths of the flows.
    #[serde(default)]
    pub next_hop: Option<NextHop>,
}

/// How a router chooses among the next hops of equally short ways. All packets between two ports take the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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

impl NextHop {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::EcmpL3 => "ecmp_l3",
            Self::EcmpL4 => "ecmp_l4",
            Self::Random => "random",
            Self::ByPort => "by_port",
        }
    }
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Forwards between subnets.
    Router,
    /// Forwards within a subnet, unseen.
    Switch,
    /// A switch with a radio.
    Ap,
}

/// Where a host or node is attached to a link.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Id, as in `client.wlan0`.
    pub id: String,
    /// Id of its host or node.
    pub node: String,
    /// Id of its link.
    pub link: String,
    /// Id of its subnet.
    pub subnet: u64,
    /// IPv4 address with prefix length; ports of switches have none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ipv4: Option<String>,
    /// IPv6 address with prefix length; ports of switches have none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ipv6: Option<String>,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// Whether it is up at the start.
    pub up: bool,
}

/// A set of interfaces joined with no router between.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subnet {
    /// Id.
    pub id: u64,
    /// IPv4 prefix.
    pub ipv4: String,
    /// IPv6 prefix.
    pub ipv6: String,
}

/// A serializer shared by links.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// Id, unique among media.
    pub id: String,
    /// Its rate; `None` leaves each link its own.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_bps: Option<u64>,
    /// Bytes per packet that the rate counts beyond the IP length.
    pub overhead_bytes: u32,
}

/// A link between two interfaces.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Id, unique among links.
    pub id: String,
    /// Interface at one end.
    pub a: String,
    /// Interface at the other end.
    pub b: String,
    /// Id of the medium that both directions share with others; `None` gives each a serializer of its own.
    #[serde(deserialize_with = "Option::deserialize")]
    pub medium: Option<String>,
    /// What the link carries on a machine.
    pub layer: Layer,
    /// From `a` to `b`.
    pub forward: Direction,
    /// From `b` to `a`.
    pub backward: Direction,
}

impl Link {
    /// Id of the interface at which a direction begins.
    pub fn beginning(&self, side: HopDirection) -> &str {
        match side {
            HopDirection::Forward => &self.a,
            HopDirection::Backward => &self.b,
        }
    }

    /// What it does in a direction.
    pub fn direction(&self, side: HopDirection) -> &Direction {
        match side {
            HopDirection::Forward => &self.forward,
            HopDirection::Backward => &self.backward,
        }
    }
}

/// Layer of what a link carries; the link model does not care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub enum Layer {
    /// Frames.
    Two,
    /// Packets.
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

/// Something that happens at a given time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Id, unique among events.
    pub id: String,
    /// The event of the description that it is part of.
    #[serde(deserialize_with = "Option::deserialize")]
    pub parent: Option<String>,
    /// When.
    pub at_ns: Nanos,
    /// What.
    pub action: Action,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Interval between samples.
    pub every_ns: Nanos,
    /// Interfaces whose packets are captured.
    pub captures: Vec<String>,
    /// Size of a data unit of a byte stream; with UDP a unit is a datagram.
    pub unit_bytes: u64,
    /// Interval between probes of every path of every flow; `None` makes none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub probe_rtt_ns: Option<Nanos>,
}
