//! Handling of acknowledgments at the sender (RFC 9293, section 3.10.7.4, fifth check).

use super::delivery_rate::Delivery;
use super::frto::Evidence;
use super::recovery::Phase;
use super::timers::Timer;
use super::{Arrival, Control, Subflow};
use crate::cc::{Acked, DeliveryRate};
use crate::seq::SeqNr;
use crate::time::Nanos;
use crate::wire::{Flags, MptcpOption, SackBlock, Segment};

/// Describes what an acknowledgment changed.
pub(super) struct News {
    pub advanced: bool,
    /// Bytes that left the network.
    delivered: u32,
    rtt: Option<Nanos>,
    rate: Option<DeliveryRate>,
    /// Whether the acknowledgment carried a DSACK block, which reports a duplicate segment.
    has_dsack: bool,
    /// Whether this is a duplicate acknowledgment (RFC 5681, section 2): it acknowledges and SACKs
    /// nothing new, reports no DSACK, does not change the window, and carries no data, no FIN and
    /// no MPTCP option other than DSS.
    pub is_duplicate: bool,
    /// Evidence of whether the last timeout was spurious.
    pub evidence: Evidence,
}

impl Subflow {
    /// Returns whether the acknowledgment number of `segment` is possible (RFC 9293, section
    /// 3.10.7.4; RFC 5961, section 5). Otherwise makes a challenge acknowledgment due.
    pub(super) fn is_ack_valid(&mut self, now: Nanos, segment: &Segment) -> bool {
        let oldest = self.una - self.peer_window.largest;
        let is_valid = segment.ack.is_at_or_before(self.nxt) && segment.ack.is_at_or_after(oldest);
        if !is_valid {
            self.acks.challenge(now);
        }
        is_valid
    }

    /// Processes the acknowledgment of `segment`, which [`Subflow::is_ack_valid`] has accepted.
    /// Updates the flight, the RTT and the recovery, grows or reduces the window through `control`,
    /// and sets the fields of `arrival`.
    pub(super) fn handle_ack(
        &mut self,
        now: Nanos,
        segment: &Segment,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        self.probes_unanswered = 0;
        // A late acknowledgment still shows what arrived beyond it. Linux handles it the same way.
        let is_late = segment.ack.is_before(self.una);
        if is_late && segment.options.sack.is_empty() {
            return;
        }
        if self.acknowledges_nothing(segment) {
            let before = self.peer_window.bytes;
            self.update_window(segment);
            arrival.is_all_data = self.peer_window.bytes <= before && !arrival.established;
            return;
        }
        self.flight.take_newly_lost();
        let usage_before = self.cwnd_usage.is_window_limited(control.window());
        let news = self.apply_ack(now, segment, arrival);
        self.report_to(control.window_mut());
        self.judge_probe(now, news.has_dsack, news.is_duplicate, control);
        if self
            .recovery
            .was_spurious(segment.ack, self.timestamps.echo(segment))
        {
            self.undo(now, control);
        }
        self.judge_timeout(now, &news, control);
        let is_marked = self.ecn.is_echo(segment.flags);
        self.follow_recovery(now, &news, is_marked, control);
        self.adapt_window(now, &news, usage_before, control);
        self.rearm(now, news.advanced);
        self.report_to(control.window_mut());
    }

    /// Returns whether a segment brings data and an acknowledgment of nothing new, while nothing is
    /// in flight and no recovery is open. The other steps would find nothing new, because the
    /// timers have been off since the last data was acknowledged.
    fn acknowledges_nothing(&self, segment: &Segment) -> bool {
        segment.ack == self.una
            && !segment.payload.is_empty()
            && segment.options.sack.is_empty()
            && self.flight.is_empty()
            && self.recovery.is_at_rest()
            && !self.ecn.is_echo(segment.flags)
    }

    /// Updates the peer's window. Returns whether it changed.
    fn update_window(&mut self, segment: &Segment) -> bool {
        let before = self.peer_window.bytes;
        let is_changed = self.peer_window.update(segment, self.una);
        if self.peer_window.bytes > before {
            self.timers.cancel(Timer::Persist);
            self.persist_backoff = 0;
        }
        is_changed
    }

    fn apply_ack(&mut self, now: Nanos, segment: &Segment, arrival: &mut Arrival) -> News {
        let is_window_changed = self.update_window(segment);
        let has_dsack = self.handle_duplicate_sack(segment);
        let una_before = self.una;
        let (delivery, evidence) = self.handle_delivery(now, segment);
        let advanced = self.una != una_before;
        arrival.acked = advanced;
        let rtt = self.measure(now, segment, &delivery, advanced);
        let is_duplicate = segment.ack == una_before
            && !advanced
            && delivery.bytes == 0
            && !has_dsack
            && !is_window_changed
            && is_bare(segment);
        let delivered = self.count_delivered(is_duplicate, advanced, delivery.bytes);
        let rate = delivery.newest.and_then(|newest| {
            let min_rtt = self.rtt.min();
            self.deliveries
                .delivered(now, delivery.bytes, newest, min_rtt)
        });
        News {
            advanced,
            delivered,
            rtt,
            rate,
            has_dsack,
            is_duplicate,
            evidence,
        }
    }

    /// Returns whether the first SACK block is a DSACK: it is below the acknowledgment or within
    /// the second block (RFC 2883, section 4). Duplicates beyond the number of retransmissions were
    /// made by the network.
    fn handle_duplicate_sack(&mut self, segment: &Segment) -> bool {
        let Some(block) = duplicate_report(segment).filter(|_| self.has_sack) else {
            return false;
        };
        let len = block.end.distance_from(block.start).max(0) as u32;
        let segments = len.div_ceil(self.segment_bytes).max(1);
        let reported = self.counters.spurious_retransmissions + u64::from(segments);
        if reported > self.counters.retransmitted_segments {
            return true;
        }
        self.counters.spurious_retransmissions = reported;
        self.recovery.duplicate_reported(block.end, segments);
        if self.recovery.probe.is_none() {
            self.rack.duplicate_reported(self.nxt);
        }
        true
    }

    /// Removes and marks the data that arrived and updates RACK.
    fn handle_delivery(&mut self, now: Nanos, segment: &Segment) -> (Delivery, Evidence) {
        let (mut delivery, mut evidence) = (Delivery::default(), Evidence::default());
        let point = self.recovery.point;
        let min_rtt = self.rtt.min().unwrap_or(0);
        let rack = &mut self.rack;
        let mut take = |record: &super::flight::Record, is_selective: bool| {
            rack.delivered(now, record, min_rtt);
            delivery.add(record, is_selective);
            evidence.add(record, is_selective, point);
        };
        let ack = segment.ack.max(self.una);
        self.flight.acknowledge(ack, |record| take(record, false));
        if self.has_sack {
            for block in &segment.options.sack {
                if is_block_valid(block, ack, self.nxt) {
                    self.flight.report(*block, |record| take(record, true));
                }
            }
        }
        self.advance(ack);
        (delivery, evidence)
    }

    fn advance(&mut self, ack: SeqNr) {
        let acked = ack.distance_from(self.una) as u32;
        self.una = ack;
        self.rack.acknowledged(ack);
        let fin = u32::from(acked > 0 && self.is_fin_acked());
        self.counters.acked_bytes += u64::from(acked - fin);
        if acked > 0 {
            (self.backoff, self.persist_backoff) = (0, 0);
        }
    }

    /// Measures the RTT and updates the RTO. Timestamps are used only where Karn's rule forbids a
    /// sample (RFC 6298, section 3).
    fn measure(
        &mut self,
        now: Nanos,
        segment: &Segment,
        delivery: &Delivery,
        advanced: bool,
    ) -> Option<Nanos> {
        if let Some((first, last)) = delivery.round_trips(now) {
            self.rtt.sample(first, self.una, self.nxt);
            self.rtt.record_min(last);
            return Some(last);
        }
        if let Some(echo) = self.timestamps.echo(segment).filter(|_| advanced) {
            self.sample_rtt_of_echo(now, echo);
        }
        None
    }

    /// Returns the bytes that left the network. Without SACK, a duplicate acknowledgment stands for
    /// one segment (RFC 9937, section 6), which is not counted again when it is acknowledged.
    fn count_delivered(&mut self, is_duplicate: bool, advanced: bool, acked: u32) -> u32 {
        let mss = self.segment_bytes;
        let duplicates = &mut self.recovery.duplicate_acks;
        if self.has_sack {
            return acked;
        }
        if is_duplicate && (*duplicates as usize) < self.flight.segments() {
            *duplicates += 1;
            return mss;
        }
        if !advanced {
            return 0;
        }
        let told = duplicates.saturating_mul(mss);
        *duplicates = match self.recovery.phase {
            Phase::FastRecovery => duplicates.saturating_sub(acked.div_ceil(mss).saturating_sub(1)),
            _ => 0,
        };
        acked.saturating_sub(told).max(mss.min(acked))
    }

    fn follow_recovery(
        &mut self,
        now: Nanos,
        news: &News,
        is_marked: bool,
        control: &mut Control<'_>,
    ) {
        let is_lost = self.detect_losses(now, news.advanced);
        self.end_phase(now, control);
        if is_lost {
            self.loss_detected(now, control);
        } else if is_marked {
            self.congestion_marked(now, control);
        }
    }

    /// Detects lost segments and marks them. `advanced` is whether SND.UNA advanced. Returns
    /// whether any segment was marked.
    pub(super) fn detect_losses(&mut self, now: Nanos, advanced: bool) -> bool {
        if self.uses_rack() {
            return self.detect_losses_by_time(now);
        }
        if self.has_sack {
            let mss = self.segment_bytes;
            return self.flight.sacked_segments() > 0 && self.flight.detect_losses_by_count(mss);
        }
        self.detect_losses_by_duplicates(advanced)
    }

    /// Marks the segments that RACK considers lost at `now`, and sets the timer for the next one
    /// (RFC 8985, sections 6.2 and 6.3). Returns whether any segment was marked.
    pub(super) fn detect_losses_by_time(&mut self, now: Nanos) -> bool {
        let window = self.reordering_window();
        let (is_lost, next) = self.flight.detect_losses(now, &self.rack, window);
        match next {
            Some(at) => self.timers.arm(Timer::Reordering, now, at),
            None => self.timers.cancel(Timer::Reordering),
        }
        is_lost
    }

    fn adapt_window(
        &mut self,
        now: Nanos,
        news: &News,
        is_window_limited: bool,
        control: &mut Control<'_>,
    ) {
        self.report_to(control.window_mut());
        if news.delivered == 0 {
            return;
        }
        control.window_mut().acked_since_loss_bytes += u64::from(news.delivered);
        let lost_bytes = self.flight.take_newly_lost();
        if self.recovery.is_reducing() && !control.owns_window() {
            let is_safe = news.advanced && lost_bytes == 0;
            self.reduce_proportionally(control, news.delivered, is_safe);
            return;
        }
        if !self.may_grow(news.advanced) && !control.owns_window() {
            return;
        }
        let acked = Acked {
            bytes: news.delivered,
            lost_bytes,
            rtt: news.rtt,
            is_window_limited,
            delivery_rate: news.rate,
            delivered_bytes: self.deliveries.bytes(),
        };
        control.acked(now, &acked);
    }

    /// Returns whether the window may grow. It does not after a duplicate acknowledgment, for which
    /// limited transmit only sends a segment beyond the window (RFC 3042, section 2; RFC 5681,
    /// section 3.2). If segments are usually reordered, all delivered data counts, as in Linux
    /// (`tcp_may_raise_cwnd`).
    fn may_grow(&self, advanced: bool) -> bool {
        advanced || self.rack.reordering_bytes > super::sack::DUP_THRESH * self.segment_bytes
    }

    /// Sets the timers after an acknowledgment (RFC 6298, sections 5.2 and 5.3).
    fn rearm(&mut self, now: Nanos, advanced: bool) {
        if self.flight.is_empty() {
            self.timers.cancel(Timer::Retransmission);
            self.timers.cancel(Timer::Reordering);
        } else if advanced {
            let at = now + self.rtt.rto();
            self.timers.arm(Timer::Retransmission, now, at);
        }
        if advanced || self.flight.sacked_segments() > 0 {
            self.arm_loss_probe(now);
        }
    }
}

/// Returns whether a segment is a bare acknowledgment. MPTCP options other than DSS make it more
/// than that (RFC 8684, section 3.3.5).
fn is_bare(segment: &Segment) -> bool {
    let is_dss = |option: &MptcpOption| matches!(option, MptcpOption::Dss(_));
    segment.payload.is_empty()
        && !segment.flags.contains(Flags::FIN)
        && segment.options.mptcp.iter().all(is_dss)
}

fn duplicate_report(segment: &Segment) -> Option<SackBlock> {
    let mut blocks = segment.options.sack.iter();
    let first = *blocks.next()?;
    let is_within = |outer: &SackBlock| {
        first.start.is_at_or_after(outer.start) && first.end.is_at_or_before(outer.end)
    };
    let is_report = first.end.is_at_or_before(segment.ack) || blocks.next().is_some_and(is_within);
    is_report.then_some(first)
}

/// Returns whether a SACK block is within the data sent and not acknowledged.
fn is_block_valid(block: &SackBlock, ack: SeqNr, nxt: SeqNr) -> bool {
    block.start.is_before(block.end)
        && block.start.is_at_or_after(ack)
        && block.end.is_at_or_before(nxt)
}
