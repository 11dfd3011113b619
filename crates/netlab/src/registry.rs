//! All algorithms by name: those of the engine, and those that a user adds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mptcp::cc::{self, CongestionControl};
use mptcp::pm::{self, PathManager};
use mptcp::sched::{self, Scheduler};
use thiserror::Error;

/// Makes a congestion control for a connection.
pub type MakeControl = Arc<dyn Fn(&cc::Parameters) -> Box<dyn CongestionControl> + Send + Sync>;
/// Makes a scheduler for a connection.
pub type MakeScheduler = Arc<dyn Fn(&sched::Parameters) -> Box<dyn Scheduler> + Send + Sync>;
/// Makes a path manager for a connection.
pub type MakePathManager =
    Arc<dyn Fn(&pm::Connection, &pm::Parameters) -> Box<dyn PathManager> + Send + Sync>;

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
}

impl Default for Registry {
    /// The engine's own.
    fn default() -> Self {
        let controls = cc::CONGESTION_CONTROLS.iter();
        let schedulers = sched::SCHEDULERS.iter();
        let path_managers = pm::PATH_MANAGERS.iter();
        Self {
            controls: controls
                .map(|(name, make)| ((*name).to_owned(), Arc::new(make) as MakeControl))
                .collect(),
            schedulers: schedulers
                .map(|(name, make)| ((*name).to_owned(), Arc::new(make) as MakeScheduler))
                .collect(),
            path_managers: path_managers
                .map(|(name, make)| ((*name).to_owned(), Arc::new(make) as MakePathManager))
                .collect(),
        }
    }
}

impl Registry {
    /// Adds a congestion control.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_control(&mut self, name: &str, make: MakeControl) -> Result<(), NameTaken> {
        add(&mut self.controls, "congestion control", name, make)
    }

    /// Adds a scheduler.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_scheduler(&mut self, name: &str, make: MakeScheduler) -> Result<(), NameTaken> {
        add(&mut self.schedulers, "scheduler", name, make)
    }

    /// Adds a path manager.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_path_manager(&mut self, name: &str, make: MakePathManager) -> Result<(), NameTaken> {
        add(&mut self.path_managers, "path manager", name, make)
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

    /// What flows can name, each with the kind of thing it is: `cc`, `scheduler` or `path_manager`.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let controls = self.controls.keys().map(|name| ("cc", name.as_str()));
        let schedulers = self
            .schedulers
            .keys()
            .map(|name| ("scheduler", name.as_str()));
        let managers = self.path_managers.keys();
        let managers = managers.map(|name| ("path_manager", name.as_str()));
        controls.chain(schedulers).chain(managers)
    }
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
