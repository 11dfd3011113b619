//! The back-ends in real time, as a program offers them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use experiment::algorithms::Registry;
use experiment::capabilities::{Capability, Missing};
use experiment::program::BackEnd;
use experiment::resolved::Experiment;
use experiment::run::{Run, RunError};
use realtime::LiveRun;
use realtime::applications::programs::Caller;
use serde_json::Value;

use crate::machine::{Load, machine};

pub const USAGE: &str = "usage: mptcplab-agent version | part | serve kernel|userspace \
                     [--in-guest | --caller UID GID GROUPS HOME NAME]; mptcplab run SPEC --on ssh://HOST calls it so";
/// Why further machines are missing: they are reached from Python.
const NO_MACHINES: &str = "the agent reaches no further machines: run the experiment from here";
/// Why controlled switches are missing: their controller is a program in Python.
const NO_CONTROLLER: &str = "the agent has no controller; name one with control.command";

/// The kernel back-end, or the userspace stack beside the kernel's.
pub struct RealTime {
    registry: Registry,
    has_own_stack: bool,
    caller: Option<Caller>,
    /// Why this process has no rights over networks.
    without_rights: Option<String>,
    load: Arc<Mutex<Load>>,
}

impl RealTime {
    /// Creates the back-end of hosts with the stack `kernel` or `userspace`. Programs get the rights
    /// of `caller`: UID, GID, groups separated by commas, home directory, name. Without privileges,
    /// the process enters a user namespace, so it must have one thread.
    ///
    /// # Errors
    /// The stack is unknown, or `caller` is not a user.
    pub fn new(stack: &str, caller: Option<[&str; 5]>) -> Result<Self, String> {
        if !["kernel", "userspace"].contains(&stack) {
            return Err(USAGE.to_owned());
        }
        Ok(Self {
            has_own_stack: stack == "userspace",
            registry: Registry::default(),
            caller: caller.map(caller_of).transpose()?,
            without_rights: get_rights().err(),
            load: Arc::default(),
        })
    }

    /// Returns the meter of the machine's load.
    pub fn load(&self) -> Arc<Mutex<Load>> {
        self.load.clone()
    }

    fn own_stack(&self) -> Option<&Registry> {
        self.has_own_stack.then_some(&self.registry)
    }
}

/// The feature that tells whether the process has rights over networks.
const PRIVILEGES: &str = "privileges";

/// Gets rights over networks, in a user namespace if this process has none. It must have one thread.
///
/// # Errors
/// What forbids it.
pub fn get_rights() -> Result<(), String> {
    let is_privileged =
        |one: &Capability| one.feature == PRIVILEGES && one.missing_because.is_none();
    if realtime::capabilities(None).iter().any(is_privileged) {
        return Ok(());
    }
    realtime::enter_user_namespace().map_err(|error| error.to_string())
}

fn caller_of([uid, gid, groups, home, name]: [&str; 5]) -> Result<Caller, String> {
    let number = |text: &str| {
        let wrong = |_| format!("--caller: {text} is not a number\n{USAGE}");
        text.parse::<u32>().map_err(wrong)
    };
    let groups: Vec<u32> = groups.split(',').map(number).collect::<Result<_, _>>()?;
    let variables = [("HOME", home), ("USER", name), ("LOGNAME", name)];
    let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Caller::new(number(uid)?, number(gid)?, &groups, variables.into())
}

impl BackEnd for RealTime {
    const IN_REAL_TIME: bool = true;

    fn capabilities(&self) -> Vec<Capability> {
        let mut table = realtime::capabilities(self.own_stack());
        if let Some(why) = &self.without_rights {
            let privileges = table.iter_mut().find(|one| one.feature == PRIVILEGES);
            if let Some(privileges) = privileges {
                privileges.missing_because = Some(why.clone().into());
            }
        }
        table
    }

    fn check(&self, experiment: &Experiment) -> Vec<Missing> {
        let mut missing = realtime::check(experiment, self.own_stack());
        missing.extend(experiment.machines().first().map(|machine| Missing {
            feature: format!("machines.{}", machine.id),
            why: NO_MACHINES.to_owned(),
        }));
        let control = experiment.control.as_ref();
        if control.is_some_and(|control| control.command.is_none()) {
            missing.push(Missing {
                feature: "control".to_owned(),
                why: NO_CONTROLLER.to_owned(),
            });
        }
        missing
    }

    fn start(
        &self,
        experiment: Experiment,
        resolved: &str,
        seed: u64,
        directory: &Path,
    ) -> Result<Box<dyn Run>, RunError> {
        let controlling = realtime::Controlling {
            resolved,
            controller: &[],
        };
        let caller = self.caller.clone();
        let registry = Registry::default();
        let machines = Vec::new();
        let run = LiveRun::start(
            experiment,
            seed,
            directory,
            &registry,
            caller,
            controlling,
            machines,
        )?;
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        *load = Load::begin();
        Ok(Box::new(run))
    }

    fn machine(&self) -> Value {
        let load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        machine(&load)
    }
}
