//! Plans threads, tasks and sockets from the description.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use experiment::addressing;
use experiment::addressing::{Lookup, PathPairs, host_at, mixes_families, other_end};
use experiment::resolved::{Application, Experiment, Flow, FlowEnd, Host, Path, Stack, Transport};
use experiment::samples::Unit;
use experiment::time::Nanos;
use experiment::traffic::{
    DataStream, Intervals, Pace, is_finite, start_of, stream_end, why_impossible,
};

use super::connection::{Acceptor, End, Opener, Owner};
use super::datagrams::{DatagramReceiver, DatagramSender};
use super::probe::{DatagramEcho, DatagramProbe, ProbeTimes, StreamEcho, StreamProbe};
use super::record::{FlowRecord, Journal, ProbeRecord};
use super::request_response::{Requester, Responder, Sizes};
use super::role::{Opened, Openings, Part, Role};
use super::short_flows::{TransferStarter, Transfers, accepted_end};
use super::sockets::{
    Addresses, Registry, StreamKind, datagram_echo, datagram_receiver, datagram_sender, listener,
    stream_socket,
};
use super::stream::{Numbering, StreamReceiver, StreamSender};
use super::unit_header::UNIT_HEADER_BYTES;
use super::worker::{Group, Task};
use super::{ProbeAnswer, StreamEnd};
use crate::{LiveError, NetworkNamespace};

/// Payload of the probes of `measure`, as in the simulator.
const PROBE_BYTES: u32 = 64;
/// The congestion control of a kernel that receives from the userspace stack. Every kernel has it.
const ACKNOWLEDGES_WITH: &str = "reno";
/// Threads that send more often than this get ordinary priority, because they could starve other
/// threads.
const SHORTEST_PUNCTUAL: Nanos = 100_000;

/// Returns the port at which a flow is received.
///
/// # Errors
/// There are more flows than ports.
pub fn port_of_flow(index: usize) -> Result<u16, LiveError> {
    addressing::port_of_flow(index).ok_or_else(|| {
        let most = addressing::MOST_FLOWS;
        LiveError::Failed(format!(
            "flow or probe number {index} has no port: there are {most}"
        ))
    })
}

/// Returns why an application cannot run over a kernel's sockets as described; `None` if it can.
/// Programs are not checked here.
pub fn why_refused(experiment: &Experiment, flow: &Flow) -> Option<String> {
    let header_bytes = UNIT_HEADER_BYTES as u64;
    let too_small = |what: &str, bytes: u64| {
        let why = format!(
            "{what} of {bytes} bytes cannot carry the {header_bytes} bytes of its number and time; use at least {header_bytes}"
        );
        (bytes < header_bytes).then_some(why)
    };
    why_impossible(flow).or_else(|| match flow.app {
        Application::Cbr { size_bytes, .. } => too_small("a piece", size_bytes.into()),
        Application::Probe { size_bytes, .. } => too_small("a probe", size_bytes.into()),
        Application::Bulk { .. } | Application::Streaming { .. } => {
            too_small("a data unit", experiment.measure.unit_bytes)
        }
        Application::ShortFlows { bytes, .. } => too_small("a transfer", bytes),
        Application::RequestResponse { .. }
        | Application::Video(_)
        | Application::Iperf3 { .. }
        | Application::Command { .. } => None,
    })
}

/// The traffic of a run.
pub(super) struct Plan {
    /// Groups of tasks, one for each thread.
    pub(super) groups: Vec<Group>,
    pub(super) flows: Vec<Arc<FlowRecord>>,
    pub(super) probes: Vec<Arc<ProbeRecord>>,
    pub(super) probe_names: Vec<String>,
    pub(super) registry: Arc<Registry>,
    /// Roles by host with the userspace stack.
    pub(super) roles: BTreeMap<String, Vec<Role>>,
}

struct Planner<'e, N> {
    lookup: Lookup<'e>,
    seed: u64,
    namespace: N,
    units: mpsc::Sender<Unit>,
    answers: mpsc::Sender<ProbeAnswer>,
    plan: Plan,
}

impl Plan {
    pub(super) fn new<'a>(
        experiment: &Experiment,
        seed: u64,
        namespace: impl Fn(&str) -> Option<&'a Arc<NetworkNamespace>>,
        units: mpsc::Sender<Unit>,
        answers: mpsc::Sender<ProbeAnswer>,
    ) -> Result<Self, LiveError> {
        let mut planner = Planner {
            lookup: Lookup::new(experiment),
            seed,
            namespace,
            units,
            answers,
            plan: Self {
                groups: Vec::new(),
                flows: Vec::new(),
                probes: Vec::new(),
                probe_names: Vec::new(),
                registry: Arc::default(),
                roles: BTreeMap::new(),
            },
        };
        for (index, flow) in experiment.flows.iter().enumerate() {
            planner.add_flow(index, flow)?;
        }
        if let Some(every) = experiment.measure.probe_rtt_ns {
            planner.add_probes(every)?;
        }
        Ok(planner.plan)
    }
}

impl<'a, N: Fn(&str) -> Option<&'a Arc<NetworkNamespace>>> Planner<'_, N> {
    fn add_flow(&mut self, index: usize, flow: &Flow) -> Result<(), LiveError> {
        if let Some(why) = why_refused(self.lookup.experiment, flow) {
            return Err(LiveError::Failed(format!("flows.{}: {why}", flow.id)));
        }
        let start = start_of(self.lookup.experiment, flow, self.seed);
        let units = self.units.clone();
        let record = FlowRecord::new(index, start, is_finite(&flow.app), units);
        let record = Arc::new(record);
        self.plan.flows.push(Arc::clone(&record));
        match (&flow.app, flow.transport) {
            (Application::Iperf3 { .. } | Application::Command { .. }, _) => Ok(()),
            (
                Application::Probe {
                    every_ns,
                    size_bytes,
                    duration_ns,
                },
                Transport::Udp,
            ) => {
                let times = ProbeTimes {
                    start,
                    every: *every_ns,
                    duration: *duration_ns,
                };
                let name = format!("probes.{}", flow.id);
                let ends = self.datagram_ends(&flow.paths[0], port_of_flow(index)?);
                let rtt_ns = flow.paths[0].rtt_ns;
                let probe = self.probe(name);
                let (sender, echo) =
                    datagram_probe(ends, times, *size_bytes, rtt_ns, probe, Some(record));
                let takes_times = *every_ns >= SHORTEST_PUNCTUAL;
                self.add_end(flow, FlowEnd::From, takes_times, sender);
                self.add_end(flow, FlowEnd::To, takes_times, echo);
                Ok(())
            }
            (app, Transport::Udp) => self.add_datagrams(index, flow, app, record),
            (_, Transport::Tcp | Transport::Mptcp) => self.add_stream(index, flow, record),
        }
    }

    fn add_datagrams(
        &mut self,
        index: usize,
        flow: &Flow,
        app: &Application,
        record: Arc<FlowRecord>,
    ) -> Result<(), LiveError> {
        let Application::Cbr {
            rate_bps,
            size_bytes,
            duration_ns,
        } = *app
        else {
            unreachable!("refused before");
        };
        let addresses = self.datagram_ends(&flow.paths[0], port_of_flow(index)?);
        let rtt_ns = flow.paths[0].rtt_ns;
        let pace = Pace::constant(rate_bps, size_bytes);
        let count = duration_ns.map(|duration| pace.within(duration));
        let sending = Arc::clone(&record);
        let sender: MakeTask = Box::new(move || {
            let socket = datagram_sender(addresses.source)?;
            let target = addresses.target;
            let sender = DatagramSender::new(sending, socket, target, pace, count);
            Ok(Box::new(sender) as Box<dyn Task>)
        });
        let receiver: MakeTask = Box::new(move || {
            let socket = datagram_receiver(addresses.target)?;
            Ok(Box::new(DatagramReceiver::new(record, socket, rtt_ns)) as Box<dyn Task>)
        });
        let takes_times = pace.due(1) >= SHORTEST_PUNCTUAL;
        self.add_end(flow, FlowEnd::From, takes_times, sender);
        self.add_end(flow, FlowEnd::To, takes_times, receiver);
        Ok(())
    }

    fn add_stream(
        &mut self,
        index: usize,
        flow: &Flow,
        record: Arc<FlowRecord>,
    ) -> Result<(), LiveError> {
        let ends = StreamFlow {
            unit_bytes: self.lookup.experiment.measure.unit_bytes,
            probe: match flow.app {
                Application::Probe { .. } => Some(self.probe(format!("probes.{}", flow.id))),
                _ => None,
            },
            app: flow.app.clone(),
            record,
        };
        let (opener, acceptor) = (flow.opened_by, other_end(flow.opened_by));
        let mut addresses = addresses(&self.lookup, &flow.paths[0], opener, port_of_flow(index)?);
        if mixes_families(&self.lookup, flow) {
            addresses = addresses.mapped();
        }
        if self.runs_our_stack(flow, acceptor) {
            self.add_role(index, flow, acceptor, ends.accepting(acceptor));
        } else {
            let accepting = self.accept(index, flow, ends.clone(), acceptor, addresses);
            self.add_end(flow, acceptor, false, accepting);
        }
        if self.runs_our_stack(flow, opener) {
            let openings = ends.openings(opener, Intervals::of(flow, self.seed));
            self.add_role(index, flow, opener, Part::Opens(openings));
        } else {
            let opening = self.open(index, flow, ends, opener, addresses);
            self.add_end(flow, opener, false, opening);
        }
        Ok(())
    }

    fn host(&self, flow: &Flow, side: FlowEnd) -> Option<&Host> {
        let id = host_at(flow, side);
        self.lookup
            .experiment
            .hosts
            .iter()
            .find(|host| host.id == *id)
    }

    fn runs_our_stack(&self, flow: &Flow, side: FlowEnd) -> bool {
        let host = self.host(flow, side);
        host.is_some_and(|host| host.stack == Stack::Userspace)
    }

    fn add_role(&mut self, index: usize, flow: &Flow, side: FlowEnd, part: Part) {
        let host = host_at(flow, side).to_owned();
        self.plan.roles.entry(host).or_default().push(Role {
            flow: index,
            side,
            end: stream_end(&flow.app, side),
            part,
        });
    }

    fn kind(&self, flow: &Flow, side: FlowEnd) -> StreamKind {
        let speaks_mptcp = self.host(flow, side).is_some_and(|host| host.mptcp);
        let only_acknowledges = self.runs_our_stack(flow, other_end(side))
            && stream_end(&flow.app, side) == StreamEnd::Receiver;
        StreamKind {
            takes_both_families: mixes_families(&self.lookup, flow),
            is_mptcp: flow.transport == Transport::Mptcp && speaks_mptcp,
            congestion_control: match flow.cc.first() {
                Some(cc) if !only_acknowledges => cc.name.clone(),
                // The userspace stack may send with a congestion control that the kernel lacks.
                _ => ACKNOWLEDGES_WITH.to_owned(),
            },
        }
    }

    fn owner(&self, index: usize, flow: &Flow, side: FlowEnd) -> Owner {
        Owner {
            flow: index,
            end: stream_end(&flow.app, side),
            registry: Arc::clone(&self.plan.registry),
        }
    }

    fn accept(
        &self,
        index: usize,
        flow: &Flow,
        ends: StreamFlow,
        side: FlowEnd,
        addresses: Addresses,
    ) -> MakeTask {
        let kind = self.kind(flow, side);
        let owner = self.owner(index, flow, side);
        Box::new(move || {
            let journal = Arc::clone(&ends.record);
            let mut has_one = false;
            Ok(Box::new(Acceptor {
                listener: listener(addresses.target, &kind)?,
                owner,
                journal,
                make_end: Box::new(move || ends.accepted(side, &mut has_one)),
            }) as Box<dyn Task>)
        })
    }

    fn open(
        &self,
        index: usize,
        flow: &Flow,
        ends: StreamFlow,
        side: FlowEnd,
        addresses: Addresses,
    ) -> MakeTask {
        let kind = self.kind(flow, side);
        let owner = self.owner(index, flow, side);
        let intervals = Intervals::of(flow, self.seed);
        Box::new(move || {
            // For short flows, this socket only checks that one can be created.
            let socket = stream_socket(addresses.source, &kind)?;
            Ok(match ends.openings(side, intervals) {
                Openings::Each(transfers) => Box::new(TransferStarter {
                    transfers,
                    addresses,
                    kind,
                    owner,
                }) as Box<dyn Task>,
                Openings::One(at, opened) => {
                    Box::new(Opener::new(at, addresses, owner, opened, socket))
                }
            })
        })
    }

    /// Adds one probe for each path, even if several flows use it. The probes of a host share a
    /// thread.
    fn add_probes(&mut self, every: Nanos) -> Result<(), LiveError> {
        let times = ProbeTimes {
            start: 0,
            every,
            duration: None,
        };
        let mut probed = BTreeSet::new();
        let mut by_host: BTreeMap<(&str, &str), Vec<MakeTask>> = BTreeMap::new();
        let experiment = self.lookup.experiment;
        for flow in &experiment.flows {
            for path in &flow.paths {
                if !probed.insert((&path.local, &path.remote)) {
                    continue;
                }
                let port = port_of_flow(experiment.flows.len() + probed.len() - 1)?;
                let ends = self.datagram_ends(path, port);
                let probe = self.probe(format!("probes.{}-{}", path.local, path.remote));
                let (sender, echo) =
                    datagram_probe(ends, times, PROBE_BYTES, path.rtt_ns, probe, None);
                let mut add = |host, what, task| {
                    by_host.entry((host, what)).or_default().push(task);
                };
                add(&flow.from, "probes", sender);
                add(&flow.to, "echoes", echo);
            }
        }
        for ((host, what), tasks) in by_host {
            let place = format!("{what} of host {host}");
            self.add_group(host, place, every >= SHORTEST_PUNCTUAL, tasks);
        }
        Ok(())
    }

    fn probe(&mut self, name: String) -> Arc<ProbeRecord> {
        let index = self.plan.probes.len();
        let probe = Arc::new(ProbeRecord::new(index, self.answers.clone()));
        self.plan.probes.push(Arc::clone(&probe));
        self.plan.probe_names.push(name);
        probe
    }

    /// Adds a thread for an end of a flow.
    fn add_end(&mut self, flow: &Flow, side: FlowEnd, takes_times: bool, task: MakeTask) {
        let host = host_at(flow, side);
        let place = format!("flows.{} at host {host}", flow.id);
        self.add_group(host, place, takes_times, vec![task]);
    }

    fn add_group(&mut self, host: &str, place: String, takes_times: bool, tasks: Vec<MakeTask>) {
        let Some(namespace) = (self.namespace)(host) else {
            return;
        };
        let make = move || {
            let tasks = tasks.into_iter().map(|make| make());
            tasks
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| error.at(&place))
        };
        self.plan.groups.push(Group {
            namespace: Arc::clone(namespace),
            takes_times,
            make: Box::new(make),
        });
    }

    /// Returns the addresses from the path's local interface to its remote one.
    fn datagram_ends(&self, path: &Path, port: u16) -> Addresses {
        addresses(&self.lookup, path, FlowEnd::From, port)
    }
}

/// Returns the addresses from one end of a path to `port` at the other.
fn addresses(lookup: &Lookup<'_>, path: &Path, from: FlowEnd, port: u16) -> Addresses {
    let pair = PathPairs::new(lookup, std::slice::from_ref(path), from).initial();
    Addresses {
        source: pair.local,
        target: SocketAddr::new(pair.remote, port),
    }
}

type MakeTask = Box<dyn FnOnce() -> Result<Box<dyn Task>, LiveError> + Send>;

/// Returns the tasks of both ends of a probe over UDP.
fn datagram_probe(
    addresses: Addresses,
    times: ProbeTimes,
    size_bytes: u32,
    rtt_ns: Nanos,
    probe: Arc<ProbeRecord>,
    flow: Option<Arc<FlowRecord>>,
) -> (MakeTask, MakeTask) {
    let echoing = flow.clone();
    let sender: MakeTask = Box::new(move || {
        let socket = datagram_sender(addresses.source)?;
        Ok(Box::new(DatagramProbe::new(
            socket,
            addresses.target,
            times,
            probe,
            flow,
            size_bytes,
            rtt_ns,
        )) as Box<dyn Task>)
    });
    let echo: MakeTask = Box::new(move || {
        let socket = datagram_echo(addresses.target)?;
        Ok(Box::new(DatagramEcho::new(socket, echoing)) as Box<dyn Task>)
    });
    (sender, echo)
}

/// The applications of a flow over connections.
#[derive(Clone)]
struct StreamFlow {
    app: Application,
    unit_bytes: u64,
    record: Arc<FlowRecord>,
    probe: Option<Arc<ProbeRecord>>,
}

impl StreamFlow {
    /// Returns the application of an accepted connection. A flow other than `short_flows` has one
    /// connection.
    fn accepted(&self, side: FlowEnd, has_one: &mut bool) -> Option<Box<dyn End>> {
        if let Application::ShortFlows { bytes, .. } = self.app {
            let end = stream_end(&self.app, side);
            return Some(accepted_end(&self.record, end, bytes));
        }
        (!std::mem::replace(has_one, true)).then(|| self.end(side))
    }

    /// Returns the part of a host that accepts the connections with the userspace stack.
    fn accepting(&self, side: FlowEnd) -> Part {
        let ends = self.clone();
        let mut has_one = false;
        Part::Accepts {
            make_end: Box::new(move || ends.accepted(side, &mut has_one)),
            journal: Arc::clone(&self.record) as Arc<dyn Journal>,
        }
    }

    /// Returns the connections that `side` opens. `intervals` are those between short flows.
    fn openings(&self, side: FlowEnd, intervals: Option<Intervals>) -> Openings {
        let record = Arc::clone(&self.record);
        match (&self.app, intervals) {
            (Application::ShortFlows { bytes, .. }, Some(intervals)) => {
                let end = stream_end(&self.app, side);
                Openings::Each(Transfers::new(record, end, *bytes, intervals))
            }
            _ => {
                let (end, journal) = (self.end(side), Arc::clone(&self.record));
                Openings::One(record.scheduled_start(), Opened { end, journal })
            }
        }
    }

    fn end(&self, side: FlowEnd) -> Box<dyn End> {
        let flow = Arc::clone(&self.record);
        let start = flow.scheduled_start();
        if let Some(data) = DataStream::of(&self.app, self.unit_bytes) {
            return stream(flow, side, data);
        }
        match self.app {
            Application::RequestResponse {
                request_bytes,
                response_bytes,
                count,
                duration_ns,
            } => {
                let sizes = Sizes {
                    request_bytes,
                    response_bytes,
                };
                match side {
                    FlowEnd::From => Box::new(Requester::new(flow, sizes, count, duration_ns)),
                    FlowEnd::To => Box::new(Responder::new(flow, sizes)),
                }
            }
            Application::Probe {
                every_ns,
                size_bytes,
                duration_ns,
            } => {
                let times = ProbeTimes {
                    start,
                    every: every_ns,
                    duration: duration_ns,
                };
                match (side, &self.probe) {
                    (FlowEnd::From, Some(probe)) => {
                        let probe = Arc::clone(probe);
                        Box::new(StreamProbe::new(flow, probe, times, size_bytes))
                    }
                    _ => Box::new(StreamEcho::new(flow, size_bytes)),
                }
            }
            _ => unreachable!("a stream of data, or nothing that has such a connection"),
        }
    }
}

fn stream(flow: Arc<FlowRecord>, side: FlowEnd, data: DataStream) -> Box<dyn End> {
    match side {
        FlowEnd::From => Box::new(StreamSender::new(flow, data)),
        FlowEnd::To => Box::new(StreamReceiver::new(flow, data.shape, Numbering::InOrder)),
    }
}
