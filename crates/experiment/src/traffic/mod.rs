//! The traffic of flows: data streams, when their data is handed over, and when flows start and
//! end.

mod pacing;

use serde::{Deserialize, Serialize};

use crate::resolved::{Application, Experiment, Flow, FlowEnd, Transport};
use crate::rng::Generator;
use crate::time::Nanos;

pub use pacing::Pace;

/// One end of a data stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// Sends the data of the flow.
    Sender,
    /// Receives the data of the flow.
    Receiver,
}

/// Returns which end of the data stream a side of a flow is. The data of a request-response flow
/// are the responses, which go to `from`.
pub fn stream_end(app: &Application, side: FlowEnd) -> StreamEnd {
    let asks = matches!(app, Application::RequestResponse { .. });
    match (side, asks) {
        (FlowEnd::From, false) | (FlowEnd::To, true) => StreamEnd::Sender,
        (FlowEnd::To, false) | (FlowEnd::From, true) => StreamEnd::Receiver,
    }
}

/// The units of a stream and its length.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a unit. The last unit may be shorter.
    pub unit_bytes: u64,
    /// Bytes of the whole stream. `None` is without end.
    pub bytes: Option<u64>,
}

impl Shape {
    /// Returns the shape of a stream that is a single unit.
    pub fn of_one_unit(bytes: u64) -> Self {
        Self {
            unit_bytes: bytes,
            bytes: Some(bytes),
        }
    }

    /// Returns the offset at which the unit with the byte at `offset` ends.
    pub fn end_of_unit(self, offset: u64) -> u64 {
        let end = (offset / self.unit_bytes + 1).saturating_mul(self.unit_bytes);
        self.bytes.map_or(end, |bytes| end.min(bytes))
    }
}

/// A data stream from one end to the other, and when its data is handed to the transport.
#[derive(Clone, Copy, Debug)]
pub struct DataStream {
    /// Its units.
    pub shape: Shape,
    /// How long after the start of the flow data is handed over. `None` is without end.
    pub duration: Option<Nanos>,
    /// When units are handed over. `None` is as soon as they fit.
    pub pace: Option<Pace>,
}

impl DataStream {
    /// Returns the data stream of an application. `unit_bytes` is the size of a unit where the
    /// application does not set one. `None` if the application sends no such stream.
    pub fn of(app: &Application, unit_bytes: u64) -> Option<Self> {
        let cut = |unit_bytes, bytes| Self {
            shape: Shape { unit_bytes, bytes },
            duration: None,
            pace: None,
        };
        match *app {
            Application::Bulk { bytes, duration_ns } => Some(Self {
                duration: duration_ns,
                ..cut(unit_bytes, bytes)
            }),
            Application::Cbr {
                rate_bps,
                size_bytes,
                duration_ns,
            } => {
                let pace = Pace::constant(rate_bps, size_bytes);
                let pieces = duration_ns.map(|duration| pace.within(duration));
                let bytes = pieces.map(|pieces| pieces.saturating_mul(pace.piece_bytes));
                Some(Self {
                    pace: Some(pace),
                    ..cut(pace.piece_bytes, bytes)
                })
            }
            Application::Streaming {
                bitrate_bps,
                startup_ns,
            } => {
                let pace = Pace {
                    piece_bytes: unit_bytes,
                    rate_bps: bitrate_bps,
                    ahead: startup_ns,
                };
                Some(Self {
                    pace: Some(pace),
                    ..cut(unit_bytes, None)
                })
            }
            _ => None,
        }
    }

    /// Returns a stream of one unit that is handed over at once.
    pub fn of_one_unit(bytes: u64) -> Self {
        Self {
            shape: Shape::of_one_unit(bytes),
            duration: None,
            pace: None,
        }
    }

    /// Returns how many bytes may be handed over `after_start` nanoseconds after the start.
    pub fn released(self, after_start: Nanos) -> u64 {
        let end = self.shape.bytes.unwrap_or(u64::MAX);
        match self.pace {
            Some(pace) => {
                let due = pace.due_by(after_start);
                due.saturating_mul(pace.piece_bytes).min(end)
            }
            None => end,
        }
    }
}

/// Returns whether a flow ends by itself.
pub fn is_finite(app: &Application) -> bool {
    match app {
        Application::Bulk { bytes, duration_ns } => bytes.is_some() || duration_ns.is_some(),
        Application::RequestResponse {
            count, duration_ns, ..
        } => count.is_some() || duration_ns.is_some(),
        Application::Video(video) => video.length_ns.is_some(),
        Application::Cbr { duration_ns, .. } | Application::Probe { duration_ns, .. } => {
            duration_ns.is_some()
        }
        Application::ShortFlows { .. }
        | Application::Streaming { .. }
        | Application::Iperf3 { .. }
        | Application::Command { .. } => false,
    }
}

/// Returns when the last flow starts that neither ends by itself nor with its program; 0 if there
/// is none. A run whose other flows have all ended before then lasts for its whole duration.
pub fn last_endless_start(experiment: &Experiment, seed: u64) -> Nanos {
    let is_program = |app: &Application| {
        matches!(
            app,
            Application::Iperf3 { .. } | Application::Command { .. }
        )
    };
    let endless = experiment.flows.iter();
    let endless = endless.filter(|flow| !is_finite(&flow.app) && !is_program(&flow.app));
    let starts = endless.map(|flow| start_of(experiment, flow, seed));
    starts.max().unwrap_or(0)
}

/// Returns why no back-end can carry out a flow as described. `None` if it is possible.
pub fn why_impossible(flow: &Flow) -> Option<String> {
    let not_zero =
        |what: &str, value: u64| (value == 0).then(|| format!("{what} must be more than 0"));
    let is_udp = flow.transport == Transport::Udp;
    match flow.app {
        Application::Cbr { .. }
        | Application::Probe { .. }
        | Application::Iperf3 { .. }
        | Application::Command { .. } => None,
        _ if is_udp => Some(format!("{} needs a stream: tcp or mptcp", flow.app.kind())),
        Application::Bulk { .. } | Application::Video(_) => None,
        Application::Streaming { bitrate_bps, .. } => not_zero("the bit rate", bitrate_bps),
        Application::RequestResponse {
            request_bytes,
            response_bytes,
            ..
        } => not_zero("the size of a request", request_bytes)
            .or_else(|| not_zero("the size of a response", response_bytes)),
        Application::ShortFlows {
            every_ns,
            poisson_mean_ns,
            bytes,
        } => not_zero("the size of a transfer", bytes).or_else(|| {
            let interval = every_ns.or(poisson_mean_ns).unwrap_or(0);
            not_zero("the time between two transfers", interval)
        }),
    }
}

/// Returns when a flow starts in the run with `seed`.
pub fn start_of(experiment: &Experiment, flow: &Flow, seed: u64) -> Nanos {
    let later = Generator::new(seed, &format!("start/{}", flow.id)).below(experiment.vary.start_ns);
    flow.start_ns + later
}

/// The intervals between the starts of short flows.
#[derive(Clone, Debug)]
pub enum Intervals {
    /// A fixed interval.
    Fixed(Nanos),
    /// Exponentially distributed intervals.
    Poisson {
        /// Their mean.
        mean: Nanos,
        /// The source of randomness.
        generator: Generator,
    },
}

impl Intervals {
    /// Returns the intervals of a flow. `None` if its application is not `short_flows`.
    pub fn of(flow: &Flow, seed: u64) -> Option<Self> {
        let Application::ShortFlows {
            every_ns,
            poisson_mean_ns,
            ..
        } = flow.app
        else {
            return None;
        };
        let generator = || Generator::new(seed, &format!("short_flows/{}", flow.id));
        every_ns.map(Self::Fixed).or_else(|| {
            poisson_mean_ns.map(|mean| Self::Poisson {
                mean,
                generator: generator(),
            })
        })
    }

    /// Returns the time until the next start.
    pub fn draw(&mut self) -> Nanos {
        match self {
            Self::Fixed(every) => *every,
            Self::Poisson { mean, generator } => generator.exponential(*mean),
        }
    }
}
