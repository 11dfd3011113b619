//! Selection and construction of the next segment.

use super::ack_policy::{Due, Owed};
use super::frto::{Frto, NEW_SEGMENTS};
use super::handshake::TIMESTAMPS_LEN;
use super::reassembly::Reassembly;
use super::recovery::Phase;
use super::rest::Rest;
use super::timers::Timer;
use super::tlp::Probe;
use super::{Chunk, Control, Fin, Options, Outgoing, SegmentKind, State, Subflow, timestamps};
use crate::cc::Window;
use crate::payload::Payload;
use crate::seq::SeqNr;
use crate::time::Nanos;
use crate::wire::{Flags, MAX_OPTIONS_LEN, MptcpOptions, SackBlocks, Segment, TcpOptions};

/// The context in which a segment is built.
pub(super) struct Output<'a, 'b> {
    pub now: Nanos,
    /// Bytes that the receive buffer can take beyond what is acknowledged.
    pub available: u64,
    pub control: &'a mut Control<'b>,
    pub options: &'a mut dyn Options,
}

/// The decisions about a segment. The header fields that follow from the state are filled in last.
struct Draft {
    kind: SegmentKind,
    seq: SeqNr,
    flags: Flags,
    offset: Option<u64>,
    payload: Payload,
    is_retransmission: bool,
}

impl Draft {
    fn without_data(kind: SegmentKind, seq: SeqNr, flags: Flags) -> Self {
        Self {
            kind,
            seq,
            flags,
            offset: None,
            payload: Payload::EMPTY,
            is_retransmission: false,
        }
    }
}

/// The new data that can be sent now.
enum Sendable {
    /// A segment of that many bytes, and whether the FIN goes with it.
    Segment(u32, bool),
    /// There is nothing to send.
    Nothing,
    /// The peer's window is too small.
    WindowClosed,
}

impl Subflow {
    pub(super) fn transmit(&mut self, output: &mut Output<'_, '_>) -> Option<Segment> {
        let draft = self.draft(output)?;
        Some(self.finish(draft, output))
    }

    /// Returns the next segment, if there is one, and records it as sent.
    fn draft(&mut self, output: &mut Output<'_, '_>) -> Option<Draft> {
        if std::mem::take(&mut self.reset_due) {
            return Some(self.draft_reset());
        }
        if let Some(seq) = self.reset_reply.take() {
            return Some(draft_reset_reply(seq));
        }
        match self.state {
            State::SynSent | State::SynReceived if self.handshake.is_due => {
                Some(self.draft_syn(output.now))
            }
            State::Closed | State::SynSent => {
                self.begin_rest(output.available);
                None
            }
            _ => self.transmit_synchronized(output),
        }
    }

    fn transmit_synchronized(&mut self, output: &mut Output<'_, '_>) -> Option<Draft> {
        if self.acks.due == Due::Alone || (self.acks.due == Due::Now && self.has_blocks()) {
            return Some(self.draft_ack(self.ack_seq()));
        }
        if std::mem::take(&mut self.probe_due) {
            return Some(self.draft_ack(self.una - 1));
        }
        if !self.rest.lacks_data()
            && let Some(draft) = self.transmit_data(output)
        {
            return Some(draft);
        }
        let is_due = self.acks.due == Due::Now
            || (self.sends_window_updates && self.is_window_update_due(output.available));
        self.begin_rest(output.available);
        is_due.then(|| self.draft_ack(self.ack_seq()))
    }

    /// Records that there is nothing to send after the current segment.
    fn begin_rest(&mut self, receive_window_bytes: u64) {
        if !self.timers.is_armed(Timer::Pacing) {
            self.rest = Rest::Nothing {
                receive_window_bytes,
            };
        }
    }

    /// Returns whether there are SACK blocks to report.
    fn has_blocks(&self) -> bool {
        self.has_sack && self.received.as_ref().is_some_and(Reassembly::has_blocks)
    }

    /// Sets whether the subflow itself sends window updates when they are due
    /// ([`Subflow::is_window_update_due`]). The default is true, which plain TCP needs. If false,
    /// the connection sends them.
    pub fn set_sends_window_updates(&mut self, on: bool) {
        self.sends_window_updates = on;
    }

    /// Sets whether the application waits for room in the send buffer. While it does, a congestion
    /// window that is not filled keeps its size.
    pub fn set_writer_waits(&mut self, on: bool) {
        self.writer_waits = on;
    }

    /// Sets whether an acknowledgment that is not yet due ([`Subflow::owed`]) waits for
    /// [`Subflow::acknowledge_now`] or the timer. If false, which is the default, it is sent at
    /// once.
    pub fn set_waits_for_reader(&mut self, on: bool) {
        self.waits_for_reader = on;
    }

    /// Ends the quick ACKs after a start or a pause. The next segments can be acknowledged together
    /// or after a delay.
    pub fn end_quick_acks(&mut self) {
        self.acks.end_quick_acks();
    }

    /// Makes an acknowledgment of received data due at once. Data that can be sent carries it.
    pub fn acknowledge_now(&mut self) {
        self.rest = self.rest.without_acks();
        self.acks.request(Due::Now);
    }

    /// Returns what was received in order since the last acknowledgment and may be acknowledged
    /// before the timer expires.
    pub fn owed(&self) -> Owed {
        self.acks.owed()
    }

    /// Returns whether a receive window of `available` bytes is, up to rounding, at least as large
    /// as the one offered last.
    pub fn keeps_window(&self, available: u64) -> bool {
        self.receive_window.is_kept(available)
    }

    /// Returns whether to send a window update for a receive window of `available` bytes. Three
    /// conditions must hold: the window that the peer knows is at most half of `available`; it is
    /// at most half of the largest window so far; and `available` exceeds it by a segment or by
    /// half the largest window, whichever is less. After the peer's FIN, no update is due.
    pub fn is_window_update_due(&self, available: u64) -> bool {
        let mss = self.segment_bytes;
        let is_open = matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        );
        let next = self.received.as_ref().map(|received| received.next());
        is_open && next.is_some_and(|next| self.receive_window.is_update_due(next, available, mss))
    }

    /// Returns the next segment with data or a FIN, new or retransmitted.
    fn transmit_data(&mut self, output: &mut Output<'_, '_>) -> Option<Draft> {
        if matches!(
            self.state,
            State::SynReceived | State::FinWait2 | State::TimeWait
        ) {
            return None;
        }
        self.transmit_unbidden(output)
            .or_else(|| self.transmit_within_window(output))
    }

    /// Returns a segment that a timer requested, regardless of the windows.
    fn transmit_unbidden(&mut self, output: &mut Output<'_, '_>) -> Option<Draft> {
        if std::mem::take(&mut self.forced_retransmission) && !self.flight.is_empty() {
            return Some(self.retransmit(0, output));
        }
        if !std::mem::take(&mut self.loss_probe_due) {
            return None;
        }
        let (draft, is_retransmission) = match self.sendable() {
            Sendable::Segment(len, fin) => (self.send_new(len, fin, output), false),
            _ => (
                self.retransmit(self.flight.last_unreported()?, output),
                true,
            ),
        };
        self.recovery.probe = Some(Probe {
            end: self.nxt,
            is_retransmission,
        });
        self.timers.cancel(Timer::LossProbe);
        Some(draft)
    }

    fn transmit_within_window(&mut self, output: &mut Output<'_, '_>) -> Option<Draft> {
        let now = output.now;
        self.pacing.set_rate(output.control.pacing_rate(now));
        if let Some(at) = self.pacing.blocked_until(now) {
            self.timers.arm(Timer::Pacing, now, at);
            return None;
        }
        self.timers.cancel(Timer::Pacing);
        if self.recovery.frto == Frto::NewData {
            let draft = self.transmit_in_place_of_lost(output);
            // Without new data, or without a window for it, the timeout is handled like any other.
            if draft.is_some() || self.nxt.is_after(self.recovery.point) {
                return draft;
            }
            self.recovery.frto = Frto::Off;
        }
        if let Some(index) = self.flight.next_lost() {
            let record = self.flight.record(index);
            let len = record.end().distance_from(record.seq) as u32;
            let goes = self.has_room(len, output.control) && !self.is_held_back(output, true);
            return goes.then(|| self.retransmit(index, output));
        }
        match self.sendable() {
            Sendable::Segment(len, fin) => self.transmit_new(len, fin, output),
            Sendable::Nothing => {
                self.record_application_limited(output.control);
                None
            }
            Sendable::WindowClosed => {
                self.arm_persist(now);
                None
            }
        }
    }

    /// Sends new data as in step 2b of RFC 5682.
    fn transmit_in_place_of_lost(&mut self, output: &mut Output<'_, '_>) -> Option<Draft> {
        let sent = self.nxt.distance_from(self.recovery.point) as u32;
        match self.sendable() {
            Sendable::Segment(len, fin) if sent < NEW_SEGMENTS * self.segment_bytes => {
                self.transmit_new(len, fin, output)
            }
            _ => None,
        }
    }

    fn transmit_new(&mut self, len: u32, fin: bool, output: &mut Output<'_, '_>) -> Option<Draft> {
        self.restart_after_idle(output.now, output.control);
        let has_room = self.has_room(len, output.control);
        // A FIN without data does not wait for the congestion window.
        if !has_room && len > 0 {
            self.record_cwnd_usage(true, output);
            return None;
        }
        if self.is_held_back(output, false) {
            return None;
        }
        if len > 0 && !self.joins_packet(output) {
            if self.is_cwnd_smaller(output.control.window()) {
                self.record_cwnd_usage(true, output);
            }
            return None;
        }
        self.sends_what_fits = false;
        let draft = self.send_new(len, fin, output);
        let is_limited = !self.has_room(self.segment_bytes, output.control);
        self.record_cwnd_usage(is_limited, output);
        Some(draft)
    }

    fn record_cwnd_usage(&mut self, is_limited: bool, output: &mut Output<'_, '_>) {
        let outstanding = self.flight.outstanding_bytes();
        let usage = &mut self.cwnd_usage;
        usage.record(is_limited, outstanding, self.una, self.nxt);
        if usage.is_window_limited(output.control.window()) {
            usage.restart(output.now);
        }
        let may_shrink = self.config.restart_after_idle
            && self.recovery.phase == Phase::Open
            && !self.writer_waits
            && !output.control.owns_window();
        if may_shrink && let Some(used) = usage.take_unfilled(output.now, self.rtt.rto()) {
            self.shrink_unused(output.control.window_mut(), used);
        }
    }

    /// If the window was not filled, reduces it by half of its unused part, because the path has
    /// not confirmed that part recently (RFC 2861, section 3.1; `tcp_cwnd_application_limited`).
    fn shrink_unused(&self, window: &mut Window, used_bytes: u32) {
        let initial = self.config.initial_window.bytes(window.mss_bytes);
        let used = f64::from(used_bytes.max(initial));
        if used < window.cwnd_bytes {
            remember_threshold(window);
            window.cwnd_bytes = (window.cwnd_bytes + used) / 2.0;
        }
    }

    /// Returns whether the congestion window has room for `bytes` more. This is always the case if
    /// nothing is in flight.
    fn has_room(&self, bytes: u32, control: &Control<'_>) -> bool {
        let pipe = self.pipe_bytes();
        pipe == 0 || f64::from(pipe) + f64::from(bytes) <= control.window().cwnd_bytes
    }

    /// Returns how many bytes the peer's window allows beyond the data already sent.
    pub(super) fn usable_window(&self) -> u32 {
        let edge = self.una + self.peer_window.bytes;
        edge.distance_from(self.nxt).max(0) as u32
    }

    /// Returns the new data that the peer's window allows, and avoids the silly window syndrome
    /// (RFC 9293, section 3.8.6.2.1): a full-sized segment, all queued data, half the largest
    /// window, or what fits after the persist timer expired.
    fn sendable(&self) -> Sendable {
        let mss = self.segment_bytes;
        let usable = self.usable_window();
        let next = self.queue.next_len(mss);
        if next == 0 {
            return match self.fin {
                Fin::Queued if usable > 0 => Sendable::Segment(0, true),
                Fin::Queued => Sendable::WindowClosed,
                _ => Sendable::Nothing,
            };
        }
        if next <= usable && self.waits_for_more(next) {
            return Sendable::Nothing;
        }
        if next <= usable {
            let is_last = next == self.queue.bytes() && next < usable;
            return Sendable::Segment(next, is_last && self.fin == Fin::Queued);
        }
        let is_worth_it = usable >= (self.peer_window.largest / 2).max(1) || self.sends_what_fits;
        if usable > 0 && is_worth_it {
            return Sendable::Segment(usable, false);
        }
        Sendable::WindowClosed
    }

    /// Returns whether Nagle's algorithm holds back the next segment (RFC 9293, section 3.7.4). A
    /// segment that ends at a mapping boundary is not held back, because it cannot grow.
    fn waits_for_more(&self, next_bytes: u32) -> bool {
        let can_grow = next_bytes == self.queue.bytes() && next_bytes < self.segment_bytes;
        self.config.nagle && can_grow && self.fin == Fin::None && !self.flight.is_empty()
    }

    /// Arms the persist timer if no acknowledgment is expected that could open the window (RFC
    /// 9293, section 3.8.6.1).
    fn arm_persist(&mut self, now: Nanos) {
        if self.flight.is_empty() && !self.timers.is_armed(Timer::Persist) {
            let at = now + self.rtt.backed_off(self.persist_backoff);
            self.timers.arm(Timer::Persist, now, at);
        }
    }

    fn record_application_limited(&mut self, control: &Control<'_>) {
        if self.small_queue.is_empty() && self.has_room(self.segment_bytes, control) {
            self.deliveries.application_limited(self.pipe_bytes());
        }
    }

    /// Reduces the window after a pause: halves it for each RTO in the pause, down to the initial
    /// window, as in Linux (RFC 5681, section 4.1).
    fn restart_after_idle(&mut self, now: Nanos, control: &mut Control<'_>) {
        let idle = now - self.last_sent_at;
        let rto = self.rtt.rto();
        if !self.config.restart_after_idle || !self.flight.is_empty() || idle <= rto {
            return;
        }
        if !control.owns_window() {
            self.decay(control.window_mut(), ((idle - 1) / rto).min(64) as i32);
        }
        self.last_sent_at = now;
        self.cwnd_usage.restart(now);
        control.restarted_after_idle(now, idle);
    }

    /// Halves the window `times` times, down to the initial window.
    fn decay(&self, window: &mut Window, times: i32) {
        let cwnd = window.cwnd_bytes;
        let initial = f64::from(self.config.initial_window.bytes(window.mss_bytes));
        remember_threshold(window);
        window.cwnd_bytes = (cwnd * 0.5f64.powi(times)).max(initial.min(cwnd));
    }

    fn send_new(&mut self, len: u32, fin: bool, output: &mut Output<'_, '_>) -> Draft {
        let chunk = match len {
            0 => Chunk::default(),
            _ => self.queue.take(len),
        };
        let sent = self.deliveries.sent(output.now, self.flight.is_empty());
        let seq = self.nxt;
        self.nxt = seq + len + u32::from(fin);
        self.counters.sent_bytes += u64::from(len);
        let index = self.flight.push(output.now, &chunk, seq, fin, sent);
        if self.queue.is_empty() {
            self.flight.mark_pushed(index);
        }
        if fin {
            self.fin_sent();
        }
        self.timers.cancel(Timer::Persist);
        let mut draft = self.send_record(index, chunk, false, output);
        // The record keeps no PSH, because a retransmission is not part of the super-packet.
        if self.offload.take() {
            draft.flags |= Flags::PSH;
        }
        self.arm_loss_probe(output.now);
        draft
    }

    fn fin_sent(&mut self) {
        self.fin = Fin::Sent;
        self.state = match self.state {
            State::CloseWait => State::LastAck,
            _ => State::FinWait1,
        };
    }

    fn retransmit(&mut self, index: usize, output: &mut Output<'_, '_>) -> Draft {
        let sent = self.deliveries.sent(output.now, false);
        self.flight.retransmitted(output.now, index, sent);
        let record = self.flight.record(index);
        self.counters.retransmitted_segments += 1;
        self.counters.retransmitted_bytes += u64::from(record.payload_len());
        self.recovery
            .retransmitted(record.end(), timestamps::clock(output.now));
        let chunk = self.flight.chunk(index);
        self.send_record(index, chunk, true, output)
    }

    fn send_record(
        &mut self,
        index: usize,
        chunk: Chunk,
        is_retransmission: bool,
        output: &mut Output<'_, '_>,
    ) -> Draft {
        let record = self.flight.record(index);
        let (seq, fin, is_pushed) = (record.seq, record.has_fin(), record.is_pushed());
        let len = chunk.payload.len();
        let pushing = match is_pushed && len > 0 {
            true => Flags::PSH,
            false => Flags::NONE,
        };
        let draft = Draft {
            kind: if len > 0 {
                SegmentKind::Data
            } else {
                SegmentKind::Fin
            },
            seq,
            flags: self.data_flags(len, fin, is_retransmission) | pushing,
            offset: (len > 0).then_some(chunk.offset),
            payload: chunk.payload,
            is_retransmission,
        };
        self.account(output, len, fin);
        draft
    }

    fn data_flags(&mut self, len: u32, fin: bool, is_retransmission: bool) -> Flags {
        let mut flags = Flags::ACK | self.ecn.mark(len > 0 && !is_retransmission);
        if fin {
            flags |= Flags::FIN;
        }
        flags
    }

    /// Updates the state after data was sent: the timer (RFC 6298, section 5.1), pacing and PRR.
    fn account(&mut self, output: &mut Output<'_, '_>, len: u32, fin: bool) {
        let now = output.now;
        self.last_sent_at = now;
        if !self.timers.is_armed(Timer::Retransmission) {
            let at = now + self.rtt.backed_off(self.backoff);
            self.timers.arm(Timer::Retransmission, now, at);
        }
        self.recovery.prr.out += u64::from(len + u32::from(fin));
        self.pacing.sent(now, len);
        self.report_to(output.control.window_mut());
        output.control.segment_sent(now, len);
    }

    /// Returns the sequence number of a segment without data. A number beyond a window that shrank
    /// would not be acceptable.
    fn ack_seq(&self) -> SeqNr {
        self.nxt
            .min(self.una + self.peer_window.bytes)
            .max(self.una)
    }

    fn draft_ack(&mut self, seq: SeqNr) -> Draft {
        let flags = Flags::ACK | self.ecn.mark(false);
        Draft::without_data(SegmentKind::Ack, seq, flags)
    }

    fn draft_reset(&self) -> Draft {
        let flags = Flags::RST | Flags::ACK;
        Draft::without_data(SegmentKind::Reset, self.nxt, flags)
    }

    fn draft_syn(&mut self, now: Nanos) -> Draft {
        let is_answer = self.state == State::SynReceived;
        let (kind, mut flags) = match is_answer {
            true => (SegmentKind::SynAck, Flags::SYN | Flags::ACK),
            false => (SegmentKind::Syn, Flags::SYN),
        };
        flags |= self.syn_ecn_flags(is_answer);
        self.handshake.is_due = false;
        self.handshake.transmissions += 1;
        self.handshake.sent_at = now;
        let at = now + self.handshake.timeout(&self.config, self.state);
        self.timers.arm(Timer::Retransmission, now, at);
        let mut draft = Draft::without_data(kind, self.iss, flags);
        draft.is_retransmission = self.handshake.transmissions > 1;
        draft
    }

    /// Builds the segment with its header and options.
    fn finish(&mut self, draft: Draft, output: &mut Output<'_, '_>) -> Segment {
        let is_syn = draft.flags.contains(Flags::SYN);
        let mut options = self.own_options(&draft, output.now);
        let total = self.options_limit(&draft);
        options.mptcp = self.poll_options(&draft, total - options.wire_len(), output.options);
        if draft.kind == SegmentKind::Ack && options.wire_len() > total {
            // An announcement with a port needs the space of the timestamps. Linux does the same
            // since 7.2 (`net.mptcp.add_addr_v6_port_drop_ts`).
            options.timestamps = None;
        }
        if !is_syn && draft.flags.contains(Flags::ACK) && self.has_blocks() {
            options.sack = self.take_blocks(total - options.wire_len());
        }
        let ack = self.received.as_ref().map(|received| received.next());
        let window = self.window_field(is_syn, output.available);
        self.rest.cover(u64::from(self.offered_window_bytes()));
        self.counters.sent_segments += 1;
        if draft.flags.contains(Flags::ACK) {
            self.acknowledged(ack);
        }
        Segment {
            source_port: self.ports.0,
            destination_port: self.ports.1,
            seq: draft.seq,
            ack: ack
                .filter(|_| draft.flags.contains(Flags::ACK))
                .unwrap_or_default(),
            flags: draft.flags,
            window,
            options,
            payload: draft.payload,
        }
    }

    fn own_options(&self, draft: &Draft, now: Nanos) -> TcpOptions {
        match draft.kind {
            SegmentKind::Syn => self.syn_options(now, false),
            SegmentKind::SynAck => self.syn_options(now, true),
            _ => TcpOptions {
                timestamps: self.timestamps.option(now),
                ..TcpOptions::default()
            },
        }
    }

    /// Returns the bytes of options that a segment may have: what the data leaves of a packet. A
    /// record from a time when fewer bytes were reserved still leaves room for timestamps.
    fn options_limit(&self, draft: &Draft) -> usize {
        let left = u32::from(self.mss).saturating_sub(draft.payload.len());
        let left = if draft.payload.is_empty() {
            MAX_OPTIONS_LEN
        } else {
            left.max(TIMESTAMPS_LEN) as usize
        };
        left.min(MAX_OPTIONS_LEN) / 4 * 4
    }

    fn poll_options(
        &self,
        draft: &Draft,
        room_bytes: usize,
        options: &mut dyn Options,
    ) -> MptcpOptions {
        options.for_segment(&Outgoing {
            kind: draft.kind,
            subflow_seq: draft.seq.distance_from(self.iss) as u32,
            offset: draft.offset,
            payload: &draft.payload,
            is_retransmission: draft.is_retransmission,
            room_bytes,
        })
    }

    /// Removes and returns as many SACK blocks as fit, at four bytes and eight for each.
    fn take_blocks(&mut self, room_bytes: usize) -> SackBlocks {
        let limit = room_bytes.saturating_sub(4) / 8;
        match &mut self.received {
            Some(received) if limit > 0 => received.take_blocks(limit),
            _ => SackBlocks::new(),
        }
    }

    fn window_field(&mut self, is_syn: bool, available: u64) -> u16 {
        let mss = self.segment_bytes;
        let next = self.received.as_ref().map(|received| received.next());
        match next {
            Some(next) if !is_syn => self.receive_window.field(next, available, mss),
            next => self
                .receive_window
                .syn_field(next.unwrap_or_default(), available),
        }
    }

    fn acknowledged(&mut self, ack: Option<SeqNr>) {
        self.acks.sent();
        self.timers.cancel(Timer::DelayedAck);
        if let Some(ack) = ack {
            self.timestamps.last_ack_sent = ack;
        }
    }
}

/// Answers an acknowledgment of data never sent during the handshake (RFC 9293, section 3.10.7.3).
fn draft_reset_reply(seq: SeqNr) -> Draft {
    Draft::without_data(SegmentKind::Reset, seq, Flags::RST)
}

/// Raises ssthresh to three quarters of a window that decays (`tcp_current_ssthresh`).
fn remember_threshold(window: &mut Window) {
    if window.ssthresh_bytes.is_finite() {
        window.ssthresh_bytes = window.ssthresh_bytes.max(0.75 * window.cwnd_bytes);
    }
}
