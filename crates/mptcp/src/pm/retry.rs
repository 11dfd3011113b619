//! How long to wait before a subflow that failed is tried again.

use super::Nanos;

/// The first wait: long enough for a route to be restored after its interface, or for the peer to begin to listen.
const FIRST_NS: Nanos = 100_000_000;

/// Waits double up to this one.
const LONGEST_NS: Nanos = 30_000_000_000;

/// Waits that double with every failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// When to try again what has failed now.
    pub(super) fn after_failure(&mut self, now: Nanos) -> Nanos {
        let wait_ns = FIRST_NS.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        now.saturating_add(wait_ns.min(LONGEST_NS))
    }

    /// It worked, or circumstances have changed.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
