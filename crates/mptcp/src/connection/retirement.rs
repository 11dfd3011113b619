//! Subflows that end while the connection continues: closed with FIN (RFC 8684, sections 3.3.3 and
//! 3.4.2), or found not to work after one of their addresses was removed (section 3.4.2).

use std::mem;
use std::net::IpAddr;

use super::lifecycle::LifecycleEvent;
use super::{Connection, SubflowContext};
use crate::subflow::State;
use crate::time::{Nanos, earliest};
use crate::wire::{AddressId, ResetReason, Segment};

/// Number of unanswered keepalive probes after which a subflow is reset.
const KEEPALIVES: u32 = 3;

/// Test of a subflow with keepalive probes after one of its addresses was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspicion {
    /// An ACK without data that arrives earlier was already in flight before the first probe.
    answers_from: Nanos,
    /// Data that arrives earlier may have waited in queues since before the first probe.
    data_from: Nanos,
    /// When the next probe is due, or the subflow is reset.
    next_at: Nanos,
    /// Wait after the last probe.
    wait: Nanos,
    keepalives: u32,
}

impl Suspicion {
    /// Starts the test of a subflow whose first probe is sent at `now`.
    pub(super) fn new(now: Nanos, min_rtt: Nanos, wait: Nanos) -> Self {
        Self {
            answers_from: now + min_rtt,
            data_from: now + wait,
            next_at: now + wait,
            wait,
            keepalives: 1,
        }
    }

    /// Returns whether the peer must have sent the segment after the first probe arrived.
    fn is_answered(&self, now: Nanos, segment: &Segment) -> bool {
        match segment.payload.is_empty() {
            true => now >= self.answers_from,
            false => now >= self.data_from,
        }
    }

    /// Waits for the answer to the next probe, twice as long as before.
    pub(super) fn probed_again(&mut self, now: Nanos) {
        self.keepalives += 1;
        self.wait *= 2;
        self.next_at = now + self.wait;
    }
}

impl SubflowContext {
    /// Starts to test whether the subflow works. Resets a subflow that is not established yet, and
    /// leaves one that is closing alone.
    fn suspect(&mut self, now: Nanos, min_rtt: Nanos) {
        if self.life.is_connecting() {
            self.reset(ResetReason::UNSPECIFIED);
        } else if self.can_send() && self.life.suspicion().is_none() {
            let suspicion = Suspicion::new(now, min_rtt, self.tcp.rto());
            self.tcp.send_keepalive();
            let event = LifecycleEvent::TestStarted(Box::new(suspicion));
            self.life.apply(event);
        }
    }

    /// Ends the test if the segment answers it.
    pub(super) fn answer_suspicion(&mut self, now: Nanos, segment: &Segment) {
        let suspicion = self.life.suspicion();
        if suspicion.is_some_and(|its| its.is_answered(now, segment)) {
            self.life.apply(LifecycleEvent::TestPassed);
        }
    }

    pub(super) fn handle_retirement_timeout(&mut self, now: Nanos) {
        self.pursue_suspicion(now);
        self.give_up_retirement(now);
    }

    /// Sends the next probe when it is due. The wait doubles each time, and the subflow is reset in
    /// the end.
    fn pursue_suspicion(&mut self, now: Nanos) {
        let suspicion = self.life.suspicion();
        let Some(due) = suspicion.filter(|its| its.next_at <= now) else {
            return;
        };
        if due.keepalives == KEEPALIVES {
            self.reset(ResetReason::UNSPECIFIED);
        } else {
            self.life.apply(LifecycleEvent::ProbeRepeated { now });
            self.tcp.send_keepalive();
        }
    }

    pub(super) fn retirement_timeout(&self) -> Option<Nanos> {
        let suspicion = self.life.suspicion().map(|its| its.next_at);
        let retired = self.life.retired_until().filter(|_| self.awaits_fin());
        earliest([suspicion, retired])
    }

    fn awaits_fin(&self) -> bool {
        !matches!(self.tcp.state(), State::TimeWait | State::Closed)
    }

    /// Closes the subflow with FIN after the data that it has sent. The caller reinjects queued
    /// data.
    fn retire(&mut self, until: Nanos) {
        self.tcp.close();
        self.life.apply(LifecycleEvent::FinQueued { until });
    }

    /// Resets the subflow if its FIN exchange does not complete in time.
    fn give_up_retirement(&mut self, now: Nanos) {
        let is_late = self.life.retired_until().is_some_and(|until| until <= now);
        if is_late && self.awaits_fin() {
            self.reset_leftover();
        }
    }

    /// Resets the subflow, because its data has arrived another way (section 3.3.3).
    pub(super) fn reset_leftover(&mut self) {
        self.reset(match self.tcp.unacked_bytes() {
            0 => ResetReason::UNSPECIFIED,
            _ => ResetReason::TOO_MUCH_OUTSTANDING_DATA,
        });
    }
}

impl Connection {
    /// Tests the subflows to an address that the peer has withdrawn.
    pub(super) fn suspect_subflows_to(&mut self, now: Nanos, id: AddressId) {
        self.suspect_subflows(now, |context| context.remote_id == id);
    }

    /// Tests the subflows from a withdrawn local address that came back before they closed, because
    /// the peer may have closed them.
    pub(super) fn suspect_subflows_from(&mut self, now: Nanos, local: IpAddr) {
        self.suspect_subflows(now, |context| {
            context.four.local.ip() == local && mem::take(&mut context.has_lost_address)
        });
    }

    /// Tests the subflows that `is_suspect` selects. They are not used until they have proved to
    /// work, and are reset otherwise.
    fn suspect_subflows(
        &mut self,
        now: Nanos,
        mut is_suspect: impl FnMut(&mut SubflowContext) -> bool,
    ) {
        for subflow in 0..self.subflows.len() {
            if !is_suspect(&mut self.subflows[subflow]) {
                continue;
            }
            let (context, windows) = self.subflows.with_windows(subflow);
            context.suspect(now, windows[subflow].min_rtt.unwrap_or(0));
            windows[subflow].is_usable = context.is_healthy();
            if self.has_other_subflow(subflow) {
                self.reinject_from(subflow);
            }
        }
    }

    /// Closes retiring subflows with FIN as soon as the connection can do without them: another
    /// subflow works, or no data is unacknowledged (section 3.3.3).
    pub(super) fn retire_subflows(&mut self, now: Nanos) {
        if !self.has_retiring {
            return;
        }
        let is_idle = self.send.acked() == self.send.assigned();
        let mut next = 0;
        while let Some(subflow) = self.subflows.next_to_retire(next) {
            if is_idle || self.has_other_subflow(subflow) {
                self.retire_subflow(now, subflow);
            }
            next = subflow + 1;
        }
        self.has_retiring = self.subflows.next_to_retire(0).is_some();
    }

    fn retire_subflow(&mut self, now: Nanos, subflow: usize) {
        let context = &mut self.subflows[subflow];
        for range in context.tcp.take_queue() {
            self.reinjections.push(range.start, range.len);
        }
        context.retire(now + self.config.subflow.time_wait);
        let four = context.four;
        self.is_schedulable = true;
        self.report_closed(now, four, false);
    }

    /// Handles a FIN of the peer on a subflow before the end of the peer's stream. Answers with FIN
    /// if another subflow works (section 3.3.3).
    pub(super) fn follow_fin(&mut self, now: Nanos, subflow: usize) {
        let has_ended = self.session.fins.is_remote_reached(self.receive.next());
        if !has_ended && self.has_other_subflow(subflow) {
            let event = LifecycleEvent::RetirementRequested;
            self.subflows[subflow].life.apply(event);
            self.has_retiring = true;
            self.retire_subflows(now);
        }
    }
}
