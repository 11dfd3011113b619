//! The other machines of a run, as the machine that runs it sees them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use experiment::resolved::{Action, Experiment, FlowEnd};
use experiment::time::{Nanos, seconds};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::clock_offset::ClockOffset;
use super::connection::{Conversation, MachineConnection};
use super::request::{Build, Ending, Ports, Report, Request};
use crate::applications::traffic::{FlowCounters, FlowResult, ProbeCounters};
use crate::clock::monotonic_ns;
use crate::emulator::{LATENESS_BOUND_NS, Lateness, STANDSTILL_BOUND_NS};
use crate::kernel::path_manager::PathEvent;
use crate::network::device::{Key, Tunnel};
use crate::{Clock, Device, HostSummary, LiveError};

/// The time from the request to begin until the flows begin, in which the request arrives
/// everywhere. Round trips of the connections are added.
const NOTICE: Duration = Duration::from_millis(50);
/// A run is invalid if more than one packet of this many was lost in a tunnel, because no link of
/// the description lost it.
const PACKETS_PER_LOSS: u64 = 10_000;
/// The bits of a socket's number that name the machine, because machines number their sockets
/// independently.
const MACHINE_BITS: u32 = 56;

/// What is known of a machine after a run.
#[derive(Clone, Debug, Serialize)]
pub struct MachineSummary {
    /// Its name in the experiment.
    pub id: String,
    /// The address to which packets for its hosts were sent. A guest has none.
    pub address: Option<String>,
    /// Its clock.
    pub clock: ClockSummary,
    /// The tunnels of its interfaces.
    pub tunnels: TunnelSummary,
    /// The machine, as in the environment of a bundle.
    pub machine: Value,
}

/// The clock of a machine, compared with that of the machine that ran the experiment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClockSummary {
    /// The largest difference from the run's clock, at the start and at the end.
    pub bound_s: f64,
    /// By how much it moved during the run.
    pub moved_s: f64,
}

/// The tunnels of a machine's interfaces.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TunnelSummary {
    /// The shortest round-trip time of a full packet, measured before the run. It adds to the delay
    /// of links. `None` if the machine has no tunnel, because all its links are real.
    pub rtt_s: Option<f64>,
    /// By how much longer than that packets took to the machine and back during the run: the 99th
    /// percentile. `None` if there is no tunnel.
    pub late_p99_s: Option<f64>,
    /// The same, at most.
    pub late_max_s: Option<f64>,
    /// Packets that did not arrive.
    pub lost: u64,
    /// All packets.
    pub packets: u64,
}

/// A machine during a run.
struct Machine {
    id: String,
    /// Its place among the machines, from 1.
    number: u64,
    address: Option<String>,
    conversation: Conversation,
    at_start: Option<ClockOffset>,
    at_end: Option<ClockOffset>,
    rtt_ns: Option<Nanos>,
    tunnels: Vec<Arc<Tunnel>>,
}

/// The other machines of a run. Their parts end when this is dropped.
#[derive(Default)]
pub(crate) struct Machines {
    machines: Vec<Machine>,
    /// The devices of their interfaces.
    devices: BTreeMap<usize, Device>,
    /// Of each flow, whether it has ended or failed according to another machine.
    flows_over: Vec<bool>,
}

/// What all machines together report.
#[derive(Default)]
pub(crate) struct Endings {
    /// By the names of the machines.
    results: Vec<(String, Vec<FlowResult>)>,
    pub(crate) hosts: Vec<HostSummary>,
    pub(crate) path_events: Vec<PathEvent>,
    pub(crate) summaries: Vec<MachineSummary>,
    /// The shortest round trip over real links, by their ids.
    pub(crate) real_rtts: BTreeMap<String, Nanos>,
    /// Why the run is not valid.
    pub(crate) why_invalid: Option<String>,
}

impl Machines {
    /// Builds the hosts of these machines, and verifies that packets reach them. `resolved` is the
    /// experiment as JSON.
    ///
    /// # Errors
    /// A machine of the experiment has no connection or refuses, or packets do not reach it.
    pub(crate) fn build(
        experiment: &Experiment,
        resolved: &str,
        seed: u64,
        connections: Vec<MachineConnection>,
    ) -> Result<Self, LiveError> {
        let mut all = Self::default();
        if experiment.machines().is_empty() {
            return Ok(all);
        }
        let key = random_key()?;
        let resolved: &RawValue = serde_json::from_str(resolved)
            .map_err(|error| LiveError::Refused(error.to_string()))?;
        for wanted in experiment.machines() {
            if connections.iter().all(|one| one.id != wanted.id) {
                let why = format!("machines.{}: there is no connection to it", wanted.id);
                return Err(LiveError::Refused(why));
            }
        }
        for (number, connection) in (1..).zip(connections) {
            let MachineConnection { id, reach, stream } = connection;
            let conversation = Conversation::start(&id, stream).map_err(LiveError::while_(
                format!("machines.{id}: starting a thread"),
            ))?;
            let build = Request::Build(Build {
                machine: id.clone(),
                seed,
                key,
                over_devices: reach.address().is_none(),
                experiment: resolved.to_owned(),
            });
            let ports: Ports = conversation.ask(&build)?;
            let mut machine = Machine {
                id,
                number,
                address: reach.address().map(|address| address.to_string()),
                conversation,
                at_start: None,
                at_end: None,
                rtt_ns: None,
                tunnels: Vec::new(),
            };
            for (interface, port) in ports {
                let tunnel = reach.tunnel(port, key);
                let device = machine.verified(experiment, interface, tunnel)?;
                all.devices.insert(interface, device);
            }
            all.machines.push(machine);
        }
        Ok(all)
    }

    /// Removes and returns the devices of their interfaces, by index in the experiment.
    pub(crate) fn take_devices(&mut self) -> BTreeMap<usize, Device> {
        std::mem::take(&mut self.devices)
    }

    /// Lets all machines verify their parts. Returns a closure that returns whether one is not
    /// done yet, and so needs the answers of the others.
    ///
    /// # Errors
    /// A connection is lost. The closure also fails if a part is not as described.
    pub(crate) fn verify(
        &self,
    ) -> Result<impl FnMut() -> Result<bool, LiveError> + use<'_>, LiveError> {
        self.send(&Request::Verify)?;
        let mut verifying: Vec<&Machine> = self.machines.iter().collect();
        Ok(move || {
            let mut left = Vec::with_capacity(verifying.len());
            for machine in verifying.drain(..) {
                if machine.conversation.try_receive::<()>()?.is_none() {
                    left.push(machine);
                }
            }
            verifying = left;
            Ok(!verifying.is_empty())
        })
    }

    /// Lets all machines prepare their ends of flows.
    ///
    /// # Errors
    /// A machine refuses, or its connection is lost.
    pub(crate) fn prepare(&self) -> Result<(), LiveError> {
        self.ask_all(&Request::Prepare)
    }

    /// Agrees on the start of the flows. Returns the clock of the run, which starts at once if there
    /// are no other machines.
    ///
    /// # Errors
    /// A connection is lost, or the request to begin arrives too late.
    pub(crate) fn begin(&mut self) -> Result<Clock, LiveError> {
        if self.machines.is_empty() {
            return Ok(Clock::start());
        }
        let mut notice_ns = NOTICE.as_nanos() as u64;
        for machine in &mut self.machines {
            let offset = machine.measure_clock()?;
            notice_ns += 4 * offset.bound_ns;
            machine.at_start = Some(offset);
        }
        let zero_ns = monotonic_ns() + notice_ns;
        for machine in &self.machines {
            let theirs_ns = machine.at_start.map_or(0, |offset| offset.theirs(zero_ns));
            machine.conversation.send(&Request::Begin(theirs_ns))?;
        }
        self.receive::<()>()?;
        match monotonic_ns() < zero_ns {
            true => Ok(Clock::starting_at(zero_ns)),
            false => Err(LiveError::Failed(
                "the other machines were not ready in time: a connection to them is too slow, or this machine too busy".to_owned(),
            )),
        }
    }

    /// Asks all machines for a report, which [`Self::reports`] returns. Meanwhile, a probe measures
    /// each tunnel.
    ///
    /// # Errors
    /// The request cannot be written.
    pub(crate) fn request_reports(&self) -> Result<(), LiveError> {
        let tunnels = self.machines.iter().flat_map(|machine| &machine.tunnels);
        tunnels.for_each(|tunnel| tunnel.probe());
        self.send(&Request::Report)
    }

    /// Returns the reports of all machines. Call [`Self::request_reports`] before.
    ///
    /// # Errors
    /// A connection is lost.
    pub(crate) fn reports(&mut self) -> Result<Vec<Report>, LiveError> {
        let mut reports = self.receive::<Report>()?;
        for (machine, report) in self.machines.iter().zip(&mut reports) {
            for end in &mut report.ends {
                end.observation.cookie |= machine.number << MACHINE_BITS;
            }
            let flows = report.flows_over.len().max(self.flows_over.len());
            self.flows_over.resize(flows, false);
            for (all, one) in self.flows_over.iter_mut().zip(&report.flows_over) {
                *all |= one;
            }
        }
        Ok(reports)
    }

    /// Returns, for each flow, whether it had ended or failed in the last reports.
    pub(crate) fn flows_over(&self) -> &[bool] {
        &self.flows_over
    }

    /// Carries out an action at the hosts that it concerns.
    ///
    /// # Errors
    /// A machine refuses, or its connection is lost.
    pub(crate) fn apply(&self, experiment: &Experiment, action: &Action) -> Result<(), LiveError> {
        for machine in &self.machines {
            if concerns(experiment, action, &machine.id) {
                let () = machine.conversation.ask(&Request::Apply(action.clone()))?;
            }
        }
        Ok(())
    }

    /// Ends the traffic on all machines. Connections stay open for the last report.
    ///
    /// # Errors
    /// A machine failed, or its connection is lost.
    pub(crate) fn stop(&self) -> Result<(), LiveError> {
        self.ask_all(&Request::Stop)
    }

    /// Ends all parts.
    ///
    /// # Errors
    /// A machine failed, or its connection is lost.
    pub(crate) fn finish(&mut self) -> Result<Endings, LiveError> {
        for machine in &mut self.machines {
            machine.at_end = Some(machine.measure_clock()?);
        }
        self.send(&Request::Finish)?;
        let mut all = Endings::default();
        for (machine, ending) in self.machines.iter().zip(self.receive::<Ending>()?) {
            let summary = machine.summary(&ending);
            let why_invalid = machine.why_invalid(&summary.tunnels);
            all.why_invalid = all.why_invalid.take().or(why_invalid);
            all.summaries.push(summary);
            all.results.push((machine.id.clone(), ending.results));
            all.hosts.extend(ending.hosts);
            all.path_events.extend(ending.path_events);
            all.real_rtts.extend(ending.real_rtts);
        }
        Ok(all)
    }

    fn send(&self, request: &Request) -> Result<(), LiveError> {
        let mut machines = self.machines.iter();
        machines.try_for_each(|machine| machine.conversation.send(request))
    }

    /// Returns the answers to a request that was sent to all.
    fn receive<T: serde::de::DeserializeOwned>(&self) -> Result<Vec<T>, LiveError> {
        let machines = self.machines.iter();
        machines
            .map(|machine| machine.conversation.receive())
            .collect()
    }

    fn ask_all(&self, request: &Request) -> Result<(), LiveError> {
        self.send(request)?;
        self.receive::<()>().map(drop)
    }
}

impl Machine {
    /// Verifies the tunnel to an interface, and returns the device at its end.
    fn verified(
        &mut self,
        experiment: &Experiment,
        interface: usize,
        tunnel: Result<Tunnel, LiveError>,
    ) -> Result<Device, LiveError> {
        let described = &experiment.interfaces[interface];
        let verified = tunnel.and_then(|tunnel| Ok((tunnel.verify(described.mtu_bytes)?, tunnel)));
        let (rtt_ns, tunnel) =
            verified.map_err(|error| error.at(&format!("machines.{}", self.id)))?;
        self.rtt_ns = Some(self.rtt_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
        let tunnel = Arc::new(tunnel);
        self.tunnels.push(Arc::clone(&tunnel));
        let mut links = experiment.links.iter();
        let link = links.find(|link| link.id == described.link);
        let link = link.expect("an interface of a valid experiment is on a link");
        Ok(Device::elsewhere(tunnel, link.layer))
    }

    /// Returns how much longer than the shortest round trip before the run those during it took.
    fn lateness(&self) -> Lateness {
        let mut lateness = Lateness::new();
        let least_ns = self.rtt_ns.unwrap_or(0);
        for tunnel in &self.tunnels {
            for took_ns in tunnel.round_trips_ns() {
                lateness.record(took_ns.saturating_sub(least_ns));
            }
        }
        lateness
    }

    fn measure_clock(&self) -> Result<ClockOffset, LiveError> {
        ClockOffset::measure(|| self.conversation.ask(&Request::Clock))
    }

    fn summary(&self, ending: &Ending) -> MachineSummary {
        let here = self.tunnels.iter().map(|tunnel| tunnel.losses());
        let sum = |sum: (u64, u64), one: (u64, u64)| (sum.0 + one.0, sum.1 + one.1);
        let (lost, packets) = here.fold(ending.losses, sum);
        let late = self.lateness().summary();
        MachineSummary {
            id: self.id.clone(),
            address: self.address.clone(),
            clock: self.clock_summary(),
            tunnels: TunnelSummary {
                rtt_s: self.rtt_ns.map(seconds),
                late_p99_s: self.rtt_ns.map(|_| late.p99_s),
                late_max_s: self.rtt_ns.map(|_| late.max_s),
                lost,
                packets,
            },
            machine: ending.machine.clone(),
        }
    }

    /// The run's clock there is that of the first measurement, so what it moved since is part of the
    /// error.
    fn clock_summary(&self) -> ClockSummary {
        let (Some(start), Some(end)) = (self.at_start, self.at_end) else {
            return ClockSummary {
                bound_s: f64::INFINITY,
                moved_s: 0.0,
            };
        };
        let moved_ns = start.change_ns(&end);
        let bound_ns = start.bound_ns.max(end.bound_ns + moved_ns.unsigned_abs());
        ClockSummary {
            bound_s: bound_ns as f64 / 1e9,
            moved_s: moved_ns as f64 / 1e9,
        }
    }

    fn why_invalid(&self, tunnels: &TunnelSummary) -> Option<String> {
        let (start, end) = (self.at_start?, self.at_end?);
        let (moved_ns, allowed_ns) = (start.change_ns(&end), start.allowed_change_ns(&end));
        if moved_ns.unsigned_abs() > allowed_ns {
            return Some(format!(
                "machine {}: its clock jumped by {:.3} ms during the run, and at most {:.3} ms are drift",
                self.id,
                moved_ns as f64 / 1e6,
                allowed_ns as f64 / 1e6
            ));
        }
        if tunnels.lost * PACKETS_PER_LOSS > tunnels.packets {
            return Some(format!(
                "machine {}: {} of {} packets were lost on the way to or from it, and 1 in {PACKETS_PER_LOSS} is allowed",
                self.id, tunnels.lost, tunnels.packets
            ));
        }
        self.why_too_late(tunnels)
    }

    /// Returns why the machine took packets too late, by the bounds for the emulator.
    fn why_too_late(&self, tunnels: &TunnelSummary) -> Option<String> {
        let [bound_ms, standstill_ms] =
            [LATENESS_BOUND_NS, STANDSTILL_BOUND_NS].map(|ns| seconds(ns) * 1e3);
        let [p99_ms, max_ms] =
            [tunnels.late_p99_s, tunnels.late_max_s].map(|late_s| late_s.unwrap_or(0.0) * 1e3);
        let how = if max_ms > standstill_ms {
            format!(
                "a packet to it and back was {max_ms:.0} ms late, and more than {standstill_ms:.0} ms set off timeouts"
            )
        } else if self.lateness().is_too_large() {
            format!(
                "1 packet in 100 to it and back was more than {p99_ms:.1} ms late, and {bound_ms:.0} ms are allowed"
            )
        } else {
            return None;
        };
        Some(format!(
            "machine {}: {how}: it or this machine is too busy",
            self.id
        ))
    }
}

impl Endings {
    /// Adds what is known of flows elsewhere to the results here, which are in the order of the
    /// experiment.
    pub(crate) fn complete(&self, experiment: &Experiment, results: &mut [FlowResult]) {
        for (index, (flow, result)) in experiment.flows.iter().zip(results).enumerate() {
            let opener = match flow.opened_by {
                FlowEnd::From => &flow.from,
                FlowEnd::To => &flow.to,
            };
            for (machine, there) in &self.results {
                let Some(there) = there.get(index) else {
                    continue;
                };
                if experiment.machine_of(opener) == Some(machine) {
                    result.start_ns = there.start_ns;
                }
                merge_results(result, there);
            }
        }
    }
}

/// Adds the counters of the ends elsewhere to those here.
pub(crate) fn merge_counters(here: &mut [FlowCounters], there: &[FlowCounters]) {
    for (here, there) in here.iter_mut().zip(there) {
        here.bytes_sent += there.bytes_sent;
        here.bytes_received += there.bytes_received;
        here.bytes_in_order += there.bytes_in_order;
        here.packets_sent += there.packets_sent;
        here.packets_received += there.packets_received;
    }
}

/// Adds the counters of the probes that are sent elsewhere to those here.
pub(crate) fn merge_probes(here: &mut [ProbeCounters], there: &[ProbeCounters]) {
    for (here, there) in here.iter_mut().zip(there) {
        here.sent += there.sent;
        here.answered += there.answered;
        here.last_rtt_ns = here.last_rtt_ns.or(there.last_rtt_ns);
    }
}

fn merge_results(here: &mut FlowResult, there: &FlowResult) {
    here.established_ns = here.established_ns.or(there.established_ns);
    here.end_ns = here.end_ns.or(there.end_ns);
    here.bytes += there.bytes;
    here.error = here.error.take().or_else(|| there.error.clone());
}

/// Returns whether an action changes a host of a machine.
fn concerns(experiment: &Experiment, action: &Action, machine: &str) -> bool {
    let is_there = |interface: &str| {
        let mut interfaces = experiment.interfaces.iter();
        let found = interfaces.find(|one| one.id == interface);
        found.is_some_and(|one| experiment.machine_of(&one.node) == Some(machine))
    };
    match action {
        Action::InterfaceDown { interface }
        | Action::InterfaceUp { interface }
        | Action::AddressRemove { interface }
        | Action::AddressAdd { interface }
        | Action::SetBackup { interface, .. } => is_there(interface),
        Action::SetLink { link, .. } => {
            let mut links = experiment.links.iter();
            let found = links.find(|one| one.id == *link);
            found.is_some_and(|one| is_there(&one.a) || is_there(&one.b))
        }
        _ => false,
    }
}

fn random_key() -> Result<Key, LiveError> {
    getrandom::u64().map_err(|error| LiveError::Failed(format!("drawing a key: {error}")))
}
