//! Whether failed subflows are reopened, and after which wait.

use super::Nanos;
use crate::time::{MILLISECOND, SECOND};

/// Whether a subflow is reopened after it failed, or after the peer or the stack closed it, while
/// both its addresses are up. Independently of this, a subflow is opened if one of its addresses
/// comes back or is announced again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recreation {
    /// The subflow is not reopened.
    Never,
    /// The subflow is reopened after a wait that doubles with every failure.
    Backoff(Waits),
}

impl Default for Recreation {
    fn default() -> Self {
        Self::Backoff(Waits::OF_SUBFLOW)
    }
}

impl Recreation {
    /// Returns the waits before retrying a subflow that could not be attempted. It is also retried
    /// with `Never`, because no subflow has failed.
    pub(super) fn waits_after_refusal(self) -> Waits {
        match self {
            Self::Never => Waits::OF_SUBFLOW,
            Self::Backoff(waits) => waits,
        }
    }
}

/// Waits that double with every failure, from `first` to `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Wait after the first failure.
    pub first: Nanos,
    /// Longest wait after any failure.
    pub longest: Nanos,
}

impl Waits {
    /// Waits before subflows are reopened: from 100 ms to 30 s. The first is long enough for a
    /// route to be restored after its interface, or for the peer to start listening.
    pub const OF_SUBFLOW: Self = Self {
        first: 100 * MILLISECOND,
        longest: 30 * SECOND,
    };

    /// Waits before announcements are repeated: several round trips through full queues. Until
    /// then, the stack retransmits the announcement (RFC 8684, section 3.4.1).
    pub(super) const OF_ANNOUNCEMENT: Self = Self {
        first: 5 * SECOND,
        longest: 30 * SECOND,
    };

    /// Failures that are further apart than this are unrelated.
    fn forgotten_after(self) -> Nanos {
        self.longest.saturating_mul(2)
    }
}

/// Counts consecutive failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    count: u32,
    last: Nanos,
}

impl Failures {
    /// Records a failure at `now` and returns when to retry.
    pub(super) fn next_try(&mut self, now: Nanos, waits: Waits) -> Nanos {
        if now.saturating_sub(self.last) > waits.forgotten_after() {
            self.count = 0;
        }
        self.last = now;
        let wait = waits.first.saturating_mul(1 << self.count.min(16));
        self.count += 1;
        now.saturating_add(wait.min(waits.longest))
    }

    /// Resets the count, because circumstances have changed.
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }
}
