//! How long to wait before something that failed is tried again.

use super::Nanos;

/// The first wait for a subflow: long enough for a route to be restored after its interface, or for the peer to begin to
/// listen.
const SUBFLOW_NS: Nanos = 100_000_000;

/// The first wait for an effect of an announcement: several round trips through full queues. Until then it is up to the
/// stack to send it again (RFC 8684, section 3.4.1).
const ANNOUNCEMENT_NS: Nanos = 5_000_000_000;

/// Waits double up to this one.
const LONGEST_NS: Nanos = 30_000_000_000;

/// Failures that are further apart have nothing to do with each other.
const FORGOTTEN_NS: Nanos = 60_000_000_000;

/// Waits that double with every failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    first_ns: Nanos,
    failures: u32,
    last: Nanos,
}

impl Backoff {
    /// Of tries to open a subflow.
    pub(super) fn of_subflow() -> Self {
        Self {
            first_ns: SUBFLOW_NS,
            failures: 0,
            last: 0,
        }
    }

    /// Of announcements of an address.
    pub(super) fn of_announcement() -> Self {
        Self {
            first_ns: ANNOUNCEMENT_NS,
            failures: 0,
            last: 0,
        }
    }

    /// When to try again what has failed now.
    pub(super) fn after_failure(&mut self, now: Nanos) -> Nanos {
        if now.saturating_sub(self.last) > FORGOTTEN_NS {
            self.failures = 0;
        }
        self.last = now;
        let wait_ns = self.first_ns.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        now.saturating_add(wait_ns.min(LONGEST_NS))
    }

    /// Circumstances have changed.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
