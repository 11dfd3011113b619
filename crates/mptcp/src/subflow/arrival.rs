//! Handling of received segments (RFC 9293, section 3.10.7.4).

use super::ack_policy::{Data, Due, Owed};
use super::reassembly::{Placed, Reassembly};
use super::timers::Timer;
use super::{Arrival, CloseReason, Control, Rest, Segmentation, State, Subflow};
use crate::time::Nanos;
use crate::wire::{Ecn, Flags, Segment};

impl Subflow {
    pub(super) fn arrives(
        &mut self,
        now: Nanos,
        segment: &Segment,
        ecn: Ecn,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        match self.state {
            State::Closed => {}
            State::SynSent => self.arrives_in_syn_sent(now, segment, control, arrival),
            _ => self.arrives_synchronized(now, segment, ecn, control, arrival),
        }
    }

    fn arrives_synchronized(
        &mut self,
        now: Nanos,
        segment: &Segment,
        ecn: Ecn,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        if self.state == State::SynReceived && self.is_peers_syn(segment) {
            self.arrives_again(now, segment, control, arrival);
            return;
        }
        if !self.is_acceptable(now, segment) {
            self.answer_unacceptable(now, segment);
            return;
        }
        if segment.flags.contains(Flags::RST) {
            self.handle_reset(now, segment);
            return;
        }
        if segment.flags.contains(Flags::SYN) {
            // RFC 5961, section 4.
            self.acks.challenge(now);
            return;
        }
        if segment.flags.contains(Flags::ACK) {
            self.handle_acceptable(now, segment, ecn, control, arrival);
        }
    }

    /// Handles a retransmitted SYN, whose SYN/ACK was lost, or the SYN/ACK of a peer that opened at
    /// the same time (section 3.5).
    fn arrives_again(
        &mut self,
        now: Nanos,
        segment: &Segment,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        if !segment.flags.contains(Flags::ACK) {
            self.handshake.is_due = true;
        } else if segment.ack == self.nxt {
            arrival.is_acceptable = true;
            self.last_received_at = now;
            self.establish(now, segment, control, arrival);
            self.acks.request(Due::Now);
        }
    }

    /// Applies the first check: the sequence numbers are in the window and the timestamp is not
    /// old. An acknowledgment at the end of the window is accepted too, because its sender has
    /// filled the window with data, of which some was lost.
    fn is_acceptable(&self, now: Nanos, segment: &Segment) -> bool {
        let Some(received) = &self.received else {
            return false;
        };
        let (next, edge) = (received.next(), self.receive_window.edge());
        let starts = segment.seq.is_at_or_after(next) && segment.seq.is_at_or_before(edge);
        let ends = segment.end().is_after(next) && segment.end().is_at_or_before(edge);
        (starts || ends) && self.timestamps.admits(now, segment)
    }

    /// Acknowledges a duplicate at once, so that its sender learns what has arrived. Answers
    /// segments that bring nothing at a limited rate.
    fn answer_unacceptable(&mut self, now: Nanos, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if segment.seq_len() == 0 {
            self.acks.challenge(now);
            return;
        }
        if let Some(received) = &mut self.received {
            received.record_old(segment.seq, segment.end());
        }
        self.acks.request(Due::Now);
        if self.state == State::TimeWait && segment.flags.contains(Flags::FIN) {
            self.timers
                .arm(Timer::TimeWait, now, now + self.config.time_wait);
        }
    }

    /// Applies the second check (RFC 5961, section 3): only a RST with the next expected sequence
    /// number closes the subflow.
    fn handle_reset(&mut self, now: Nanos, segment: &Segment) {
        if self.received.as_ref().map(Reassembly::next) == Some(segment.seq) {
            self.end(match self.state {
                State::SynReceived => CloseReason::Refused,
                _ => CloseReason::Reset,
            });
        } else {
            self.acks.challenge(now);
        }
    }

    /// Applies the fifth and later checks to an acceptable segment.
    fn handle_acceptable(
        &mut self,
        now: Nanos,
        segment: &Segment,
        ecn: Ecn,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        if self.state == State::SynReceived && segment.ack != self.nxt {
            self.reset_reply = Some(segment.ack);
            return;
        }
        if !self.is_ack_valid(now, segment) {
            return;
        }
        arrival.is_acceptable = true;
        self.last_received_at = now;
        self.timestamps.update(now, segment);
        if self.state == State::SynReceived {
            self.establish(now, segment, control, arrival);
        }
        self.handle_ack(now, segment, control, arrival);
        self.fin_acknowledged(now);
        self.handle_payload(now, segment, ecn, arrival);
        self.handle_fin(now, segment, arrival);
    }

    fn fin_acknowledged(&mut self, now: Nanos) {
        if !self.is_fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.wait_for_the_last(now),
            State::LastAck => self.end(CloseReason::Finished),
            _ => {}
        }
    }

    /// Applies the seventh check: accepts data in the states in which the peer has not sent its
    /// FIN.
    fn handle_payload(&mut self, now: Nanos, segment: &Segment, ecn: Ecn, arrival: &mut Arrival) {
        let is_open = matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        );
        let Some(received) = self.received.as_mut().filter(|_| is_open) else {
            return;
        };
        if segment.payload.is_empty() {
            return;
        }
        let before = received.next();
        let placed = received.insert(segment.seq, &segment.payload, self.receive_window.edge());
        let taken = received.next().distance_from(before) as u32;
        arrival.has_data = received.has_readable();
        self.counters.received_bytes += u64::from(taken);
        self.ecn.data_received(ecn, segment.flags);
        if let Some(echo) = self.timestamps.echo(segment)
            && self.acks.is_full_sized(segment.payload.len())
        {
            self.receive_rtt.sample(now, echo);
        }
        match placed {
            Placed::InOrder => {
                let data = Data {
                    bytes: taken,
                    ends_packet: self.ends_packet(segment),
                    window_bytes: self.receive_window.size(),
                };
                self.acks.data_in_order(now, data, self.rtt.rto());
                if !self.waits_for_reader && self.acks.owed() != Owed::Nothing {
                    self.acks.request(Due::Now);
                }
            }
            Placed::InHole | Placed::OutOfOrder | Placed::Nowhere => self.acks.request(Due::Now),
        }
        if self.acks.due == Due::Delayed && !self.timers.is_armed(Timer::DelayedAck) {
            let at = now + self.config.delayed_ack;
            self.timers.arm(Timer::DelayedAck, now, at);
        }
    }

    /// Returns whether a segment ends a super-packet, after which the peer may defer until it is
    /// acknowledged (`tcp_measure_rcv_mss`, `tcp_cleanup_rbuf`).
    fn ends_packet(&self, segment: &Segment) -> bool {
        self.config.segmentation == Segmentation::Offload && segment.flags.contains(Flags::PSH)
    }

    /// Applies the eighth check: handles the FIN, at once or when the data before it has arrived.
    fn handle_fin(&mut self, now: Nanos, segment: &Segment, arrival: &mut Arrival) {
        let Some(received) = &mut self.received else {
            return;
        };
        let fin = segment.seq + segment.payload.len();
        let is_in_window = fin.is_at_or_before(self.receive_window.edge());
        if segment.flags.contains(Flags::FIN) && is_in_window {
            received.fin_received(fin);
        }
        if !received.take_fin() {
            return;
        }
        arrival.fin = true;
        self.acks.request(Due::Now);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.wait_for_the_last(now),
            _ => {}
        }
    }

    /// Enters TIME-WAIT.
    fn wait_for_the_last(&mut self, now: Nanos) {
        self.state = State::TimeWait;
        self.timers.cancel_all();
        self.timers
            .arm(Timer::TimeWait, now, now + self.config.time_wait);
    }

    /// Returns for how long the subflow has been in TIME-WAIT at `now`. Returns `None` in other
    /// states, or if the subflow uses no timestamps, which distinguish its segments from those of a
    /// later connection with the same addresses and ports.
    pub(crate) fn time_wait_age(&self, now: Nanos) -> Option<Nanos> {
        let until = self.timers.deadline(Timer::TimeWait)?;
        let has_timestamps = self.timestamps.enabled;
        has_timestamps.then(|| now.saturating_sub(until.saturating_sub(self.config.time_wait)))
    }

    /// Ends TIME-WAIT early. Has no effect in other states.
    pub(crate) fn end_time_wait(&mut self) {
        if self.state == State::TimeWait {
            self.rest = Rest::Unknown;
            self.end(CloseReason::Finished);
        }
    }

    /// Closes the subflow for `reason` and stops all timers. Unacknowledged data stays readable in
    /// its queues.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.closed = Some(reason);
        self.timers.cancel_all();
    }
}
