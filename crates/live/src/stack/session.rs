//! An application on a connection of the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use mptcp::connection::Connection;
use mptcp::pm::FourTuple;
use mptcp::subflow::Counters;
use netlab::time::Nanos;
use rustix::event::PollFlags;

use super::host::OwnFlow;
use super::stream::{EngineStream, Progress};
use crate::Clock;
use crate::path_manager::PathEvent;
use crate::telemetry::{ClosedSubflow, EngineEnd, Observation};
use crate::traffic::{End, Journal, Wait};

/// One end of a connection of a flow.
pub(super) struct Session {
    /// The name of its connection in what it tells.
    pub(super) cookie: u64,
    pub(super) own: Arc<OwnFlow>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) opens: bool,
    pub(super) is_connected: bool,
    pub(super) progress: Progress,
    pub(super) wakes_at: Option<Nanos>,
    /// Numbers of the subflows that were ever established.
    pub(super) established: BTreeSet<u32>,
    /// Since they were last told of.
    closed_subflows: Vec<ClosedSubflow>,
    /// Whether it has been told of after its end: what stays of it only waits for late segments.
    is_told: bool,
    /// `None` when it has nothing left to do.
    end: Option<Box<dyn End>>,
}

/// What a host tells at a sample.
pub(crate) struct Told {
    pub(crate) ends: Vec<EngineEnd>,
    pub(crate) path_events: Vec<PathEvent>,
}

impl Session {
    pub(super) fn opened(own: Arc<OwnFlow>, end: Box<dyn End>, journal: Arc<dyn Journal>) -> Self {
        Self {
            opens: true,
            ..Self::accepted(own, end, journal)
        }
    }

    pub(super) fn accepted(
        own: Arc<OwnFlow>,
        end: Box<dyn End>,
        journal: Arc<dyn Journal>,
    ) -> Self {
        Self {
            cookie: 0,
            own,
            journal,
            opens: false,
            is_connected: false,
            progress: Progress::default(),
            wakes_at: None,
            established: BTreeSet::new(),
            closed_subflows: Vec::new(),
            is_told: false,
            end: Some(end),
        }
    }

    /// Lets the application go on; when it wants its next turn, if nothing happens before.
    pub(super) fn advance(
        &mut self,
        now: Nanos,
        clock: Clock,
        connection: &mut Connection,
    ) -> Option<Nanos> {
        let end = self.end.as_mut()?;
        let mut stream = EngineStream {
            connection,
            progress: &mut self.progress,
        };
        match end.advance(&mut stream, clock) {
            // Later than now, so that others have their turn before.
            Ok(Some(wait)) if self.can_go_on(&wait, connection) => Some(now + 1),
            Ok(Some(wait)) => wait.until,
            Ok(None) => self.finish(connection),
            Err(error) => {
                self.journal.note_failure(error.to_string());
                self.finish(connection)
            }
        }
    }

    /// As when a socket is closed.
    fn finish(&mut self, connection: &mut Connection) -> Option<Nanos> {
        self.end = None;
        connection.close();
        None
    }

    /// Whether it only gave way to others: the engine tells of news, not of what is left.
    fn can_go_on(&self, wait: &Wait, connection: &Connection) -> bool {
        let events = wait.events.unwrap_or(PollFlags::empty());
        let may_read = events.contains(PollFlags::IN) && self.progress.is_readable(connection);
        let may_write = events.contains(PollFlags::OUT) && connection.send_capacity() > 0;
        may_read || may_write
    }

    pub(super) fn subflow_closed(&mut self, id: u32, four: FourTuple, counters: Counters) {
        self.closed_subflows.push(ClosedSubflow {
            id,
            four,
            was_established: self.established.contains(&id),
            counters,
        });
    }

    /// What its connection says of itself; `None` once that is known.
    pub(super) fn tell(&mut self, connection: &Connection) -> Option<EngineEnd> {
        if std::mem::replace(&mut self.is_told, self.progress.closed.is_some()) {
            return None;
        }
        let passed = [self.progress.sent_bytes, self.progress.received_bytes];
        let closed = std::mem::take(&mut self.closed_subflows);
        Some(EngineEnd {
            flow: self.own.flow,
            end: self.own.end,
            is_mptcp: self.own.is_mptcp,
            observation: Observation::of_engine(self.cookie, connection, passed, closed),
        })
    }
}
