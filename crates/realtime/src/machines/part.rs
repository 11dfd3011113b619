//! The part of a run on another machine: its hosts and their ends of flows, as the machine that runs
//! the experiment asks for them.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use experiment::resolved::{Action, Experiment};
use experiment::samples::Unit;
use experiment::time::Nanos;
use serde::Serialize;
use serde_json::{Value, json};

use super::carrier::Carrier;
use super::request::{Build, Ending, Ports, Report, Request};
use crate::applications::traffic::{PreparedTraffic, Traffic};
use crate::clock::monotonic_ns;
use crate::kernel::congestion::RunControls;
use crate::kernel::path_manager::PathManagers;
use crate::network::device::{Key, Tunnel};
use crate::telemetry::Observer;
use crate::userspace::capabilities::kernel_part;
use crate::{Clock, DeviceKind, Hosts, Kernel, LiveError, summary};

/// Answers the requests for one part until they end. `say` sends a line, `begun` is called when the
/// flows begin, and `machine` returns what is known of this machine.
///
/// # Errors
/// Those of `say`.
pub fn serve_part(
    requests: &Receiver<String>,
    mut say: impl FnMut(&str) -> io::Result<()>,
    begun: impl Fn(),
    machine: impl Fn() -> Value,
) -> io::Result<()> {
    let mut part = None;
    let mut next = requests.recv().ok();
    while let Some(line) = next {
        let request = serde_json::from_str(&line);
        next = match request {
            Ok(Request::Verify) => verify(&mut part, requests, &mut say)?,
            Ok(Request::Begin(at_ns)) => {
                say(&begin(&mut part, at_ns))?;
                if let Some(part) = &mut part {
                    part.start();
                    begun();
                }
                requests.recv().ok()
            }
            Ok(request) => {
                say(&answer(&mut part, request, &machine))?;
                requests.recv().ok()
            }
            Err(error) => {
                say(&failure(error))?;
                requests.recv().ok()
            }
        };
    }
    Ok(())
}

/// Hosts of a machine, and what runs in them.
struct Part {
    experiment: Experiment,
    seed: u64,
    // In the order in which they must end.
    running: Option<Running>,
    /// The shortest round trip over each real link that was crossed from here.
    real_rtts: BTreeMap<String, Nanos>,
    /// Keeps the congestion controls that are registered for the run.
    controls: RunControls,
    carrier: Carrier,
    hosts: Hosts,
}

/// What begins with the flows.
struct Running {
    clock: Clock,
    prepared: Option<PreparedTraffic>,
    traffic: Option<Traffic>,
    path_managers: PathManagers,
    observer: Observer,
    units: Receiver<Unit>,
    counters_at_start: BTreeMap<String, BTreeMap<String, u64>>,
}

fn answer(part: &mut Option<Part>, request: Request, machine: &impl Fn() -> Value) -> String {
    match request {
        Request::Build(build) => told(Part::build(&build).map(|(made, ports)| {
            *part = Some(made);
            ports
        })),
        Request::Clock => told(Ok(monotonic_ns())),
        Request::Prepare => told(made(part).and_then(Part::prepare)),
        Request::Report => told(made(part).and_then(Part::report)),
        Request::Apply(action) => told(made(part).and_then(|part| part.apply(&action))),
        Request::Stop => told(made(part).and_then(Part::stop)),
        Request::Finish => {
            let whole = part.take().ok_or_else(absent);
            told(whole.and_then(|part| part.finish(machine())))
        }
        Request::Verify | Request::Begin(_) => failure("it is answered elsewhere"),
    }
}

/// Verifies a part, answers, and goes on to answer the echoes of other machines. Returns the next
/// request, which ends that.
fn verify(
    part: &mut Option<Part>,
    requests: &Receiver<String>,
    say: &mut impl FnMut(&str) -> io::Result<()>,
) -> io::Result<Option<String>> {
    let mut next = None;
    let mut is_answered = false;
    let verified = made(part).and_then(|part| {
        let rtts = part.hosts.verify_beside(&part.experiment, || {
            if !std::mem::replace(&mut is_answered, true) {
                say(&told(Ok(()))).map_err(LiveError::while_("answering"))?;
            }
            match requests.try_recv() {
                Ok(request) => next = Some(request),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => {}
            }
            Ok(false)
        });
        part.real_rtts = rtts?;
        Ok(())
    });
    if !is_answered {
        say(&told(verified))?;
    }
    Ok(next.or_else(|| requests.recv().ok()))
}

fn begin(part: &mut Option<Part>, at_ns: u64) -> String {
    told(made(part).and_then(|part| part.begin(at_ns)))
}

impl Part {
    fn build(build: &Build) -> Result<(Self, Ports), LiveError> {
        let experiment = Experiment::from_json(build.experiment.get())
            .map_err(|error| LiveError::Refused(error.to_string()))?;
        if let Some(missing) = Kernel::of_this_machine().check(&experiment).first() {
            let why = format!("{} ({})", missing.feature, missing.why);
            return Err(LiveError::Refused(why));
        }
        let controls = RunControls::register(&kernel_part(&experiment))?;
        let kind = DeviceKind::of_this_machine();
        let (hosts, devices) = Hosts::build_part(&experiment, Some(&build.machine), kind)?;
        let (mut cables, mut ports) = (Vec::new(), Vec::new());
        for (number, (interface, device)) in (0..).zip(devices) {
            let mtu_bytes = experiment.interfaces[interface].mtu_bytes;
            let (tunnel, port) = match build.over_devices {
                true => (
                    Tunnel::at_device(&format!("eth{number}"), mtu_bytes, build.key)?,
                    number,
                ),
                false => listen(build.key)?,
            };
            cables.push((device, tunnel));
            ports.push((interface, port));
        }
        let part = Self {
            experiment,
            seed: build.seed,
            controls,
            real_rtts: BTreeMap::new(),
            running: None,
            carrier: Carrier::start(cables)?,
            hosts,
        };
        Ok((part, ports))
    }

    fn prepare(&mut self) -> Result<(), LiveError> {
        let hosts = &self.hosts;
        let namespace = |id: &str| hosts.namespace(id);
        let (units_in, units) = channel();
        let for_sockets = self.controls.as_in_kernel(&self.experiment);
        let clock = Clock::start();
        self.running = Some(Running {
            clock,
            path_managers: PathManagers::start(&self.experiment, namespace, clock)?,
            prepared: Some(Traffic::prepare(
                &for_sockets,
                self.seed,
                namespace,
                units_in,
            )?),
            traffic: None,
            observer: Observer::new(&self.experiment, namespace)?,
            units,
            counters_at_start: self.hosts.counters()?,
        });
        Ok(())
    }

    fn begin(&mut self, at_ns: u64) -> Result<(), LiveError> {
        let running = self.running.as_mut().ok_or_else(absent)?;
        running.clock = Clock::starting_at(at_ns);
        running.path_managers.restart(running.clock)
    }

    /// Starts the flows when the clock starts.
    fn start(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.clock.wait_for_start();
        let prepared = running.prepared.take();
        running.traffic = prepared.map(|prepared| prepared.start(running.clock));
    }

    fn report(&mut self) -> Result<Report, LiveError> {
        let Running {
            traffic: Some(traffic),
            observer,
            path_managers,
            units,
            ..
        } = self.running.as_mut().ok_or_else(absent)?
        else {
            return Ok(Report::default());
        };
        Ok(Report {
            flows: traffic.flows(),
            flows_over: traffic.flows_over(),
            probes: traffic.probes(),
            answers: traffic.rtts(),
            units: units.try_iter().collect(),
            ends: observer.observe(&traffic.sockets()),
            path_events: path_managers.events(),
        })
    }

    fn apply(&mut self, action: &Action) -> Result<(), LiveError> {
        self.hosts.apply(action)?;
        let running = self.running.as_mut().ok_or_else(absent)?;
        running.path_managers.apply(action)
    }

    fn stop(&mut self) -> Result<(), LiveError> {
        let running = self.running.as_mut().ok_or_else(absent)?;
        running.traffic.as_mut().map_or(Ok(()), Traffic::stop)
    }

    fn finish(mut self, machine: Value) -> Result<Ending, LiveError> {
        let running = self.running.take().ok_or_else(absent)?;
        let results = running.traffic.as_ref().map(Traffic::results);
        Ok(Ending {
            results: results.unwrap_or_default(),
            hosts: summary::hosts(&mut self.hosts, &running.counters_at_start)?,
            path_events: running.path_managers.finish()?,
            real_rtts: self.real_rtts,
            losses: self.carrier.losses(),
            machine,
        })
    }
}

/// Opens a tunnel, and returns it and its port.
fn listen(key: Key) -> Result<(Tunnel, u16), LiveError> {
    Tunnel::listening(key).map_err(LiveError::while_::<io::Error>(
        "opening a UDP socket for packets",
    ))
}

fn made(part: &mut Option<Part>) -> Result<&mut Part, LiveError> {
    part.as_mut().ok_or_else(absent)
}

fn absent() -> LiveError {
    LiveError::Refused("nothing was built yet".to_owned())
}

fn told(done: Result<impl Serialize, LiveError>) -> String {
    let answer = done.map_err(|error| error.to_string());
    let answer =
        answer.and_then(|answer| serde_json::to_string(&answer).map_err(|error| error.to_string()));
    match answer {
        Ok(answer) => format!(r#"{{"ok":{answer}}}"#),
        Err(why) => failure(why),
    }
}

fn failure(why: impl ToString) -> String {
    json!({"error": why.to_string()}).to_string()
}
