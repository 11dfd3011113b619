//! The TCP connections of a namespace (sock_diag(7)), including those whose programs have ended.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_packet_sock_diag::{SockDiagDestroy, SockDiagMessage};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};

use crate::network::netlink::{parse, uninterrupted};

/// Size of the receive buffer. The kernel fills at most 32 KiB of it at once.
const RECEIVE_BYTES: usize = 32 * 1024;

/// Ends all TCP connections of the calling thread's namespace, and with them the subflows of MPTCP
/// connections, as `ss --kill` does.
///
/// The kernel keeps closed connections that still wait for their peer, for a minute
/// (`net.mptcp.close_timeout`) or longer. Each keeps its namespace and its congestion control.
///
/// # Errors
/// The kernel refuses, for instance because it was built without `CONFIG_INET_DIAG_DESTROY`.
pub(super) fn end_all() -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    for family in [AF_INET, AF_INET6] {
        for connection in connections(&socket, family)? {
            end(&socket, family, connection)?;
        }
    }
    Ok(())
}

fn connections(socket: &Socket, family: u8) -> io::Result<Vec<SocketId>> {
    let any = match family {
        AF_INET => SocketId::new_v4(),
        _ => SocketId::new_v6(),
    };
    let states = StateFlags::all() - StateFlags::LISTEN;
    let request = request(family, any, states);
    send(socket, NLM_F_REQUEST | NLM_F_DUMP, request)?;
    let mut found = Vec::new();
    loop {
        for payload in receive(socket)? {
            match payload {
                NetlinkPayload::Done(_) => return Ok(found),
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(connection)) => {
                    found.push(connection.header.socket_id);
                }
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
        }
    }
}

/// Ends a connection, unless it has ended meanwhile.
fn end(socket: &Socket, family: u8, connection: SocketId) -> io::Result<()> {
    let request = request(family, connection, StateFlags::all());
    let request = SockDiagDestroy::new(request);
    send(socket, NLM_F_REQUEST | NLM_F_ACK, request)?;
    for payload in receive(socket)? {
        if let NetlinkPayload::Error(error) = payload
            && error.code.is_some()
            && error.to_io().kind() != io::ErrorKind::NotFound
        {
            return Err(error.to_io());
        }
    }
    Ok(())
}

fn request(family: u8, socket_id: SocketId, states: StateFlags) -> SockDiagMessage {
    SockDiagMessage::InetRequest(InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states,
        socket_id,
    })
}

fn send<Message>(socket: &Socket, flags: u16, message: Message) -> io::Result<()>
where
    Message: NetlinkSerializable,
    NetlinkPayload<Message>: From<Message>,
{
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    uninterrupted(|| socket.send(&bytes, 0)).map(drop)
}

fn receive(socket: &Socket) -> io::Result<Vec<NetlinkPayload<SockDiagMessage>>> {
    let mut buffer = vec![0; RECEIVE_BYTES];
    let length = uninterrupted(|| socket.recv(&mut &mut buffer[..], 0))?;
    let messages = parse(&buffer[..length]).map_err(io::Error::other)?;
    Ok(messages.into_iter().map(|(_, payload)| payload).collect())
}
