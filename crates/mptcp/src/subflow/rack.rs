//! RACK: a segment is lost if one sent sufficiently later was delivered (RFC 8985, section 6).

use super::flight::Record;
use crate::seq::SeqNr;
use crate::time::Nanos;

/// Recoveries without a DSACK after which the reordering window becomes small again (RFC 8985,
/// section 6.2).
const REO_WND_PERSIST: u32 = 16;

/// Returns RACK.reo_wnd in nanoseconds (RFC 8985, section 6.2, step 4): `multiplier` quarters of
/// `min_rtt`, at most `srtt`.
pub fn reordering_window(multiplier: u32, min_rtt: Nanos, srtt: Nanos) -> Nanos {
    (u64::from(multiplier) * (min_rtt / 4)).min(srtt)
}

/// Numbers the transmissions of a subflow in the order in which they were sent (RACK_sent_after of
/// RFC 8985, section 6.1). The number distinguishes segments that were sent at the same time.
/// Sequence numbers do not give this order if one of the segments is a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transmission(u32);

impl Transmission {
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    fn is_after(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }

    fn later(self, other: Self) -> Self {
        if self.is_after(other) { self } else { other }
    }
}

/// The state of RACK (RFC 8985, section 5.2).
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// The last transmission that was delivered: RACK.xmit_ts and RACK.end_seq in one number.
    latest: Option<Transmission>,
    /// RACK.rtt: the RTT of the last delivered transmission, in nanoseconds.
    pub rtt: Nanos,
    /// RACK.fack: the highest sequence number that was delivered.
    fack: SeqNr,
    /// RACK.reordering_seen: whether a segment arrived after segments sent later.
    pub reordering_seen: bool,
    /// The largest distance in sequence numbers, in bytes, by which a segment arrived after
    /// segments sent later.
    pub reordering_bytes: u32,
    multiplier: u32,
    persist: u32,
    /// RACK.dsack_round.
    dsack_round: Option<SeqNr>,
}

impl Rack {
    pub fn new(iss: SeqNr) -> Self {
        Self {
            latest: None,
            rtt: 0,
            fack: iss,
            reordering_seen: false,
            reordering_bytes: 0,
            multiplier: 1,
            persist: REO_WND_PERSIST,
            dsack_round: None,
        }
    }

    /// Updates the state with `record`, which was delivered at `now` (RFC 8985, section 6.2, steps
    /// 1 to 3).
    ///
    /// A retransmitted segment that is acknowledged sooner than `min_rtt` does not count, because
    /// its first transmission arrived. Timestamps are not consulted, as in Linux, because a SACK
    /// for a segment out of order echoes an older timestamp.
    pub fn delivered(&mut self, now: Nanos, record: &Record, min_rtt: Nanos) {
        self.record_order(record);
        let rtt = now - record.sent_at;
        if record.was_retransmitted() && rtt < min_rtt {
            return;
        }
        self.rtt = rtt;
        let latest = self.latest.unwrap_or(record.transmission);
        self.latest = Some(latest.later(record.transmission));
    }

    fn record_order(&mut self, record: &Record) {
        if record.end().is_after(self.fack) {
            self.fack = record.end();
        } else if record.end().is_before(self.fack) && !record.was_retransmitted() {
            self.reordering_seen = true;
            let extent = self.fack.distance_from(record.seq) as u32;
            self.reordering_bytes = self.reordering_bytes.max(extent);
        }
    }

    /// Widens the reordering window after a DSACK, at most once per round trip (RFC 8985, section
    /// 6.2, step 4). The round trip ends when `snd_nxt`, the current SND.NXT, is acknowledged.
    pub fn duplicate_reported(&mut self, snd_nxt: SeqNr) {
        if self.dsack_round.is_none() {
            self.dsack_round = Some(snd_nxt);
            self.multiplier += 1;
            self.persist = REO_WND_PERSIST;
        }
    }

    /// Ends the round trip that began with a DSACK if `ack` acknowledges its end.
    pub fn acknowledged(&mut self, ack: SeqNr) {
        if self.dsack_round.is_some_and(|end| ack.is_at_or_after(end)) {
            self.dsack_round = None;
        }
    }

    /// Records the end of a recovery. After 16 recoveries without a DSACK, the reordering window
    /// becomes small again.
    pub fn recovery_exited(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    /// Returns the current RACK.reo_wnd in nanoseconds. It is zero if no reordering was seen and
    /// `in_recovery_or_dup_thresh` is true: the subflow is in recovery, or the peer has SACKed at
    /// least DupThresh segments.
    pub fn window(&self, min_rtt: Nanos, srtt: Nanos, in_recovery_or_dup_thresh: bool) -> Nanos {
        if !self.reordering_seen && in_recovery_or_dup_thresh {
            return 0;
        }
        reordering_window(self.multiplier, min_rtt, srtt)
    }

    /// Returns whether a segment that was sent after the last transmission of `record` has been
    /// delivered.
    pub fn is_overtaken(&self, record: &Record) -> bool {
        self.latest
            .is_some_and(|latest| latest.is_after(record.transmission))
    }

    /// Returns the time at which the segment of `record` counts as lost with the reordering window
    /// `window` (RFC 8985, section 6.2, step 5).
    pub fn lost_at(&self, record: &Record, window: Nanos) -> Nanos {
        record.sent_at + self.rtt + window
    }
}
