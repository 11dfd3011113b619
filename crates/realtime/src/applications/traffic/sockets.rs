//! Sockets of traffic: their options, and the registry through which they are measured.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{
    AddressFamily, Protocol, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt,
};

use super::{FlowSocket, StreamEnd};
use crate::LiveError;
use crate::sys::set_socket_option;

/// Length of the queue of connections to accept. Hosts may lower it (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// Large, because datagrams that wait for the receiver's thread must not look like losses of the
/// network.
const DATAGRAM_BUFFER_BYTES: usize = 8 << 20;

/// The kind of a flow's sockets.
#[derive(Clone, Debug)]
pub(super) struct StreamKind {
    /// Whether this end uses MPTCP.
    pub(super) is_mptcp: bool,
    /// Whether connections may have subflows of both families. The kernel opens no subflow of a
    /// family that the socket is not for.
    pub(super) takes_both_families: bool,
    /// Congestion control, by the kernel's name.
    pub(super) congestion_control: String,
}

/// The address of this end, and address and port of the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) source: IpAddr,
    pub(super) target: SocketAddr,
}

impl Addresses {
    /// Returns the addresses as a socket for both families needs them: those of IPv4 mapped to IPv6
    /// (RFC 4291, section 2.5.5.2).
    pub(super) fn mapped(self) -> Self {
        let mapped = |address: IpAddr| match address {
            IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
            IpAddr::V6(_) => address,
        };
        Self {
            source: mapped(self.source),
            target: SocketAddr::new(mapped(self.target.ip()), self.target.port()),
        }
    }
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    }
}

fn wildcard(address: SocketAddr) -> SocketAddr {
    let any = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(any, address.port())
}

fn socket(address: IpAddr, kind: SocketType, protocol: Protocol) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family(address), kind, flags, Some(protocol))?)
}

/// Returns a stream socket that is neither bound nor connected.
///
/// # Errors
/// The host lacks the protocol or the congestion control.
pub(super) fn stream_socket(address: IpAddr, kind: &StreamKind) -> Result<OwnedFd, LiveError> {
    let (name, protocol) = match kind.is_mptcp {
        true => ("MPTCP", ipproto::MPTCP),
        false => ("TCP", ipproto::TCP),
    };
    let made = socket(address, SocketType::STREAM, protocol);
    let made = made.map_err(LiveError::while_(format!("making a socket for {name}")))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&made, !kind.takes_both_families)
            .map_err(LiveError::while_("setting IPV6_V6ONLY"))?;
    }
    let cc = &kind.congestion_control;
    sockopt::set_tcp_congestion(&made, cc).map_err(|source| LiveError::Machine {
        what: format!("congestion control {cc:?} cannot be set: {source}"),
        remedy:
            "choose one of /proc/sys/net/ipv4/tcp_available_congestion_control, or load its module"
                .to_owned(),
    })?;
    set_nodelay(&made).map_err(LiveError::while_("setting TCP_NODELAY"))?;
    Ok(made)
}

/// Disables Nagle's algorithm (RFC 896), which would delay small pieces by round-trip times.
pub(super) fn set_nodelay(socket: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, true)?)
}

/// Binds an address and leaves the port to connect, which can share a port that is in use towards
/// another peer.
pub(super) fn bind_address(socket: &OwnedFd, address: IpAddr) -> io::Result<()> {
    let yes = 1_i32.to_ne_bytes();
    let (level, name) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    // A kernel without this option for the kind of socket chooses a port now, which works as long
    // as ports are left.
    let _ = set_socket_option(socket.as_fd(), level, name, &yes);
    Ok(bind(socket, &SocketAddr::new(address, 0))?)
}

/// Returns a socket that listens at all addresses of the family of `address`, or of both families,
/// so that further subflows can arrive at each.
///
/// # Errors
/// As [`stream_socket`], or the port is taken.
pub(super) fn listener(address: SocketAddr, kind: &StreamKind) -> Result<OwnedFd, LiveError> {
    let made = stream_socket(address.ip(), kind)?;
    // Connections of an earlier run in the same host may still be closing.
    sockopt::set_socket_reuseaddr(&made, true)
        .map_err(LiveError::while_("setting SO_REUSEADDR"))?;
    let port = address.port();
    bind(&made, &wildcard(address))
        .and_then(|()| listen(&made, BACKLOG))
        .map_err(LiveError::while_(format!("listening on TCP port {port}")))?;
    Ok(made)
}

/// Returns a socket that receives datagrams at all addresses of the family of `address`.
///
/// # Errors
/// The port is taken.
pub(super) fn datagram_receiver(address: SocketAddr) -> Result<OwnedFd, LiveError> {
    bound_datagrams(wildcard(address))
}

/// Returns a socket that receives and answers datagrams at one address. The host need not have the
/// address yet.
///
/// # Errors
/// The port is taken.
pub(super) fn datagram_echo(address: SocketAddr) -> Result<OwnedFd, LiveError> {
    bound_datagrams(address)
}

fn bound_datagrams(address: SocketAddr) -> Result<OwnedFd, LiveError> {
    let doing = format!("receiving on UDP port {}", address.port());
    datagrams(address).map_err(LiveError::while_(doing))
}

/// Returns a socket that sends datagrams from one address. The host need not have the address yet.
///
/// # Errors
/// The system refuses.
pub(super) fn datagram_sender(source: IpAddr) -> Result<OwnedFd, LiveError> {
    datagrams(SocketAddr::new(source, 0)).map_err(LiveError::while_("making a UDP socket"))
}

fn datagrams(address: SocketAddr) -> io::Result<OwnedFd> {
    let made = socket(address.ip(), SocketType::DGRAM, ipproto::UDP)?;
    // Without the privilege the kernel's limit applies.
    if sockopt::set_socket_recv_buffer_size_force(&made, DATAGRAM_BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(&made, DATAGRAM_BUFFER_BYTES)?;
    }
    // The address may be added and removed during the flow.
    match address {
        SocketAddr::V4(_) => sockopt::set_ip_freebind(&made, true)?,
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_v6only(&made, true)?;
            sockopt::set_ipv6_freebind(&made, true)?;
        }
    }
    bind(&made, &address)?;
    Ok(made)
}

/// Connections that are or were established, for telemetry.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    socket: FlowSocket,
    has_ended: Arc<AtomicBool>,
    was_shown_ended: bool,
}

/// A connection, for as long as its end uses it.
#[derive(Debug)]
pub(super) struct Registered {
    socket: Arc<OwnedFd>,
    has_ended: Arc<AtomicBool>,
}

impl Registry {
    pub(super) fn add(&self, flow: usize, end: StreamEnd, socket: OwnedFd) -> Registered {
        // A listener for MPTCP returns a TCP socket if the opener did not ask for MPTCP.
        let protocol = sockopt::socket_protocol(&socket);
        let is_mptcp = protocol == Ok(Some(ipproto::MPTCP));
        let registered = Registered {
            socket: Arc::new(socket),
            has_ended: Arc::default(),
        };
        let socket = FlowSocket {
            flow,
            end,
            is_mptcp,
            socket: Arc::clone(&registered.socket),
        };
        let entry = Entry {
            socket,
            has_ended: Arc::clone(&registered.has_ended),
            was_shown_ended: false,
        };
        self.entries().push(entry);
        registered
    }

    /// Returns all open sockets. Closes those that were returned after their end.
    pub(super) fn sockets(&self) -> Vec<FlowSocket> {
        let mut entries = self.entries();
        entries.retain(|entry| !entry.was_shown_ended);
        for entry in entries.iter_mut() {
            entry.was_shown_ended = entry.has_ended.load(Ordering::Acquire);
        }
        entries.iter().map(|entry| entry.socket.clone()).collect()
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Registered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
    }
}
