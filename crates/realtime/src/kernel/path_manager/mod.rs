//! Path managers of hosts with the kernel's stack: the policies of `mptcp::pm`, or the in-kernel
//! path manager, controlled by netlink.

mod abilities;
mod connections;
mod endpoints;
mod host;
mod messages;
mod netlink;
mod plan;
mod record;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use experiment::capabilities::Missing;
use experiment::resolved::{Action, Experiment};

use crate::{Clock, LiveError, NetworkNamespace};
use host::{HostThread, Record};
#[cfg(feature = "fuzzing")]
pub(crate) use netlink::read_events;

pub use abilities::Abilities;
pub(crate) use record::Note;
pub use record::{End, PathEvent, What};

/// The path managers of a run: a thread in each host that opens or accepts MPTCP connections.
#[derive(Debug)]
pub struct PathManagers {
    hosts: BTreeMap<String, HostThread>,
    /// Host and addresses of each interface.
    interfaces: BTreeMap<String, (String, Vec<IpAddr>)>,
    record: Record,
}

impl PathManagers {
    /// Returns what the kernel cannot do for an experiment's path managers. Of a list of
    /// preferences only the first counts.
    pub fn check(experiment: &Experiment) -> Vec<Missing> {
        plan::check(experiment)
    }

    /// Starts the threads. `namespace` returns the namespace of a host by its id, and `None` if it is
    /// on another machine. When this returns, every host receives events, so connections can start.
    ///
    /// # Errors
    /// [`Self::check`] returns something, or the system refuses.
    pub fn start<'a>(
        experiment: &Experiment,
        namespace: impl Fn(&str) -> Option<&'a Arc<NetworkNamespace>>,
        clock: Clock,
    ) -> Result<Self, LiveError> {
        let plans = plan::plan(experiment)
            .map_err(|Missing { feature, why }| LiveError::Failed(format!("{feature}: {why}")))?;
        let record = Record::default();
        let mut hosts = BTreeMap::new();
        let mut interfaces = BTreeMap::new();
        for plan in plans {
            let Some(namespace) = namespace(&plan.id) else {
                continue;
            };
            for (interface, addresses) in &plan.addresses {
                let here = (plan.id.clone(), addresses.clone());
                interfaces.insert(interface.clone(), here);
            }
            let id = plan.id.clone();
            let thread = HostThread::start(plan, namespace, clock, Arc::clone(&record))?;
            hosts.insert(id, thread);
        }
        for host in hosts.values_mut() {
            host.wait_until_ready()?;
        }
        Ok(Self {
            hosts,
            interfaces,
            record,
        })
    }

    /// Takes times from `clock` from now on; call it at t = 0. Events recorded so far are dropped,
    /// except those of endpoints, which exist from the start.
    ///
    /// # Errors
    /// A thread has died.
    pub fn restart(&mut self, clock: Clock) -> Result<(), LiveError> {
        for host in self.hosts.values_mut() {
            host.restart(clock)?;
        }
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.retain(|event| event.what == What::EndpointAdded);
        record.iter_mut().for_each(|event| event.time_ns = 0);
        Ok(())
    }

    /// Carries out `set_backup`; other actions are ignored.
    ///
    /// # Errors
    /// A thread has died. Refusals of the kernel are recorded as events.
    pub fn apply(&mut self, action: &Action) -> Result<(), LiveError> {
        let Action::SetBackup { interface, on } = action else {
            return Ok(());
        };
        let Some((host, addresses)) = self.interfaces.get(interface) else {
            return Ok(());
        };
        match self.hosts.get_mut(host) {
            Some(host) => host.set_backup(addresses.clone(), *on),
            None => Ok(()),
        }
    }

    /// Returns the events since the last call, ordered by time.
    pub fn events(&self) -> Vec<PathEvent> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = std::mem::take(&mut *record);
        events.sort_by_key(|event| event.time_ns);
        events
    }

    /// Ends the threads, but not the connections. Returns the events since the last call of
    /// [`Self::events`].
    ///
    /// # Errors
    /// A thread had died.
    pub fn finish(mut self) -> Result<Vec<PathEvent>, LiveError> {
        self.hosts.values().for_each(HostThread::stop);
        for (_, host) in std::mem::take(&mut self.hosts) {
            host.finish()?;
        }
        Ok(self.events())
    }
}
