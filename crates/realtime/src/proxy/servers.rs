//! Connections of a gateway to servers, over the kernel's TCP.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

use super::relay::Side;
use crate::applications::traffic::ByteStream;

/// Identifies a connection; never reused.
pub(super) type ServerId = u64;

/// All connections to servers.
#[derive(Default)]
pub(super) struct Servers {
    sockets: BTreeMap<ServerId, OwnedFd>,
    next_id: ServerId,
}

impl Servers {
    /// Starts a connection. `watch` is called with its socket.
    ///
    /// # Errors
    /// There is no route to the server.
    pub(super) fn connect(
        &mut self,
        to: SocketAddr,
        watch: impl FnOnce(ServerId, &OwnedFd) -> io::Result<()>,
    ) -> io::Result<ServerId> {
        let family = match to.ip() {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        // Data that a client wrote in pieces is sent in pieces.
        sockopt::set_tcp_nodelay(&socket, true)?;
        // As patient as the machine is with its own connections (`net.ipv4.tcp_keepalive_time`).
        sockopt::set_socket_keepalive(&socket, true)?;
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let id = self.next_id;
        self.next_id += 1;
        watch(id, &socket)?;
        self.sockets.insert(id, socket);
        Ok(id)
    }

    /// Returns the error of a connection that has news, if it failed.
    pub(super) fn failure(&self, id: ServerId) -> Option<io::Error> {
        let socket = self.sockets.get(&id)?;
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error.into()),
        }
    }

    /// Returns whether a connection is established.
    pub(super) fn is_connected(&self, id: ServerId) -> bool {
        let socket = self.sockets.get(&id);
        socket.is_some_and(|socket| matches!(rustix::net::getpeername(socket), Ok(Some(_))))
    }
}

impl Side for Servers {
    type Id = ServerId;

    fn with_stream<T>(
        &mut self,
        id: ServerId,
        action: impl FnOnce(&mut dyn ByteStream) -> T,
    ) -> Option<T> {
        Some(action(self.sockets.get_mut(&id)?))
    }

    fn reset(&mut self, id: ServerId) {
        if let Some(socket) = self.sockets.remove(&id) {
            // Makes closing send a reset (tcp(7)).
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
    }

    fn release(&mut self, id: ServerId) {
        self.sockets.remove(&id);
    }
}
