//! Plans command lines from the description.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use experiment::addressing::{Lookup, PathPairs, host_at, mixes_families, other_end};
use experiment::capabilities::Missing;
use experiment::resolved::{Action, Application, Experiment, Flow, FlowEnd, Interface, Transport};
use experiment::rng::Generator;
use experiment::time::Nanos;
use rustix::thread::CapabilitySet;

use super::caller::{Caller, needed_for_control};
use super::iperf3;
use super::process::Order;
use super::sockets::Role;
use crate::applications::traffic::{StreamEnd, port_of_flow};
use crate::{LiveError, NetworkNamespace};

/// Turns a program's TCP sockets into MPTCP sockets.
const MPTCPIZE: [&str; 2] = ["mptcpize", "run"];

/// The programs of one flow.
pub(super) struct FlowPrograms {
    pub(super) flow: usize,
    pub(super) start_ns: Nanos,
    /// The program that listens before the flow starts, and its port.
    pub(super) server: Option<(Order, Role, u16)>,
    pub(super) client: (Order, Role),
}

/// The addresses and namespaces of hosts.
pub(super) struct Planner<'a> {
    lookup: Lookup<'a>,
    namespaces: &'a BTreeMap<String, Arc<NetworkNamespace>>,
    caller: Option<&'a Arc<Caller>>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        namespaces: &'a BTreeMap<String, Arc<NetworkNamespace>>,
        caller: Option<&'a Arc<Caller>>,
    ) -> Self {
        Self {
            lookup: Lookup::new(experiment),
            namespaces,
            caller,
        }
    }

    fn pairs(&self, flow: &Flow, end: FlowEnd) -> PathPairs {
        PathPairs::new(&self.lookup, &flow.paths, end)
    }

    /// Returns the order to start a program on a host.
    pub(super) fn order(&self, host: &str, argv: Vec<String>) -> Result<Order, LiveError> {
        let namespace = self.namespaces.get(host).ok_or_else(|| {
            LiveError::Refused(format!("there is no host {host} to run a program on"))
        })?;
        Ok(Order {
            host: host.to_owned(),
            argv,
            namespace: Arc::clone(namespace),
            names: Arc::new(self.names_for(host)),
            environment: Vec::new(),
            takes_input: false,
            runs_first: false,
            caller: self.caller.cloned(),
            kept: CapabilitySet::empty(),
        })
    }

    /// Returns the hosts file of a host: each other host by the first address to which a flow
    /// between the two has a path.
    fn names_for(&self, host: &str) -> String {
        let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        for other in &self.lookup.experiment.hosts {
            let flows = self.lookup.experiment.flows.iter();
            let between = flows.filter_map(|flow| {
                let end = match (&flow.from, &flow.to) {
                    (from, to) if from == host && *to == other.id => FlowEnd::From,
                    (from, to) if to == host && *from == other.id => FlowEnd::To,
                    _ => return None,
                };
                Some(self.pairs(flow, end).initial().remote)
            });
            let interfaces = self.lookup.experiment.interfaces.iter();
            let own = interfaces.filter(|interface| interface.node == other.id);
            let mut all = between.chain(own.flat_map(Interface::addresses));
            if let Some(address) = all.next() {
                let _ = writeln!(text, "{address} {}", other.id);
            }
        }
        text
    }

    /// Returns the programs of all flows that have any.
    pub(super) fn flows(&self, seed: u64) -> Result<Vec<FlowPrograms>, LiveError> {
        let mut all = Vec::new();
        for (index, flow) in self.lookup.experiment.flows.iter().enumerate() {
            let (server, client) = match &flow.app {
                Application::Iperf3 { args } => self.iperf3(index, flow, args)?,
                Application::Command { argv } => {
                    let argv = self.through_mptcpize(flow, &flow.from, argv.clone());
                    let role = Role {
                        flow: index,
                        end: StreamEnd::Sender,
                        wants_mptcp: flow.transport == Transport::Mptcp,
                        has_control: false,
                    };
                    (None, (self.order(&flow.from, argv)?, role))
                }
                _ => continue,
            };
            let later = Generator::new(seed, &format!("start/{}", flow.id));
            all.push(FlowPrograms {
                flow: index,
                start_ns: flow.start_ns + { later }.below(self.lookup.experiment.vary.start_ns),
                server,
                client,
            });
        }
        Ok(all)
    }

    #[allow(clippy::type_complexity)]
    fn iperf3(
        &self,
        index: usize,
        flow: &Flow,
        args: &[String],
    ) -> Result<(Option<(Order, Role, u16)>, (Order, Role)), LiveError> {
        let port = port_of_flow(index)?;
        let opener = host_at(flow, flow.opened_by).to_owned();
        let acceptor = host_at(flow, other_end(flow.opened_by)).to_owned();
        let initial = self.pairs(flow, flow.opened_by).initial();
        let (own, peer) = (initial.local.to_string(), initial.remote.to_string());
        let role = |host: &String| Role {
            flow: index,
            end: if *host == flow.from {
                StreamEnd::Sender
            } else {
                StreamEnd::Receiver
            },
            wants_mptcp: flow.transport == Transport::Mptcp,
            has_control: true,
        };
        let client = iperf3::client(flow, &own, &peer, port, args);
        let mut client = self.order(&opener, self.through_mptcpize(flow, &opener, client))?;
        let server = self.through_mptcpize(flow, &acceptor, iperf3::server(port));
        let mut server = self.order(&acceptor, server)?;
        // The client tells the server which one it is.
        if let Some(control) = iperf3::control_of(flow) {
            client.kept = needed_for_control(control);
            server.kept = client.kept;
        }
        Ok((
            Some((server, role(&acceptor), port)),
            (client, role(&opener)),
        ))
    }

    fn through_mptcpize(&self, flow: &Flow, host: &str, argv: Vec<String>) -> Vec<String> {
        if !is_multipath(self.lookup.experiment, flow, host) {
            return argv;
        }
        let words = MPTCPIZE.into_iter().map(str::to_owned);
        words.chain(argv).collect()
    }
}

/// Returns whether a flow's program on a host is to use MPTCP.
fn is_multipath(experiment: &Experiment, flow: &Flow, host: &str) -> bool {
    let speaks = experiment
        .hosts
        .iter()
        .any(|one| one.id == *host && one.mptcp);
    flow.transport == Transport::Mptcp && speaks
}

/// Returns everything about programs that prevents an experiment on this machine.
pub(super) fn check(experiment: &Experiment) -> Vec<Missing> {
    let lookup = Lookup::new(experiment);
    let mut missing = Vec::new();
    for flow in &experiment.flows {
        let feature = || format!("flows.{}.app: {}", flow.id, flow.app.kind());
        let programs: Vec<&str> = match &flow.app {
            Application::Iperf3 { args } => {
                missing.extend(
                    iperf3::refused_argument(args).map(|(argument, why)| Missing {
                        feature: format!("flows.{}.app: iperf3 with {argument}", flow.id),
                        why: why.to_owned(),
                    }),
                );
                vec!["iperf3"]
            }
            Application::Command { argv } => argv.iter().take(1).map(String::as_str).collect(),
            _ => continue,
        };
        let hosts = [&flow.from, &flow.to];
        let needs_wrapper = hosts
            .iter()
            .any(|host| is_multipath(experiment, flow, host));
        let wrapper = needs_wrapper.then_some(MPTCPIZE[0]);
        missing.extend(mixes_families(&lookup, flow).then(|| Missing {
            feature: feature(),
            why: "its paths are of IPv4 and of IPv6, and a program's socket is of one family: give the interfaces of the flow the same `family`, or choose some by `via`".to_owned(),
        }));
        missing.extend(not_installed(programs.into_iter().chain(wrapper), feature));
    }
    for event in &experiment.events {
        if let Action::Exec { argv, .. } = &event.action {
            let feature = || format!("events.{}: exec", event.id);
            missing.extend(not_installed(argv.first().map(String::as_str), feature));
        }
    }
    let control = experiment.control.as_ref();
    let command = control.and_then(|control| control.command.as_ref()?.first());
    let place = || "control.command".to_owned();
    missing.extend(not_installed(command.map(String::as_str), place));
    missing
}

fn not_installed<'p>(
    programs: impl IntoIterator<Item = &'p str>,
    feature: impl Fn() -> String,
) -> Vec<Missing> {
    let programs = programs
        .into_iter()
        .filter(|program| !is_installed(program));
    programs
        .map(|program| Missing {
            feature: feature(),
            why: format!("there is no program {program} here: {}", remedy(program)),
        })
        .collect()
}

/// Returns the remedy for a missing program.
pub(super) fn remedy(program: &str) -> String {
    match program {
        "iperf3" | "mptcpize" => format!("install it, as with `apt install {program}`"),
        _ => "install it, or give its path".to_owned(),
    }
}

/// Returns whether a file can be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    let metadata = path.metadata();
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns whether execvp(3) would find a program.
fn is_installed(program: &str) -> bool {
    if program.contains('/') {
        return is_program(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    !program.is_empty()
        && std::env::split_paths(&path).any(|directory| is_program(&directory.join(program)))
}
