//! Parameters of a connection.

use std::sync::Arc;

use super::Start;
use crate::cc::CongestionControl;
use crate::failure::Behaviour;
use crate::pm::PathManager;
use crate::sched::Scheduler;
use crate::subflow;
use crate::time::{Nanos, SECOND};

/// Parameters of a connection; the defaults are Linux's, except that buffers have their full size from the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Those of every subflow, which share them.
    pub subflow: Arc<subflow::Config>,
    /// From which of several addresses it starts.
    pub start: Start,
    /// Whether Multipath TCP is asked for, or granted. Without, it is plain TCP.
    pub is_multipath: bool,
    /// Whether checksums are required (RFC 8684, section 3.3.1). Either side can.
    pub uses_checksums: bool,
    /// For what the application has written and the peer not acknowledged.
    pub send_buffer: Buffer,
    /// For what waits for the application, or for what is missing before it.
    pub receive_buffer: Buffer,
    /// Whether the peer may join at the address and port where the connection began. Without, flag C tells it not to, and such
    /// joins are refused (RFC 8684, section 3.1).
    pub allows_joins_to_initial: bool,
    /// When there may be further subflows.
    pub subflow_start: SubflowStart,
    /// SYNs with MP_CAPABLE before one without.
    pub max_capable_syns: u32,
    /// What happens when Multipath TCP breaks in the middle of a stream.
    pub fallback: Fallback,
    /// What is done about subflows that fail.
    pub behaviour: Behaviour,
    /// How long a connection lives without any subflow, so that it can be joined again (break before make).
    pub lifetime_without_subflows: Nanos,
    /// How long the peer may leave a DATA_FIN without its DATA_ACK, after all data before it (`net.mptcp.close_timeout`).
    pub close_timeout: Nanos,
    /// Most subflows at a time.
    pub max_subflows: usize,
    /// Most subflows at a time that the peer has begun and not yet proved to know the keys on (RFC 8684, section 3.2).
    pub max_half_open_joins: usize,
    /// Handshakes that a listener keeps at a time; beyond, it answers by SYN cookies (RFC 4987, section 3.6).
    pub max_half_open: usize,
    /// Connections that may wait for [`Endpoint::accept`](crate::endpoint::Endpoint::accept) at a port; SYNs beyond are dropped,
    /// as in Linux.
    pub backlog: usize,
}

/// The size of a buffer, in bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The same from the start to the end.
    Fixed(u64),
    /// It follows what the connection carries, as in Linux, and never shrinks. The send buffer grows with the congestion windows
    /// (`tcp_sndbuf_expand`; `tcp_wmem` has 16 KiB and 4 MiB), the receive buffer with what the application reads in a round trip
    /// (`mptcp_rcv_space_adjust`; `tcp_rmem` has 128 KiB, half of which Linux offers, and 6 MiB). No more of it is offered than
    /// the segments that came have earned (`rcv_ssthresh`; [`Behaviour::shares_receive_threshold`]).
    Auto {
        /// At the start.
        initial_bytes: u64,
        /// At most.
        max_bytes: u64,
    },
}

impl Buffer {
    /// The size at the start, in bytes.
    pub fn initial_bytes(self) -> u64 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Auto { initial_bytes, .. } => initial_bytes,
        }
    }

    /// What becomes of `capacity_bytes` when `wanted_bytes` would be right.
    pub(super) fn grown(self, capacity_bytes: u64, wanted_bytes: u64) -> u64 {
        match self {
            Self::Fixed(_) => capacity_bytes,
            Self::Auto { max_bytes, .. } => capacity_bytes.max(wanted_bytes.min(max_bytes)),
        }
    }
}

/// When a connection has further subflows, and announces addresses: for one that is over at once they are not worth it (RFC 8684,
/// section 3.9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubflowStart {
    /// As soon as both sides know the keys.
    #[default]
    AtOnce,
    /// Later, at whichever comes first.
    After {
        /// It has carried so many bytes, both ways together.
        bytes: u64,
        /// It is so old.
        age: Nanos,
    },
}

/// What happens when Multipath TCP breaks in the middle of a stream (RFC 8684, section 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// What the RFC says, and no more: a connection with one subflow whose checksum fails goes on as plain TCP.
    #[default]
    Rfc,
    /// The connection is reset rather than deliver a byte that was not sent.
    Strict,
}

impl Config {
    /// The same with a window scale whose unit the receive buffer holds when it is smallest: of less no window could be offered.
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
            // As many as a full mesh of eight and eight addresses begins at once.
            max_half_open_joins: 64,
            max_half_open: 1024,
            // `net.core.somaxconn` of Linux.
            backlog: 4096,
        }
    }
}

/// The algorithms of a connection.
#[derive(Debug)]
pub struct Algorithms {
    /// Congestion control of all subflows.
    pub congestion_control: Box<dyn CongestionControl>,
    /// Which subflow carries what.
    pub scheduler: Box<dyn Scheduler>,
    /// Which subflows there are.
    pub path_manager: Box<dyn PathManager>,
}
