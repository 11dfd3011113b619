//! The state of one socket at one time.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::net::{SocketAddrAny, getpeername, getsockname, sockopt};
use serde::{Deserialize, Serialize};

use super::mptcp_info::{MptcpInfo, MptcpReader, SubflowInfo};
use super::tcp_info::TcpInfo;
use crate::applications::traffic::StreamEnd;
use crate::sys;

/// Why a connection that was to be MPTCP is plain TCP, as far as its socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The opener did not ask for MPTCP: its SYN had no MP_CAPABLE.
    NotAsked,
    /// The handshake ended without MPTCP: the peer or a middlebox does not support it.
    AtHandshake,
    /// The connection fell back later: an infinite mapping, a failed checksum, or options that a
    /// middlebox removed (RFC 8684, section 3.7).
    Later,
}

impl Fallback {
    /// Returns the reason as text.
    pub fn why(self) -> &'static str {
        match self {
            Self::NotAsked => "the SYN had no MP_CAPABLE option",
            Self::AtHandshake => {
                "the handshake ended without Multipath TCP: the other host, or something between, does not speak it"
            }
            Self::Later => "Multipath TCP was given up after the handshake (RFC 8684, section 3.7)",
        }
    }
}

/// One end of a flow's connection in a host with the userspace stack or on another machine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ObservedEnd {
    /// Index of the flow in the experiment.
    pub(crate) flow: usize,
    pub(crate) end: StreamEnd,
    /// Whether the connection was to be MPTCP.
    pub(crate) is_mptcp: bool,
    pub(crate) observation: Observation,
}

/// What a socket reports about its connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Observation {
    /// The kernel's number of the socket, never assigned twice.
    pub(crate) cookie: u64,
    /// `None` if it is plain TCP.
    pub(super) mptcp: Option<MptcpInfo>,
    /// Whether the peer opened it without asking for MPTCP; the kernel then returns a TCP socket.
    pub(super) was_made_tcp: bool,
    /// In order of creation. Plain TCP has one, the connection itself.
    pub(super) subflows: Vec<SubflowInfo>,
}

impl Observation {
    /// Reads a socket; `None` if it can no longer be read.
    pub(super) fn of(
        socket: BorrowedFd<'_>,
        is_mptcp: bool,
        reader: &mut MptcpReader,
    ) -> Option<Self> {
        let cookie = sockopt::socket_cookie(socket).ok()?;
        if is_mptcp
            && let Ok((mptcp, subflows)) = reader.read(socket)
            && !mptcp.has_fallen_back()
        {
            return Some(Self {
                cookie,
                mptcp: Some(mptcp),
                was_made_tcp: false,
                subflows,
            });
        }
        Some(Self {
            cookie,
            mptcp: None,
            was_made_tcp: is_mptcp && is_tcp(socket),
            subflows: plain(socket).into_iter().collect(),
        })
    }
}

fn is_tcp(socket: BorrowedFd<'_>) -> bool {
    sockopt::socket_protocol(socket)
        .is_ok_and(|protocol| protocol == Some(rustix::net::ipproto::TCP))
}

/// Returns the only subflow of a TCP socket: its connection.
fn plain(socket: BorrowedFd<'_>) -> Option<SubflowInfo> {
    const ROOM: usize = 512;
    let mut bytes = [0; ROOM];
    let length = sys::socket_option(socket, libc::SOL_TCP, libc::TCP_INFO, &mut bytes).ok()?;
    Some(SubflowInfo {
        id: Some(0),
        local: named(getsockname(socket).ok()?)?,
        remote: getpeername(socket)
            .ok()
            .flatten()
            .and_then(named)
            .unwrap_or_else(nobody),
        is_backup: None,
        tcp: TcpInfo::parse(&bytes[..length.min(ROOM)])?,
    })
}

/// Returns the address that stands for a peer that is gone.
pub(super) fn nobody() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

fn named(name: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(name).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}
