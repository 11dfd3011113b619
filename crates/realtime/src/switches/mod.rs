//! Controlled switches: Open vSwitch in a namespace of the run, a controller beside it, outages
//! by rules, and counters.

mod cached_flows;
mod controller;
mod counters;
pub(crate) mod daemons;
pub(crate) mod load;
mod openflow;
mod outages;
mod plan;
mod scratch;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use experiment::capabilities::Missing;
use experiment::resolved::{Action, Control, Event, Experiment, LinkDownBy, RerouteBy};
use experiment::run::RunRecord;
use experiment::samples::metrics::Group;
use experiment::time::Nanos;
use rustix::thread::CapabilitySet;
use serde::Serialize;

pub use self::controller::{ControllerSummary, Problem, Reaction};
pub use self::outages::RuleChange;

use self::cached_flows::CachedFlows;
use self::controller::{Command, Controller};
use self::counters::{Counting, Reader, Reading};
use self::daemons::Daemons;
use self::openflow::{Change, Connection};
use self::outages::{Outages, RuleOrder};
use self::plan::Switch;
use self::scratch::Scratch;
use crate::applications::programs::launcher::{Launcher, SharedJournal};
use crate::applications::programs::process::Order;
use crate::applications::programs::{Caller, connections_to, listens};
use crate::{Clock, Controlling, Hosts, LiveError, NetworkNamespace};

/// The address and port at which controllers listen, within the namespace of the switches.
const OPENFLOW: &str = "127.0.0.1:6653";
const OPENFLOW_PORT: u16 = 6653;
/// How long a controller may take until it has connected and installed its entries.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a daemon that closed its sockets may take until it has ended.
const PATIENCE_FOR_END: Duration = Duration::from_millis(200);
/// The time between two looks at what is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What the switches of a run did, besides their samples.
#[derive(Clone, Debug, Serialize)]
pub struct ControlSummary {
    /// The controller.
    pub controller: ControllerSummary,
    /// The changes of rules that drop, in order.
    pub rules: Vec<RuleChange>,
}

/// The switches of a run. Dropping them ends their programs.
pub(crate) struct Switches {
    control: Control,
    switches: Vec<Switch>,
    // In the order in which they must end.
    counting: Option<Counting>,
    outages: Outages,
    controller: Controller,
    daemons: Daemons,
    /// Ends last, with all programs that are left.
    _launcher: Arc<Launcher>,
    _scratch: Scratch,
    reader: Option<Reader>,
    at_start: Vec<Reading>,
    rules: Vec<RuleChange>,
    /// Links of which the controller is told later, with the time.
    to_tell: Vec<(Nanos, Command)>,
    clock: Clock,
}

impl Switches {
    /// Starts the switches of an experiment and its controller, and waits until the entries are
    /// installed. A controller has the rights of `caller`.
    /// Returns `None` if the experiment has no controlled switches.
    ///
    /// # Errors
    /// Open vSwitch or the controller is missing, refuses or does not answer.
    pub(crate) fn start(
        experiment: &Experiment,
        hosts: &Hosts,
        controlling: Controlling<'_>,
        caller: Option<&Caller>,
    ) -> Result<Option<Self>, LiveError> {
        let switches = plan::switches(experiment);
        let (Some(control), Some(first)) = (&experiment.control, switches.first()) else {
            return Ok(None);
        };
        let scratch = Scratch::new()?;
        let files = Files::write(
            &scratch,
            experiment,
            controlling.resolved,
            &switches,
            caller,
        )?;
        let Some(namespace) = hosts.namespace(&first.name).map(Arc::clone) else {
            return Ok(None);
        };
        // Programs of switches write nothing that it keeps.
        let launcher = Launcher::start(scratch.path().to_owned(), SharedJournal::default())?;
        let launcher = Arc::new(launcher);
        let order = files.order(control, controlling.controller, &namespace, caller)?;
        let mut controller = Controller::start(&launcher, order)?;
        let daemons = Daemons::start(&namespace, scratch.private("ovs")?, Arc::clone(&launcher))?;
        daemons.create_bridges(&switches)?;
        let connect = |switch: &Switch| Connection::open(&switch.name, &daemons.socket(switch));
        let connections: Result<Vec<_>, _> = switches.iter().map(connect).collect();
        let cached_flows = CachedFlows::open(&daemons.command_socket())?;
        let outages = Outages::new(&switches, connections?, cached_flows, hosts);
        let readers = switches.iter().map(|switch| {
            let ports = switch.ports.iter().map(|port| port.number);
            Ok((connect(switch)?, ports.collect()))
        });
        let readers: Result<Vec<_>, LiveError> = readers.collect();
        let reader = Reader::new(readers?);
        await_controller(control, &mut controller, &daemons, &switches)?;
        Ok(Some(Self {
            control: control.clone(),
            switches,
            counting: None,
            outages,
            controller,
            daemons,
            _launcher: launcher,
            _scratch: scratch,
            reader: Some(reader),
            at_start: Vec::new(),
            rules: Vec::new(),
            to_tell: Vec::new(),
            clock: Clock::start(),
        }))
    }

    /// Begins to count and to wait for the outages among `events`, from time 0 of `clock`.
    ///
    /// # Errors
    /// A switch does not answer.
    pub(crate) fn begin(&mut self, events: &[Event], clock: Clock) -> Result<(), LiveError> {
        self.clock = clock;
        self.controller.check_alive()?;
        let orders = events.iter();
        let orders = orders.filter_map(|one| self.order(&one.action, &one.id, one.at_ns));
        let orders = orders.collect();
        self.outages.begin(orders, clock)?;
        if let Some(mut reader) = self.reader.take() {
            self.at_start = reader.read(None)?;
            let every_ns = self.control.statistics_ns;
            self.counting = Some(Counting::start(reader, every_ns, clock)?);
        }
        Ok(())
    }

    /// Carries out the part of an action that concerns switches. Returns whether nothing else is
    /// left to do.
    ///
    /// # Errors
    /// A switch refuses, or does not answer.
    pub(crate) fn apply(&mut self, action: &Action, event: &str) -> Result<bool, LiveError> {
        match action {
            Action::LinkDown { link, .. } => {
                let is_done = self.set_rules(action, event)?;
                self.tell_later(Command::Failed { link: link.clone() });
                Ok(is_done)
            }
            Action::LinkUp { link, .. } => {
                let is_done = self.set_rules(action, event)?;
                self.tell_later(Command::Repaired { link: link.clone() });
                Ok(is_done)
            }
            Action::Reroute {
                flow,
                path,
                there,
                back,
                by: RerouteBy::Description,
            } => {
                self.controller.tell(&Command::Reroute {
                    id: event.to_owned(),
                    flow: flow.clone(),
                    path: *path,
                    there: there.clone(),
                    back: back.clone(),
                });
                Ok(true)
            }
            Action::SetRecovery { strategy } => {
                self.controller.tell(&Command::SetRecovery {
                    id: event.to_owned(),
                    strategy: strategy.clone(),
                });
                Ok(true)
            }
            // The controller sees the failure, or is told of it.
            Action::Reroute { .. } => Ok(true),
            _ => Ok(false),
        }
    }

    fn set_rules(&mut self, action: &Action, event: &str) -> Result<bool, LiveError> {
        let Some(order) = self.order(action, event, self.clock.now()) else {
            return Ok(false);
        };
        let changed = self.outages.carry_out(order);
        let changed = changed.map_err(|error| self.explained(error))?;
        self.rules.push(changed);
        Ok(true)
    }

    /// Returns the change of rules that an action asks for; `None` if it asks for none.
    fn order(&self, action: &Action, event: &str, at_ns: Nanos) -> Option<RuleOrder> {
        let (change, link, by) = match action {
            Action::LinkDown { link, by } => (Change::Add, link, by),
            Action::LinkUp { link, by } => (Change::Delete, link, by),
            _ => return None,
        };
        let is_here = *by == LinkDownBy::DropRule && self.outages.has(link);
        is_here.then(|| RuleOrder {
            at_ns,
            change,
            link: link.clone(),
            event: event.to_owned(),
        })
    }

    /// Returns when the rules of an event began to change; `None` if it has none.
    pub(crate) fn changed_at(&self, event: &str) -> Option<Nanos> {
        let changes = self.rules.iter().rev();
        let mut of_event = changes.filter(|change| change.event == event);
        of_event.next().map(|change| change.sent_ns)
    }

    /// Tells the controller of a link after the time that its detection takes, if that is given.
    fn tell_later(&mut self, command: Command) {
        if let Some(detect_ns) = self.control.recovery.detect_ns {
            self.to_tell.push((self.clock.now() + detect_ns, command));
        }
    }

    /// Returns when the controller has to be told of a link.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.to_tell.iter().map(|(at, _)| *at).min()
    }

    /// Tells the controller what is due, and records what it and the switches reported.
    ///
    /// # Errors
    /// A switch does not answer, or a table cannot be written.
    pub(crate) fn look(&mut self, record: &mut RunRecord) -> Result<(), LiveError> {
        let now = self.clock.now();
        for (at_ns, command) in std::mem::take(&mut self.to_tell) {
            if at_ns <= now {
                self.controller.tell(&command);
            } else {
                self.to_tell.push((at_ns, command));
            }
        }
        for (at_ns, switch, counted) in self.controller.listen(self.clock) {
            let values = [counted.packet_ins as f64, counted.packet_outs as f64];
            let entity = format!("switches.{switch}");
            record
                .samples
                .record_at(at_ns, &entity, Group::Controller, values)?;
        }
        let readings = match &self.counting {
            Some(counting) => counting.readings(),
            None => Ok(Vec::new()),
        };
        for reading in readings.map_err(|error| self.explained(error))? {
            let entity = format!("switches.{}", self.switches[reading.switch].name);
            let values = reading.since(&self.at_start[reading.switch]);
            record
                .samples
                .record_at(reading.at_ns, &entity, Group::Switch, values)?;
        }
        Ok(())
    }

    /// Adds why a switch does not answer, if its daemon has ended.
    fn explained(&mut self, error: LiveError) -> LiveError {
        let since = Instant::now();
        // Its sockets close before its end is known.
        while since.elapsed() < PATIENCE_FOR_END {
            if let Some(why) = self.daemons.failure() {
                return LiveError::Failed(why);
            }
            thread::sleep(LOOK_EVERY);
        }
        error
    }

    /// Ends counting and controller.
    ///
    /// # Errors
    /// As [`Self::look`].
    pub(crate) fn stop(&mut self, record: &mut RunRecord) -> Result<ControlSummary, LiveError> {
        if let Some(counting) = &mut self.counting {
            counting.stop();
        }
        self.look(record)?;
        Ok(ControlSummary {
            controller: self.controller.stop(),
            rules: std::mem::take(&mut self.rules),
        })
    }
}

/// Returns why an action at `place` cannot be carried out: a controller of the user takes no
/// commands.
pub(crate) fn check_action(
    experiment: &Experiment,
    place: &str,
    action: &Action,
) -> Option<Missing> {
    let control = experiment.control.as_ref();
    let is_foreign = control.is_some_and(|control| control.command.is_some());
    let command = match action {
        Action::Reroute {
            by: RerouteBy::Description,
            ..
        } => "reroute",
        Action::SetRecovery { .. } => "set_recovery",
        _ => return None,
    };
    is_foreign.then(|| Missing {
        feature: format!("{place}: {command}"),
        why: "a controller of your own takes no commands: leave `control.command` out".to_owned(),
    })
}

/// The files that a controller reads.
struct Files {
    experiment: String,
    switches: String,
}

impl Files {
    fn write(
        scratch: &Scratch,
        experiment: &Experiment,
        resolved: &str,
        switches: &[Switch],
        caller: Option<&Caller>,
    ) -> Result<Self, LiveError> {
        let directory = scratch.private("controller")?;
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
            Ok::<_, std::io::Error>(path.to_string_lossy().into_owned())
        };
        let write_all = || {
            let files = Self {
                experiment: write("experiment.json", resolved)?,
                switches: write("switches.json", &plan::document(experiment, switches))?,
            };
            if let Some(caller) = caller {
                give(&directory, caller)?;
            }
            Ok(files)
        };
        write_all().map_err(LiveError::while_::<std::io::Error>(
            "writing the controller's files",
        ))
    }

    fn order(
        &self,
        control: &Control,
        ours: &[String],
        namespace: &Arc<NetworkNamespace>,
        caller: Option<&Caller>,
    ) -> Result<Order, LiveError> {
        let argv = match &control.command {
            Some(command) => command.clone(),
            None if ours.is_empty() => {
                let why = "controlled switches need a controller, and no program was given";
                return Err(LiveError::Refused(why.to_owned()));
            }
            None => [ours, std::slice::from_ref(&self.experiment)].concat(),
        };
        let variables = [
            ("MPTCPLAB_EXPERIMENT", self.experiment.as_str()),
            ("MPTCPLAB_OPENFLOW", OPENFLOW),
            ("MPTCPLAB_SWITCHES", self.switches.as_str()),
        ];
        Ok(Order {
            host: "switches".to_owned(),
            argv,
            namespace: Arc::clone(namespace),
            names: Arc::new("127.0.0.1 localhost\n".to_owned()),
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            takes_input: control.command.is_none(),
            runs_first: false,
            caller: caller.cloned().map(Arc::new),
            kept: CapabilitySet::empty(),
        })
    }
}

/// Makes a directory that of the caller.
fn give(directory: &Path, caller: &Caller) -> std::io::Result<()> {
    chown(
        directory,
        Some(caller.uid.as_raw()),
        Some(caller.gid.as_raw()),
    )
}

/// Waits until the controller listens, connects the switches to it, and waits until it is ready.
fn await_controller(
    control: &Control,
    controller: &mut Controller,
    daemons: &Daemons,
    switches: &[Switch],
) -> Result<(), LiveError> {
    let until = Instant::now() + PATIENCE;
    let mut await_that = |what: &str, is_so: &dyn Fn() -> bool| {
        while !is_so() {
            controller.check_alive()?;
            if Instant::now() > until {
                return Err(controller.failure(what));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    };
    let listening = format!("does not listen at {OPENFLOW}");
    await_that(&listening, &|| listens(daemons.pid(), OPENFLOW_PORT))?;
    daemons.connect_to(&format!("tcp:{OPENFLOW}"), switches)?;
    if control.command.is_none() {
        return controller.await_ready(until);
    }
    // A controller of the user says nothing; that the entries are there is found by the echoes.
    let are_connected = || connections_to(daemons.pid(), OPENFLOW_PORT) >= switches.len();
    await_that("did not accept all switches", &are_connected)
}
