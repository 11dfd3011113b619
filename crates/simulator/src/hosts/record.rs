//! The record of a flow over TCP while it runs, for both ends together.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use experiment::resolved::{Application, Flow};
use experiment::samples::{Unit, metrics};
use experiment::time::Nanos;
use experiment::traffic::{StreamEnd, is_finite};
use mptcp::connection::Connection;

use super::session::VideoRecord;
use super::subflows::Subflows;

/// A flow over TCP or MPTCP.
pub(crate) struct FlowRecord {
    /// Its index in the experiment.
    pub(crate) flow: usize,
    pub(super) scheduled_start: Nanos,
    is_finite: bool,
    pub(crate) is_video: bool,
    pub(super) start: Option<Nanos>,
    pub(super) established: Option<Nanos>,
    pub(super) end: Option<Nanos>,
    pub(super) error: Option<String>,
    pub(super) fallback: Option<&'static str>,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) probes_sent: u64,
    pub(crate) probes_answered: u64,
    /// When each unit that was handed over and not yet delivered was handed over, the oldest first.
    begun: VecDeque<Nanos>,
    /// Short transfers in progress, by the address and port of their opener.
    pub(super) transfers: BTreeMap<SocketAddr, Transfer>,
    /// For a video: its playback.
    pub(crate) video: VideoRecord,
    pub(crate) subflows: Subflows,
    /// Bytes reinjected in connections that have ended. `reinjected_now` counts those of open
    /// connections.
    pub(super) reinjected_before: u64,
    reinjected_now: u64,
    /// Bytes that wait in its receivers for missing data.
    out_of_order_bytes: u64,
    /// Sum of the receive windows that its receivers announce.
    receive_window_bytes: u64,
}

/// A short transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    pub(super) number: u64,
    pub(super) started: Nanos,
}

/// Observations that are written at once: delivered units and answered probes.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) units: Vec<Unit>,
    /// Flow and round-trip time of each answer.
    pub(crate) answers: Vec<(usize, Nanos)>,
}

impl Notes {
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.answers.is_empty()
    }
}

impl FlowRecord {
    pub(super) fn new(index: usize, flow: &Flow, scheduled_start: Nanos) -> Self {
        Self {
            flow: index,
            scheduled_start,
            is_finite: is_finite(&flow.app),
            is_video: matches!(flow.app, Application::Video(_)),
            start: None,
            established: None,
            end: None,
            error: None,
            fallback: None,
            bytes_sent: 0,
            bytes_received: 0,
            probes_sent: 0,
            probes_answered: 0,
            begun: VecDeque::new(),
            transfers: BTreeMap::new(),
            video: VideoRecord::default(),
            subflows: Subflows::default(),
            reinjected_before: 0,
            reinjected_now: 0,
            out_of_order_bytes: 0,
            receive_window_bytes: 0,
        }
    }

    /// Returns when it started.
    pub(super) fn start(&self) -> Nanos {
        self.start.unwrap_or(self.scheduled_start)
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.is_finite
    }

    /// Returns whether it has ended or failed.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some() || self.error.is_some()
    }

    /// Records that the first byte of the next unit was handed over.
    pub(super) fn begin_unit(&mut self, now: Nanos) {
        self.begun.push_back(now);
    }

    /// Records that the last byte of the oldest unit in progress was delivered.
    pub(super) fn complete_unit(&mut self, number: u64, bytes: u64, now: Nanos, notes: &mut Notes) {
        let sent = self.begun.pop_front().unwrap_or(now);
        self.record_unit(number, bytes, sent, now, notes);
    }

    /// Records the delivery of a unit that was begun at `sent`.
    pub(super) fn record_unit(
        &self,
        number: u64,
        bytes: u64,
        sent: Nanos,
        now: Nanos,
        notes: &mut Notes,
    ) {
        notes.units.push(Unit {
            flow: self.flow,
            unit: number,
            bytes,
            sent_ns: sent,
            received_ns: now,
            delivered_ns: now,
        });
    }

    /// Records that everything was transferred. The last byte arrived at `at`.
    pub(super) fn complete(&mut self, at: Nanos) {
        if self.is_finite && self.end.is_none() {
            self.end = Some(at);
        }
    }

    /// Records a failure. Only the first reason is kept.
    pub(super) fn fail(&mut self, why: String) {
        if self.end.is_none() && self.error.is_none() {
            self.error = Some(why);
        }
    }

    /// Resets the sums of [`Self::observe`].
    pub(super) fn begin_observation(&mut self) {
        self.reinjected_now = 0;
        self.out_of_order_bytes = 0;
        self.receive_window_bytes = 0;
    }

    /// Adds the current state of one end of one of its connections.
    pub(super) fn observe(&mut self, end: StreamEnd, connection: &Connection) {
        self.reinjected_now += connection.counters().reinjected_bytes;
        if end == StreamEnd::Receiver {
            self.out_of_order_bytes += connection.out_of_order_bytes();
            self.receive_window_bytes += connection.receive_window_bytes();
        }
        for state in connection.subflows() {
            self.subflows.observe(end, &state);
        }
    }

    /// Returns the values of [`metrics::STREAM`] at the last observation.
    pub(crate) fn values(&self) -> [f64; metrics::STREAM.len()] {
        [
            self.out_of_order_bytes,
            self.subflows.retransmitted_bytes(),
            self.reinjected_before + self.reinjected_now,
            self.receive_window_bytes,
            self.subflows.count() as u64,
            self.subflows.alive() as u64,
        ]
        .map(|value| value as f64)
    }
}
