//! The control of a network of OpenFlow switches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Nanos;

/// How the switches of kind `openflow` are controlled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// When entries are installed.
    pub install: Install,
    /// Program and arguments of a user's own controller. `None` starts mptcplab's own.
    #[serde(deserialize_with = "Option::deserialize")]
    pub command: Option<Vec<String>>,
    /// Whether the controller compares the links that it discovers with the description.
    pub discover: bool,
    /// Interval between two readings of the counters of switches.
    pub statistics_ns: Nanos,
    /// The cost of each link between nodes, by which paths are chosen.
    pub costs: Vec<LinkCost>,
    /// Groups of links that fail together.
    pub srlg: Vec<SharedRiskGroup>,
    /// What happens below the transport when a link fails, until a `set_recovery`.
    pub recovery: Recovery,
}

/// When the entries of a flow are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Install {
    /// Before the run starts.
    Proactive,
    /// When the first packet of a flow or subflow reaches a switch without an entry for it.
    Reactive,
}

/// The cost of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkCost {
    /// Id of the link.
    pub link: String,
    /// The cost of using it, in either direction. With cost `delay` it is in nanoseconds.
    pub cost: u64,
}

/// A shared-risk link group (RFC 4202, section 2.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedRiskGroup {
    /// Id, unique among groups.
    pub id: String,
    /// Ids of its links.
    pub links: Vec<String>,
}

/// What happens below the transport when a link fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// The strategy: a name, or `FILE:CLASS`.
    pub strategy: String,
    /// Parameters of the strategy.
    pub parameters: Map<String, Value>,
    /// Time from a failure until the controller knows of it. `None` means the time that a switch
    /// takes to report its port status.
    #[serde(deserialize_with = "Option::deserialize")]
    pub detect_ns: Option<Nanos>,
}
