//! Sockets of the family `mptcp_pm`: requests and their answers, and the kernel's events.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::{GenlCtrlAttrs, McastGrpAttrs};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use super::messages::{EVENTS_GROUP, FAMILY, Notification, PmMessage, Request};
use crate::LiveError;
use crate::network::netlink::{error_of, parse, uninterrupted};

/// Size of the receive buffer, enough for the events of thousands of subflows at once.
const EVENT_BUFFER_BYTES: usize = 4 << 20;

/// The kernel's numbers of the family and of its group of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Family {
    id: u16,
    events_group: u32,
}

/// Requests to the path manager of one namespace.
#[derive(Debug)]
pub(super) struct PmSocket {
    socket: Socket,
    family: Family,
    last_sequence: u32,
}

impl PmSocket {
    /// Opens a socket in the namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel lacks the family, or refuses a socket.
    pub(super) fn open() -> Result<Self, LiveError> {
        let socket = socket().map_err(LiveError::while_("opening a generic netlink socket"))?;
        let family = Family::resolve(&socket).map_err(|source| LiveError::Machine {
            what: format!("the kernel has no generic netlink family {FAMILY} ({source})"),
            remedy: "it needs Linux 6.1 or newer with CONFIG_MPTCP".to_owned(),
        })?;
        Ok(Self {
            socket,
            family,
            last_sequence: 0,
        })
    }

    /// Carries out a request.
    ///
    /// # Errors
    /// Returns the kernel's error, with its text if it has one.
    pub(super) fn request(&mut self, request: &Request) -> io::Result<()> {
        self.last_sequence += 1;
        let mut message = GenlMessage::from_payload(request.message());
        message.set_resolved_family_id(self.family.id);
        send(&self.socket, message, NLM_F_ACK, self.last_sequence)?;
        loop {
            for (sequence, payload) in receive::<GenlMessage<PmMessage>>(&self.socket)? {
                match payload {
                    NetlinkPayload::Error(error) if sequence == self.last_sequence => {
                        return match error.code {
                            None => Ok(()),
                            Some(_) => Err(error_of(&error)),
                        };
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns whether the kernel takes a request.
    pub(super) fn is_taken(&mut self, request: &Request) -> bool {
        self.request(request).is_ok()
    }

    /// Returns the limits of the namespace: further subflows, announced addresses.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(super) fn limits(&mut self) -> io::Result<(u32, u32)> {
        let answers = self.ask(PmMessage::get_limits(), NLM_F_ACK)?;
        let limits = answers.iter().find_map(PmMessage::limits);
        limits.ok_or_else(|| io::Error::other("the kernel does not tell its limits"))
    }

    /// Returns the flags of each endpoint of the namespace.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(super) fn endpoints(&mut self) -> io::Result<Vec<u32>> {
        let answers = self.ask(PmMessage::list_endpoints(), NLM_F_DUMP)?;
        Ok(answers.iter().filter_map(PmMessage::flags).collect())
    }

    /// Asks for messages, and returns them.
    fn ask(&mut self, question: PmMessage, flags: u16) -> io::Result<Vec<PmMessage>> {
        self.last_sequence += 1;
        let mut message = GenlMessage::from_payload(question);
        message.set_resolved_family_id(self.family.id);
        send(&self.socket, message, flags, self.last_sequence)?;
        let mut answers = Vec::new();
        loop {
            for (_, payload) in receive::<GenlMessage<PmMessage>>(&self.socket)? {
                match payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer.payload),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error_of(&error));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    _ => {}
                }
            }
        }
    }

    /// Opens a socket that receives the events of the same namespace from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn events(&self) -> Result<PmEvents, LiveError> {
        let doing = "listening to the events of the path manager";
        self.subscribe().map_err(LiveError::while_(doing))
    }

    fn subscribe(&self) -> io::Result<PmEvents> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        if set_socket_recv_buffer_size_force(&socket, EVENT_BUFFER_BYTES).is_err() {
            // Root of a user namespace gets the machine's limit. Events that do not fit are
            // detected.
            set_socket_recv_buffer_size(&socket, EVENT_BUFFER_BYTES)?;
        }
        socket.add_membership(self.family.events_group)?;
        socket.set_non_blocking(true)?;
        Ok(PmEvents { socket })
    }
}

/// The kernel's events of one namespace. In userspace mode the kernel accepts subflows only while a
/// program listens.
#[derive(Debug)]
pub(super) struct PmEvents {
    socket: Socket,
}

/// The result of a read.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) notifications: Vec<Notification>,
    /// Whether some events did not fit into the buffer.
    pub(super) are_incomplete: bool,
}

impl PmEvents {
    /// Reads all events that have arrived.
    ///
    /// # Errors
    /// The socket fails, or a message cannot be parsed.
    pub(super) fn receive(&self) -> Result<Received, LiveError> {
        let mut received = Received::default();
        loop {
            match receive::<GenlMessage<PmMessage>>(&self.socket) {
                Ok(messages) => received
                    .notifications
                    .extend(messages.iter().filter_map(read)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(received),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    received.are_incomplete = true;
                }
                Err(error) => {
                    return Err(LiveError::while_("reading events of the path manager")(
                        error,
                    ));
                }
            }
        }
    }
}

impl AsFd for PmEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads what a kernel may have said.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_events(bytes: &[u8]) {
    let messages =
        crate::network::netlink::parse::<GenlMessage<PmMessage>>(bytes).unwrap_or_default();
    messages.iter().for_each(|message| drop(read(message)));
}

fn read((_, payload): &(u32, NetlinkPayload<GenlMessage<PmMessage>>)) -> Option<Notification> {
    match payload {
        NetlinkPayload::InnerMessage(message) => Notification::read(&message.payload),
        _ => None,
    }
}

impl Family {
    fn resolve(socket: &Socket) -> io::Result<Self> {
        let question = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName(FAMILY.to_owned())],
        });
        send(socket, question, 0, 0)?;
        for (_, payload) in receive::<GenlMessage<GenlCtrl>>(socket)? {
            match payload {
                NetlinkPayload::InnerMessage(answer) => return Self::read(&answer.payload.nlas),
                NetlinkPayload::Error(error) => return Err(error_of(&error)),
                _ => {}
            }
        }
        Err(io::Error::other("no answer"))
    }

    fn read(attributes: &[GenlCtrlAttrs]) -> io::Result<Self> {
        let id = attributes.iter().find_map(|attribute| match attribute {
            GenlCtrlAttrs::FamilyId(id) => Some(*id),
            _ => None,
        });
        let groups = attributes.iter().filter_map(|attribute| match attribute {
            GenlCtrlAttrs::McastGroups(groups) => Some(groups.iter()),
            _ => None,
        });
        let events_group = groups.flatten().find_map(|group| group_id(group));
        match (id, events_group) {
            (Some(id), Some(events_group)) => Ok(Self { id, events_group }),
            _ => Err(io::Error::other(format!("it has no group {EVENTS_GROUP}"))),
        }
    }
}

/// Returns the number of a group if it is the group of the events.
fn group_id(group: &[McastGrpAttrs]) -> Option<u32> {
    let is_it = group
        .iter()
        .any(|attribute| matches!(attribute, McastGrpAttrs::Name(name) if name == EVENTS_GROUP));
    let id = group.iter().find_map(|attribute| match attribute {
        McastGrpAttrs::Id(id) => Some(*id),
        McastGrpAttrs::Name(_) => None,
    });
    id.filter(|_| is_it)
}

fn socket() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.set_ext_ack(true)?;
    socket.set_cap_ack(true)?;
    Ok(socket)
}

fn send<M>(socket: &Socket, message: M, flags: u16, sequence: u32) -> io::Result<()>
where
    M: NetlinkSerializable,
    NetlinkMessage<M>: From<M>,
{
    let mut message = NetlinkMessage::from(message);
    message.header.flags = NLM_F_REQUEST | flags;
    message.header.sequence_number = sequence;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    uninterrupted(|| socket.send(&bytes, 0)).map(drop)
}

fn receive<M>(socket: &Socket) -> io::Result<Vec<(u32, NetlinkPayload<M>)>>
where
    M: netlink_packet_core::NetlinkDeserializable,
{
    let (bytes, _) = uninterrupted(|| socket.recv_from_full())?;
    parse(&bytes).map_err(io::Error::other)
}
