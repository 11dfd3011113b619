//! The end of a connection (RFC 8684, sections 3.3.3 and 3.5).

use super::fin::FinTimer;
use super::lifecycle::LifecycleEvent;
use super::{Connection, Event, Mode};
use crate::pm::{self, FourTuple};
use crate::seq::DataSeq;
use crate::subflow::{CloseReason, State};
use crate::time::Nanos;
use crate::wire::{DataNumber, Key, MptcpOption, ResetReason, Segment};

impl Connection {
    /// Ends the local stream. Data already written is still sent, and data of the peer can still be
    /// read. [`Connection::send`] accepts no more data.
    pub fn close(&mut self) {
        self.is_ending = true;
        self.is_schedulable = true;
    }

    /// Closes the connection at once: resets all subflows, with MP_FASTCLOSE if the connection uses
    /// MPTCP (RFC 8684, section 3.5). Undelivered data is lost.
    pub fn abort(&mut self) {
        self.close_fast();
        self.end(CloseReason::Aborted);
    }

    fn close_fast(&mut self) {
        for (context, _) in self.subflows.iter_mut() {
            context.signals.closes_fast = self.session.mode == Mode::Multipath;
        }
        self.reset_all_subflows();
    }

    /// Handles the options of a RST. It can carry MP_FASTCLOSE: Linux sends it so, on every
    /// subflow. MP_FAIL for data under way proves that the peer knows the keys, so the data can be
    /// sent again on another subflow, even if nothing was acknowledged before (RFC 8684, sections
    /// 3.1 and 3.7).
    pub(super) fn handle_reset(&mut self, now: Nanos, subflow: usize, reset: &Segment) {
        for option in &reset.options.mptcp {
            match option {
                MptcpOption::FastClose { receiver_key } => self.handle_fast_close(*receiver_key),
                MptcpOption::Reset(reason) => self.subflows[subflow].record_reset(*reason),
                MptcpOption::Fail { data_seq } if self.is_under_way(*data_seq) => {
                    self.record_fully_established(now);
                }
                _ => {}
            }
        }
    }

    /// Returns whether a DSN is that of unacknowledged data of this connection.
    fn is_under_way(&self, data_seq: DataSeq) -> bool {
        let acked = self.send.acked();
        let offset = self.session.offset(DataNumber::Long(data_seq), acked);
        self.session.mode == Mode::Multipath
            && offset.is_some_and(|offset| (acked..self.send.assigned()).contains(&offset))
    }

    /// Closes the connection if the peer's MP_FASTCLOSE carries the local key.
    pub(super) fn handle_fast_close(&mut self, receiver_key: Key) {
        let is_ours = self
            .session
            .keys()
            .is_some_and(|keys| keys.local == receiver_key);
        if is_ours {
            self.reset_all_subflows();
            self.end(CloseReason::Reset);
        }
    }

    pub(super) fn end(&mut self, reason: CloseReason) {
        if self.closed.is_none() {
            self.closed = Some(reason);
            self.abandoned_at = None;
            self.events.push_back(Event::Closed { reason });
        }
    }

    /// Takes the next step of an orderly close, once all written data is assigned to subflows.
    pub(super) fn advance_close(&mut self, now: Nanos) {
        let has_sent_all = self.send.assigned() == self.send.written();
        if !self.is_ending || !has_sent_all {
            return;
        }
        match self.session.mode {
            Mode::Negotiating => {}
            Mode::Plain => self.close_all_subflows(),
            Mode::Multipath => self.advance_data_fin(now),
        }
    }

    fn advance_data_fin(&mut self, now: Nanos) {
        let is_new =
            self.session.fins.local_to_send().is_none() && !self.session.fins.is_local_acked();
        self.session.fins.end_local(self.send.written());
        if is_new {
            self.queue_data_fin();
        }
        let is_over = self.session.fins.is_local_acked()
            && self.session.fins.is_remote_reached(self.receive.next());
        if is_over && !self.subflows.is_empty() {
            let linger = self.config.subflow.time_wait;
            self.lingers_until.get_or_insert(now + linger);
            self.close_all_subflows();
        }
    }

    fn close_all_subflows(&mut self) {
        for (context, _) in self.subflows.iter_mut() {
            context.tcp.close();
        }
    }

    /// Sends the DATA_FIN on every subflow, for the first time or again.
    fn queue_data_fin(&mut self) {
        for (context, _) in self
            .subflows
            .iter_mut()
            .filter(|(context, _)| context.can_send())
        {
            context.queue_data_fin();
        }
    }

    /// Runs the timer of the DATA_FIN while only the DATA_FIN is unacknowledged. It does not run
    /// while data is unacknowledged, because that data has timers of its own and the DATA_FIN is
    /// sent behind it.
    pub(super) fn watch_data_fin(&mut self, now: Nanos) {
        let has_data_fin = self.session.fins.local_to_send().is_some();
        let has_data = self.send.acked() < self.send.assigned();
        let is_open = self.session.mode == Mode::Multipath && self.closed.is_none();
        if !has_data_fin || has_data || !is_open || self.subflows.is_empty() {
            self.fin_timer = None;
        } else if self.fin_timer.is_none() {
            self.fin_timer = Some(FinTimer::new(now, self.config.close_timeout));
        }
    }

    /// Repeats the DATA_FIN, or closes a connection whose peer does not acknowledge it (RFC 9293,
    /// section 3.8.3; mainline's `mptcp_close_tout_expired`).
    pub(super) fn handle_data_fin_timeout(&mut self, now: Nanos) {
        let Some(timer) = self.fin_timer.as_mut().filter(|its| its.next() <= now) else {
            return;
        };
        if timer.has_given_up(now) {
            self.fin_timer = None;
            self.close_fast();
            self.end(CloseReason::TimedOut);
        } else {
            timer.repeated(now);
            for (context, _) in self.subflows.iter_mut() {
                context.signals.has_sent_keys = false;
            }
            self.queue_data_fin();
        }
    }

    /// Resets subflows that are still open some time after both streams are complete. The peer may
    /// have lost such a subflow without a RST, and then never sends a FIN.
    pub(super) fn handle_linger_timeout(&mut self, now: Nanos) {
        if self.lingers_until.is_some_and(|at| at <= now) {
            self.lingers_until = None;
            for (context, _) in self.subflows.iter_mut() {
                context.reset_leftover();
            }
        }
    }

    pub(super) fn reset_all_subflows(&mut self) {
        for (context, _) in self.subflows.iter_mut() {
            context.reset(ResetReason::UNSPECIFIED);
        }
    }

    /// Removes subflows that have ended and whose RSTs have been sent. Closes the connection when
    /// both streams are complete and all remaining subflows are in TIME-WAIT.
    pub(super) fn reap_closed(&mut self, now: Nanos) {
        while let Some((subflow, reason)) = self.subflows.first_ended() {
            self.remove_subflow(now, subflow, reason);
        }
        if self.closed.is_some() || self.subflows.is_empty() || !self.has_both_ends() {
            return;
        }
        let mut states = self.subflows.iter().map(|context| context.tcp.state());
        if states.all(|state| state == State::TimeWait) {
            self.end(CloseReason::Finished);
        }
    }

    pub(super) fn remove_subflow(&mut self, now: Nanos, subflow: usize, reason: CloseReason) {
        let mut context = self.subflows.remove(subflow);
        context.life.apply(LifecycleEvent::Removed);
        let end = context.life.end();
        self.is_schedulable = true;
        self.congestion_control.subflow_removed(subflow);
        self.counters
            .get_or_insert_default()
            .add_closed(context.tcp.counters());
        if end.may_have_lost_acked {
            let (acked, assigned) = (self.send.acked(), self.send.assigned());
            self.reinjections.push(acked, assigned - acked);
        }
        self.reinject_closed(&context);
        self.events.push_back(Event::SubflowClosed {
            id: context.id,
            four: context.four,
            reason,
            counters: Box::new(*context.tcp.counters()),
        });
        if self.subflows.is_empty() && !self.try_next_way(now) {
            self.last_subflow_gone(now, reason);
        }
        if !end.is_reported {
            self.report_closed(now, context.four, end.is_unfit);
        }
    }

    /// Notifies the path manager that a subflow has closed or is about to close.
    pub(super) fn report_closed(&mut self, now: Nanos, subflow: FourTuple, is_unfit: bool) {
        if self.session.mode != Mode::Multipath || self.closed.is_some() {
            return;
        }
        if is_unfit {
            let pair = subflow.pair();
            self.manage(now, &pm::Event::Unfit { pair });
        }
        let passed = self.send.acked() + self.receive.next();
        if self.subflows.is_empty()
            && passed > std::mem::replace(&mut self.passed_when_abandoned, passed)
        {
            self.manage(now, &pm::Event::Progress);
        }
        self.manage(now, &pm::Event::SubflowClosed { subflow });
    }

    /// Keeps a connection without subflows for a later join, unless both streams are complete or it
    /// cannot be joined.
    fn last_subflow_gone(&mut self, now: Nanos, reason: CloseReason) {
        self.lingers_until = None;
        if self.closed.is_some() {
            return;
        }
        if self.has_both_ends() {
            self.end(CloseReason::Finished);
        } else if self.session.mode == Mode::Multipath && self.session.is_fully_established {
            let lifetime = self.config.lifetime_without_subflows;
            self.abandoned_at.get_or_insert(now + lifetime);
        } else {
            self.end(reason);
        }
    }

    /// Returns for how long all subflows of a closed connection have been in TIME-WAIT with
    /// timestamps, that is, the age of the latest.
    pub(crate) fn time_wait_age(&self, now: Nanos) -> Option<Nanos> {
        self.closed?;
        let ages = self
            .subflows
            .iter()
            .map(|context| context.tcp.time_wait_age(now));
        ages.reduce(|one, other| Some(one?.min(other?)))?
    }

    /// Ends TIME-WAIT on all subflows, as if its time were over.
    pub(crate) fn end_time_wait(&mut self, now: Nanos) {
        for (context, _) in self.subflows.iter_mut() {
            context.tcp.end_time_wait();
        }
        self.reap_closed(now);
    }

    fn has_both_ends(&self) -> bool {
        let is_plain = self.session.mode == Mode::Plain;
        let is_end_acked = is_plain || self.session.fins.is_local_acked();
        let all_sent = self.has_sent_all() && is_end_acked;
        all_sent && self.session.fins.is_remote_reached(self.receive.next())
    }

    fn has_sent_all(&self) -> bool {
        self.is_ending && self.send.acked() == self.send.written()
    }

    /// Returns whether the local stream has ended, and the peer has acknowledged every byte and the
    /// end of the stream.
    pub fn has_delivered_all(&self) -> bool {
        let has_fin_acked = |state| matches!(state, State::FinWait2 | State::TimeWait);
        let is_end_acked = match self.session.mode {
            Mode::Plain => self
                .subflows
                .iter()
                .all(|context| has_fin_acked(context.tcp.state())),
            _ => self.session.fins.is_local_acked(),
        };
        self.has_sent_all() && is_end_acked
    }
}
