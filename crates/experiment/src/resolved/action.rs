//! The actions of events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Direction, Hop};
use crate::time::Nanos;

/// One change of the network or of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Takes an interface down, so it no longer sends or receives. Packets already on the link
    /// continue, and the other end is not notified.
    InterfaceDown {
        /// Id of the interface.
        interface: String,
    },
    /// Undoes `interface_down`.
    InterfaceUp {
        /// Id of the interface.
        interface: String,
    },
    /// Takes a link out of service.
    LinkDown {
        /// Id of the link.
        link: String,
        /// How the link goes down.
        by: LinkDownBy,
    },
    /// Undoes a `link_down` done in the same way.
    LinkUp {
        /// Id of the link.
        link: String,
        /// How the link was taken down.
        by: LinkDownBy,
    },
    /// Gives both directions of a link new values.
    SetLink {
        /// Id of the link.
        link: String,
        /// From `a` to `b`.
        forward: Box<Direction>,
        /// From `b` to `a`.
        backward: Box<Direction>,
    },
    /// Moves a cellular device to another cell. Both directions of its link carry nothing for a
    /// time, and then have the capacity of the other cell.
    Handover {
        /// Id of the link of the device.
        link: String,
        /// How long the link carries nothing.
        gap_ns: Nanos,
        /// Whether the queue of the old cell is forwarded to the new one. Otherwise it is lost.
        forward_queue: bool,
    },
    /// Moves a Wi-Fi station to another access point. Packets queued for it at the old one are
    /// lost.
    Roam {
        /// Id of the link of the station.
        link: String,
        /// How long the station sends and receives nothing.
        gap_ns: Nanos,
    },
    /// Gives a Wi-Fi station a new mean signal from now on.
    SetSignal {
        /// Id of the link of the station.
        link: String,
        /// The mean signal-to-noise ratio in thousandths of a dB, -100000 to 100000.
        mean_mdb: i64,
    },
    /// Adds the address of an interface, for the first time or again.
    AddressAdd {
        /// Id of the interface.
        interface: String,
    },
    /// Removes the address of an interface.
    AddressRemove {
        /// Id of the interface.
        interface: String,
    },
    /// Makes the subflows of an interface backup, or regular again.
    SetBackup {
        /// Id of the interface.
        interface: String,
        /// Whether they become backup.
        on: bool,
    },
    /// Sends the packets of a path over other links. Packets that have passed the node where the
    /// paths diverge continue on the old one.
    Reroute {
        /// Id of the flow.
        flow: String,
        /// Index of the path among those of the flow.
        path: u32,
        /// The links from the sender to the receiver.
        there: Vec<Hop>,
        /// The links from the receiver to the sender.
        back: Vec<Hop>,
        /// What causes it.
        by: RerouteBy,
    },
    /// Lets another strategy recover the network from now on. The reroutes that follow from it are
    /// actions of their own. In real time the controller reroutes by itself.
    SetRecovery {
        /// The strategy: a name, or `FILE:CLASS`. That of `control.recovery` has the parameters
        /// given there, any other one has its defaults.
        strategy: String,
    },
    /// Runs a program on a host.
    Exec {
        /// Id of the host.
        host: String,
        /// Program and arguments.
        argv: Vec<String>,
    },
}

/// What causes a reroute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RerouteBy {
    /// An event of the description, or an injected one.
    Description,
    /// The recovery strategy, after a failure or from the change of the strategy on. In real time
    /// the controller reroutes by itself.
    Recovery,
}

/// How a link is taken out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkDownBy {
    /// The link is cut: packets queued or in flight are lost too.
    Cut,
    /// A rule drops packets offered to the link. Packets queued or in flight continue.
    DropRule,
    /// The ports of the link at routers, switches and access points go down.
    PortDown,
}
