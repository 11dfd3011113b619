//! Messages of the generic netlink family `mptcp_pm` (linux/mptcp_pm.h; in older headers
//! linux/mptcp.h).

use std::net::{IpAddr, SocketAddr};

use mptcp::pm::EndpointFlags;
use netlink_packet_core::{
    DecodeError, Emitable, NLA_F_NESTED, Nla, NlasIterator, ParseableParametrized,
};
use netlink_packet_generic::{GenlFamily, GenlHeader};

/// `MPTCP_PM_NAME`.
pub(super) const FAMILY: &str = "mptcp_pm";

/// `MPTCP_PM_EV_GRP_NAME`.
pub(super) const EVENTS_GROUP: &str = "mptcp_pm_events";

/// `MPTCP_PM_VER`.
const VERSION: u8 = 1;

/// `MPTCP_PM_CMD_*`.
mod command {
    pub(super) const ADD_ADDR: u8 = 1;
    pub(super) const GET_ADDR: u8 = 3;
    pub(super) const SET_LIMITS: u8 = 5;
    pub(super) const GET_LIMITS: u8 = 6;
    pub(super) const SET_FLAGS: u8 = 7;
    pub(super) const ANNOUNCE: u8 = 8;
    pub(super) const REMOVE: u8 = 9;
    pub(super) const SUBFLOW_CREATE: u8 = 10;
    pub(super) const SUBFLOW_DESTROY: u8 = 11;
}

/// `MPTCP_PM_ATTR_*`.
mod attribute {
    pub(super) const ADDR: u16 = 1;
    pub(super) const RCV_ADD_ADDRS: u16 = 2;
    pub(super) const SUBFLOWS: u16 = 3;
    pub(super) const TOKEN: u16 = 4;
    pub(super) const LOC_ID: u16 = 5;
    pub(super) const ADDR_REMOTE: u16 = 6;
}

/// `MPTCP_PM_ADDR_ATTR_*`.
mod address_attribute {
    pub(super) const FAMILY: u16 = 1;
    pub(super) const ID: u16 = 2;
    pub(super) const ADDR4: u16 = 3;
    pub(super) const ADDR6: u16 = 4;
    pub(super) const PORT: u16 = 5;
    pub(super) const FLAGS: u16 = 6;
}

/// `MPTCP_ATTR_*`, the attributes of events.
mod event_attribute {
    pub(super) const TOKEN: u16 = 1;
    pub(super) const LOC_ID: u16 = 3;
    pub(super) const REM_ID: u16 = 4;
    pub(super) const SADDR4: u16 = 5;
    pub(super) const SADDR6: u16 = 6;
    pub(super) const DADDR4: u16 = 7;
    pub(super) const DADDR6: u16 = 8;
    pub(super) const SPORT: u16 = 9;
    pub(super) const DPORT: u16 = 10;
    pub(super) const BACKUP: u16 = 11;
    pub(super) const ERROR: u16 = 12;
    pub(super) const FLAGS: u16 = 13;
    pub(super) const RESET_REASON: u16 = 16;
    pub(super) const SERVER_SIDE: u16 = 18;
}

/// `MPTCP_PM_EV_FLAG_SERVER_SIDE`, which newer kernels send in addition to the attribute.
const SERVER_SIDE_FLAG: u16 = 1 << 1;

/// `AF_INET` and `AF_INET6`.
const FAMILIES: (u16, u16) = (2, 10);

/// An attribute with its value as transmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    kind: u16,
    value: Vec<u8>,
}

impl Attribute {
    fn new(kind: u16, value: impl Into<Vec<u8>>) -> Self {
        let value = value.into();
        Self { kind, value }
    }

    fn nested(kind: u16, inner: &[Self]) -> Self {
        let mut value = vec![0; inner.buffer_len()];
        inner.emit(&mut value);
        Self::new(kind | NLA_F_NESTED, value)
    }
}

impl Nla for Attribute {
    fn value_len(&self) -> usize {
        self.value.len()
    }

    fn kind(&self) -> u16 {
        self.kind
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.value);
    }
}

/// A message of the family: a command or the kind of an event, and attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PmMessage {
    command: u8,
    attributes: Vec<Attribute>,
}

impl GenlFamily for PmMessage {
    fn family_name() -> &'static str {
        FAMILY
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        VERSION
    }
}

impl Emitable for PmMessage {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for PmMessage {
    fn parse_with_param(payload: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        let attributes = NlasIterator::new(payload).map(|nla| {
            let nla = nla?;
            Ok(Attribute::new(nla.kind(), nla.value()))
        });
        Ok(Self {
            command: header.cmd,
            attributes: attributes.collect::<Result<_, DecodeError>>()?,
        })
    }
}

/// A request to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Adds an endpoint to the in-kernel path manager.
    AddEndpoint {
        address: IpAddr,
        port: Option<u16>,
        flags: u32,
    },
    /// Sets how many further subflows a connection may have, and how many announced addresses it
    /// accepts.
    SetLimits { subflows: u32, announced: u32 },
    /// Changes the flags of an endpoint, and the priority of its subflows.
    SetEndpointFlags { address: IpAddr, flags: u32 },
    /// Announces an address to the peer.
    Announce {
        token: u32,
        id: u8,
        address: IpAddr,
        port: Option<u16>,
    },
    /// Withdraws an address.
    Remove { token: u32, id: u8 },
    /// Opens a subflow.
    Create {
        token: u32,
        local: IpAddr,
        local_id: u8,
        remote: SocketAddr,
        flags: u32,
    },
    /// Closes a subflow.
    Destroy {
        token: u32,
        local: SocketAddr,
        remote: SocketAddr,
    },
    /// Changes the priority of a subflow.
    SetSubflowFlags {
        token: u32,
        local: SocketAddr,
        remote: SocketAddr,
        flags: u32,
    },
}

/// The attributes of an address in a request.
#[derive(Clone, Copy, Debug, Default)]
struct Endpoint {
    id: Option<u8>,
    port: Option<u16>,
    flags: Option<u32>,
}

impl Endpoint {
    fn at(port: Option<u16>) -> Self {
        Self {
            port,
            ..Self::default()
        }
    }

    fn port(port: u16) -> Self {
        Self::at(Some(port))
    }

    fn flags(mut self, flags: u32) -> Self {
        self.flags = Some(flags);
        self
    }

    fn id(mut self, id: u8) -> Self {
        self.id = Some(id);
        self
    }

    fn attribute(self, kind: u16, address: IpAddr) -> Attribute {
        use address_attribute::{ADDR4, ADDR6, FAMILY, FLAGS, ID, PORT};
        let mut inner = match address {
            IpAddr::V4(address) => vec![
                Attribute::new(FAMILY, FAMILIES.0.to_ne_bytes()),
                Attribute::new(ADDR4, address.octets()),
            ],
            IpAddr::V6(address) => vec![
                Attribute::new(FAMILY, FAMILIES.1.to_ne_bytes()),
                Attribute::new(ADDR6, address.octets()),
            ],
        };
        inner.extend(self.id.map(|id| Attribute::new(ID, [id])));
        let port = self.port;
        inner.extend(port.map(|port| Attribute::new(PORT, port.to_ne_bytes())));
        let flags = self.flags;
        inner.extend(flags.map(|flags| Attribute::new(FLAGS, flags.to_ne_bytes())));
        Attribute::nested(kind, &inner)
    }
}

impl Request {
    /// Returns the message of this request.
    pub(super) fn message(&self) -> PmMessage {
        let (command, attributes) = match *self {
            Self::AddEndpoint {
                address,
                port,
                flags,
            } => (command::ADD_ADDR, endpoint(address, port, flags)),
            Self::SetLimits {
                subflows,
                announced,
            } => (command::SET_LIMITS, limits(subflows, announced)),
            Self::SetEndpointFlags { address, flags } => {
                (command::SET_FLAGS, endpoint(address, None, flags))
            }
            Self::Announce {
                token,
                id,
                address,
                port,
            } => {
                let announced = Endpoint::at(port)
                    .id(id)
                    .flags(EndpointFlags::SIGNAL.bits());
                let announced = announced.attribute(attribute::ADDR, address);
                (command::ANNOUNCE, vec![of_connection(token), announced])
            }
            Self::Remove { token, id } => {
                let id = Attribute::new(attribute::LOC_ID, [id]);
                (command::REMOVE, vec![of_connection(token), id])
            }
            Self::Create {
                token,
                local,
                local_id,
                remote,
                flags,
            } => {
                let from = Endpoint::default().id(local_id).flags(flags);
                let from = from.attribute(attribute::ADDR, local);
                let attributes = vec![of_connection(token), from, remote_end(remote)];
                (command::SUBFLOW_CREATE, attributes)
            }
            Self::Destroy {
                token,
                local,
                remote,
            } => {
                let from = Endpoint::port(local.port()).attribute(attribute::ADDR, local.ip());
                let attributes = vec![of_connection(token), from, remote_end(remote)];
                (command::SUBFLOW_DESTROY, attributes)
            }
            Self::SetSubflowFlags {
                token,
                local,
                remote,
                flags,
            } => {
                let from = Endpoint::port(local.port()).flags(flags);
                let from = from.attribute(attribute::ADDR, local.ip());
                let attributes = vec![of_connection(token), from, remote_end(remote)];
                (command::SET_FLAGS, attributes)
            }
        };
        PmMessage {
            command,
            attributes,
        }
    }
}

fn of_connection(token: u32) -> Attribute {
    Attribute::new(attribute::TOKEN, token.to_ne_bytes())
}

fn remote_end(remote: SocketAddr) -> Attribute {
    Endpoint::port(remote.port()).attribute(attribute::ADDR_REMOTE, remote.ip())
}

fn endpoint(address: IpAddr, port: Option<u16>, flags: u32) -> Vec<Attribute> {
    vec![
        Endpoint::at(port)
            .flags(flags)
            .attribute(attribute::ADDR, address),
    ]
}

fn limits(subflows: u32, announced: u32) -> Vec<Attribute> {
    vec![
        Attribute::new(attribute::RCV_ADD_ADDRS, announced.to_ne_bytes()),
        Attribute::new(attribute::SUBFLOWS, subflows.to_ne_bytes()),
    ]
}

/// Kinds of the kernel's events about connections (`MPTCP_EVENT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotificationKind {
    Created,
    Established,
    Closed,
    Announced,
    Removed,
    SubflowEstablished,
    SubflowClosed,
    SubflowPriority,
}

impl NotificationKind {
    /// Returns the kind; `None` for events about listeners and those of newer kernels.
    fn of(command: u8) -> Option<Self> {
        Some(match command {
            1 => Self::Created,
            2 => Self::Established,
            3 => Self::Closed,
            6 => Self::Announced,
            7 => Self::Removed,
            10 => Self::SubflowEstablished,
            11 => Self::SubflowClosed,
            13 => Self::SubflowPriority,
            _ => return None,
        })
    }
}

/// An event. Addresses are as the kernel reports them: those of a socket for both families are IPv4
/// mapped to IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) kind: NotificationKind,
    pub(super) token: u32,
    pub(super) local: Option<SocketAddr>,
    /// For an announcement, the announced address.
    pub(super) remote: Option<SocketAddr>,
    pub(super) local_id: Option<u8>,
    pub(super) remote_id: Option<u8>,
    pub(super) backup: Option<bool>,
    /// The error number with which a subflow ended.
    pub(super) error: Option<u8>,
    /// Why the peer reset it (RFC 8684, section 3.6).
    pub(super) reset_reason: Option<u32>,
    pub(super) is_server_side: bool,
}

impl Notification {
    /// Reads a message; `None` if it is not about a connection.
    pub(super) fn read(message: &PmMessage) -> Option<Self> {
        use event_attribute as e;
        let kind = NotificationKind::of(message.command)?;
        let token = message.u32(e::TOKEN)?;
        let flags = message.u16(e::FLAGS).unwrap_or(0);
        let server_side = message.u8(e::SERVER_SIDE).is_some_and(|flag| flag != 0);
        Some(Self {
            kind,
            token,
            local: message.socket_address(e::SADDR4, e::SADDR6, e::SPORT),
            remote: message.socket_address(e::DADDR4, e::DADDR6, e::DPORT),
            local_id: message.u8(e::LOC_ID),
            remote_id: message.u8(e::REM_ID),
            backup: message.u8(e::BACKUP).map(|backup| backup != 0),
            error: message.u8(e::ERROR).filter(|&error| error != 0),
            reset_reason: message.u32(e::RESET_REASON),
            is_server_side: server_side || flags & SERVER_SIDE_FLAG != 0,
        })
    }
}

impl PmMessage {
    /// Returns the question for the limits of the namespace.
    pub(super) fn get_limits() -> Self {
        Self {
            command: command::GET_LIMITS,
            attributes: Vec::new(),
        }
    }

    /// Returns the question for the endpoints of the namespace, of which each is an answer.
    pub(super) fn list_endpoints() -> Self {
        Self {
            command: command::GET_ADDR,
            attributes: Vec::new(),
        }
    }

    /// Returns the limits of an answer: further subflows, announced addresses.
    pub(super) fn limits(&self) -> Option<(u32, u32)> {
        let announced = self.u32(attribute::RCV_ADD_ADDRS)?;
        Some((self.u32(attribute::SUBFLOWS)?, announced))
    }

    /// Returns the flags of the endpoint in an answer; 0 if it has none.
    pub(super) fn flags(&self) -> Option<u32> {
        let mut all = self.attributes.iter();
        let nested = all.find(|one| one.kind & !NLA_F_NESTED == attribute::ADDR)?;
        let inner = NlasIterator::new(nested.value.as_slice());
        let mut inner = inner.filter_map(Result::ok);
        let flags = inner.find(|nla| nla.kind() == address_attribute::FLAGS);
        let flags = flags.and_then(|nla| nla.value().try_into().ok());
        Some(flags.map_or(0, u32::from_ne_bytes))
    }

    fn value<const N: usize>(&self, kind: u16) -> Option<[u8; N]> {
        let found = self.attributes.iter().find(|one| one.kind == kind)?;
        found.value.as_slice().try_into().ok()
    }

    fn u8(&self, kind: u16) -> Option<u8> {
        self.value::<1>(kind).map(|[byte]| byte)
    }

    fn u16(&self, kind: u16) -> Option<u16> {
        self.value(kind).map(u16::from_ne_bytes)
    }

    fn u32(&self, kind: u16) -> Option<u32> {
        self.value(kind).map(u32::from_ne_bytes)
    }

    /// Reads an address and port. Ports of events are in network byte order, unlike those of
    /// requests.
    fn socket_address(&self, v4: u16, v6: u16, port: u16) -> Option<SocketAddr> {
        let v4 = self.value::<4>(v4).map(IpAddr::from);
        let address = v4.or_else(|| self.value::<16>(v6).map(IpAddr::from))?;
        let port = self.value(port).map_or(0, u16::from_be_bytes);
        Some(SocketAddr::new(address, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(request: &Request) -> Vec<u8> {
        let message = request.message();
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    /// Encodes an attribute without the library: length, kind, value, padding.
    fn raw(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_subflow_is_asked_for_with_token_id_and_both_ends() {
        let request = Request::Create {
            token: 0x0102_0304,
            local: "10.1.2.1".parse().unwrap(),
            local_id: 7,
            remote: "10.1.2.2:5001".parse().unwrap(),
            flags: EndpointFlags::BACKUP.bits(),
        };
        let family = raw(1, &2_u16.to_ne_bytes());
        let local = [
            family.clone(),
            raw(3, &[10, 1, 2, 1]),
            raw(2, &[7]),
            raw(6, &4_u32.to_ne_bytes()),
        ];
        let remote = [
            family,
            raw(3, &[10, 1, 2, 2]),
            raw(5, &5001_u16.to_ne_bytes()),
        ];
        let expected = [
            raw(4, &0x0102_0304_u32.to_ne_bytes()),
            raw(1 | NLA_F_NESTED, &local.concat()),
            raw(6 | NLA_F_NESTED, &remote.concat()),
        ];
        assert_eq!(request.message().command, 10);
        assert_eq!(emitted(&request), expected.concat());
    }

    #[test]
    fn an_event_is_read_whatever_the_order_of_its_attributes() {
        let payload = [
            raw(12, &[110]),
            raw(10, &5001_u16.to_be_bytes()),
            raw(9, &40_000_u16.to_be_bytes()),
            raw(7, &[10, 1, 2, 2]),
            raw(5, &[10, 1, 2, 1]),
            raw(1, &9_u32.to_ne_bytes()),
            raw(999, &[1, 2, 3]),
        ]
        .concat();
        let header = GenlHeader {
            cmd: 11,
            version: 1,
        };
        let message = PmMessage::parse_with_param(&payload[..], header).unwrap();
        let read = Notification::read(&message).unwrap();
        assert_eq!(read.kind, NotificationKind::SubflowClosed);
        assert_eq!((read.token, read.error), (9, Some(110)));
        assert_eq!(read.local, Some("10.1.2.1:40000".parse().unwrap()));
        assert_eq!(read.remote, Some("10.1.2.2:5001".parse().unwrap()));
    }

    #[test]
    fn attributes_that_lie_about_their_length_are_an_error() {
        let header = GenlHeader { cmd: 1, version: 1 };
        assert!(PmMessage::parse_with_param(&[200, 0, 1, 0, 1][..], header).is_err());
        let short = raw(1, &[1]);
        let message = PmMessage::parse_with_param(&short[..], header).unwrap();
        assert_eq!(Notification::read(&message), None);
    }
}
