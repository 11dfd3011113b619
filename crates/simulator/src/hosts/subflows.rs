//! The subflows of a flow over time, as both ends see them.

use std::collections::BTreeMap;

use experiment::addressing::{Ends, Places};
use experiment::samples::metrics;
use experiment::summary::SubflowResult;
use experiment::time::{NANOS_PER_SECOND, Nanos};
use experiment::traffic::StreamEnd;
use mptcp::connection::SubflowState;
use mptcp::pm::FourTuple;
use mptcp::subflow::{Counters, State};

/// All subflows ever established, in that order.
#[derive(Default)]
pub(crate) struct Subflows {
    all: Vec<SubflowRecord>,
    /// The newest subflow between two ends.
    newest: BTreeMap<Ends, usize>,
}

/// A subflow, or the only connection of plain TCP.
pub(crate) struct SubflowRecord {
    ends: Ends,
    opened: Nanos,
    closed: Option<Nanos>,
    /// Counters of its sender.
    sent: Counters,
    /// Counters of its receiver.
    received: Counters,
    /// Gauges of its sender while it is open.
    now: Option<Gauges>,
}

#[derive(Clone, Copy, Debug)]
struct Gauges {
    cwnd_bytes: f64,
    ssthresh_bytes: f64,
    in_flight_bytes: u32,
    srtt: Option<Nanos>,
    is_backup: bool,
    is_stale: bool,
}

/// Returns the ends of a subflow, given the four-tuple of one end.
fn ends(end: StreamEnd, four: FourTuple) -> Ends {
    match end {
        StreamEnd::Sender => Ends {
            local: four.local,
            remote: four.remote,
        },
        StreamEnd::Receiver => Ends {
            local: four.remote,
            remote: four.local,
        },
    }
}

impl Subflows {
    /// Records that a subflow was established. Both ends report it; the second report has no
    /// effect.
    pub(super) fn opened(&mut self, now: Nanos, end: StreamEnd, four: FourTuple) {
        let ends = ends(end, four);
        let known = self.newest.get(&ends);
        if known.is_some_and(|known| self.all[*known].closed.is_none()) {
            return;
        }
        self.newest.insert(ends, self.all.len());
        self.all.push(SubflowRecord {
            ends,
            opened: now,
            closed: None,
            sent: Counters::default(),
            received: Counters::default(),
            now: None,
        });
    }

    /// Records that one end has closed a subflow, with its final counters.
    pub(super) fn closed(
        &mut self,
        now: Nanos,
        end: StreamEnd,
        four: FourTuple,
        counters: &Counters,
    ) {
        if let Some(subflow) = self.newest_between(ends(end, four)) {
            subflow.closed.get_or_insert(now);
            subflow.now = None;
            subflow.count(end, counters);
        }
    }

    /// Records the current state of a subflow at one end.
    pub(super) fn observe(&mut self, end: StreamEnd, state: &SubflowState) {
        let Some(subflow) = self.newest_between(ends(end, state.four)) else {
            return;
        };
        subflow.count(end, &state.counters);
        let is_open = !matches!(state.state, State::TimeWait | State::Closed);
        if end == StreamEnd::Sender && subflow.closed.is_none() {
            subflow.now = is_open.then_some(Gauges {
                cwnd_bytes: state.window.cwnd_bytes,
                ssthresh_bytes: state.window.ssthresh_bytes,
                in_flight_bytes: state.window.in_flight_bytes,
                srtt: state.window.srtt,
                is_backup: state.is_backup,
                is_stale: state.is_stale,
            });
        }
    }

    fn newest_between(&mut self, ends: Ends) -> Option<&mut SubflowRecord> {
        let newest = self.newest.get(&ends)?;
        self.all.get_mut(*newest)
    }

    /// Returns how many were established.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns all subflows, in the order in which they were established.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SubflowRecord> {
        self.all.iter()
    }

    /// Returns how many are open and not stale.
    pub(crate) fn alive(&self) -> usize {
        let alive = self.all.iter().filter(|subflow| subflow.is_alive());
        alive.count()
    }

    /// Returns the payload bytes retransmitted on the same subflow.
    pub(crate) fn retransmitted_bytes(&self) -> u64 {
        let all = self.all.iter();
        all.map(|subflow| subflow.sent.retransmitted_bytes).sum()
    }

    /// Returns the results of all subflows, in terms of the description.
    pub(super) fn results(&self, places: &Places, flow: usize) -> Vec<SubflowResult> {
        let all = self.all.iter().enumerate();
        all.map(|(number, subflow)| SubflowResult {
            opened_ns: subflow.opened,
            closed_ns: subflow.closed,
            bytes: subflow.received.received_bytes,
            retransmitted_bytes: subflow.sent.retransmitted_bytes,
            ..SubflowResult::new(places, flow, number, subflow.ends)
        })
        .collect()
    }
}

impl SubflowRecord {
    fn count(&mut self, end: StreamEnd, counters: &Counters) {
        match end {
            StreamEnd::Sender => self.sent = *counters,
            StreamEnd::Receiver => self.received = *counters,
        }
    }

    /// Returns whether it is open and not stale.
    fn is_alive(&self) -> bool {
        self.now.is_some_and(|now| !now.is_stale)
    }

    /// Returns the values of [`metrics::SUBFLOW`]. Values that exist only while it is open are
    /// `None` afterwards.
    pub(crate) fn values(&self) -> [Option<f64>; metrics::SUBFLOW.len()] {
        let bit = |is: bool| f64::from(u8::from(is));
        let now = self.now;
        let srtt = now.and_then(|now| now.srtt);
        [
            Some(self.sent.sent_bytes as f64),
            Some(self.received.received_bytes as f64),
            Some(self.sent.retransmitted_bytes as f64),
            Some(self.sent.timeouts as f64),
            Some(bit(self.closed.is_none())),
            now.map(|now| now.cwnd_bytes),
            now.map(|now| now.ssthresh_bytes)
                .filter(|bytes| bytes.is_finite()),
            now.map(|now| f64::from(now.in_flight_bytes)),
            srtt.map(|srtt| srtt as f64 / NANOS_PER_SECOND as f64),
            now.map(|now| bit(now.is_backup)),
            now.map(|now| bit(now.is_stale)),
        ]
    }

    /// Returns whether its values may still change.
    pub(crate) fn is_open(&self) -> bool {
        self.closed.is_none()
    }
}
