//! A host and the behaviour of its stack.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// A host. It sends and receives, and never forwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Id, unique among hosts and nodes.
    pub id: String,
    /// The protocol stack it runs.
    pub stack: Stack,
    /// Whether it supports MPTCP.
    pub mptcp: bool,
    /// Whether only one subflow is used at a time.
    pub one_at_a_time: bool,
    /// Retransmissions of a SYN with MP_CAPABLE before it is sent without that option.
    pub syn_retries: u32,
    /// How many of these retransmissions come at the initial interval, before it doubles.
    pub syn_linear_timeouts: u32,
    /// Whether it requires the DSS checksum (RFC 8684, section 3.3).
    pub checksum: bool,
    /// What it does when MPTCP breaks in mid-stream.
    #[serde(default)]
    pub fallback: Fallback,
    /// Largest receive buffer in bytes.
    pub rcvbuf_bytes: u64,
    /// Largest send buffer in bytes.
    pub sndbuf_bytes: u64,
    /// Initial congestion window.
    pub initial_window_segments: u32,
    /// Where packets for its first links wait.
    pub first_hop: FirstHop,
    /// How long the host takes to handle packets and timers.
    #[serde(default, skip_serializing_if = "HostJitter::is_unsaid")]
    pub host_jitter: HostJitter,
    /// Behaviours in which implementations of MPTCP differ, in order of preference.
    pub behaviour: Vec<Behaviour>,
}

impl Host {
    /// Returns the first behaviour. It is the only one in an experiment that is being run.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour[0]
    }
}

/// The protocol stack of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// The choice is left to the back-end.
    Backend,
    /// The stack of the Linux kernel.
    Kernel,
    /// The userspace stack, in real time.
    Userspace,
}

impl Stack {
    /// Returns the name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Kernel => "kernel",
            Self::Userspace => "userspace",
        }
    }
}

/// What happens to a connection with a single subflow when MPTCP breaks in mid-stream (RFC 8684,
/// section 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// Falls back to plain TCP where the RFC allows it.
    #[default]
    Rfc,
    /// Resets the connection, to avoid delivering a byte that was not sent.
    Strict,
}

/// Where packets wait for the first link of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstHop {
    /// In the network. The stack of the sender feels no back-pressure.
    Network,
    /// In the host. Its stack stops sending when the queue is full.
    Host,
}

/// How long a host takes to handle packets and timers, beyond a constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HostJitter {
    /// Not stated, as in experiments older than this field: no time in the simulator, the actual
    /// time on a real network.
    #[default]
    #[serde(skip)]
    Unsaid,
    /// No time.
    None {},
    /// The times of a Linux host: these quantiles in the simulator, the actual time on Linux.
    Linux(JitterQuantiles),
    /// Times with these quantiles.
    Quantiles(JitterQuantiles),
}

impl HostJitter {
    /// Returns the quantiles used in the simulator, if handling takes time.
    pub fn quantiles(self) -> Option<JitterQuantiles> {
        match self {
            Self::Unsaid | Self::None {} => None,
            Self::Linux(quantiles) | Self::Quantiles(quantiles) => Some(quantiles),
        }
    }

    fn is_unsaid(&self) -> bool {
        matches!(self, Self::Unsaid)
    }
}

/// A distribution of times from 0 on, linear between its quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterQuantiles {
    /// The median.
    pub p50_ns: Nanos,
    /// The 90th percentile.
    pub p90_ns: Nanos,
    /// The 99th percentile.
    pub p99_ns: Nanos,
    /// The maximum.
    pub max_ns: Nanos,
}

impl JitterQuantiles {
    /// The largest time allowed.
    pub const LONGEST_NS: Nanos = crate::time::NANOS_PER_SECOND;

    /// Returns the quantiles in ascending order.
    pub fn ascending(self) -> [Nanos; 4] {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.max_ns]
    }
}

/// The behaviour of an MPTCP implementation where RFC 8684 leaves it open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// The preset from which the values come.
    pub name: BehaviourName,
    /// When a subflow counts as failed.
    pub failed_after: FailedAfter,
    /// Number of measurement intervals without progress after which a subflow is stale.
    pub stale_intervals: u32,
    /// When data is reinjected on another subflow.
    pub reinjection: Reinjection,
    /// Whether everything assigned to a failed subflow is reinjected, rather than only the data it
    /// sent.
    pub reinject_whole_queue: bool,
    /// How long the path manager waits after an address event.
    pub path_manager_delay_ns: Nanos,
    /// Whether the path manager opens a failed subflow again. Experiments older than this field do.
    #[serde(default)]
    pub recreation: Recreation,
    /// How long it waits after the first failure.
    #[serde(default = "first_recreation_ns")]
    pub recreation_first_ns: Nanos,
    /// The longest wait. Waits double up to this.
    #[serde(default = "longest_recreation_ns")]
    pub recreation_longest_ns: Nanos,
    /// The order in which equal subflows are used.
    pub subflow_order: SubflowOrder,
    /// When timers expire. In experiments older than this field they expire exactly.
    #[serde(default)]
    pub timers: Timers,
}

/// When timers expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timers {
    /// Exactly when they are due.
    #[default]
    Exact,
    /// At the ticks of the Linux timer wheel.
    Wheel,
}

/// Presets of [`Behaviour`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BehaviourName {
    /// The current Linux kernel.
    Mainline,
    /// The out-of-tree kernel used by older papers.
    Oot,
}

/// When a subflow counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedAfter {
    /// At the first retransmission timeout.
    FirstRto,
    /// After several intervals without progress.
    Stale,
}

/// When data is reinjected on another subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reinjection {
    /// Never.
    None,
    /// At a retransmission timeout.
    OnRto,
    /// When its subflow is stale.
    OnStale,
    /// When its subflow closes.
    OnClose,
    /// Whenever the data blocks the window.
    Opportunistic,
}

/// What happens to a subflow that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recreation {
    /// It is opened again only when an address comes back.
    Never,
    /// It is opened again after waits that double.
    #[default]
    Backoff,
}

fn first_recreation_ns() -> Nanos {
    mptcp::pm::Waits::OF_SUBFLOW.first
}

fn longest_recreation_ns() -> Nanos {
    mptcp::pm::Waits::OF_SUBFLOW.longest
}

/// The order in which equal subflows are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubflowOrder {
    /// The most recently created first.
    NewestFirst,
    /// The first created first.
    OldestFirst,
}
