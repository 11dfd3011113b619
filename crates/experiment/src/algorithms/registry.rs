//! All algorithms by name: those of the engine, and those added by a user.
//!
//! The function that creates an algorithm gets two sets of parameters: those of the engine, and the
//! raw parameters of the description. Algorithms of the engine use the former, a user's own
//! algorithms read the latter.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mptcp::cc::{self, CongestionControl};
use mptcp::pm::{self, PathManager};
use mptcp::sched::{self, Scheduler};
use thiserror::Error;

use crate::algorithms::Fault;
use crate::algorithms::parameters::Kind;
use crate::capabilities::Capability;
use crate::resolved::Parameters;

/// Creates a congestion control for a connection.
pub type MakeControl =
    Arc<dyn Fn(&cc::Parameters, &Parameters) -> Box<dyn CongestionControl> + Send + Sync>;
/// Creates a scheduler for a connection.
pub type MakeScheduler =
    Arc<dyn Fn(&sched::Parameters, &Parameters) -> Box<dyn Scheduler> + Send + Sync>;
/// Creates a path manager for a connection.
pub type MakePathManager = Arc<
    dyn Fn(&pm::Connection, &pm::Parameters, &Parameters) -> Box<dyn PathManager> + Send + Sync,
>;

/// The error for a name that is already taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is a {kind} named {name} already; choose another name")]
pub struct NameTaken {
    kind: &'static str,
    name: String,
}

/// The algorithms that flows can name.
#[derive(Clone)]
pub struct Registry {
    controls: BTreeMap<String, MakeControl>,
    schedulers: BTreeMap<String, MakeScheduler>,
    path_managers: BTreeMap<String, MakePathManager>,
    parameters: Vec<(Kind, String, String)>,
    fault: Fault,
}

impl Default for Registry {
    /// Returns the algorithms of the engine.
    fn default() -> Self {
        let controls = cc::CONGESTION_CONTROLS.iter();
        let schedulers = sched::SCHEDULERS.iter();
        let path_managers = pm::PATH_MANAGERS.iter();
        Self {
            controls: controls
                .map(|control| {
                    let made: MakeControl = Arc::new(|given, _| (control.make)(given));
                    (control.description.name.to_owned(), made)
                })
                .collect(),
            schedulers: schedulers
                .map(|entry| {
                    let made: MakeScheduler = Arc::new(|given, _| (entry.make)(given));
                    (entry.description.name.to_owned(), made)
                })
                .collect(),
            path_managers: path_managers
                .map(|entry| {
                    let made: MakePathManager =
                        Arc::new(|connection, given, _| (entry.make)(connection, given));
                    (entry.description.name.to_owned(), made)
                })
                .collect(),
            parameters: Kind::ALL.into_iter().flat_map(parameters_of).collect(),
            fault: Fault::default(),
        }
    }
}

impl Registry {
    /// Adds a congestion control and the names of the parameters that a description can set.
    ///
    /// # Errors
    /// Fails if the name is taken.
    pub fn add_control(
        &mut self,
        name: &str,
        parameters: &[&str],
        make: MakeControl,
    ) -> Result<(), NameTaken> {
        add(&mut self.controls, "congestion control", name, make)?;
        self.record_parameters(Kind::Control, name, parameters);
        Ok(())
    }

    /// Adds a scheduler and the names of the parameters that a description can set.
    ///
    /// # Errors
    /// Fails if the name is taken.
    pub fn add_scheduler(
        &mut self,
        name: &str,
        parameters: &[&str],
        make: MakeScheduler,
    ) -> Result<(), NameTaken> {
        add(&mut self.schedulers, "scheduler", name, make)?;
        self.record_parameters(Kind::Scheduler, name, parameters);
        Ok(())
    }

    /// Adds a path manager and the names of the parameters that a description can set.
    ///
    /// # Errors
    /// Fails if the name is taken.
    pub fn add_path_manager(
        &mut self,
        name: &str,
        parameters: &[&str],
        make: MakePathManager,
    ) -> Result<(), NameTaken> {
        add(&mut self.path_managers, "path manager", name, make)?;
        self.record_parameters(Kind::PathManager, name, parameters);
        Ok(())
    }

    fn record_parameters(&mut self, kind: Kind, algorithm: &str, parameters: &[&str]) {
        let own = parameters.iter();
        let own = own.map(|name| (kind, algorithm.to_owned(), (*name).to_owned()));
        self.parameters.extend(own);
    }

    /// Returns all parameters: kind, name of the algorithm, name of the parameter.
    pub fn parameters(&self) -> &[(Kind, String, String)] {
        &self.parameters
    }

    /// Returns the congestion control with a name.
    pub fn control(&self, name: &str) -> Option<&MakeControl> {
        self.controls.get(name)
    }

    /// Returns the scheduler with a name.
    pub fn scheduler(&self, name: &str) -> Option<&MakeScheduler> {
        self.schedulers.get(name)
    }

    /// Returns the path manager with a name.
    pub fn path_manager(&self, name: &str) -> Option<&MakePathManager> {
        self.path_managers.get(name)
    }

    /// Returns the fault that added algorithms report to. A fault ends the run, so use a registry
    /// for one run only.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns the capabilities of a back-end that has all algorithms.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability> {
        let names = self.names();
        let names = names.map(|(kind, name)| Capability::of_algorithm(kind, name, None));
        let parameters = self.parameters.iter().map(|(kind, algorithm, name)| {
            Capability::of_algorithm(*kind, &format!("{algorithm} {name}"), None)
        });
        names.chain(parameters)
    }

    /// Returns the names of all algorithms, with their kinds.
    pub fn names(&self) -> impl Iterator<Item = (Kind, &str)> {
        let controls = self.controls.keys().map(|name| (Kind::Control, name));
        let schedulers = self.schedulers.keys().map(|name| (Kind::Scheduler, name));
        let managers = self.path_managers.keys();
        let managers = managers.map(|name| (Kind::PathManager, name));
        let all = controls.chain(schedulers).chain(managers);
        all.map(|(kind, name)| (kind, name.as_str()))
    }
}

/// Returns the parameters of the engine's algorithms of one kind.
fn parameters_of(kind: Kind) -> impl Iterator<Item = (Kind, String, String)> {
    kind.algorithms().into_iter().flat_map(move |algorithm| {
        let parameters = algorithm.parameters.into_iter();
        parameters.map(move |one| (kind, algorithm.name.to_owned(), one.name.to_owned()))
    })
}

fn add<T>(
    table: &mut BTreeMap<String, T>,
    kind: &'static str,
    name: &str,
    make: T,
) -> Result<(), NameTaken> {
    if table.contains_key(name) {
        let name = name.to_owned();
        return Err(NameTaken { kind, name });
    }
    table.insert(name.to_owned(), make);
    Ok(())
}

impl fmt::Debug for Registry {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(self.names()).finish()
    }
}
