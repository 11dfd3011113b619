//! All algorithms by name: those of the engine, and those that a user adds.
//!
//! What makes an algorithm gets the parameters of the engine, and those that the description gives as they stand there: the
//! engine's algorithms take them from the former, a user's own takes what it wants from the latter.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mptcp::cc::{self, CongestionControl};
use mptcp::pm::{self, PathManager};
use mptcp::sched::{self, Scheduler};
use thiserror::Error;

use crate::fault::Fault;
use crate::parameters::Kind;
use crate::resolved::Parameters;

/// Makes a congestion control for a connection.
pub type MakeControl =
    Arc<dyn Fn(&cc::Parameters, &Parameters) -> Box<dyn CongestionControl> + Send + Sync>;
/// Makes a scheduler for a connection.
pub type MakeScheduler =
    Arc<dyn Fn(&sched::Parameters, &Parameters) -> Box<dyn Scheduler> + Send + Sync>;
/// Makes a path manager for a connection.
pub type MakePathManager = Arc<
    dyn Fn(&pm::Connection, &pm::Parameters, &Parameters) -> Box<dyn PathManager> + Send + Sync,
>;

/// A name that is taken.
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
    /// The engine's own.
    fn default() -> Self {
        let controls = cc::CONGESTION_CONTROLS.iter();
        let schedulers = sched::SCHEDULERS.iter();
        let path_managers = pm::PATH_MANAGERS.iter();
        Self {
            controls: controls
                .map(|(name, make)| {
                    let made: MakeControl = Arc::new(|given, _| make(given));
                    ((*name).to_owned(), made)
                })
                .collect(),
            schedulers: schedulers
                .map(|(name, make)| {
                    let made: MakeScheduler = Arc::new(|given, _| make(given));
                    ((*name).to_owned(), made)
                })
                .collect(),
            path_managers: path_managers
                .map(|(name, make)| {
                    let made: MakePathManager =
                        Arc::new(|connection, given, _| make(connection, given));
                    ((*name).to_owned(), made)
                })
                .collect(),
            parameters: Kind::ALL.into_iter().flat_map(parameters_of).collect(),
            fault: Fault::default(),
        }
    }
}

impl Registry {
    /// Adds a congestion control, and the parameters that a description can give it.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_control(
        &mut self,
        name: &str,
        parameters: &[&str],
        make: MakeControl,
    ) -> Result<(), NameTaken> {
        add(&mut self.controls, "congestion control", name, make)?;
        self.note_parameters(Kind::Control, name, parameters);
        Ok(())
    }

    /// Adds a scheduler, and the parameters that a description can give it.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_scheduler(
        &mut self,
        name: &str,
        parameters: &[&str],
        make: MakeScheduler,
    ) -> Result<(), NameTaken> {
        add(&mut self.schedulers, "scheduler", name, make)?;
        self.note_parameters(Kind::Scheduler, name, parameters);
        Ok(())
    }

    /// Adds a path manager, and the parameters that a description can give it.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_path_manager(
        &mut self,
        name: &str,
        parameters: &[&str],
        make: MakePathManager,
    ) -> Result<(), NameTaken> {
        add(&mut self.path_managers, "path manager", name, make)?;
        self.note_parameters(Kind::PathManager, name, parameters);
        Ok(())
    }

    fn note_parameters(&mut self, kind: Kind, algorithm: &str, parameters: &[&str]) {
        let own = parameters.iter();
        let own = own.map(|name| (kind, algorithm.to_owned(), (*name).to_owned()));
        self.parameters.extend(own);
    }

    /// What algorithms can be given: kind, name of the algorithm, name of the parameter.
    pub fn parameters(&self) -> &[(Kind, String, String)] {
        &self.parameters
    }

    /// The congestion control of that name.
    pub fn control(&self, name: &str) -> Option<&MakeControl> {
        self.controls.get(name)
    }

    /// The scheduler of that name.
    pub fn scheduler(&self, name: &str) -> Option<&MakeScheduler> {
        self.schedulers.get(name)
    }

    /// The path manager of that name.
    pub fn path_manager(&self, name: &str) -> Option<&MakePathManager> {
        self.path_managers.get(name)
    }

    /// Where the algorithms that were added note what goes wrong; that ends a run. A registry is for one run.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// What flows can name, each with the kind of thing it is.
    pub fn names(&self) -> impl Iterator<Item = (Kind, &str)> {
        let controls = self.controls.keys().map(|name| (Kind::Control, name));
        let schedulers = self.schedulers.keys().map(|name| (Kind::Scheduler, name));
        let managers = self.path_managers.keys();
        let managers = managers.map(|name| (Kind::PathManager, name));
        let all = controls.chain(schedulers).chain(managers);
        all.map(|(kind, name)| (kind, name.as_str()))
    }
}

/// What the engine's algorithms of one kind can be given.
fn parameters_of(kind: Kind) -> impl Iterator<Item = (Kind, String, String)> {
    kind.parameters().into_iter().flat_map(move |parameter| {
        let algorithms = parameter.algorithms.iter();
        algorithms.map(move |algorithm| (kind, (*algorithm).to_owned(), parameter.name.to_owned()))
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
