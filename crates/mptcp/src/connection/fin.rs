//! The ends of both streams: DATA_FIN (RFC 8684, section 3.3.3). It takes one DSN, after the last
//! byte.

use crate::time::{MILLISECOND, Nanos, SECOND};

/// First and longest wait for the DATA_ACK of a DATA_FIN. The first is Linux's `TCP_RTO_MIN`.
const FIRST_WAIT: Nanos = 200 * MILLISECOND;
const LONGEST_WAIT: Nanos = 120 * SECOND;

/// Ends of both streams, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fins {
    local: Option<u64>,
    is_local_acked: bool,
    remote: Option<u64>,
}

impl Fins {
    /// Ends the local stream before `offset`.
    pub(super) fn end_local(&mut self, offset: u64) {
        self.local.get_or_insert(offset);
    }

    /// Returns the offset of the local DATA_FIN until the peer has acknowledged it.
    pub(super) fn local_to_send(&self) -> Option<u64> {
        self.local.filter(|_| !self.is_local_acked)
    }

    pub(super) fn is_local_acked(&self) -> bool {
        self.is_local_acked
    }

    /// Records that the peer has everything before `offset`, where the DATA_FIN counts as one byte.
    /// Returns whether the DATA_FIN is newly acknowledged.
    pub(super) fn acknowledge_local(&mut self, offset: u64) -> bool {
        let is_acked = self.local.is_some_and(|fin| offset == fin + 1);
        let is_new = is_acked && !self.is_local_acked;
        self.is_local_acked |= is_acked;
        is_new
    }

    /// Ends the peer's stream before `offset`. Later calls change nothing.
    pub(super) fn end_remote(&mut self, offset: u64) {
        self.remote.get_or_insert(offset);
    }

    /// Returns whether all of the peer's stream has arrived if its first missing byte is at
    /// `receive_next`.
    pub(super) fn is_remote_reached(&self, receive_next: u64) -> bool {
        self.remote.is_some_and(|fin| receive_next >= fin)
    }
}

/// Timer of the local DATA_FIN. It determines when to repeat the DATA_FIN, because only a DATA_ACK
/// confirms it, and when to give up on a peer that sends no DATA_ACK. The waits are mainline's:
/// 0.2, 0.2 and 0.4 s, then doubled each time (`mptcp_set_datafin_timeout`; RFC 6298, section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinTimer {
    repeat_at: Nanos,
    /// Number of repetitions so far.
    repetitions: u32,
    give_up_at: Nanos,
}

impl FinTimer {
    pub(super) fn new(now: Nanos, close_timeout: Nanos) -> Self {
        Self {
            repeat_at: now + FIRST_WAIT,
            repetitions: 0,
            give_up_at: now.saturating_add(close_timeout),
        }
    }

    /// Returns when the timer expires.
    pub(super) fn next(&self) -> Nanos {
        self.repeat_at.min(self.give_up_at)
    }

    /// Returns whether it is time to give up on the peer.
    pub(super) fn has_given_up(&self, now: Nanos) -> bool {
        self.give_up_at <= now
    }

    /// Records a repetition and sets the next wait.
    pub(super) fn repeated(&mut self, now: Nanos) {
        let wait = FIRST_WAIT.saturating_mul(1 << self.repetitions.min(16));
        self.repeat_at = now + wait.min(LONGEST_WAIT);
        self.repetitions += 1;
    }
}
