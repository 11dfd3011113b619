//! A flow: who sends what to whom, by which paths.

use serde::{Deserialize, Serialize};

use super::Algorithm;
use crate::parameters::Kind;
use crate::time::Nanos;

/// Data from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Id, unique among flows.
    pub id: String,
    /// The group it was declared in.
    pub group: String,
    /// Id of the sending host.
    pub from: String,
    /// Id of the receiving host.
    pub to: String,
    /// Which of the two opens the connection.
    pub opened_by: FlowEnd,
    /// The transport protocol.
    pub transport: Transport,
    /// What is sent.
    pub app: Application,
    /// Congestion controls, in order of preference.
    pub cc: Vec<Algorithm>,
    /// Schedulers, in order of preference.
    pub scheduler: Vec<Algorithm>,
    /// Path managers, in order of preference.
    pub path_manager: Vec<Algorithm>,
    /// When it starts, before what varies with the seed is added.
    pub start_ns: Nanos,
    /// On which paths its connections start.
    #[serde(default)]
    pub handshake: Handshake,
    /// The only interfaces it may use; `None` is all.
    #[serde(deserialize_with = "Option::deserialize")]
    pub via: Option<Vec<String>>,
    /// Its paths; the first is the primary one. UDP uses only that.
    pub paths: Vec<Path>,
    /// Most payload it can carry, headers of its transport counted; `None` if a rate is unbounded.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ceiling_bps: Option<u64>,
}

impl Flow {
    /// Its algorithms of one kind, in order of preference.
    pub fn algorithms(&self, kind: Kind) -> &[Algorithm] {
        match kind {
            Kind::Control => &self.cc,
            Kind::Scheduler => &self.scheduler,
            Kind::PathManager => &self.path_manager,
        }
    }
}

/// One of the two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowEnd {
    /// The sender.
    From,
    /// The receiver.
    To,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// RFC 768.
    Udp,
    /// RFC 9293.
    Tcp,
    /// RFC 8684.
    Mptcp,
}

impl Transport {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
        }
    }
}

/// On which paths a connection starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handshake {
    /// On the first.
    #[default]
    Primary,
    /// On all at once; the first answer wins.
    Race,
}

impl Handshake {
    /// The word of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Race => "race",
        }
    }
}

/// What a flow sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Application {
    /// As much as the transport takes.
    Bulk {
        /// Size of the transfer.
        #[serde(deserialize_with = "Option::deserialize")]
        bytes: Option<u64>,
        /// Length of the transfer.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// Equal pieces at a constant bit rate.
    Cbr {
        /// Payload rate.
        rate_bps: u64,
        /// Payload of one piece.
        size_bytes: u32,
        /// How long it sends; `None` is to the end of the run.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// Requests at a fixed interval, each echoed by the receiver.
    Probe {
        /// Interval between requests.
        every_ns: Nanos,
        /// Payload of a request and of its answer.
        size_bytes: u32,
        /// How long it sends; `None` is to the end of the run.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// A request, its response, the next request.
    RequestResponse {
        /// Size of a request.
        request_bytes: u64,
        /// Size of a response.
        response_bytes: u64,
        /// Number of requests.
        #[serde(deserialize_with = "Option::deserialize")]
        count: Option<u64>,
        /// How long requests are made.
        #[serde(deserialize_with = "Option::deserialize")]
        duration_ns: Option<Nanos>,
    },
    /// One short transfer after the other, each in a connection of its own.
    ShortFlows {
        /// Size of a transfer.
        bytes: u64,
        /// Fixed interval between starts.
        #[serde(deserialize_with = "Option::deserialize")]
        every_ns: Option<Nanos>,
        /// Mean of exponentially distributed intervals between starts.
        #[serde(deserialize_with = "Option::deserialize")]
        poisson_mean_ns: Option<Nanos>,
    },
    /// A stream that is played while it arrives.
    Streaming {
        /// Rate at which it is played.
        bitrate_bps: u64,
        /// How much is buffered before it plays.
        startup_ns: Nanos,
    },
    /// Segments that a player asks for, each with a bit rate of its choice.
    Video(Video),
    /// The program of that name.
    Iperf3 {
        /// Its arguments.
        args: Vec<String>,
    },
    /// Any program.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
}

impl Application {
    /// The `kind` of its JSON.
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

/// A video, and how it is played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// The bit rates in which there are segments, ascending.
    pub bitrates_bps: Vec<u64>,
    /// Playing time of a segment.
    pub segment_ns: Nanos,
    /// Playing time that the player's buffer holds.
    pub buffer_ns: Nanos,
    /// Playing time in the buffer with which it plays, at first and after it stood still.
    pub startup_ns: Nanos,
    /// Playing time of the whole; `None` is without end.
    #[serde(deserialize_with = "Option::deserialize")]
    pub length_ns: Option<Nanos>,
}

/// A pair of interfaces and the links between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Interface of the sender.
    pub local: String,
    /// Interface of the receiver.
    pub remote: String,
    /// The links from `local` to the host that has `remote`, on whichever of its interfaces they end.
    pub hops: Vec<Hop>,
    /// Whether `hops` are only the first and the last link, and routers choose those between.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub routed: bool,
    /// The smallest rate on the way; `None` if all are unbounded.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_bps: Option<u64>,
    /// Most payload it can carry.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ceiling_bps: Option<u64>,
    /// Propagation delay there and back.
    pub rtt_ns: Nanos,
}

/// One link of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Id of the link.
    pub link: String,
    /// In which direction it is used.
    pub direction: HopDirection,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopDirection {
    /// From `a` to `b`.
    Forward,
    /// From `b` to `a`.
    Backward,
}

impl HopDirection {
    /// In the order in which a link's directions are numbered.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// The word of the JSON and of metric names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}
