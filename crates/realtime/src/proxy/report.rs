//! The report of a proxy.

use serde::Serialize;

/// The traffic of an interface.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceReport {
    /// Its name.
    pub interface: String,
    /// TCP payload sent, in bytes, including retransmissions.
    pub sent_bytes: u64,
    /// TCP payload received, in bytes, including duplicates.
    pub received_bytes: u64,
    /// Packets for which there was no route, no address or no room.
    pub packets_not_sent: u64,
}

impl InterfaceReport {
    pub(super) fn new(name: &str) -> Self {
        Self {
            interface: name.to_owned(),
            sent_bytes: 0,
            received_bytes: 0,
            packets_not_sent: 0,
        }
    }
}

/// The report of a proxy from its start to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Connections over the interfaces.
    pub connections: u64,
    /// Connections that were plain TCP from the start or fell back to it.
    pub without_mptcp: u64,
    /// Requests that did not lead to a connection.
    pub refused: u64,
    /// In the order of the settings.
    pub interfaces: Vec<InterfaceReport>,
    /// The exit status of the command in the form of a shell; `None` for a gateway.
    pub exit_status: Option<i32>,
}
