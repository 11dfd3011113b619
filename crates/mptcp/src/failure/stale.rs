//! When mainline takes a subflow for stale.

use crate::time::Nanos;

/// The kernel keeps the count in a byte.
const MOST_INTERVALS: u32 = 255;

/// Watches one subflow at the expiries of the connection's timer.
#[derive(Clone, Debug, Default)]
pub struct StaleDetector {
    missed: u32,
    /// When something was last received on it, as of the first interval that is counted.
    last_received: Nanos,
    is_stale: bool,
}

impl StaleDetector {
    /// The timer expired while the subflow had data unacknowledged; `last_received` is when any packet last came in on it.
    /// `others` are the missed intervals of the other subflows that can send and are not stale. Says whether it became stale
    /// now.
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

    /// Something was received on the subflow, at that instant: it can be used again, its data having gone elsewhere.
    pub fn received(&mut self, now: Nanos) {
        if self.is_stale && now != self.last_received {
            *self = Self::default();
        }
    }

    /// Intervals that passed without anything received, the first being the one that noticed unacknowledged data.
    pub fn missed_intervals(&self) -> u32 {
        self.missed
    }

    /// Whether it is stale: nothing is scheduled on it.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }
}

/// Whether so many missed intervals are too many (0 allowed is never), and another subflow has missed clearly fewer.
fn is_stale(missed: u32, stale_intervals: u32, mut others: impl Iterator<Item = u32>) -> bool {
    let bound = stale_intervals.saturating_sub(1).max(1);
    stale_intervals > 0 && missed > stale_intervals && others.any(|other| other < bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Missed intervals and whether it is stale after so many expiries with nothing received.
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
