//! The schedule: events of the description, and those injected while the run goes on.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::resolved::{Action, Event};
use crate::time::Nanos;

/// An event as it happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventRecord {
    /// Its id; injected ones are `injected.1`, `injected.2` and so on.
    pub id: String,
    /// The event of the description that it is part of.
    pub parent: Option<String>,
    /// When it was to happen.
    pub asked_ns: Nanos,
    /// When it happened.
    pub actual_ns: Nanos,
    /// Whether it was not in the description.
    pub injected: bool,
    /// What it did, if the description does not say it.
    pub action: Option<Action>,
}

/// Events to come, and the record of those that happened.
pub struct Schedule {
    events: Vec<Event>,
    next: usize,
    taken_ids: BTreeSet<String>,
    injected: u64,
    record: Vec<EventRecord>,
}

impl Schedule {
    /// `events` ascend in time.
    pub fn new(events: &[Event]) -> Self {
        Self {
            events: events.to_vec(),
            next: 0,
            taken_ids: events.iter().map(|event| event.id.clone()).collect(),
            injected: 0,
            record: Vec::new(),
        }
    }

    /// When the next event of the description happens.
    pub fn next_at(&self) -> Option<Nanos> {
        self.events.get(self.next).map(|event| event.at_ns)
    }

    /// Records the next event as happening now, and gives what it does.
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
        Some(event.action.clone())
    }

    /// Records an event that is not in the description.
    pub fn inject(&mut self, now: Nanos, action: Action) -> EventRecord {
        let record = EventRecord {
            id: self.unused_id(),
            parent: None,
            asked_ns: now,
            actual_ns: now,
            injected: true,
            action: Some(action),
        };
        self.record.push(record.clone());
        record
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

    /// All events that happened, in order.
    pub fn record(&self) -> &[EventRecord] {
        &self.record
    }
}
