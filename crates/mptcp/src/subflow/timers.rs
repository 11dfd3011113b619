//! The timers of a subflow, as an array of deadlines.

use crate::time::{NEVER, Nanos};
use crate::timer_wheel::TimerWheel;

/// Names the timers by what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// An acknowledgment of data, SYN or FIN (RFC 6298).
    Retransmission,
    /// An acknowledgment; at expiry a tail loss probe is sent (RFC 8985, section 7).
    LossProbe,
    /// A segment that may only be late through reordering; at expiry it counts as lost (RFC 8985,
    /// section 6.3).
    Reordering,
    /// The opening of the peer's window (RFC 9293, section 3.8.6.1).
    Persist,
    /// A second segment to acknowledge with the first (RFC 9293, section 3.8.6.3).
    DelayedAck,
    /// A segment from an idle peer; at expiry a keepalive probe is sent (RFC 9293, section 3.8.4).
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

/// Holds the deadline of each [`Timer`]. A timer that does not run has [`NEVER`].
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

    /// Sets `timer` to the time `at`, starting at `now`. The timer wheel, if there is one, rounds
    /// the time up, except for [`Timer::Pacing`], because Linux uses a finer timer for pacing.
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

    /// Returns the time to which the retransmission timer was set, or `None` if it does not run.
    /// With a timer wheel, it expires later.
    pub fn retransmission_at(&self) -> Option<Nanos> {
        let is_armed = self.is_armed(Timer::Retransmission);
        is_armed.then_some(self.retransmission_at)
    }

    pub fn is_armed(&self, timer: Timer) -> bool {
        self.deadline(timer).is_some()
    }

    /// Returns the earliest deadline, or `None` if no timer runs.
    pub fn next(&self) -> Option<Nanos> {
        let first = self.expiries.iter().copied().min();
        first.filter(|at| *at != NEVER)
    }

    /// Stops the earliest timer that is due at `now` and returns it. Returns `None` if none is due.
    /// Of several timers with the same deadline, the retransmission timer comes last.
    pub fn take_expired(&mut self, now: Nanos) -> Option<Timer> {
        let due = |timer: &Timer| self.deadline(*timer).is_some_and(|at| at <= now);
        let expired = Timer::ALL.into_iter().rev().filter(due);
        let timer = expired.min_by_key(|timer| self.deadline(*timer))?;
        self.cancel(timer);
        Some(timer)
    }
}
