//! Properties of flows that every back-end needs: ports, address pairs, the sending end, data
//! streams, and start times.

use std::net::IpAddr;

use mptcp::pm::AddressPair;

use crate::lookup::Lookup;
use crate::pacing::Pace;
use crate::resolved::{Application, Experiment, Flow, FlowEnd, Interface, Path, Transport};
use crate::rng::Generator;
use crate::time::Nanos;

/// The port of the first flow. The other flows follow, and then the probes.
const FIRST_PORT: u16 = 5001;

/// Returns the port at which flow `index` is accepted. `None` if there are more flows than ports.
pub fn port_of_flow(index: usize) -> Option<u16> {
    u16::try_from(index)
        .ok()
        .and_then(|index| FIRST_PORT.checked_add(index))
}

/// Returns the index of the flow that would be accepted at `port`. The experiment may have fewer
/// flows.
pub fn flow_at_port(port: u16) -> Option<usize> {
    port.checked_sub(FIRST_PORT).map(usize::from)
}

/// The largest number of flows that can have a port.
pub const MOST_FLOWS: usize = (u16::MAX - FIRST_PORT) as usize + 1;

/// One end of a data stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Returns the host at an end of a flow.
pub fn host_at(flow: &Flow, side: FlowEnd) -> &str {
    match side {
        FlowEnd::From => &flow.from,
        FlowEnd::To => &flow.to,
    }
}

/// Returns the opposite end.
pub fn other_end(side: FlowEnd) -> FlowEnd {
    match side {
        FlowEnd::From => FlowEnd::To,
        FlowEnd::To => FlowEnd::From,
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

/// The address pairs that the paths of a flow route, seen from one of its ends. Each path has its
/// pairs of both families.
#[derive(Clone, Debug)]
pub struct PathPairs(Vec<Vec<AddressPair>>);

impl PathPairs {
    /// Returns the pairs of `paths`, seen from `end`.
    pub fn new(lookup: &Lookup<'_>, paths: &[Path], end: FlowEnd) -> Self {
        let between = |path: &Path| match end {
            FlowEnd::From => pairs_between(lookup, &path.local, &path.remote),
            FlowEnd::To => pairs_between(lookup, &path.remote, &path.local),
        };
        paths.iter().map(between).collect()
    }

    /// Returns all pairs without duplicates, because several paths may join the same two addresses.
    pub fn all(&self) -> Vec<AddressPair> {
        unique(self.0.iter().flatten())
    }

    /// Returns the pair on which a connection begins: that of the first path, over IPv4 if both
    /// ends have it.
    ///
    /// # Panics
    /// Panics if there is no path.
    pub fn initial(&self) -> AddressPair {
        self.0[0][0]
    }

    /// Returns the pairs of a connection that begins at `initial`: each path in the same family, or
    /// in the other family where an end has no address of this one.
    pub fn of_connection(&self, initial: IpAddr) -> Vec<AddressPair> {
        let is_alike = |pair: &&AddressPair| pair.local.is_ipv4() == initial.is_ipv4();
        unique(
            self.0
                .iter()
                .filter_map(|path| path.iter().find(is_alike).or(path.first())),
        )
    }
}

impl FromIterator<Vec<AddressPair>> for PathPairs {
    /// Collects the pairs of each path.
    fn from_iter<T: IntoIterator<Item = Vec<AddressPair>>>(paths: T) -> Self {
        Self(paths.into_iter().collect())
    }
}

/// Returns whether the connections of a flow use both families.
pub fn mixes_families(lookup: &Lookup<'_>, flow: &Flow) -> bool {
    let pairs = PathPairs::new(lookup, &flow.paths, FlowEnd::From);
    let initial = pairs.initial().local;
    let is_other = |pair: &AddressPair| pair.local.is_ipv4() != initial.is_ipv4();
    flow.transport == Transport::Mptcp && pairs.of_connection(initial).iter().any(is_other)
}

fn unique<'a>(pairs: impl Iterator<Item = &'a AddressPair>) -> Vec<AddressPair> {
    let mut known = Vec::new();
    for pair in pairs {
        if !known.contains(pair) {
            known.push(*pair);
        }
    }
    known
}

/// Returns the address pairs of two interfaces, IPv4 first.
pub fn pairs_between(lookup: &Lookup<'_>, near: &str, far: &str) -> Vec<AddressPair> {
    pairs_of(&lookup.addresses(near), &lookup.addresses(far))
}

/// Returns the address pairs that packets between two interfaces can carry on the way: those of the
/// interfaces, and the outside addresses of NATs that hide them.
pub fn pairs_on_the_way(lookup: &Lookup<'_>, near: &str, far: &str) -> Vec<AddressPair> {
    let [near, far] = [near, far].map(|end| {
        let mut addresses = lookup.addresses(end);
        addresses.extend(lookup.outside_addresses(end));
        addresses
    });
    pairs_of(&near, &far)
}

/// Returns all pairs of the same family, in the order of `near`.
pub(crate) fn pairs_of(near: &[IpAddr], far: &[IpAddr]) -> Vec<AddressPair> {
    let mut pairs = Vec::new();
    for &local in near {
        let alike = far
            .iter()
            .filter(|remote| remote.is_ipv4() == local.is_ipv4());
        pairs.extend(alike.map(|&remote| AddressPair { local, remote }));
    }
    pairs
}

/// Returns the addresses of an interface, IPv4 first.
pub fn addresses_at(interface: &Interface) -> Vec<IpAddr> {
    let texts = [&interface.ipv4, &interface.ipv6].into_iter().flatten();
    let addresses = texts.filter_map(|text| text.split('/').next()?.parse().ok());
    addresses.collect()
}
