//! The timers of a subflow, as an array of deadlines.

use crate::time::{NEVER, Nanos};
use crate::timer_wheel::TimerWheel;

/// The events that timers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// An acknowledgment of data, SYN or FIN (RFC 6298).
    Retransmission,
    /// An acknowledgment, before a tail loss probe (RFC 8985, section 7).
    LossProbe,
    /// A segment that may only be reordered (RFC 8985, section 6.3).
    Reordering,
    /// The opening of the peer's window (RFC 9293, section 3.8.6.1).
    Persist,
    /// A second segment to acknowledge with the first (RFC 9293, section 3.8.6.3).
    DelayedAck,
    /// An answer from an idle peer (RFC 9293, section 3.8.4).
    Keepalive,
    /// The end of the lifetime of this connection's segments (RFC 9293, section 3.6.1).
    TimeWait,
    /// The time at which pacing allows the next segment.
    Pacing,
}

impl Timer {
    const ALL: [Self; 8] = [
        Self::Retransmission,
        Self::LossProbe,
        Self::Reordering,
        Self::Persist,
        Self::DelayedAck,
        Self::Keepalive,
        Self::TimeWait,
        Self::Pacing,
    ];
}

/// Deadlines by [`Timer`]. A timer that is not armed has [`NEVER`].
#[derive(Clone, Debug)]
pub(super) struct Timers {
    expiries: [Nanos; Timer::ALL.len()],
    /// The time to which the retransmission timer was set, before rounding.
    retransmission_at: Nanos,
    wheel: Option<TimerWheel>,
}

impl Timers {
    pub fn new(wheel: Option<TimerWheel>) -> Self {
        Self {
            expiries: [NEVER; Timer::ALL.len()],
            retransmission_at: NEVER,
            wheel,
        }
    }

    /// Arms `timer` at `now` for `at`, rounded up by the timer wheel if there is one. Pacing is not
    /// rounded, because Linux has a finer timer for it too.
    pub fn arm(&mut self, timer: Timer, now: Nanos, at: Nanos) {
        let expiry = match self.wheel {
            Some(wheel) if timer != Timer::Pacing => wheel.expiry(now, at),
            _ => at,
        };
        self.expiries[timer as usize] = expiry;
        if timer == Timer::Retransmission {
            self.retransmission_at = at;
        }
    }

    pub fn cancel(&mut self, timer: Timer) {
        self.expiries[timer as usize] = NEVER;
    }

    pub fn cancel_all(&mut self) {
        *self = Self::new(self.wheel);
    }

    pub fn deadline(&self, timer: Timer) -> Option<Nanos> {
        Some(self.expiries[timer as usize]).filter(|at| *at != NEVER)
    }

    /// Returns the time to which the retransmission timer is set, if it runs. It may expire later.
    pub fn retransmission_at(&self) -> Option<Nanos> {
        let is_armed = self.is_armed(Timer::Retransmission);
        is_armed.then_some(self.retransmission_at)
    }

    pub fn is_armed(&self, timer: Timer) -> bool {
        self.deadline(timer).is_some()
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Nanos> {
        let first = self.expiries.iter().copied().min();
        first.filter(|at| *at != NEVER)
    }

    /// Removes and returns the earliest timer that is due at `now`. Of two timers with the same
    /// deadline, a probe comes before the retransmission.
    pub fn take_expired(&mut self, now: Nanos) -> Option<Timer> {
        let due = |timer: &Timer| self.deadline(*timer).is_some_and(|at| at <= now);
        let expired = Timer::ALL.into_iter().rev().filter(due);
        let timer = expired.min_by_key(|timer| self.deadline(*timer))?;
        self.cancel(timer);
        Some(timer)
    }
}
