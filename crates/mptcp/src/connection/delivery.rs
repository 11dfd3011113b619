//! Whether a subflow seems to deliver what it sends (RFC 8684, section 3.3.6).

use crate::failure::StaleDetector;
use crate::time::Nanos;

/// Whether a subflow seems to deliver. Only one kind of failure can happen on a connection, because
/// [`crate::failure::FailedAfter`] selects the rule.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Missed intervals make the subflow stale
    /// ([`FailedAfter::StaleIntervals`](crate::failure::FailedAfter::StaleIntervals)).
    Watched(StaleDetector),
    /// The subflow failed at a timeout and has received nothing since
    /// ([`FailedAfter::FirstRto`](crate::failure::FailedAfter::FirstRto)).
    Failed,
}

impl Delivery {
    /// Returns whether the subflow seems to deliver nothing.
    pub(super) fn is_stale(&self) -> bool {
        match self {
            Self::Watched(detector) => detector.is_stale(),
            Self::Failed => true,
        }
    }

    /// Returns the number of missed intervals.
    pub(super) fn missed_intervals(&self) -> u32 {
        match self {
            Self::Watched(detector) => detector.missed_intervals(),
            Self::Failed => 0,
        }
    }

    /// Records that a segment has arrived on the subflow at `now`.
    pub(super) fn received(&mut self, now: Nanos) {
        match self {
            Self::Watched(detector) => detector.received(now),
            Self::Failed => *self = Self::default(),
        }
    }

    /// Records that the subflow failed at a timeout. Returns whether it had not failed before.
    pub(super) fn fail(&mut self) -> bool {
        let is_new = !matches!(self, Self::Failed);
        *self = Self::Failed;
        is_new
    }

    /// Handles an expiry of the connection's timer ([`StaleDetector::timer_expired`]). Returns
    /// whether the subflow became stale now.
    pub(super) fn timer_expired(
        &mut self,
        last_received: Nanos,
        stale_intervals: u32,
        others: impl Iterator<Item = u32>,
    ) -> bool {
        match self {
            Self::Watched(detector) => {
                detector.timer_expired(last_received, stale_intervals, others)
            }
            // It has failed already.
            Self::Failed => false,
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Self::Watched(StaleDetector::default())
    }
}
