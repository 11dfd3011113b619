//! A flow: its hosts, its application, its algorithms and its paths.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Algorithm;
use crate::algorithms::parameters::Kind;
use crate::time::Nanos;

/// Data sent from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Id, unique among flows.
    pub id: String,
    /// The group in which it was declared.
    pub group: String,
    /// Id of the sending host.
    pub from: String,
    /// Id of the receiving host.
    pub to: String,
    /// Which of the two hosts opens the connection.
    pub opened_by: FlowEnd,
    /// The transport protocol.
    pub transport: Transport,
    /// The application that generates the data.
    pub app: Application,
    /// Congestion controls, in order of preference.
    pub cc: Vec<Algorithm>,
    /// Schedulers, in order of preference.
    pub scheduler: Vec<Algorithm>,
    /// Path managers, in order of preference.
    pub path_manager: Vec<Algorithm>,
    /// Start time, before the seed adds its variation.
    pub start_ns: Nanos,
    /// The paths on which its connections start.
    pub handshake: Handshake,
    /// The only interfaces that it may use. `None` allows all.
    #[serde(deserialize_with = "Option::deserialize")]
    pub via: Option<Vec<String>>,
    /// The policy that chose its paths. `None` if the shortest paths are used, or the description
    /// lists the nodes.
    #[serde(deserialize_with = "Option::deserialize")]
    pub policy: Option<String>,
    /// Its paths. The first is the primary path, the only one that UDP uses.
    pub paths: Vec<Path>,
    /// Capacity for payload in bit/s, after the headers of the transport. `None` if a rate is
    /// unbounded.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ceiling_bps: Option<u64>,
}

impl Flow {
    /// Returns its algorithms of one kind, in order of preference.
    pub fn algorithms(&self, kind: Kind) -> &[Algorithm] {
        match kind {
            Kind::Control => &self.cc,
            Kind::Scheduler => &self.scheduler,
            Kind::PathManager => &self.path_manager,
        }
    }
}

/// One of the two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowEnd {
    /// The sender.
    From,
    /// The receiver.
    To,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// RFC 768.
    Udp,
    /// RFC 9293.
    Tcp,
    /// RFC 8684.
    Mptcp,
}

/// The paths on which a connection starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Handshake {
    /// On the first path.
    #[default]
    Primary,
    /// On all paths at once. The first answer wins.
    Race,
}

/// The application of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Application {
    /// Sends as much data as the transport accepts.
    Bulk {
        /// Size of the transfer in bytes.
        #[serde(deserialize_with = "Option::deserialize")]
        bytes: Option<u64>,
        /// Duration of the transfer.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// Sends equal pieces at a constant bit rate.
    Cbr {
        /// Payload rate in bit/s.
        rate_bps: u64,
        /// Payload of one piece in bytes.
        size_bytes: u32,
        /// How long it sends. `None` means until the end of the run.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// Sends requests at a fixed interval. The receiver echoes each.
    Probe {
        /// Interval between requests.
        every_ns: Nanos,
        /// Payload of a request and of its answer in bytes.
        size_bytes: u32,
        /// How long it sends. `None` means until the end of the run.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// Sends a request, waits for the response, and sends the next request.
    RequestResponse {
        /// Size of a request in bytes.
        request_bytes: u64,
        /// Size of a response in bytes.
        response_bytes: u64,
        /// Number of requests.
        #[serde(deserialize_with = "Option::deserialize")]
        count: Option<u64>,
        /// How long requests are sent.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// Starts short transfers, each in its own connection.
    ShortFlows {
        /// Size of a transfer in bytes.
        bytes: u64,
        /// Fixed interval between starts.
        #[serde(deserialize_with = "Option::deserialize")]
        every_ns: Option<Nanos>,
        /// Mean of exponentially distributed intervals between starts.
        #[serde(deserialize_with = "Option::deserialize")]
        poisson_mean_ns: Option<Nanos>,
    },
    /// Sends a stream that is played as it arrives.
    Streaming {
        /// Rate in bit/s at which it is played.
        bitrate_bps: u64,
        /// How much is buffered before playback starts.
        startup_ns: Nanos,
    },
    /// Plays a video. The player requests segments and chooses the bit rate of each.
    Video(Video),
    /// Runs `iperf3`.
    Iperf3 {
        /// Arguments of `iperf3`.
        args: Vec<String>,
    },
    /// Runs any program.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
}

impl Application {
    /// Returns the `kind` in the JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::Cbr { .. } => "cbr",
            Self::Probe { .. } => "probe",
            Self::RequestResponse { .. } => "request_response",
            Self::ShortFlows { .. } => "short_flows",
            Self::Streaming { .. } => "streaming",
            Self::Video(_) => "video",
            Self::Iperf3 { .. } => "iperf3",
            Self::Command { .. } => "command",
        }
    }
}

/// A video and its player.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// The available bit rates of segments, ascending.
    pub bitrates_bps: Vec<u64>,
    /// Playing time of a segment.
    pub segment_ns: Nanos,
    /// Playing time that the player's buffer holds.
    pub buffer_ns: Nanos,
    /// Playing time in the buffer at which playback starts, initially and after a stall.
    pub startup_ns: Nanos,
    /// Playing time of the whole video. `None` means that it has no end.
    #[serde(deserialize_with = "Option::deserialize")]
    pub length_ns: Option<Nanos>,
}

/// A pair of interfaces and the links between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Interface of the sender.
    pub local: String,
    /// Interface of the receiver.
    pub remote: String,
    /// The links from `local` to the host of `remote`. They may end at another interface of that
    /// host.
    pub hops: Vec<Hop>,
    /// Whether `hops` are only the first and the last link, and routers choose the links between
    /// them.
    pub routed: bool,
    /// The smallest rate of the links in bit/s. `None` if all are unbounded.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_bps: Option<u64>,
    /// Capacity for payload in bit/s. `None` if all links are unbounded.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ceiling_bps: Option<u64>,
    /// Round-trip propagation delay.
    pub rtt_ns: Nanos,
}

/// One link of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Id of the link.
    pub link: String,
    /// The direction in which the link is used.
    pub direction: HopDirection,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HopDirection {
    /// From `a` to `b`.
    Forward,
    /// From `b` to `a`.
    Backward,
}

impl HopDirection {
    /// Both directions, in the order in which the directions of a link are numbered.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// Returns the name in the JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}
