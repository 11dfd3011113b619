//! Detects flows that stall because a user's own algorithm never lets them send.

use std::collections::BTreeSet;

use experiment::algorithms::parameters::Kind;
use experiment::resolved::{Action, Experiment, Flow, Path};
use experiment::time::{NANOS_PER_SECOND, Nanos};

use crate::hosts::Hosts;

/// The longest time that a flow may stall. After an outage it may stall for the length of the
/// outage in addition, because timers have backed off.
const PATIENCE: Nanos = 5 * NANOS_PER_SECOND;
/// The longest stall in a short run, as a ratio of its duration.
const PART_OF_RUN: (u64, u64) = (2, 3);
/// Interval between checks.
const EVERY: Nanos = NANOS_PER_SECOND / 10;

/// The flows with a user's own algorithms, and the interfaces and links that are out of service.
pub(super) struct Stalls {
    watched: Vec<Watched>,
    down: BTreeSet<String>,
    patience: Nanos,
    next_look: Nanos,
}

struct Watched {
    flow: usize,
    id: String,
    algorithms: String,
    paths: Vec<Path>,
    received_bytes: u64,
    /// When it last progressed, had nothing to send, or had no path.
    since: Nanos,
    down_since: Option<Nanos>,
    outage: Nanos,
}

impl Stalls {
    pub(super) fn new(experiment: &Experiment) -> Self {
        let flows = experiment.flows.iter().enumerate();
        let interfaces = experiment.interfaces.iter().filter(|one| !one.up);
        Self {
            watched: flows
                .filter_map(|(index, flow)| Watched::new(index, flow))
                .collect(),
            down: interfaces.map(|one| one.id.clone()).collect(),
            patience: PATIENCE.min(experiment.duration_ns / PART_OF_RUN.1 * PART_OF_RUN.0),
            next_look: 0,
        }
    }

    /// Returns when the next check is due.
    pub(super) fn next_look(&self) -> Nanos {
        match self.watched[..] {
            [] => Nanos::MAX,
            _ => self.next_look,
        }
    }

    /// Records the effect of an action on paths.
    pub(super) fn record(&mut self, action: &Action) {
        match action {
            Action::InterfaceDown { interface: id } | Action::AddressRemove { interface: id } => {
                self.down.insert(id.clone());
            }
            Action::InterfaceUp { interface: id } | Action::AddressAdd { interface: id } => {
                self.down.remove(id);
            }
            Action::LinkDown { link, .. } => {
                self.down.insert(link.clone());
            }
            Action::LinkUp { link, .. } => {
                self.down.remove(link);
            }
            _ => {}
        }
    }

    /// Checks all flows. Returns why one has stalled for too long, if one has.
    pub(super) fn look(&mut self, now: Nanos, hosts: &Hosts) -> Option<String> {
        self.next_look = now + EVERY;
        let Self {
            watched,
            down,
            patience,
            ..
        } = self;
        watched.iter_mut().find_map(|flow| {
            flow.look(now, hosts, down);
            flow.has_stalled(now, *patience).then(|| flow.why(now))
        })
    }
}

impl Watched {
    fn new(index: usize, flow: &Flow) -> Option<Self> {
        let firsts = Kind::ALL
            .into_iter()
            .filter_map(|kind| flow.algorithms(kind).first());
        let own: Vec<_> = firsts
            .filter(|one| one.is_users())
            .map(|one| one.name.as_str())
            .collect();
        (!own.is_empty()).then(|| Self {
            flow: index,
            id: flow.id.clone(),
            algorithms: own.join(" and "),
            paths: flow.paths.clone(),
            received_bytes: 0,
            since: 0,
            down_since: None,
            outage: 0,
        })
    }

    fn look(&mut self, now: Nanos, hosts: &Hosts, down: &BTreeSet<String>) {
        let received = hosts
            .record(self.flow)
            .map_or(0, |record| record.bytes_received);
        let is_up = self.paths.iter().any(|path| is_up(path, down));
        if !is_up {
            self.down_since.get_or_insert(now);
        } else if let Some(since) = self.down_since.take() {
            self.outage = now - since;
        }
        let gets_on = received > self.received_bytes || !hosts.has_data_to_send(self.flow);
        if gets_on {
            self.outage = 0;
        }
        if gets_on || !is_up {
            self.since = now;
        }
        self.received_bytes = received;
    }

    fn has_stalled(&self, now: Nanos, patience: Nanos) -> bool {
        now - self.since > patience + self.outage
    }

    fn why(&self, now: Nanos) -> String {
        let seconds = (now - self.since) as f64 / NANOS_PER_SECOND as f64;
        format!(
            "flow {} stands still: with {} nothing has arrived for {seconds:.1} s of simulated time, although there is data to send and a path is up",
            self.id, self.algorithms
        )
    }
}

fn is_up(path: &Path, down: &BTreeSet<String>) -> bool {
    let ends = [&path.local, &path.remote].into_iter();
    let links = path.hops.iter().map(|hop| &hop.link);
    !ends.chain(links).any(|id| down.contains(id))
}
