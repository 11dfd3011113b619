//! The retransmission timer of the connection, beside those of its subflows.

use crate::time::{MILLISECOND, Nanos, SECOND};

/// The longest timeout of Linux (`TCP_RTO_MAX`).
const LONGEST: Nanos = 120 * SECOND;

/// The shortest (`TCP_RTO_MIN`).
const SHORTEST: Nanos = 200 * MILLISECOND;

/// The out-of-tree kernel's: twice the longest timeout of a subflow, doubled with each expiry, at most 120 s.
#[derive(Clone, Debug)]
pub struct MetaRto {
    timeout: Nanos,
    expiries: u32,
}

impl MetaRto {
    /// With the retransmission timeouts of the subflows, of which there is one or more.
    pub fn new(subflow_rtos: impl Iterator<Item = Nanos>) -> Self {
        let mut timer = Self {
            timeout: SECOND,
            expiries: 0,
        };
        timer.update(subflow_rtos);
        timer
    }

    /// How long it runs, from now or from the last expiry.
    pub fn timeout(&self) -> Nanos {
        self.timeout
    }

    /// Takes the subflows' timeouts; nothing changes while the connection repeats data, or without any subflow.
    pub fn update(&mut self, subflow_rtos: impl Iterator<Item = Nanos>) {
        if let Some(longest) = subflow_rtos.max()
            && self.expiries == 0
        {
            self.timeout = longest.saturating_mul(2).min(LONGEST);
        }
    }

    /// It expired: the first unacknowledged data is sent again.
    pub fn expired(&mut self) {
        self.expiries += 1;
        self.timeout = self.timeout.saturating_mul(2).min(LONGEST);
    }

    /// New data was acknowledged at the level of the connection.
    pub fn progressed(&mut self) {
        self.expiries = 0;
    }
}

/// Mainline's: the longest time that the timers of subflows which are not suspected still have to run, at least 200 ms. It does
/// not grow with expiries.
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
