//! Events of path managers, for the record of the run.

use std::net::{IpAddr, SocketAddr};

use experiment::time::Nanos;
use serde::{Deserialize, Serialize};

/// An event on the subflows or addresses of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEvent {
    /// When this process learnt of it or did it, on the run's clock.
    pub time_ns: Nanos,
    /// Id of the host.
    pub host: String,
    /// Id of the flow; `None` for connections of other programs and for events of the whole host.
    pub flow: Option<String>,
    /// The kernel's number of the connection on this host.
    pub token: Option<u32>,
    /// The kind of event.
    pub what: What,
    /// The end on this host.
    pub local: Option<End>,
    /// The peer's end.
    pub remote: Option<End>,
    /// ID of the local address (RFC 8684, section 3.2).
    pub local_id: Option<u8>,
    /// ID of the remote address.
    pub remote_id: Option<u8>,
    /// Whether the subflow has backup priority.
    pub backup: Option<bool>,
    /// The error or reason, if there is one.
    pub why: Option<String>,
}

/// Kinds of [`PathEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The handshake of a connection is complete.
    ConnectionCreated,
    /// The peer has confirmed MPTCP (RFC 8684, section 3.1). Further subflows are possible from now
    /// on.
    ConnectionEstablished,
    /// A connection is closed.
    ConnectionClosed,
    /// This host opens a subflow.
    SubflowOpening,
    /// This host closes a subflow.
    SubflowClosing,
    /// A further subflow is established.
    SubflowEstablished,
    /// A subflow is closed or could not be established.
    SubflowClosed,
    /// The peer changed the priority of a subflow.
    PriorityReceived,
    /// This host changes the priority of a subflow, or of all subflows from an address.
    PrioritySet,
    /// A local address is usable, for the first time or again. Path managers learn of it after
    /// their delay.
    AddressUp,
    /// A local address is gone.
    AddressDown,
    /// This host announces an address.
    AddressAnnounced,
    /// This host withdraws an address.
    AddressRemoved,
    /// The peer announced an address.
    AnnouncementReceived,
    /// The peer withdrew an address.
    RemovalReceived,
    /// The in-kernel path manager got an address at the start.
    EndpointAdded,
    /// The kernel refused a request; `why` has the reason.
    Refused,
    /// Events of the kernel were lost because they did not fit into the buffer.
    EventsLost,
}

/// An address, with a port if it is the end of a subflow. Serialized as text: `10.1.1.1` or
/// `10.1.1.1:4000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum End {
    /// Only the address.
    Address(IpAddr),
    /// Address and port.
    Port(SocketAddr),
}

impl From<IpAddr> for End {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl From<SocketAddr> for End {
    fn from(end: SocketAddr) -> Self {
        match end.port() {
            0 => Self::Address(end.ip()),
            _ => Self::Port(end),
        }
    }
}

/// An event without its time and host.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) what: What,
    pub(crate) flow: Option<String>,
    pub(crate) token: Option<u32>,
    pub(crate) local: Option<End>,
    pub(crate) remote: Option<End>,
    pub(crate) local_id: Option<u8>,
    pub(crate) remote_id: Option<u8>,
    pub(crate) backup: Option<bool>,
    pub(crate) why: Option<String>,
}

impl Note {
    pub(crate) fn new(what: What) -> Self {
        Self {
            what,
            flow: None,
            token: None,
            local: None,
            remote: None,
            local_id: None,
            remote_id: None,
            backup: None,
            why: None,
        }
    }

    pub(crate) fn local(mut self, local: impl Into<End>) -> Self {
        self.local = Some(local.into());
        self
    }

    pub(crate) fn remote(mut self, remote: impl Into<End>) -> Self {
        self.remote = Some(remote.into());
        self
    }

    pub(crate) fn local_id(mut self, id: u8) -> Self {
        self.local_id = Some(id);
        self
    }

    pub(crate) fn backup(mut self, backup: bool) -> Self {
        self.backup = Some(backup);
        self
    }

    pub(crate) fn why(mut self, why: impl ToString) -> Self {
        self.why = Some(why.to_string());
        self
    }

    pub(crate) fn at(self, time_ns: Nanos, host: &str) -> PathEvent {
        PathEvent {
            time_ns,
            host: host.to_owned(),
            flow: self.flow,
            token: self.token,
            what: self.what,
            local: self.local,
            remote: self.remote,
            local_id: self.local_id,
            remote_id: self.remote_id,
            backup: self.backup,
            why: self.why,
        }
    }
}
