//! Whether the congestion window is fully used (RFC 7661, section 4.1), by Linux's rule.

use crate::cc::Window;
use crate::seq::SeqNr;
use crate::time::Nanos;

/// Tracks how much of the congestion window the last flight used.
#[derive(Clone, Debug)]
pub(super) struct CwndUsage {
    is_limited: bool,
    most_outstanding_bytes: u32,
    /// The flight ends when this sequence number is acknowledged.
    flight_end: SeqNr,
    /// The most bytes outstanding since `used_since`, when the window was last full or was last
    /// reduced for lack of use.
    used_bytes: u32,
    used_since: Nanos,
}

impl CwndUsage {
    pub fn new(now: Nanos, iss: SeqNr) -> Self {
        Self {
            is_limited: false,
            most_outstanding_bytes: 0,
            flight_end: iss,
            used_bytes: 0,
            used_since: now,
        }
    }

    /// Records that data was sent, or that the full window prevented it (`is_limited`).
    /// `outstanding_bytes` is the number of unacknowledged bytes, and `una` and `nxt` are SND.UNA
    /// and SND.NXT.
    pub fn record(&mut self, is_limited: bool, outstanding_bytes: u32, una: SeqNr, nxt: SeqNr) {
        let is_new_flight = una.is_at_or_after(self.flight_end);
        let is_more = !self.is_limited && outstanding_bytes > self.most_outstanding_bytes;
        if is_new_flight || is_limited || is_more {
            self.is_limited = is_limited;
            self.most_outstanding_bytes = outstanding_bytes;
            self.flight_end = nxt;
        }
        self.used_bytes = self.used_bytes.max(outstanding_bytes);
    }

    /// If the window has not been full for at least `rto`, returns the largest number of bytes
    /// outstanding in that time and restarts the measurement. Otherwise returns `None`.
    pub fn take_unfilled(&mut self, now: Nanos, rto: Nanos) -> Option<u32> {
        let used = self.used_bytes;
        let is_over = now - self.used_since >= rto;
        is_over.then(|| {
            self.restart(now);
            used
        })
    }

    /// Restarts the measurement at `now`, because the window is used or was adapted.
    pub fn restart(&mut self, now: Nanos) {
        (self.used_bytes, self.used_since) = (0, now);
    }

    /// Returns whether `window` may grow: it was full in the last flight, or more than half of it
    /// was used in slow start.
    pub fn is_window_limited(&self, window: &Window) -> bool {
        let used = f64::from(self.most_outstanding_bytes);
        self.is_limited || (window.in_slow_start() && window.cwnd_bytes < 2.0 * used)
    }
}
