//! Sockets of traffic: how they are made, and who can look at them.

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

/// A bound that hosts may lower (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// Datagrams that wait while the receiver's thread is not scheduled must not look like losses of the network.
const DATAGRAM_BUFFER_BYTES: usize = 8 << 20;

/// How the connections of a flow are made.
#[derive(Clone, Debug)]
pub(super) struct StreamKind {
    /// Whether this end speaks Multipath TCP.
    pub(super) is_mptcp: bool,
    /// Whether they take subflows of both families: the kernel opens none of a family that the socket is not for.
    pub(super) takes_both_families: bool,
    /// Congestion control, by the kernel's name.
    pub(super) congestion_control: String,
}

/// Where this end and the other one are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) source: IpAddr,
    pub(super) target: SocketAddr,
}

impl Addresses {
    /// As a socket for both families has them: those of IPv4 mapped to IPv6 (RFC 4291, section 2.5.5.2).
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

/// A stream socket that is neither bound nor connected.
///
/// # Errors
/// The host does not speak the protocol, or does not have the congestion control.
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

/// A small piece does not wait for the acknowledgement of the one before (RFC 896), which would delay units by round-trip times.
pub(super) fn set_nodelay(socket: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, true)?)
}

/// Binds an address and leaves the port to connect, which can then take one that is in use towards another peer.
pub(super) fn bind_address(socket: &OwnedFd, address: IpAddr) -> io::Result<()> {
    let yes = 1_i32.to_ne_bytes();
    let (level, name) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    // A kernel without it for this kind of socket takes a port now, which is as good while there are some left.
    let _ = set_socket_option(socket.as_fd(), level, name, &yes);
    Ok(bind(socket, &SocketAddr::new(address, 0))?)
}

/// A socket that listens at all addresses of the family of `address`, or of both, so that further subflows can come to each.
///
/// # Errors
/// As [`stream_socket`]; or the port is taken.
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

/// A socket that takes datagrams at all addresses of the family of `address`.
///
/// # Errors
/// The port is taken.
pub(super) fn datagram_receiver(address: SocketAddr) -> Result<OwnedFd, LiveError> {
    bound_datagrams(wildcard(address))
}

/// A socket that takes and answers datagrams at one address, also before the host has it.
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

/// A socket that sends datagrams from one address, also before the host has it.
///
/// # Errors
/// The system refuses.
pub(super) fn datagram_sender(source: IpAddr) -> Result<OwnedFd, LiveError> {
    datagrams(SocketAddr::new(source, 0)).map_err(LiveError::while_("making a UDP socket"))
}

fn datagrams(address: SocketAddr) -> io::Result<OwnedFd> {
    let made = socket(address.ip(), SocketType::DGRAM, ipproto::UDP)?;
    // Without the privilege the kernel's limit holds.
    if sockopt::set_socket_recv_buffer_size_force(&made, DATAGRAM_BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(&made, DATAGRAM_BUFFER_BYTES)?;
    }
    // An address may come and go while the flow lasts.
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

/// The connections that stand or stood, for whoever measures them.
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
        // A listener for MPTCP gives a TCP socket where the other side did not ask for more.
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

    /// All that are open. Those that were shown after their end are closed now.
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
