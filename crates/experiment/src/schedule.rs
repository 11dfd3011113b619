//! The schedule: events of the description, and events injected during the run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use thiserror::Error;

use crate::resolved::{Action, Event, Experiment};
use crate::rng::Generator;
use crate::time::Nanos;

/// An event that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventRecord {
    /// Its id. Injected events are `injected.1`, `injected.2` and so on.
    pub id: String,
    /// Id of the event in the description from which this one was made.
    pub parent: Option<String>,
    /// When it was due in this run.
    pub asked_ns: Nanos,
    /// When it happened.
    pub actual_ns: Nanos,
    /// Whether it was injected, not described.
    pub injected: bool,
    /// Its action, if it was injected.
    pub action: Option<Action>,
}

/// An injected action that would change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("action: {name} {already}")]
pub struct NoChange {
    /// The interface, link or network.
    name: String,
    /// The state it already has.
    already: String,
}

/// The states of an interface or link that actions switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Switch {
    InterfaceIsUp,
    LinkIsUp,
    HasAddress,
}

impl Switch {
    /// Returns the interface or link, the switch and the state that an action sets. `None` for
    /// actions that may be repeated.
    fn set_by(action: &Action) -> Option<(&str, Self, bool)> {
        Some(match action {
            Action::InterfaceDown { interface } => (interface, Self::InterfaceIsUp, false),
            Action::InterfaceUp { interface } => (interface, Self::InterfaceIsUp, true),
            Action::LinkDown { link, .. } => (link, Self::LinkIsUp, false),
            Action::LinkUp { link, .. } => (link, Self::LinkIsUp, true),
            Action::AddressAdd { interface } => (interface, Self::HasAddress, true),
            Action::AddressRemove { interface } => (interface, Self::HasAddress, false),
            Action::SetLink { .. }
            | Action::Handover { .. }
            | Action::Roam { .. }
            | Action::SetSignal { .. }
            | Action::SetBackup { .. }
            | Action::Reroute { .. }
            | Action::SetRecovery { .. }
            | Action::Exec { .. } => return None,
        })
    }

    fn already(self, on: bool) -> &'static str {
        match (self, on) {
            (Self::InterfaceIsUp | Self::LinkIsUp, true) => "is already up",
            (Self::InterfaceIsUp | Self::LinkIsUp, false) => "is already down",
            (Self::HasAddress, true) => "already has its address",
            (Self::HasAddress, false) => "has no address already",
        }
    }
}

/// The largest change of the time between two events, in nanoseconds.
pub const MOST_MOVED_NS: Nanos = 1_000_000_000;

/// Returns the events of a run. The times between them are those of the description, plus or minus
/// up to `vary.events_ppm`.
///
/// Their order is kept, and events of the same instant stay together. No event moves beyond the end
/// of the run.
pub fn events_of(experiment: &Experiment, seed: u64) -> Vec<Event> {
    let mut events = experiment.events.clone();
    let (mut described, mut moved_to) = (0, 0);
    for event in &mut events {
        let since = event.at_ns - described;
        described = event.at_ns;
        if since > 0 {
            let most = u128::from(since) * u128::from(experiment.vary.events_ppm) / 1_000_000;
            let most = MOST_MOVED_NS.min(most as Nanos);
            let draw = Generator::new(seed, &format!("event/{}", event.id)).below(2 * most);
            moved_to = (moved_to + since + draw - most).min(experiment.duration_ns - 1);
        }
        event.at_ns = moved_to;
    }
    events
}

/// The events to come, and a record of those that happened.
pub struct Schedule {
    events: Vec<Event>,
    next: usize,
    taken_ids: BTreeSet<String>,
    injected: u64,
    /// State by interface or link. Absent entries are on.
    switches: BTreeMap<(String, Switch), bool>,
    /// The strategy that recovers the network. `None` without controlled switches.
    strategy: Option<String>,
    record: Vec<EventRecord>,
}

impl Schedule {
    /// Returns the schedule of an experiment with `seed`, at time 0.
    pub fn new(experiment: &Experiment, seed: u64) -> Self {
        let events = events_of(experiment, seed);
        let interfaces = experiment.interfaces.iter();
        let switches = interfaces.map(|one| ((one.id.clone(), Switch::InterfaceIsUp), one.up));
        let control = experiment.control.as_ref();
        Self {
            next: 0,
            taken_ids: events.iter().map(|event| event.id.clone()).collect(),
            injected: 0,
            switches: switches.collect(),
            strategy: control.map(|control| control.recovery.strategy.clone()),
            record: Vec::new(),
            events,
        }
    }

    /// Returns when the next event of the description happens.
    pub fn next_at(&self) -> Option<Nanos> {
        self.events.get(self.next).map(|event| event.at_ns)
    }

    /// Sets when the last event on record happened, for a driver that was told of it afterwards.
    pub fn correct_last(&mut self, actual_ns: Nanos) {
        if let Some(event) = self.record.last_mut() {
            event.actual_ns = actual_ns;
        }
    }

    /// Records the next event as happening now and returns its action. `None` if no event is due.
    pub fn take_due(&mut self, now: Nanos) -> Option<Action> {
        let event = self
            .events
            .get(self.next)
            .filter(|event| event.at_ns <= now)?;
        self.next += 1;
        self.record.push(EventRecord {
            id: event.id.clone(),
            parent: event.parent.clone(),
            asked_ns: event.at_ns,
            actual_ns: now,
            injected: false,
            action: None,
        });
        let action = event.action.clone();
        self.set_state(&action);
        Some(action)
    }

    /// Returns an event for an injected action, with its id. Carry it out and then pass it to
    /// [`Self::record_injected`].
    ///
    /// # Errors
    /// Fails if the action would change nothing.
    pub fn injection(&mut self, now: Nanos, action: &Action) -> Result<EventRecord, NoChange> {
        if let Some(no_change) = self.no_change(action) {
            return Err(no_change);
        }
        Ok(EventRecord {
            id: self.unused_id(),
            parent: None,
            asked_ns: now,
            actual_ns: now,
            injected: true,
            action: Some(action.clone()),
        })
    }

    /// Records that an injected event happened.
    pub fn record_injected(&mut self, event: EventRecord) {
        if let Some(action) = &event.action {
            self.set_state(action);
        }
        self.record.push(event);
    }

    /// Returns what an action would set to the state that it has; `None` if it changes something.
    fn no_change(&self, action: &Action) -> Option<NoChange> {
        if let Action::SetRecovery { strategy } = action {
            return (self.strategy.as_ref() == Some(strategy)).then(|| NoChange {
                name: "the network".to_owned(),
                already: format!("already recovers with {strategy}"),
            });
        }
        let (name, switch, on) = Switch::set_by(action)?;
        (self.is_on(name, switch) == on).then(|| NoChange {
            name: name.to_owned(),
            already: switch.already(on).to_owned(),
        })
    }

    fn is_on(&self, name: &str, switch: Switch) -> bool {
        let known = self.switches.get(&(name.to_owned(), switch));
        known.copied().unwrap_or(true)
    }

    fn set_state(&mut self, action: &Action) {
        if let Action::SetRecovery { strategy } = action {
            self.strategy = Some(strategy.clone());
        }
        if let Some((name, switch, on)) = Switch::set_by(action) {
            self.switches.insert((name.to_owned(), switch), on);
        }
    }

    fn unused_id(&mut self) -> String {
        loop {
            self.injected += 1;
            let id = format!("injected.{}", self.injected);
            if self.taken_ids.insert(id.clone()) {
                return id;
            }
        }
    }

    /// Returns all events that happened, in order.
    pub fn record(&self) -> &[EventRecord] {
        &self.record
    }
}
