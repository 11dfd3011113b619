//! The retransmission timer of the connection, in addition to those of its subflows.

use crate::time::{MILLISECOND, Nanos, SECOND};

/// Largest RTO of Linux (`TCP_RTO_MAX`).
const LONGEST: Nanos = 120 * SECOND;

/// Smallest RTO of Linux (`TCP_RTO_MIN`).
const SHORTEST: Nanos = 200 * MILLISECOND;

/// The retransmission timeout of the connection in the out-of-tree kernel. It is twice the longest
/// RTO of a subflow, doubles with each expiry, and is at most 120 s.
#[derive(Clone, Debug)]
pub struct MetaRto {
    timeout: Nanos,
    expiries: u32,
}

impl MetaRto {
    /// Creates the timeout from `subflow_rtos`, the RTOs of the subflows. Without subflows the
    /// timeout is 1 s.
    pub fn new(subflow_rtos: impl Iterator<Item = Nanos>) -> Self {
        let mut timer = Self {
            timeout: SECOND,
            expiries: 0,
        };
        timer.update(subflow_rtos);
        timer
    }

    /// Returns the current timeout. The caller starts the timer with this duration.
    pub fn timeout(&self) -> Nanos {
        self.timeout
    }

    /// Recomputes the timeout from `subflow_rtos`, the RTOs of the subflows. Has no effect between
    /// an expiry and the next call to [`MetaRto::progressed`], or if `subflow_rtos` is empty.
    pub fn update(&mut self, subflow_rtos: impl Iterator<Item = Nanos>) {
        if let Some(longest) = subflow_rtos.max()
            && self.expiries == 0
        {
            self.timeout = longest.saturating_mul(2).min(LONGEST);
        }
    }

    /// Doubles the timeout after an expiry of the timer, up to 120 s. The caller then sends the
    /// oldest unacknowledged data again.
    pub fn expired(&mut self) {
        self.expiries += 1;
        self.timeout = self.timeout.saturating_mul(2).min(LONGEST);
    }

    /// Records that a DATA_ACK acknowledged new data. The next [`MetaRto::update`] then ends the
    /// back-off.
    pub fn progressed(&mut self) {
        self.expiries = 0;
    }
}

/// Returns the duration of the connection's timer in mainline Linux, in nanoseconds: the largest
/// value in `pending`, and at least 200 ms.
///
/// `pending` holds, for each subflow without missed intervals, the time until its retransmission
/// timer expires. The duration does not grow with expiries.
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
