//! What happened in a connection besides data: options, openings, ends.

use serde::Serialize;

use super::Teller;
use crate::time::Nanos;

/// Events of a connection that are kept; what comes after is counted.
const MOST_EVENTS: usize = 2000;
/// Among so many of the last events one that is told again is looked for.
const REMEMBERED: usize = 32;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) by: Teller,
    pub(super) kind: EventKind,
    pub(super) text: String,
    /// How often it was told, for an option repeated on further packets.
    pub(super) times: u32,
    pub(super) last_at: Nanos,
}

/// Kinds of events, by the names of RFC 8684 where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A SYN without MPTCP.
    Syn,
    /// MP_CAPABLE.
    MpCapable,
    /// MP_JOIN.
    MpJoin,
    /// A subflow may carry data.
    Usable,
    /// ADD_ADDR.
    AddAddr,
    /// REMOVE_ADDR.
    RemoveAddr,
    /// MP_PRIO.
    MpPrio,
    /// MP_FAIL.
    MpFail,
    /// MP_FASTCLOSE.
    MpFastclose,
    /// The end of a side's data.
    DataFin,
    /// The end of a side's bytes on a subflow.
    Fin,
    /// A subflow is reset.
    Reset,
    /// The connection goes on as plain TCP.
    Fallback,
    /// A sender waited in vain for acknowledgments, and sent again.
    Timeout,
    /// What no sender should send.
    Violation,
}

/// The events of a connection.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    events: Vec<Event>,
    left_out: u64,
}

impl Timeline {
    /// Notes an event; what was told a moment ago already is counted as told again.
    pub(super) fn note(&mut self, by: Teller, kind: EventKind, text: String) {
        let is_same = |event: &&mut Event| {
            (event.kind, event.by.subflow, event.by.from) == (kind, by.subflow, by.from)
                && event.text == text
        };
        let remembered = self.events.iter_mut().rev().take(REMEMBERED);
        if let Some(event) = { remembered }.find(is_same) {
            event.times += 1;
            event.last_at = by.stamp.at;
            return;
        }
        if self.events.len() == MOST_EVENTS {
            self.left_out += 1;
            return;
        }
        self.events.push(Event {
            by,
            kind,
            text,
            times: 1,
            last_at: by.stamp.at,
        });
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }

    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Events that were not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
