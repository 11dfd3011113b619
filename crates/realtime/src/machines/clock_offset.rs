//! The offset of another machine's clock, from exchanges of its time.

use crate::LiveError;
use crate::clock::monotonic_ns;

/// Exchanges in one measurement. The one with the shortest round trip counts.
const EXCHANGES: usize = 20;
/// How fast the clock of a machine may drift from that of another: quartz is within 50 ppm, and
/// adjustment of the time (adjtimex(2)) within 500 ppm.
const LARGEST_DRIFT_PPM: u64 = 600;

/// The offset of a clock from that of this machine at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockOffset {
    /// When it was measured, on this machine's clock.
    at_ns: u64,
    /// What to add to this machine's time.
    pub(super) offset_ns: i64,
    /// The largest error of the offset: half of the round trip.
    pub(super) bound_ns: u64,
}

impl ClockOffset {
    /// Measures the offset. `read` returns the time of the other clock.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) fn measure(
        mut read: impl FnMut() -> Result<u64, LiveError>,
    ) -> Result<Self, LiveError> {
        let mut best: Option<Self> = None;
        for _ in 0..EXCHANGES {
            let asked_ns = monotonic_ns();
            let theirs_ns = read()?;
            let exchanged = Self::of_exchange(asked_ns, theirs_ns, monotonic_ns());
            if best.is_none_or(|best| exchanged.bound_ns < best.bound_ns) {
                best = Some(exchanged);
            }
        }
        best.ok_or_else(|| LiveError::Failed("its clock was not read".to_owned()))
    }

    fn of_exchange(asked_ns: u64, theirs_ns: u64, answered_ns: u64) -> Self {
        let half_ns = answered_ns.saturating_sub(asked_ns).div_ceil(2);
        let middle_ns = asked_ns + half_ns;
        Self {
            at_ns: middle_ns,
            offset_ns: theirs_ns.wrapping_sub(middle_ns).cast_signed(),
            bound_ns: half_ns,
        }
    }

    /// Returns the other clock's time at `ns` of this machine's.
    pub(super) fn theirs(&self, ns: u64) -> u64 {
        ns.wrapping_add_signed(self.offset_ns)
    }

    /// Returns by how much the offset has changed until `later`.
    pub(super) fn change_ns(&self, later: &Self) -> i64 {
        later.offset_ns - self.offset_ns
    }

    /// Returns the largest change until `later` of a clock that runs on.
    pub(super) fn allowed_change_ns(&self, later: &Self) -> u64 {
        let drift_ns = later.at_ns.saturating_sub(self.at_ns) / 1_000_000 * LARGEST_DRIFT_PPM;
        self.bound_ns + later.bound_ns + drift_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_bounds_the_offset_by_half_of_its_round_trip() {
        let found = ClockOffset::of_exchange(1000, 500_000, 1200);
        assert_eq!((found.offset_ns, found.bound_ns), (498_900, 100));
        assert_eq!(found.theirs(1100), 500_000);
    }

    #[test]
    fn a_clock_may_drift_but_not_jump() {
        let second_ns = 1_000_000_000;
        let before = ClockOffset::of_exchange(0, 0, 200);
        let drifted = ClockOffset::of_exchange(second_ns, second_ns + 50_000, second_ns + 200);
        let jumped = ClockOffset::of_exchange(second_ns, 11 * second_ns, second_ns + 200);
        let is_allowed = |later: &ClockOffset| {
            before.change_ns(later).unsigned_abs() <= before.allowed_change_ns(later)
        };
        assert!(is_allowed(&drifted));
        assert!(!is_allowed(&jumped));
    }
}
