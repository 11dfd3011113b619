//! The retransmission timer of the connection, in addition to those of its subflows.

use crate::time::{MILLISECOND, Nanos, SECOND};

/// Largest RTO of Linux (`TCP_RTO_MAX`).
const LONGEST: Nanos = 120 * SECOND;

/// Smallest RTO of Linux (`TCP_RTO_MIN`).
const SHORTEST: Nanos = 200 * MILLISECOND;

/// The connection's RTO in the out-of-tree kernel: twice the longest RTO of a subflow, doubled with
/// each expiry, at most 120 s.
#[derive(Clone, Debug)]
pub struct MetaRto {
    timeout: Nanos,
    expiries: u32,
}

impl MetaRto {
    /// Creates the timer from the RTOs of the subflows, of which there must be at least one.
    pub fn new(subflow_rtos: impl Iterator<Item = Nanos>) -> Self {
        let mut timer = Self {
            timeout: SECOND,
            expiries: 0,
        };
        timer.update(subflow_rtos);
        timer
    }

    /// Returns the RTO, from now or from the last expiry.
    pub fn timeout(&self) -> Nanos {
        self.timeout
    }

    /// Updates the RTO from those of the subflows. Does nothing between an expiry and new progress,
    /// or if there are no subflows.
    pub fn update(&mut self, subflow_rtos: impl Iterator<Item = Nanos>) {
        if let Some(longest) = subflow_rtos.max()
            && self.expiries == 0
        {
            self.timeout = longest.saturating_mul(2).min(LONGEST);
        }
    }

    /// Records an expiry, upon which the first unacknowledged data is sent again.
    pub fn expired(&mut self) {
        self.expiries += 1;
        self.timeout = self.timeout.saturating_mul(2).min(LONGEST);
    }

    /// Records that the peer acknowledged new data with a DATA_ACK.
    pub fn progressed(&mut self) {
        self.expiries = 0;
    }
}

/// Returns the interval of mainline's timer: the longest time left of the given subflow timers, at
/// least 200 ms. Pass the timers of subflows without missed intervals. The interval does not grow
/// with expiries.
pub fn remaining_interval(pending: impl Iterator<Item = Nanos>) -> Nanos {
    pending.max().unwrap_or(0).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_subflows_only_while_nothing_is_repeated() {
        let mut timer = MetaRto::new([SECOND].into_iter());
        timer.expired();
        timer.update([3 * SECOND].into_iter());
        assert_eq!(timer.timeout(), 4 * SECOND);
        timer.progressed();
        timer.update([3 * SECOND].into_iter());
        assert_eq!(timer.timeout(), 6 * SECOND);
    }

    #[test]
    fn it_does_not_exceed_two_minutes() {
        let mut timer = MetaRto::new([50 * SECOND].into_iter());
        timer.expired();
        assert_eq!(timer.timeout(), 120 * SECOND);
        assert_eq!(
            MetaRto::new([90 * SECOND].into_iter()).timeout(),
            120 * SECOND
        );
    }

    #[test]
    fn mainline_waits_for_the_longest_pending_timer_but_at_least_200_ms() {
        assert_eq!(remaining_interval([].into_iter()), 200 * MILLISECOND);
        let pending = [SECOND, 10 * MILLISECOND];
        assert_eq!(remaining_interval(pending.into_iter()), SECOND);
    }
}
