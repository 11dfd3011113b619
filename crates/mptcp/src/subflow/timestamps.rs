//! Timestamps and protection against wrapped sequence numbers (RFC 7323, sections 3 to 5).

use crate::seq::SeqNr;
use crate::time::{MILLISECOND, Nanos, SECOND};
use crate::wire::{Flags, Segment, Timestamps};

/// The age after which the last timestamp is no longer valid (RFC 7323, section 5.5).
const OUTDATED_AFTER: Nanos = 24 * 24 * 3600 * SECOND;

/// Returns the value of the local timestamp clock at `now`, which counts milliseconds.
pub(super) fn clock(now: Nanos) -> u32 {
    (now / MILLISECOND) as u32
}

/// Returns whether the timestamp `one` is older than `other`, modulo 2^32.
pub(super) fn is_older(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// The state of timestamps and PAWS (RFC 7323, section 4.3).
#[derive(Clone, Debug, Default)]
pub(super) struct TimestampState {
    /// Whether both hosts send timestamps.
    pub enabled: bool,
    /// TS.Recent.
    recent: u32,
    recent_at: Nanos,
    /// Last.ACK.sent.
    pub last_ack_sent: SeqNr,
}

impl TimestampState {
    /// Starts to use timestamps, because both hosts offered them. `peers` are the timestamps in the
    /// peer's SYN.
    pub fn start(&mut self, now: Nanos, peers: Timestamps) {
        self.enabled = true;
        (self.recent, self.recent_at) = (peers.value, now);
    }

    /// Returns the timestamps option of a segment sent at `now`, or `None` if timestamps are not in
    /// use.
    pub fn option(&self, now: Nanos) -> Option<Timestamps> {
        self.enabled.then_some(Timestamps {
            value: clock(now),
            echo: self.recent,
        })
    }

    /// Returns whether PAWS admits `segment` at `now` (RFC 7323, section 5.3, R1). A segment
    /// without timestamps is admitted, as in Linux, because middleboxes remove options.
    pub fn admits(&self, now: Nanos, segment: &Segment) -> bool {
        let Some(timestamps) = segment.options.timestamps.filter(|_| self.enabled) else {
            return true;
        };
        segment.flags.contains(Flags::RST)
            || !is_older(timestamps.value, self.recent)
            || now - self.recent_at > OUTDATED_AFTER
    }

    /// Stores the timestamp of `segment` as TS.Recent, if it is not older and the segment starts at
    /// or before the last acknowledgment sent (RFC 7323, section 5.3, R3).
    pub fn update(&mut self, now: Nanos, segment: &Segment) {
        let Some(timestamps) = segment.options.timestamps.filter(|_| self.enabled) else {
            return;
        };
        let is_recent =
            !is_older(timestamps.value, self.recent) || now - self.recent_at > OUTDATED_AFTER;
        if is_recent && segment.seq.is_at_or_before(self.last_ack_sent) {
            (self.recent, self.recent_at) = (timestamps.value, now);
        }
    }

    /// Returns the timestamp that `segment` echoes, or `None` if it is 0 or timestamps are not in
    /// use.
    pub fn echo(&self, segment: &Segment) -> Option<u32> {
        let timestamps = segment.options.timestamps.filter(|_| self.enabled)?;
        (timestamps.echo != 0).then_some(timestamps.echo)
    }
}
