//! Whether what failed is tried again, and how long to wait before.

use super::Nanos;
use crate::time::{MILLISECOND, SECOND};

/// Whether a subflow that failed, or was closed by others, is opened again while both its addresses are there. The return of an
/// address, or a new announcement of it, opens it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recreation {
    /// It is not.
    Never,
    /// After waits that double with every failure.
    Backoff(Waits),
}

impl Default for Recreation {
    fn default() -> Self {
        Self::Backoff(Waits::OF_SUBFLOW)
    }
}

impl Recreation {
    /// How long to wait before a subflow is opened that could not even be tried: none has failed.
    pub(super) fn waits_after_refusal(self) -> Waits {
        match self {
            Self::Never => Waits::OF_SUBFLOW,
            Self::Backoff(waits) => waits,
        }
    }
}

/// Waits that double with every failure, from the first to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// After the first failure.
    pub first: Nanos,
    /// No wait is longer.
    pub longest: Nanos,
}

impl Waits {
    /// Of subflows: the first is long enough for a route to be restored after its interface, or for the peer to begin to listen.
    pub const OF_SUBFLOW: Self = Self {
        first: 100 * MILLISECOND,
        longest: 30 * SECOND,
    };

    /// Of announcements: several round trips through full queues. Until then it is up to the stack to send it again (RFC 8684,
    /// section 3.4.1).
    pub(super) const OF_ANNOUNCEMENT: Self = Self {
        first: 5 * SECOND,
        longest: 30 * SECOND,
    };

    /// Failures that are further apart have nothing to do with each other.
    fn forgotten_after(self) -> Nanos {
        self.longest.saturating_mul(2)
    }
}

/// What failed how often in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    count: u32,
    last: Nanos,
}

impl Failures {
    /// When to try again what has failed now.
    pub(super) fn next_try(&mut self, now: Nanos, waits: Waits) -> Nanos {
        if now.saturating_sub(self.last) > waits.forgotten_after() {
            self.count = 0;
        }
        self.last = now;
        let wait = waits.first.saturating_mul(1 << self.count.min(16));
        self.count += 1;
        now.saturating_add(wait.min(waits.longest))
    }

    /// Circumstances have changed.
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }
}
