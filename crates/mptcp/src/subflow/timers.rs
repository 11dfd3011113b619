//! The timers of a subflow: an array of deadlines.

use crate::time::{NEVER, Nanos};
use crate::timer_wheel::TimerWheel;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// An acknowledgment of data, SYN or FIN (RFC 6298).
    Retransmission,
    /// The same, a tail loss probe (RFC 8985, section 7).
    LossProbe,
    /// What RACK gives a segment that may only be late (RFC 8985, section 6.3).
    Reordering,
    /// The peer's window to open (RFC 9293, section 3.8.6.1).
    Persist,
    /// A second segment to be acknowledged with the first (RFC 9293, section 3.8.6.3).
    DelayedAck,
    /// A sign of life (RFC 9293, section 3.8.4).
    Keepalive,
    /// Segments of this connection to be gone (RFC 9293, section 3.6.1).
    TimeWait,
    /// The moment at which pacing allows the next segment.
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

/// Deadlines, by [`Timer`]; that of one that is not armed is [`NEVER`].
#[derive(Clone, Debug)]
pub(super) struct Timers {
    expiries: [Nanos; Timer::ALL.len()],
    /// What the retransmission timer was set to, before it was rounded.
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

    /// Sets a timer at `now` to `at`, or to when a clock that is coarser lets it expire. Pacing has a finer one in Linux, too.
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

    /// What the retransmission timer was set to, if it runs; it may expire later.
    pub fn retransmission_at(&self) -> Option<Nanos> {
        let is_armed = self.is_armed(Timer::Retransmission);
        is_armed.then_some(self.retransmission_at)
    }

    pub fn is_armed(&self, timer: Timer) -> bool {
        self.deadline(timer).is_some()
    }

    /// The first deadline.
    pub fn next(&self) -> Option<Nanos> {
        let first = self.expiries.iter().copied().min();
        first.filter(|at| *at != NEVER)
    }

    /// Disarms the timer that is due at `now`, the earliest first; of two at once a probe goes before the retransmission.
    pub fn take_expired(&mut self, now: Nanos) -> Option<Timer> {
        let due = |timer: &Timer| self.deadline(*timer).is_some_and(|at| at <= now);
        let expired = Timer::ALL.into_iter().rev().filter(due);
        let timer = expired.min_by_key(|timer| self.deadline(*timer))?;
        self.cancel(timer);
        Some(timer)
    }
}
