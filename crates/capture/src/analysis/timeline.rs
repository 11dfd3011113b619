//! Events of a connection other than data: options, openings, ends.

use experiment::time::Nanos;
use serde::Serialize;

use super::Teller;

/// The most events of a connection that are kept. Further events are only counted.
const MOST_EVENTS: usize = 2000;
/// The number of latest events among which a repeated event is searched.
const REMEMBERED: usize = 32;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) by: Teller,
    pub(super) kind: EventKind,
    pub(super) text: String,
    /// How often it was seen, because options are repeated on further packets.
    pub(super) times: u32,
    pub(super) last_at: Nanos,
}

/// Kinds of events, with the names of RFC 8684 where they exist.
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
    /// The data of a side ends.
    DataFin,
    /// A side ends its byte stream on a subflow.
    Fin,
    /// A subflow is reset.
    Reset,
    /// The connection falls back to plain TCP.
    Fallback,
    /// A sender retransmitted after waiting for acknowledgments.
    Timeout,
    /// A packet that violates the protocol.
    Violation,
}

/// The events of a connection.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    events: Vec<Event>,
    left_out: u64,
}

impl Timeline {
    /// Adds an event. A recent event with the same content is counted as repeated.
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

    /// Returns the number of events that were not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
