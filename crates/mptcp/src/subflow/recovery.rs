//! Responses of the window and the flight to a loss, a mark or a timeout (RFC 5681, 6582, 6675,
//! 8985, 9937), and how a response to a spurious loss is undone (RFC 3522, 4015; `frto`).

use super::frto::Frto;
use super::prr::Prr;
use super::timers::Timer;
use super::tlp::{self, Probe, Verdict};
use super::{Control, Subflow, timestamps};
use crate::cc::{Congestion, Window};
use crate::seq::SeqNr;
use crate::time::Nanos;

/// The phase of the congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No recovery: the congestion control grows the window.
    #[default]
    Open,
    /// The window shrinks because of a congestion mark (Linux's CWR).
    Reduction,
    /// The window shrinks because of a loss, and lost segments are retransmitted.
    FastRecovery,
    /// The window grows again after a timeout, and lost segments are retransmitted.
    Loss,
}

/// The state of recovery.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    pub phase: Phase,
    /// RecoveryPoint: the end of the data sent when recovery began (RFC 6675, section 5).
    pub point: SeqNr,
    /// The state of F-RTO, which tests whether the last timeout was spurious.
    pub frto: Frto,
    pub prr: Prr,
    undo: Option<Box<Undo>>,
    /// A tail loss probe that has not been acknowledged.
    pub probe: Option<Probe>,
    /// Number of consecutive duplicate acknowledgments from a peer without SACK.
    pub duplicate_acks: u32,
}

/// The state needed to undo the last reduction.
#[derive(Clone, Debug)]
struct Undo {
    cwnd_bytes: f64,
    ssthresh_bytes: f64,
    /// SND.UNA when the reduction began.
    una: SeqNr,
    /// The first segment that was retransmitted: its end, and the timestamp clock at that time.
    first: Option<(SeqNr, u32)>,
    /// Retransmitted segments that the peer has not reported as duplicates (DSACK).
    unreported: u32,
}

impl Recovery {
    pub fn new(iss: SeqNr) -> Self {
        Self {
            phase: Phase::Open,
            point: iss,
            frto: Frto::Off,
            prr: Prr::default(),
            undo: None,
            probe: None,
            duplicate_acks: 0,
        }
    }

    /// Returns whether no recovery is under way and no earlier reduction or probe waits for a
    /// verdict. Acknowledgments then matter only by the data that they deliver.
    pub fn is_at_rest(&self) -> bool {
        self.phase == Phase::Open
            && self.frto == Frto::Off
            && self.undo.is_none()
            && self.probe.is_none()
    }

    /// Returns whether proportional rate reduction sets cwnd.
    pub fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Reduction | Phase::FastRecovery)
    }

    /// Returns whether lost segments are being retransmitted.
    pub fn is_repairing(&self) -> bool {
        matches!(self.phase, Phase::FastRecovery | Phase::Loss)
    }

    /// Records that a segment that ends at `end` was retransmitted when the timestamp clock had the
    /// value `clock`.
    pub fn retransmitted(&mut self, end: SeqNr, clock: u32) {
        if let Some(undo) = &mut self.undo {
            undo.first.get_or_insert((end, clock));
            undo.unreported += 1;
        }
    }

    /// Records that the peer reported `segments` retransmitted segments up to `end` as duplicates
    /// (DSACK, RFC 2883).
    pub fn duplicate_reported(&mut self, end: SeqNr, segments: u32) {
        if let Some(undo) = self.undo.as_mut().filter(|undo| end.is_after(undo.una)) {
            undo.unreported = undo.unreported.saturating_sub(segments);
        }
    }

    /// Returns whether the last reduction of the window was spurious. This is the case if the peer
    /// reported all retransmissions as duplicates (DSACK), or if `ack` acknowledges the first
    /// retransmission and `echo`, the echoed timestamp, is older than that retransmission (Eifel
    /// detection, RFC 3522).
    pub fn was_spurious(&self, ack: SeqNr, echo: Option<u32>) -> bool {
        let Some((undo, (end, clock))) = self
            .undo
            .as_ref()
            .and_then(|undo| Some((undo, undo.first?)))
        else {
            return false;
        };
        let is_older = echo.is_some_and(|echo| timestamps::is_older(echo, clock));
        undo.unreported == 0 || (is_older && ack.is_at_or_after(end))
    }

    fn begin(&mut self, phase: Phase, una: SeqNr, nxt: SeqNr) {
        self.phase = phase;
        self.frto = Frto::Off;
        self.point = nxt;
        self.prr = Prr::new(nxt.distance_from(una) as u64);
    }

    fn remember(&mut self, window: &Window, una: SeqNr) {
        self.undo = Some(Box::new(Undo {
            cwnd_bytes: window.cwnd_bytes,
            ssthresh_bytes: window.ssthresh_bytes,
            una,
            first: None,
            unreported: 0,
        }));
    }

    /// Returns whether an acknowledgment up to `una` ends the phase. A reduction lasts until data
    /// beyond its point is acknowledged, because CWR must reach the peer before another mark
    /// counts.
    fn is_over(&self, una: SeqNr) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Reduction => una.is_after(self.point),
            Phase::FastRecovery | Phase::Loss => una.is_at_or_after(self.point),
        }
    }
}

impl Subflow {
    /// Returns the estimated number of bytes in flight. Without SACK, each duplicate acknowledgment
    /// means that a segment has left the network.
    pub(super) fn pipe_bytes(&self) -> u32 {
        let left = self
            .recovery
            .duplicate_acks
            .saturating_mul(self.segment_bytes);
        self.flight.in_flight_bytes().saturating_sub(left)
    }

    /// Reduces the window because of a congestion mark, at most once per window of data (RFC 3168,
    /// section 6.1.2). Has no effect during a recovery.
    pub(super) fn congestion_marked(&mut self, now: Nanos, control: &mut Control<'_>) {
        if self.recovery.phase != Phase::Open {
            return;
        }
        self.recovery.undo = None;
        control.congestion(now, Congestion::Ecn);
        self.recovery.begin(Phase::Reduction, self.una, self.nxt);
        self.ecn.window_reduced();
    }

    /// Begins fast recovery after a loss. Reduces the window unless a mark has reduced it already.
    /// Has no effect while lost segments are being retransmitted.
    pub(super) fn loss_detected(&mut self, now: Nanos, control: &mut Control<'_>) {
        if self.recovery.is_repairing() {
            return;
        }
        if self.recovery.phase == Phase::Open {
            self.recovery.remember(control.window(), self.una);
            control.congestion(now, Congestion::Loss);
        }
        self.recovery.begin(Phase::FastRecovery, self.una, self.nxt);
        self.ecn.window_reduced();
    }

    /// Processes an expiry of the retransmission timer (RFC 6298, section 5; RFC 8985, section
    /// 6.3). Marks segments as lost, reduces the window at the first of consecutive expiries, and
    /// starts F-RTO. The first expiry does not start F-RTO while lost segments are being
    /// retransmitted.
    pub(super) fn repair_after_timeout(&mut self, now: Nanos, control: &mut Control<'_>) {
        self.mark_timed_out(now);
        if self.backoff == 0 {
            self.reduce_after_timeout(now, control);
        }
        // During a recovery, arriving data may come from a retransmission (RFC 5682, step 1).
        let tells = !self.recovery.is_repairing() || self.backoff > 0;
        self.recovery.begin(Phase::Loss, self.una, self.nxt);
        if tells {
            self.recovery.frto = Frto::Retransmission;
        }
        self.recovery.probe = None;
        self.recovery.duplicate_acks = 0;
        self.ecn.window_reduced();
        self.timers.cancel(Timer::Reordering);
        self.timers.cancel(Timer::LossProbe);
    }

    /// Marks as lost all segments that have not been SACKed, except those that RACK does not yet
    /// consider lost. The first segment is always marked.
    fn mark_timed_out(&mut self, now: Nanos) {
        if self.flight.is_reneged() {
            self.flight.forget_reports();
        }
        let (rack, window) = (&self.rack, self.reordering_window());
        let uses_rack = self.uses_rack();
        self.flight
            .mark_all_lost(|record| uses_rack && rack.lost_at(record, window) > now);
    }

    /// Reduces the window after a timeout. Segments still in flight are added to the loss window. A
    /// timeout during a reduction keeps ssthresh, as in Linux.
    fn reduce_after_timeout(&mut self, now: Nanos, control: &mut Control<'_>) {
        let threshold = control.window().ssthresh_bytes;
        if !self.recovery.is_reducing() {
            self.recovery.remember(control.window(), self.una);
        }
        control.congestion(now, Congestion::Timeout);
        if self.recovery.is_reducing() {
            control.window_mut().ssthresh_bytes = threshold;
        }
        if !control.owns_window() {
            control.window_mut().cwnd_bytes += f64::from(self.flight.in_flight_bytes());
        }
    }

    /// Returns the current RACK.reo_wnd in nanoseconds.
    pub(super) fn reordering_window(&self) -> Nanos {
        let min_rtt = self.rtt.min().unwrap_or(0);
        let srtt = self.rtt.srtt().unwrap_or(0);
        let is_certain = self.recovery.is_repairing()
            || self.flight.sacked_segments() >= super::sack::DUP_THRESH;
        self.rack.window(min_rtt, srtt, is_certain)
    }

    /// Ends the recovery if its recovery point is acknowledged.
    pub(super) fn end_phase(&mut self, now: Nanos, control: &mut Control<'_>) {
        if !self.recovery.is_over(self.una) {
            return;
        }
        let was_reducing = self.recovery.is_reducing();
        if self.recovery.is_repairing() {
            self.rack.recovery_exited();
        }
        self.recovery.phase = Phase::Open;
        self.recovery.frto = Frto::Off;
        self.recovery.duplicate_acks = 0;
        self.finish_episode(now, was_reducing, control);
    }

    /// Ends a recovery. After a reduction, sets cwnd to ssthresh.
    fn finish_episode(&mut self, now: Nanos, was_reducing: bool, control: &mut Control<'_>) {
        let is_ours = was_reducing && !control.owns_window();
        let window = control.window_mut();
        if is_ours && window.ssthresh_bytes.is_finite() {
            window.cwnd_bytes = window.ssthresh_bytes;
        }
        window.in_recovery = false;
        control.recovery_exited(now);
    }

    /// Sets cwnd by proportional rate reduction after an acknowledgment that delivered `delivered`
    /// bytes. `is_safe` has the same meaning as in [`Prr::send_count`].
    pub(super) fn reduce_proportionally(
        &mut self,
        control: &mut Control<'_>,
        delivered: u32,
        is_safe: bool,
    ) {
        let pipe = f64::from(self.pipe_bytes());
        self.recovery.prr.delivered += u64::from(delivered);
        let prr = &self.recovery.prr;
        let window = control.window_mut();
        if !window.ssthresh_bytes.is_finite() {
            return;
        }
        let mss = f64::from(window.mss_bytes);
        let mut count = prr.send_count(
            window.ssthresh_bytes,
            pipe,
            f64::from(delivered),
            mss,
            is_safe,
        );
        // RFC 9937, section 6: the first retransmission of a recovery is never held back.
        if prr.out == 0 && self.recovery.phase == Phase::FastRecovery {
            count = count.max(mss);
        }
        window.cwnd_bytes = pipe + count;
    }

    /// Undoes the last reduction of the window, because it was spurious (RFC 4015, section 3).
    /// Clears the lost marks of all segments and restores cwnd and ssthresh.
    pub(super) fn undo(&mut self, now: Nanos, control: &mut Control<'_>) {
        let Some(undo) = self.recovery.undo.take() else {
            return;
        };
        // The segments marked lost were only late.
        self.rack.reordering_seen |= self.recovery.phase != Phase::Loss;
        self.flight.clear_losses();
        self.forced_retransmission = false;
        self.recovery.phase = Phase::Open;
        self.recovery.frto = Frto::Off;
        let is_ours = !control.owns_window();
        let window = control.window_mut();
        if is_ours {
            window.cwnd_bytes = window.cwnd_bytes.max(undo.cwnd_bytes);
        }
        window.ssthresh_bytes = window.ssthresh_bytes.max(undo.ssthresh_bytes);
        window.in_recovery = false;
        control.undone(now);
    }

    /// Decides from an acknowledgment whether the tail loss probe repaired a loss (RFC 8985,
    /// section 7.4). If it did, reduces the window as if fast recovery had begun and ended with
    /// this acknowledgment.
    pub(super) fn judge_probe(
        &mut self,
        now: Nanos,
        has_dsack: bool,
        is_duplicate: bool,
        control: &mut Control<'_>,
    ) {
        let Some(probe) = self.recovery.probe else {
            return;
        };
        match probe.judge(self.una, has_dsack, is_duplicate) {
            Verdict::Open => return,
            Verdict::NoLoss => {}
            Verdict::Repaired if self.recovery.phase == Phase::Open => {
                self.recovery.undo = None;
                control.congestion(now, Congestion::Loss);
                self.ecn.window_reduced();
                self.finish_episode(now, true, control);
            }
            Verdict::Repaired => {}
        }
        self.recovery.probe = None;
    }

    /// Sets the timer of the tail loss probe at `now` (RFC 8985, section 7.2). Stops it in
    /// recovery, without data in flight, or if the peer has SACKed data in flight.
    pub(super) fn arm_loss_probe(&mut self, now: Nanos) {
        let is_wanted = self.uses_rack()
            && !self.recovery.is_repairing()
            && self.recovery.probe.is_none()
            && self.flight.sacked_segments() == 0
            && !self.flight.is_empty();
        if !is_wanted {
            self.timers.cancel(Timer::LossProbe);
            return;
        }
        let is_single = self.flight.segments() == 1;
        let timeout = tlp::probe_timeout(self.rtt.srtt(), is_single, tlp::MAX_ACK_DELAY);
        let retransmission = self.timers.retransmission_at();
        let at = (now + timeout).min(retransmission.unwrap_or(Nanos::MAX));
        self.timers.arm(Timer::LossProbe, now, at);
    }

    /// Returns whether the subflow uses RACK: it is switched on, and the peer supports SACK, which
    /// RACK needs.
    pub(super) fn uses_rack(&self) -> bool {
        self.config.rack && self.has_sack
    }

    /// Marks the first segment as lost if the acknowledgments of a peer without SACK indicate its
    /// loss: after three duplicate acknowledgments, and in fast recovery after each partial
    /// acknowledgment (RFC 6582, section 3.2). `advanced` is whether SND.UNA advanced. Returns
    /// whether it marked the segment.
    ///
    /// After a recovery, duplicate acknowledgments count only when the recovery point is
    /// acknowledged.
    pub(super) fn detect_losses_by_duplicates(&mut self, advanced: bool) -> bool {
        let duplicates = self.recovery.duplicate_acks;
        let is_lost = match self.recovery.phase {
            Phase::FastRecovery => advanced && !self.recovery.is_over(self.una),
            Phase::Loss => false,
            Phase::Open | Phase::Reduction => {
                duplicates >= super::sack::DUP_THRESH && self.una.is_after(self.recovery.point)
            }
        };
        let is_lost = is_lost && !self.flight.is_empty();
        if is_lost {
            self.flight.mark_lost(0);
        }
        is_lost
    }
}
