//! Parameters of a connection.

use std::sync::Arc;

use super::Start;
use crate::cc::CongestionControl;
use crate::failure::Behaviour;
use crate::pm::PathManager;
use crate::sched::Scheduler;
use crate::subflow;
use crate::time::{Nanos, SECOND};
use crate::wire::Version;

/// Parameters of a connection. The defaults are Linux's, except that buffers have their full size
/// from the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// TCP parameters of every subflow.
    pub subflow: Arc<subflow::Config>,
    /// How the opener chooses the address pair of the initial subflow if several are available.
    pub start: Start,
    /// Whether this host requests MPTCP as opener and grants it as acceptor. If false, the
    /// connection is plain TCP.
    pub is_multipath: bool,
    /// The only version of MPTCP that this host supports. With a peer of the other version, the
    /// connection is plain TCP (RFC 8684, section 3.1).
    pub version: Version,
    /// Whether this host requires DSS checksums (RFC 8684, section 3.3.1). They are used if either
    /// host requires them.
    pub uses_checksums: bool,
    /// Size of the send buffer, which holds written data until it is acknowledged.
    pub send_buffer: Buffer,
    /// Size of the receive buffer, which holds data received and not read, including data beyond a
    /// gap.
    pub receive_buffer: Buffer,
    /// Whether the peer may join at the address and port of the initial subflow. If false, this
    /// host sets flag C of MP_CAPABLE and refuses such joins (RFC 8684, section 3.1).
    pub allows_joins_to_initial: bool,
    /// When the connection may open further subflows.
    pub subflow_start: SubflowStart,
    /// Number of SYNs with MP_CAPABLE that the opener sends before it tries a SYN without
    /// MP_CAPABLE, in case a middlebox drops SYNs with this option.
    pub max_capable_syns: u32,
    /// What the connection does when MPTCP fails in the middle of a stream.
    pub fallback: Fallback,
    /// How failed subflows are detected and handled.
    pub behaviour: Behaviour,
    /// How long a connection without subflows is kept, so that it can be joined again (break before
    /// make).
    pub lifetime_without_subflows: Nanos,
    /// How long the connection waits for the DATA_ACK of its DATA_FIN after all data is
    /// acknowledged (`net.mptcp.close_timeout`).
    pub close_timeout: Nanos,
    /// Maximum number of subflows at a time.
    pub max_subflows: usize,
    /// Maximum number of accepted joins at a time whose peer has not yet proved that it knows the
    /// keys (RFC 8684, section 3.2).
    pub max_half_open_joins: usize,
    /// Maximum number of incomplete handshakes for which a listener keeps state at a time. The
    /// listener answers further SYNs with SYN cookies (RFC 4987, section 3.6).
    pub max_half_open: usize,
    /// Maximum number of connections on a listening port that wait for
    /// [`Endpoint::accept`](crate::endpoint::Endpoint::accept). Further SYNs are dropped, as in
    /// Linux.
    pub backlog: usize,
}

/// The size of a buffer, in bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The buffer always has this size, in bytes.
    Fixed(u64),
    /// The buffer grows with the traffic, as in Linux, and never shrinks.
    ///
    /// The send buffer grows with the congestion windows (`tcp_sndbuf_expand`; `tcp_wmem` is 16 KiB
    /// at the start and 4 MiB at most). The receive buffer grows with the bytes that the
    /// application reads in a round trip (`mptcp_rcv_space_adjust`; `tcp_rmem` is 128 KiB, half of
    /// which Linux offers, and 6 MiB). The receive threshold limits how much of the receive buffer
    /// is offered (`rcv_ssthresh`; [`Behaviour::shares_receive_threshold`]).
    Auto {
        /// Size at the start, in bytes.
        initial_bytes: u64,
        /// Largest size, in bytes.
        max_bytes: u64,
    },
}

impl Buffer {
    /// Returns the size of the buffer at the start, in bytes.
    pub fn initial_bytes(self) -> u64 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Auto { initial_bytes, .. } => initial_bytes,
        }
    }

    /// Returns the new size of a buffer of `capacity_bytes` for which `wanted_bytes` would be
    /// right.
    pub(super) fn grown(self, capacity_bytes: u64, wanted_bytes: u64) -> u64 {
        match self {
            Self::Fixed(_) => capacity_bytes,
            Self::Auto { max_bytes, .. } => capacity_bytes.max(wanted_bytes.min(max_bytes)),
        }
    }
}

/// When a connection opens further subflows and announces addresses. It can wait, because further
/// subflows are not worth their cost for a connection that ends at once (RFC 8684, section 3.9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubflowStart {
    /// As soon as the local host knows that both hosts have the keys.
    #[default]
    AtOnce,
    /// When the connection has carried enough data or is old enough, whichever comes first.
    After {
        /// Number of bytes that the connection has carried, in both directions together.
        bytes: u64,
        /// The age at which the connection opens further subflows, even if it has carried fewer
        /// than `bytes`. Age counts from the time when the local host knows that both hosts have
        /// the keys.
        age: Nanos,
    },
}

/// What a connection does when MPTCP fails in the middle of a stream (RFC 8684, section 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Follows RFC 8684: a connection whose only subflow received data with a wrong checksum
    /// continues as plain TCP.
    #[default]
    Rfc,
    /// Resets the subflow instead of continuing as plain TCP, so that the connection never delivers
    /// a byte that the peer did not send.
    Strict,
}

impl Config {
    /// Lowers the window scale so that its unit is at most the initial size of the receive buffer,
    /// because a window below one unit cannot be offered.
    pub(super) fn with_offerable_window(self: Arc<Self>) -> Arc<Self> {
        let most = self.receive_buffer.initial_bytes().max(1).ilog2();
        if self
            .subflow
            .window_scale
            .is_none_or(|shift| u32::from(shift) <= most)
        {
            return self;
        }
        let mut config = Arc::unwrap_or_clone(self);
        Arc::make_mut(&mut config.subflow).window_scale = Some(most as u8);
        Arc::new(config)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            subflow: Arc::default(),
            start: Start::default(),
            is_multipath: true,
            version: Version::One,
            uses_checksums: false,
            send_buffer: Buffer::Fixed(4 << 20),
            receive_buffer: Buffer::Fixed(6 << 20),
            allows_joins_to_initial: true,
            subflow_start: SubflowStart::default(),
            max_capable_syns: 3,
            fallback: Fallback::default(),
            behaviour: Behaviour::mainline(),
            lifetime_without_subflows: 60 * SECOND,
            close_timeout: 60 * SECOND,
            max_subflows: 256,
            // A full mesh of eight by eight addresses begins this many joins at once.
            max_half_open_joins: 64,
            max_half_open: 1024,
            // Linux's `net.core.somaxconn`.
            backlog: 4096,
        }
    }
}

/// The algorithms of one connection.
#[derive(Debug)]
pub struct Algorithms {
    /// The congestion control, which handles all subflows together.
    pub congestion_control: Box<dyn CongestionControl>,
    /// The scheduler, which decides which subflow carries which data.
    pub scheduler: Box<dyn Scheduler>,
    /// The path manager, which decides which subflows exist.
    pub path_manager: Box<dyn PathManager>,
}
