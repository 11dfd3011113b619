//! A host.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Behaviour;
use crate::time::Nanos;

/// A host. It sends and receives, and never forwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Id, unique among hosts and nodes.
    pub id: String,
    /// The machine that it is on. `None` is the machine that runs the experiment.
    #[serde(deserialize_with = "Option::deserialize")]
    pub machine: Option<Machine>,
    /// The protocol stack it runs.
    pub stack: Stack,
    /// Whether it supports MPTCP.
    pub mptcp: bool,
    /// Whether only one subflow is used at a time.
    pub one_at_a_time: bool,
    /// Retransmissions of a SYN with MP_CAPABLE before it is sent without that option.
    pub syn_retries: u32,
    /// Number of these retransmissions at the initial interval, before it doubles.
    pub syn_linear_timeouts: u32,
    /// Whether it requires the DSS checksum (RFC 8684, section 3.3).
    pub checksum: bool,
    /// What it does when MPTCP breaks in mid-stream.
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
    pub host_jitter: HostJitter,
    /// Behaviours in which MPTCP implementations differ, in order of preference.
    pub behaviour: Vec<Behaviour>,
}

impl Host {
    /// Returns the host that experiments mean by leaving out all but the id, as experiments do that
    /// are older than a field. The digests of bundles depend on these values, so none may change.
    pub fn usual(id: &str) -> Self {
        let [mainline, ..] = Behaviour::presets();
        Self {
            id: id.to_owned(),
            machine: None,
            stack: Stack::Backend,
            mptcp: true,
            one_at_a_time: false,
            syn_retries: 3,
            syn_linear_timeouts: 4,
            checksum: false,
            fallback: Fallback::Rfc,
            rcvbuf_bytes: 6_291_456,
            sndbuf_bytes: 4_194_304,
            initial_window_segments: 10,
            first_hop: FirstHop::Network,
            host_jitter: HostJitter::Unstated {},
            behaviour: vec![mainline],
        }
    }

    /// Returns the name of its machine; `None` if it is on the one that runs the experiment.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_ref().map(|machine| machine.id.as_str())
    }

    /// Returns the first behaviour. It is the only one in an experiment that is being run.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour[0]
    }
}

/// A machine other than the one that runs the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name in the description.
    pub id: String,
    /// How it is reached, in a form of `--on`.
    pub at: String,
    /// The address to which packets for its hosts are sent. `None` is the other end of the
    /// connection to it. A guest has no address.
    #[serde(deserialize_with = "Option::deserialize")]
    pub address: Option<IpAddr>,
}

/// The protocol stack of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// The choice is left to the back-end.
    Backend,
    /// The Linux kernel's stack.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// Falls back to plain TCP where the RFC allows it.
    Rfc,
    /// Resets the connection, to avoid delivering a byte that was not sent.
    Strict,
}

/// Where packets wait for the first link of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirstHop {
    /// In the network. The sender's stack gets no back-pressure.
    Network,
    /// In the host. Its stack stops sending when the queue is full.
    Host,
}

/// How long a host takes to handle packets and timers, beyond a constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HostJitter {
    /// Not stated, as in experiments older than this field: no time in the simulator, the actual
    /// time on a real network.
    Unstated {},
    /// No time.
    None {},
    /// The times of a Linux host: in the simulator, these quantiles; on Linux, the actual times.
    Linux(JitterQuantiles),
    /// Times with these quantiles.
    Quantiles(JitterQuantiles),
}

impl HostJitter {
    /// Returns the quantiles used in the simulator, if handling takes time.
    pub fn quantiles(self) -> Option<JitterQuantiles> {
        match self {
            Self::Unstated {} | Self::None {} => None,
            Self::Linux(quantiles) | Self::Quantiles(quantiles) => Some(quantiles),
        }
    }
}

/// A distribution of times from 0 on, linear between its quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
