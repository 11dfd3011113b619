//! What an event does.

use serde::{Deserialize, Serialize};

use super::Direction;

/// One change of the network or of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Nothing enters or leaves at this interface any more; what is on the wire goes on, and the other end is not told.
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
        /// By which means.
        by: LinkDownBy,
    },
    /// Undoes `link_down` by the same means.
    LinkUp {
        /// Id of the link.
        link: String,
        /// By which means it was taken down.
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
    /// Gives an interface its address (back).
    AddressAdd {
        /// Id of the interface.
        interface: String,
    },
    /// Takes an interface's address away.
    AddressRemove {
        /// Id of the interface.
        interface: String,
    },
    /// Makes the subflows of an interface backup ones, or regular ones again.
    SetBackup {
        /// Id of the interface.
        interface: String,
        /// Whether they are backup.
        on: bool,
    },
    /// Runs a program on a host.
    Exec {
        /// Id of the host.
        host: String,
        /// Program and arguments.
        argv: Vec<String>,
    },
}

impl Action {
    /// The `kind` of its JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InterfaceDown { .. } => "interface_down",
            Self::InterfaceUp { .. } => "interface_up",
            Self::LinkDown { .. } => "link_down",
            Self::LinkUp { .. } => "link_up",
            Self::SetLink { .. } => "set_link",
            Self::AddressAdd { .. } => "address_add",
            Self::AddressRemove { .. } => "address_remove",
            Self::SetBackup { .. } => "set_backup",
            Self::Exec { .. } => "exec",
        }
    }
}

/// How a link is taken out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkDownBy {
    /// The link is cut: what is queued or on the wire is lost too.
    Cut,
    /// A rule drops what is offered to the link; what is queued or on the wire goes on.
    DropRule,
    /// The link's ports at routers, switches and access points go down.
    PortDown,
}
