//! Actions of expired timers.

use super::ack_policy::Due;
use super::recovery::Phase;
use super::timers::Timer;
use super::{CloseReason, Control, State, Subflow};
use crate::time::Nanos;

impl Subflow {
    pub(super) fn expired(&mut self, now: Nanos, timer: Timer, control: &mut Control<'_>) {
        match timer {
            Timer::Retransmission => self.retransmission_expired(now, control),
            Timer::LossProbe => self.loss_probe_expired(now),
            Timer::Reordering => self.reordering_expired(now, control),
            Timer::Persist => self.persist_expired(),
            Timer::DelayedAck => self.acks.request(Due::Now),
            Timer::Keepalive => self.keepalive_expired(now),
            Timer::TimeWait => self.end(CloseReason::Finished),
            Timer::Pacing => {}
        }
    }

    fn retransmission_expired(&mut self, now: Nanos, control: &mut Control<'_>) {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.handshake_expired();
            return;
        }
        self.counters.timeouts += 1;
        if self.backoff >= self.config.retries && !self.is_held_by_window() {
            self.end(CloseReason::TimedOut);
            return;
        }
        self.repair_after_timeout(now, control);
        self.backoff += 1;
        self.forced_retransmission = true;
        let at = now + self.rtt.backed_off(self.backoff);
        self.timers.arm(Timer::Retransmission, now, at);
    }

    fn handshake_expired(&mut self) {
        if self.handshake.transmissions > self.config.syn_retries.count {
            self.end(CloseReason::TimedOut);
        } else {
            self.handshake.is_due = true;
        }
    }

    /// Returns whether the peer closed its window over data in flight and still answers, which is
    /// no reason to give up (RFC 9293, section 3.8.6.1).
    fn is_held_by_window(&self) -> bool {
        self.peer_window.bytes == 0 && self.last_received_at >= self.last_sent_at
    }

    /// Requests a tail loss probe. The RTO counts from the probe (RFC 8985, section 7.3).
    fn loss_probe_expired(&mut self, now: Nanos) {
        self.loss_probe_due = true;
        let at = now + self.rtt.rto();
        self.timers.arm(Timer::Retransmission, now, at);
    }

    fn reordering_expired(&mut self, now: Nanos, control: &mut Control<'_>) {
        if self.detect_losses_by_time(now) {
            self.loss_detected(now, control);
            if self.recovery.phase == Phase::FastRecovery {
                self.report_to(control.window_mut());
                self.reduce_proportionally(control, 0, false);
            }
        }
    }

    /// Handles a window that is still too small: sends what fits, or a probe if nothing does (RFC
    /// 9293, sections 3.8.6.1 and 3.8.6.2.1). Probes continue while they are answered.
    fn persist_expired(&mut self) {
        if self.probes_unanswered > self.config.retries {
            self.end(CloseReason::TimedOut);
            return;
        }
        self.persist_backoff += 1;
        if self.usable_window() > 0 {
            self.sends_what_fits = true;
        } else {
            self.probe();
        }
    }

    fn keepalive_expired(&mut self, now: Nanos) {
        let Some(keepalive) = self.config.keepalive else {
            return;
        };
        let silent_since = self.last_received_at.max(self.last_sent_at);
        let is_busy = !self.flight.is_empty() || !self.queue.is_empty();
        if is_busy || now < silent_since + keepalive.idle {
            let from = if is_busy { now } else { silent_since };
            self.timers
                .arm(Timer::Keepalive, now, from + keepalive.idle);
            return;
        }
        if self.probes_unanswered >= keepalive.probes {
            self.end(CloseReason::TimedOut);
            return;
        }
        self.probe();
        self.timers
            .arm(Timer::Keepalive, now, now + keepalive.interval);
    }

    fn probe(&mut self) {
        self.probe_due = true;
        self.probes_unanswered += 1;
    }
}
