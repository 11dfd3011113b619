//! Assignment of data to subflows, and the segments to send.

use super::session::SubflowOptions;
use super::subflow_context::SubflowContext;
use super::{Connection, Mode};
use crate::failure::{FailedAfter, Reinjection};
use crate::pm::FourTuple;
use crate::sched::{Decision, Range, Reason, View, penalized, retransmit_opportunistically};
use crate::subflow::{Chunk, Control};
use crate::time::Nanos;
use crate::wire::{Packet, Segment};

/// Size of the pieces in which mainline keeps the application's data (`SKB_FRAG_PAGE_ORDER`).
const PAGE_BYTES: u64 = 32_768;

impl Connection {
    /// Returns the next packet to send at `now`, or `None` if there is nothing to send. Assigns
    /// written data to subflows with the scheduler first. Call it until it returns `None`.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        self.acknowledge_reading();
        loop {
            self.advance_close(now);
            self.tune_receive_buffer(now);
            self.schedule(now);
            // Polls the subflows in turn, starting with the one that sent last.
            let count = self.subflows.len();
            let first = self.next_to_transmit.checked_rem(count).unwrap_or(0);
            let room = self.receive.window_bytes();
            for subflow in (first..count).chain(0..first) {
                // A subflow offers at most `room`, so its exact window need not be computed.
                if self.subflows.rests(subflow, room) {
                    continue;
                }
                let receive_window = self.window_offered_on(subflow);
                if self.subflows.rests(subflow, receive_window) {
                    continue;
                }
                if let Some(segment) = self.transmit(now, subflow, receive_window) {
                    return Some(self.packet(subflow, segment));
                }
                self.subflows.record_rest(subflow);
            }
            self.reap_closed(now);
            // Data of a subflow that was just removed is reinjected at once.
            if !self.is_schedulable {
                break;
            }
        }
        self.watch(now);
        self.watch_data_fin(now);
        self.subflows.record_deadlines();
        None
    }

    /// Records that a segment of a subflow with `payload_bytes` bytes of payload waits in the host
    /// before its first link.
    pub(crate) fn waits_in_host(&mut self, four: FourTuple, payload_bytes: u32) {
        if let Some(context) = self.subflows.with_ends(four) {
            context.tcp.waits_in_host(payload_bytes);
        }
    }

    /// Records that a segment that waited in the host has left.
    pub(crate) fn departed(&mut self, four: FourTuple, payload_bytes: u32) {
        let Some(subflow) = self
            .subflows
            .iter()
            .position(|context| context.four == four)
        else {
            return;
        };
        let (context, windows) = self.subflows.with_windows(subflow);
        self.is_schedulable |= context.tcp.departed(payload_bytes, &windows[subflow]);
    }

    fn packet(&mut self, subflow: usize, segment: Segment) -> Packet {
        self.next_to_transmit = subflow;
        self.subflows.record_rest(subflow);
        let context = &self.subflows[subflow];
        Packet {
            source: context.four.local.ip(),
            destination: context.four.remote.ip(),
            ecn: context.tcp.transmit_ecn(),
            via: context.via.as_deref().cloned().unwrap_or_default(),
            segment,
        }
    }

    fn transmit(&mut self, now: Nanos, subflow: usize, receive_window: u64) -> Option<Segment> {
        if self.session.owes_first_mapping() {
            self.map_first_burst(subflow);
        }
        let owed_mapping = self.session.owes_infinite_mapping;
        let sends_window_updates = !self.tells_doubled_window();
        let writer_waits = self.send.is_awaited();
        let (context, windows) = self.subflows.with_windows(subflow);
        let waiting_signals = context.signals.pending.len();
        let mut control = Control::new(self.congestion_control.as_mut(), windows, subflow);
        let mut options = SubflowOptions {
            session: &mut self.session,
            signals: &mut context.signals,
            is_initial: context.is_initial,
            phase: &context.life,
        };
        context.tcp.set_sends_window_updates(sends_window_updates);
        context.tcp.set_writer_waits(writer_waits);
        let segment = context
            .tcp
            .poll_transmit(now, receive_window, &mut control, &mut options);
        if segment.is_none() {
            return segment;
        }
        // The segment had no room for the DATA_FIN, so another ACK carries it.
        if context.signals.owes_bare_fin(&self.session) {
            context.tcp.send_ack();
        }
        if context.signals.pending.len() < waiting_signals {
            context.keep_signalling(now);
        }
        self.receive
            .offer(u64::from(context.tcp.offered_window_bytes()));
        self.record_sent_window(subflow);
        if owed_mapping && !self.session.owes_infinite_mapping {
            self.reserve_options();
        }
        segment
    }

    /// Gives one mapping to the data that the subflow can send before the first answer.
    fn map_first_burst(&mut self, subflow: usize) {
        let (context, windows) = self.subflows.with_windows(subflow);
        if context.tcp.end_of_data_with(0).is_none() {
            return;
        }
        let window = windows[subflow].cwnd_bytes as u64;
        let len = self.send.assigned().min(window).min(u64::from(u16::MAX));
        self.session
            .map_first_burst(&self.send.slice(Range { start: 0, len }));
        context.tcp.end_segment_after(len as u32);
    }

    /// Calls the scheduler until it has no further decision.
    fn schedule(&mut self, now: Nanos) {
        if !std::mem::take(&mut self.is_schedulable) || self.session.mode == Mode::Negotiating {
            return;
        }
        let mut asked = self.question();
        while let Some((reason, head)) = asked {
            let decision = self.decide(now, reason, head);
            match decision {
                Decision::Assign { subflow, bytes } => {
                    let len = head.len.min(u64::from(bytes));
                    self.assign(subflow, Range { len, ..head }, reason);
                    if reason == Reason::MetaTimeout && len < head.len {
                        self.reinjections.end_repetition();
                    }
                }
                Decision::AssignRange { subflow, range } => self.assign(subflow, range, reason),
                Decision::Penalize { subflow } => self.penalize(subflow),
                // Other data need not wait for the decision to send the oldest data again.
                Decision::Wait if reason == Reason::MetaTimeout => {
                    self.reinjections.end_repetition();
                }
                Decision::Wait => break,
            }
            asked = self.question();
        }
        self.probe_closed_window();
    }

    /// Assigns one byte to a subflow if the window is closed and nothing is unacknowledged. The
    /// persist timer of the subflow then probes until the window opens, because a window update may
    /// be lost (RFC 9293, section 3.8.6.1).
    fn probe_closed_window(&mut self) {
        let is_waiting = self.send.written() > self.send.assigned();
        let is_closed = self.send_edge <= self.send.assigned();
        if !is_waiting || !is_closed || self.send.acked() < self.send.assigned() {
            return;
        }
        if let Some(subflow) = self.subflows.iter().position(SubflowContext::is_healthy) {
            let start = self.send.assigned();
            self.assign(subflow, Range { start, len: 1 }, Reason::NewData);
        }
    }

    /// Returns the reason and the data of the next call to the scheduler, if there is any.
    fn question(&mut self) -> Option<(Reason, Range)> {
        while let Some(range) = self.reinjections.front() {
            let part = self.send.unacked_part(range);
            if part.len > 0 {
                return Some((Reason::Reinject, part));
            }
            self.reinjections.pop();
        }
        if let Some(piece) = self.next_repeated() {
            return Some((Reason::MetaTimeout, piece));
        }
        let unassigned = self.send.written() - self.send.assigned();
        let room = self.send_edge.saturating_sub(self.send.assigned());
        let is_full = self.send.free_bytes() == 0;
        let new = Range {
            start: self.send.assigned(),
            len: unassigned,
        };
        if unassigned > 0 && (room >= unassigned || self.takes_a_segment(room)) {
            return Some((Reason::NewData, new));
        }
        match self.oldest_unacked() {
            None if unassigned > 0 && room > 0 => Some((Reason::NewData, new)),
            _ if self.session.mode == Mode::Plain => None,
            oldest if unassigned > 0 => oldest.map(|range| (Reason::WindowBlocked, range)),
            oldest if is_full => oldest.map(|range| (Reason::BufferBlocked, range)),
            oldest => oldest.map(|range| (Reason::NothingNew, range)),
        }
    }

    /// Returns whether `room_bytes` is enough for a full-sized segment of some subflow.
    fn takes_a_segment(&self, room_bytes: u64) -> bool {
        let mut windows = self.subflows.windows().iter();
        windows.any(|window| u64::from(window.mss_bytes) <= room_bytes)
    }

    /// Returns the first assigned and unacknowledged data. It ends with the shortest segment or
    /// queued chunk that contains its first byte.
    pub(super) fn oldest_unacked(&self) -> Option<Range> {
        let start = self.send.acked();
        if start == self.send.assigned() {
            return None;
        }
        let ends = self
            .subflows
            .iter()
            .filter_map(|context| context.tcp.end_of_data_with(start));
        let end = ends.min().unwrap_or(self.send.assigned());
        (end > start).then_some(Range {
            start,
            len: end - start,
        })
    }

    /// Returns the next piece to send again after the connection's timer has expired, if any.
    fn next_repeated(&mut self) -> Option<Range> {
        let repetition = self.reinjections.take_repetition()?;
        let piece = self.repeated(repetition.from)?;
        let next = piece.start + piece.len;
        self.reinjections.repeat(next, repetition.pieces - 1);
        Some(piece)
    }

    /// Returns the data from `start` on to send again after the connection's timer has expired.
    /// With mainline, that is the rest of a page of the application's data, as far as it was
    /// assigned (`__mptcp_retrans`).
    fn repeated(&self, start: u64) -> Option<Range> {
        if self.config.behaviour.failed_after == FailedAfter::FirstRto {
            return self.oldest_unacked().filter(|oldest| oldest.start >= start);
        }
        let start = start.max(self.send.acked());
        let end = (start / PAGE_BYTES + 1) * PAGE_BYTES;
        let len = end.min(self.send.assigned()) - start;
        (len > 0).then_some(Range { start, len })
    }

    fn decide(&mut self, now: Nanos, reason: Reason, head: Range) -> Decision {
        let view = View {
            now,
            reason,
            subflows: self.subflows.views(reason, head),
            head,
            acked_bytes: self.send.acked(),
            written_bytes: self.send.written(),
            assigned_bytes: self.send.assigned(),
            window_bytes: self.send_edge.saturating_sub(self.send.acked()),
        };
        let behaviour = &self.config.behaviour;
        let is_blocked = matches!(reason, Reason::WindowBlocked | Reason::BufferBlocked);
        if is_blocked && behaviour.reinjection == Reinjection::Opportunistic {
            let decision = retransmit_opportunistically(&view, behaviour.subflow_order);
            if decision != Decision::Wait {
                return decision;
            }
        }
        self.scheduler.next(&view)
    }

    fn assign(&mut self, subflow: usize, range: Range, reason: Reason) {
        let range = match self.session.mode {
            // Without mappings, data assigned twice would be twice in the stream.
            Mode::Plain => self.send.unassigned_part(range),
            _ => self.send.unacked_part(range),
        };
        if range.len == 0 {
            return;
        }
        let new_bytes = (range.start + range.len).saturating_sub(self.send.assigned());
        self.send.assign(new_bytes);
        if range.len > new_bytes {
            self.counters.get_or_insert_default().reinjected_bytes += range.len - new_bytes;
        }
        if reason == Reason::Reinject {
            self.reinjections.discard(range);
        }
        let payload = self.send.slice(range);
        self.subflows[subflow].tcp.push(Chunk {
            offset: range.start,
            payload,
        });
    }

    /// Halves the congestion window of a subflow that blocks the others (Raiciu et al., NSDI 2012,
    /// section 4.2).
    fn penalize(&mut self, subflow: usize) {
        let window = &mut self.subflows.with_windows(subflow).1[subflow];
        let mss = f64::from(window.mss_bytes);
        let (cwnd, ssthresh) = penalized(
            window.cwnd_packets() as u32,
            (window.ssthresh_bytes / mss) as u32,
        );
        window.cwnd_bytes = mss * f64::from(cwnd);
        if ssthresh < u32::MAX {
            window.ssthresh_bytes = mss * f64::from(ssthresh);
        }
        self.counters.get_or_insert_default().penalizations += 1;
    }
}
