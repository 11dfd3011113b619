//! What a proxy has done.

use serde::Serialize;

/// What has passed by an interface.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceReport {
    /// Its name.
    pub interface: String,
    /// Payload of TCP that was sent, in bytes; what was sent again counts again.
    pub sent_bytes: u64,
    /// Payload of TCP that arrived, in bytes; what arrived again counts again.
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

/// What a proxy has done from its start to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Connections over the interfaces.
    pub connections: u64,
    /// Of these, those that spoke TCP from the start or from some time on.
    pub without_mptcp: u64,
    /// What was asked for and did not come to a connection.
    pub refused: u64,
    /// In the order in which they were asked for.
    pub interfaces: Vec<InterfaceReport>,
    /// How the command ended, as a shell tells it; of a gateway there is none.
    pub exit_status: Option<i32>,
}
