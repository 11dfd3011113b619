//! Path managers in the kernel's hosts: the policies of `mptcp::pm`, or the in-kernel one, driven by netlink.

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

use netlab::capabilities::Missing;
use netlab::resolved::{Action, Experiment};

use crate::{Clock, LiveError, NetworkNamespace};
use host::{HostThread, Record};
#[cfg(feature = "fuzzing")]
pub(crate) use netlink::read_events;

pub(crate) use record::Note;
pub use record::{End, PathEvent, What};

/// The path managers of a run: a thread in each host that opens or accepts Multipath TCP.
#[derive(Debug)]
pub struct PathManagers {
    hosts: BTreeMap<String, HostThread>,
    /// Host and addresses of each interface.
    interfaces: BTreeMap<String, (String, Vec<IpAddr>)>,
    record: Record,
}

impl PathManagers {
    /// What no kernel can do of an experiment's path managers; lists of preference count by their first.
    pub fn check(experiment: &Experiment) -> Vec<Missing> {
        plan::check(experiment)
    }

    /// Starts them. `namespace` gives that of a host by its id. When this returns, every host listens, so that connections
    /// can begin.
    ///
    /// # Errors
    /// What [`Self::check`] says, or the system refuses.
    pub fn start<'a>(
        experiment: &Experiment,
        namespace: impl Fn(&str) -> &'a Arc<NetworkNamespace>,
        clock: Clock,
    ) -> Result<Self, LiveError> {
        let plans = plan::plan(experiment)
            .map_err(|Missing { feature, why }| LiveError::Failed(format!("{feature}: {why}")))?;
        let record = Record::default();
        let mut hosts = BTreeMap::new();
        let mut interfaces = BTreeMap::new();
        for plan in plans {
            for (interface, addresses) in &plan.addresses {
                let here = (plan.id.clone(), addresses.clone());
                interfaces.insert(interface.clone(), here);
            }
            let id = plan.id.clone();
            let thread = HostThread::start(plan, namespace(&id), clock, Arc::clone(&record))?;
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

    /// Times are by this clock from now on: for t = 0. What was recorded so far is forgotten, but for the endpoints, which
    /// are there from the start.
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

    /// Carries out `set_backup`; leaves alone what is not about paths.
    ///
    /// # Errors
    /// A thread has died. What the kernel refuses is recorded as an event.
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

    /// What has happened since the last call, in the order of each host.
    pub fn events(&self) -> Vec<PathEvent> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = std::mem::take(&mut *record);
        events.sort_by_key(|event| event.time_ns);
        events
    }

    /// Ends them, but not the connections; gives what has happened since the last call of [`Self::events`].
    ///
    /// # Errors
    /// A thread has died before.
    pub fn finish(mut self) -> Result<Vec<PathEvent>, LiveError> {
        self.hosts.values().for_each(HostThread::stop);
        for (_, host) in std::mem::take(&mut self.hosts) {
            host.finish()?;
        }
        Ok(self.events())
    }
}
