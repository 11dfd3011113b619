//! Detection of stale subflows as in mainline Linux.

use crate::time::Nanos;

/// The kernel keeps the count in a byte.
const MOST_INTERVALS: u32 = 255;

/// Detects whether a subflow is stale. Each subflow has a detector of its own, which the connection
/// updates at each expiry of its timer.
#[derive(Clone, Debug, Default)]
pub struct StaleDetector {
    missed: u32,
    /// When something was last received on the subflow, as of the first counted interval.
    last_received: Nanos,
    is_stale: bool,
}

impl StaleDetector {
    /// Processes an expiry of the connection's timer while the subflow has unacknowledged data.
    /// Returns whether this expiry made the subflow stale.
    ///
    /// `last_received` is the time of the last segment received on the subflow. `others` holds the
    /// missed intervals of the other subflows that can send and are not stale. The subflow becomes
    /// stale when it has missed more than `stale_intervals` intervals and one of `others` is below
    /// max(`stale_intervals` - 1, 1). With `stale_intervals` 0, it never becomes stale.
    pub fn timer_expired(
        &mut self,
        last_received: Nanos,
        stale_intervals: u32,
        others: impl Iterator<Item = u32>,
    ) -> bool {
        if self.missed == 0 {
            (self.missed, self.last_received) = (1, last_received);
            return false;
        }
        if last_received != self.last_received {
            *self = Self::default();
            return false;
        }
        self.missed = (self.missed + 1).min(MOST_INTERVALS);
        let is_new = !self.is_stale && is_stale(self.missed, stale_intervals, others);
        self.is_stale |= is_new;
        is_new
    }

    /// Records a segment that was received on the subflow at `now`. A stale subflow becomes usable
    /// again. Has no effect if the subflow is not stale.
    pub fn received(&mut self, now: Nanos) {
        if self.is_stale && now != self.last_received {
            *self = Self::default();
        }
    }

    /// Returns the number of missed intervals, at most 255: consecutive expiries of the
    /// connection's timer without a segment received on the subflow between them. The first expiry
    /// that finds unacknowledged data already counts as one.
    pub fn missed_intervals(&self) -> u32 {
        self.missed
    }

    /// Returns whether the subflow is stale. Schedulers assign no data to a stale subflow.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }
}

/// Returns whether more than `stale_intervals` intervals were missed (0 means never stale) and
/// another subflow has missed clearly fewer.
fn is_stale(missed: u32, stale_intervals: u32, mut others: impl Iterator<Item = u32>) -> bool {
    let bound = stale_intervals.saturating_sub(1).max(1);
    stale_intervals > 0 && missed > stale_intervals && others.any(|other| other < bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Missed intervals, and whether the subflow is stale, after `expiries` expiries with nothing
    /// received.
    fn after(expiries: usize, stale_intervals: u32, others: &[u32]) -> (u32, bool) {
        let mut detector = StaleDetector::default();
        for _ in 0..expiries {
            detector.timer_expired(7, stale_intervals, others.iter().copied());
        }
        (detector.missed_intervals(), detector.is_stale())
    }

    #[test]
    fn it_is_stale_at_the_fifth_expiry_if_another_one_is_better_off() {
        assert_eq!(after(4, 4, &[0]), (4, false));
        assert_eq!(after(5, 4, &[0]), (5, true));
        assert_eq!(after(5, 4, &[2]), (5, true));
        assert_eq!(after(9, 4, &[3]), (9, false));
        assert_eq!(after(9, 4, &[]), (9, false));
    }

    #[test]
    fn it_takes_one_interval_at_least_and_none_is_never() {
        assert_eq!(after(2, 1, &[0]), (2, true));
        assert_eq!(after(300, 0, &[0]), (255, false));
    }

    #[test]
    fn what_comes_in_starts_the_count_again_and_ends_staleness() {
        let mut detector = StaleDetector::default();
        let expire = |detector: &mut StaleDetector, received| {
            detector.timer_expired(received, 1, [0].into_iter())
        };
        assert!(!expire(&mut detector, 7));
        assert!(!expire(&mut detector, 8));
        assert_eq!(detector.missed_intervals(), 0);
        assert!(!expire(&mut detector, 8));
        assert!(expire(&mut detector, 8));
        assert!(!expire(&mut detector, 8), "it is stale already");
        detector.received(8);
        assert!(detector.is_stale());
        detector.received(9);
        assert!(!detector.is_stale());
    }
}
