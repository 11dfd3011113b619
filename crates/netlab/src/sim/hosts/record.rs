//! What is known of a flow over TCP while it runs, at both ends together.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use mptcp::connection::Connection;

use crate::flows::{StreamEnd, is_finite};
use crate::resolved::{Application, Flow};
use crate::samples::Unit;
use crate::time::Nanos;

use super::session::VideoRecord;
use super::subflows::Subflows;

/// A flow over TCP or Multipath TCP.
pub(in crate::sim) struct FlowRecord {
    /// Its index in the experiment.
    pub(in crate::sim) flow: usize,
    pub(super) scheduled_start: Nanos,
    is_finite: bool,
    pub(in crate::sim) is_video: bool,
    pub(super) start: Option<Nanos>,
    pub(super) established: Option<Nanos>,
    pub(super) end: Option<Nanos>,
    pub(super) error: Option<String>,
    pub(super) fallback: Option<&'static str>,
    pub(in crate::sim) bytes_sent: u64,
    pub(in crate::sim) bytes_received: u64,
    pub(in crate::sim) probes_sent: u64,
    pub(in crate::sim) probes_answered: u64,
    /// When the units that are handed over and not yet delivered were handed over, the oldest first.
    begun: VecDeque<Nanos>,
    /// Short transfers under way, by the address and port of their opener: number and start.
    pub(super) transfers: BTreeMap<SocketAddr, Transfer>,
    /// Of a video: what is played.
    pub(in crate::sim) video: VideoRecord,
    pub(in crate::sim) subflows: Subflows,
    /// Bytes sent again on another subflow: in connections that are gone, and in those that are not.
    pub(super) reinjected_before: u64,
    reinjected_now: u64,
    /// What waits in its receivers for what is missing before it.
    out_of_order_bytes: u64,
    /// The receive windows that its receivers announce, together.
    receive_window_bytes: u64,
}

/// Names of what [`FlowRecord::values`] gives.
pub(in crate::sim) const STREAM_METRICS: [&str; 6] = [
    "out_of_order_bytes",
    "retransmitted_bytes",
    "reinjected_bytes",
    "receive_window_bytes",
    "subflows_opened",
    "subflows_alive",
];

/// A short transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    pub(super) number: u64,
    pub(super) started: Nanos,
}

/// What happened that is written at once: units that were delivered, probes that were answered.
#[derive(Default)]
pub(in crate::sim) struct Notes {
    pub(in crate::sim) units: Vec<Unit>,
    /// Flow and round-trip time.
    pub(in crate::sim) answers: Vec<(usize, Nanos)>,
}

impl Notes {
    pub(in crate::sim) fn is_empty(&self) -> bool {
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

    /// When it started.
    pub(super) fn start(&self) -> Nanos {
        self.start.unwrap_or(self.scheduled_start)
    }

    pub(in crate::sim) fn is_finite(&self) -> bool {
        self.is_finite
    }

    /// Whether it has ended or cannot go on.
    pub(in crate::sim) fn is_over(&self) -> bool {
        self.end.is_some() || self.error.is_some()
    }

    /// The first byte of the next unit was handed over.
    pub(super) fn begin_unit(&mut self, now: Nanos) {
        self.begun.push_back(now);
    }

    /// The last byte of the oldest unit under way was delivered.
    pub(super) fn complete_unit(&mut self, number: u64, bytes: u64, now: Nanos, notes: &mut Notes) {
        let sent = self.begun.pop_front().unwrap_or(now);
        self.note_unit(number, bytes, sent, now, notes);
    }

    /// A unit that was begun at `sent` was delivered.
    pub(super) fn note_unit(
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

    /// All that was to be transferred was; the last byte arrived at `at`.
    pub(super) fn complete(&mut self, at: Nanos) {
        if self.is_finite && self.end.is_none() {
            self.end = Some(at);
        }
    }

    /// It cannot go on; the first reason counts.
    pub(super) fn fail(&mut self, why: String) {
        if self.end.is_none() && self.error.is_none() {
            self.error = Some(why);
        }
    }

    /// Forgets what [`Self::observe`] sums up.
    pub(super) fn begin_observation(&mut self) {
        self.reinjected_now = 0;
        self.out_of_order_bytes = 0;
        self.receive_window_bytes = 0;
    }

    /// How one end of one of its connections is now.
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

    /// The values of [`STREAM_METRICS`] when it was observed last.
    pub(in crate::sim) fn values(&self) -> [f64; STREAM_METRICS.len()] {
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
