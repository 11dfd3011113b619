//! An application on a connection of the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use experiment::time::Nanos;
use mptcp::connection::Connection;
use mptcp::pm::FourTuple;
use mptcp::subflow::Counters;
use rustix::event::PollFlags;

use super::host::OwnFlow;
use super::stream::{EngineStream, Progress};
use crate::Clock;
use crate::applications::traffic::{End, Journal, Wait};
use crate::kernel::path_manager::PathEvent;
use crate::telemetry::{ClosedSubflow, Observation, ObservedEnd};

/// One end of a connection of a flow.
pub(super) struct Session {
    /// Identifies its connection in reports.
    pub(super) cookie: u64,
    pub(super) own: Arc<OwnFlow>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) opens: bool,
    progress: Progress,
    /// Numbers of all subflows that were ever established.
    pub(super) established: BTreeSet<u32>,
    /// Subflows closed since the last report.
    closed_subflows: Vec<ClosedSubflow>,
    /// Whether the end was reported. After that the session only waits for late segments.
    is_reported: bool,
    /// The application; `None` after it has finished.
    end: Option<Box<dyn End>>,
}

/// The report of a host at a sample.
pub(crate) struct Report {
    pub(crate) ends: Vec<ObservedEnd>,
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
            progress: Progress::default(),
            established: BTreeSet::new(),
            closed_subflows: Vec::new(),
            is_reported: false,
            end: Some(end),
        }
    }

    /// Gives the application its turn. Returns when it wants the next one if nothing happens
    /// before.
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
                self.journal.record_failure(error.to_string());
                self.finish(connection)
            }
        }
    }

    /// Closes the connection, as closing a socket does.
    fn finish(&mut self, connection: &mut Connection) -> Option<Nanos> {
        self.end = None;
        connection.close();
        None
    }

    /// Returns whether the application can go on at once. The engine reports new data and new room,
    /// but not what an application left unread when it gave way to others.
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

    /// Returns the report of its connection; `None` once its end was reported.
    pub(super) fn report(&mut self, connection: &Connection) -> Option<ObservedEnd> {
        if std::mem::replace(&mut self.is_reported, connection.closed().is_some()) {
            return None;
        }
        let passed = [self.progress.sent_bytes, self.progress.received_bytes];
        let closed = std::mem::take(&mut self.closed_subflows);
        Some(ObservedEnd {
            flow: self.own.flow,
            end: self.own.end,
            is_mptcp: self.own.is_mptcp,
            observation: Observation::of_engine(self.cookie, connection, passed, closed),
        })
    }
}
