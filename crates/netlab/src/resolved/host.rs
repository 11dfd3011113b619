//! A host and how its stack behaves.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// An end system: it sends and receives, and never forwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Id, unique among hosts and nodes.
    pub id: String,
    /// Whose protocol stack it runs.
    pub stack: Stack,
    /// Whether it speaks Multipath TCP.
    pub mptcp: bool,
    /// Whether only one subflow is used at a time.
    pub one_at_a_time: bool,
    /// Retransmissions of a SYN with MP_CAPABLE before it is sent without, as TCP's.
    pub syn_retries: u32,
    /// How many of them come at the initial interval, before it doubles.
    pub syn_linear_timeouts: u32,
    /// Whether the DSS checksum (RFC 8684, section 3.3) is demanded.
    pub checksum: bool,
    /// What happens when Multipath TCP breaks in mid-stream.
    #[serde(default)]
    pub fallback: Fallback,
    /// Largest receive buffer.
    pub rcvbuf_bytes: u64,
    /// Largest send buffer.
    pub sndbuf_bytes: u64,
    /// Initial congestion window.
    pub initial_window_segments: u32,
    /// Where the bottleneck of its first link queues.
    pub first_hop: FirstHop,
    /// How long it takes to handle what arrives and to act when a timer fires.
    #[serde(default, skip_serializing_if = "HostJitter::is_unsaid")]
    pub host_jitter: HostJitter,
    /// What distinguishes implementations of Multipath TCP, in order of preference.
    pub behaviour: Vec<Behaviour>,
}

impl Host {
    /// The behaviour of first choice; the only one of an experiment that is being run.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour[0]
    }
}

/// Whose protocol stack a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// The back-end's own choice.
    Backend,
    /// The Linux kernel's.
    Kernel,
    /// Ours, in real time.
    Userspace,
}

impl Stack {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Kernel => "kernel",
            Self::Userspace => "userspace",
        }
    }
}

/// What happens to a connection with a single subflow when Multipath TCP breaks in mid-stream (RFC 8684, section 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// Plain TCP where the RFC allows it.
    #[default]
    Rfc,
    /// A reset, rather than a byte that was not sent.
    Strict,
}

impl Fallback {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rfc => "rfc",
            Self::Strict => "strict",
        }
    }
}

/// Where packets wait for the host's first link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstHop {
    /// In the network: the sender's stack feels no back-pressure.
    Network,
    /// In the host: its stack stops when the queue is full.
    Host,
}

impl FirstHop {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Host => "host",
        }
    }
}

/// How long a host takes to handle what arrives, and to act when a timer fires, beyond what is always the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HostJitter {
    /// In experiments from before there was one: no time in the simulator, whatever it takes in real time.
    #[default]
    #[serde(skip)]
    Unsaid,
    /// No time at all.
    None {},
    /// What hosts on Linux take; in the simulator these quantiles, on Linux itself whatever it takes.
    Linux(JitterQuantiles),
    /// Times with these quantiles.
    Quantiles(JitterQuantiles),
}

impl HostJitter {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsaid => "unsaid",
            Self::None {} => "none",
            Self::Linux(_) => "linux",
            Self::Quantiles(_) => "quantiles",
        }
    }

    /// Its times in the simulator, if it takes any.
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
    /// Half of the times are at most this.
    pub p50_ns: Nanos,
    /// Nine of ten.
    pub p90_ns: Nanos,
    /// 99 of 100.
    pub p99_ns: Nanos,
    /// All.
    pub max_ns: Nanos,
}

impl JitterQuantiles {
    /// The longest that may be asked for.
    pub const LONGEST_NS: Nanos = crate::time::NANOS_PER_SECOND;

    /// In ascending order.
    pub fn ascending(self) -> [Nanos; 4] {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.max_ns]
    }
}

/// How an implementation of Multipath TCP behaves where the RFC leaves it open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// The preset that the values come from.
    pub name: BehaviourName,
    /// When a subflow counts as failed.
    pub failed_after: FailedAfter,
    /// Measurement intervals without progress until a subflow is stale.
    pub stale_intervals: u32,
    /// When data is sent again on another subflow.
    pub reinjection: Reinjection,
    /// Whether all that was assigned to a failed subflow is sent again, or only what was sent.
    pub reinject_whole_queue: bool,
    /// How long the path manager waits after an address event.
    pub path_manager_delay_ns: Nanos,
    /// Whether the path manager opens a subflow again that failed; experiments from before this was a parameter did.
    #[serde(default)]
    pub recreation: Recreation,
    /// How long it waits after the first failure.
    #[serde(default = "first_recreation_ns")]
    pub recreation_first_ns: Nanos,
    /// Waits double up to this.
    #[serde(default = "longest_recreation_ns")]
    pub recreation_longest_ns: Nanos,
    /// The order in which equal subflows are taken.
    pub subflow_order: SubflowOrder,
    /// When timers expire; in experiments from before this was a parameter exactly.
    #[serde(default)]
    pub timers: Timers,
}

/// When timers expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timers {
    /// When they are due.
    #[default]
    Exact,
    /// With the ticks of Linux's timer wheel.
    Wheel,
}

/// Presets of [`Behaviour`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BehaviourName {
    /// Today's Linux kernel.
    Mainline,
    /// The out-of-tree kernel of the older papers.
    Oot,
}

/// When a subflow counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedAfter {
    /// At the first retransmission timeout.
    FirstRto,
    /// After some intervals without progress.
    Stale,
}

/// When data is sent again on another subflow.
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
    /// Whenever it blocks the window.
    Opportunistic,
}

/// What becomes of a subflow that failed.
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

/// The order in which equal subflows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubflowOrder {
    /// The last created first.
    NewestFirst,
    /// The first created first.
    OldestFirst,
}
