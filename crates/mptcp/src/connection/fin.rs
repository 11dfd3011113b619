//! The ends of both streams: DATA_FIN (RFC 8684, section 3.3.3). It takes one number, after the last byte.

use crate::time::{MILLISECOND, Nanos, SECOND};

/// The first wait for the DATA_ACK of a DATA_FIN (`TCP_RTO_MIN` of Linux), and the longest.
const FIRST_WAIT: Nanos = 200 * MILLISECOND;
const LONGEST_WAIT: Nanos = 120 * SECOND;

/// Where the streams end, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fins {
    local: Option<u64>,
    is_local_acked: bool,
    remote: Option<u64>,
}

impl Fins {
    /// Our stream ends before `offset`.
    pub(super) fn end_local(&mut self, offset: u64) {
        self.local.get_or_insert(offset);
    }

    /// Our DATA_FIN, as long as the peer has not acknowledged it.
    pub(super) fn local_to_send(&self) -> Option<u64> {
        self.local.filter(|_| !self.is_local_acked)
    }

    pub(super) fn is_local_acked(&self) -> bool {
        self.is_local_acked
    }

    /// The peer has everything before `offset`, DATA_FIN counted; whether it is news that it has the DATA_FIN.
    pub(super) fn acknowledge_local(&mut self, offset: u64) -> bool {
        let is_acked = self.local.is_some_and(|fin| offset == fin + 1);
        let is_new = is_acked && !self.is_local_acked;
        self.is_local_acked |= is_acked;
        is_new
    }

    /// The peer's stream ends before `offset`. The first that says so is believed.
    pub(super) fn end_remote(&mut self, offset: u64) {
        self.remote.get_or_insert(offset);
    }

    /// Whether all of the peer's stream is there, given the first byte that is missing.
    pub(super) fn is_remote_reached(&self, receive_next: u64) -> bool {
        self.remote.is_some_and(|fin| receive_next >= fin)
    }
}

/// When our DATA_FIN is said once more, as nothing but a DATA_ACK tells that it has come, and when a peer that gives none is
/// taken for gone. The waits are mainline's: 0.2, 0.2, 0.4 s, and twice as long each time (`mptcp_set_datafin_timeout`; RFC
/// 6298, section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinTimer {
    repeat_at: Nanos,
    /// How often it was repeated.
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

    /// When something is due.
    pub(super) fn next(&self) -> Nanos {
        self.repeat_at.min(self.give_up_at)
    }

    /// Whether there is no hope any more.
    pub(super) fn has_given_up(&self, now: Nanos) -> bool {
        self.give_up_at <= now
    }

    /// It is repeated.
    pub(super) fn repeated(&mut self, now: Nanos) {
        let wait = FIRST_WAIT.saturating_mul(1 << self.repetitions.min(16));
        self.repeat_at = now + wait.min(LONGEST_WAIT);
        self.repetitions += 1;
    }
}
