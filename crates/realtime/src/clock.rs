//! The clock of a run: nanoseconds since its t = 0, by the machine's monotonic clock.

use std::time::Duration;

use experiment::time::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Counts from the time at which it was started. All threads of a run, and its captures, use copies
/// of one clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero_ns: u64,
}

impl Clock {
    /// Starts a clock that shows 0 now.
    pub fn start() -> Self {
        Self {
            zero_ns: monotonic_ns(),
        }
    }

    /// Creates a clock that shows 0 until the machine's monotonic clock shows `zero_ns`.
    pub(crate) fn starting_at(zero_ns: u64) -> Self {
        Self { zero_ns }
    }

    /// Puts the thread to sleep until the clock starts.
    pub(crate) fn wait_for_start(&self) {
        let left = self.zero_ns.saturating_sub(monotonic_ns());
        std::thread::sleep(Duration::from_nanos(left));
    }

    /// Returns the current time.
    pub fn now(&self) -> Nanos {
        monotonic_ns().saturating_sub(self.zero_ns)
    }

    /// Returns a time of the machine's monotonic clock as a time of this one; 0 if it is earlier.
    pub(crate) fn at_monotonic(&self, ns: u64) -> Nanos {
        ns.saturating_sub(self.zero_ns)
    }

    /// Returns the time left until `at`; zero if it has passed.
    pub fn until(&self, at: Nanos) -> Duration {
        Duration::from_nanos(at.saturating_sub(self.now()))
    }

    /// Puts the thread to sleep until `at`.
    pub fn sleep_until(&self, at: Nanos) {
        std::thread::sleep(self.until(at));
    }
}

/// Returns the time of the machine's monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
