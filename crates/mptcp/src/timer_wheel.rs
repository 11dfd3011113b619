//! The timers of Linux: they expire with the ticks of a clock, and the later, the coarser.
//!
//! Since 4.8 a timer is put into one of several levels of a wheel by how far away it is, and stays there. Each level has 64 places,
//! and a place of the next is as long as eight of this one. A timer never expires early: not before its place is over.

use crate::time::{MILLISECOND, Nanos};

/// The clock ticks 250 times a second (`CONFIG_HZ`), the default of Linux's configuration and Debian's.
pub const TICK: Nanos = 4 * MILLISECOND;

/// Places of a level, less the one that is just under way.
const PLACES: u64 = 63;
/// A place of a level is as long as 2^3 of the level below.
const LEVEL_BITS: u32 = 3;
/// The coarsest level of nine (with 250 ticks a second).
const LAST_LEVEL: u32 = 8;

/// The wheel of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerWheel {
    /// How long before the origin of time its clock began to tick. Hosts that began at other instants round differently.
    pub running_for: Nanos,
}

impl TimerWheel {
    /// A duration in whole ticks.
    pub fn in_ticks(duration: Nanos) -> Nanos {
        duration.div_ceil(TICK) * TICK
    }

    /// When a timer that is set at `now` for `at` expires.
    pub fn expiry(self, now: Nanos, at: Nanos) -> Nanos {
        let set = (now + self.running_for) / TICK;
        let ticks = at.saturating_sub(now).div_ceil(TICK);
        let level = (0..LAST_LEVEL).find(|level| ticks < PLACES << (level * LEVEL_BITS));
        let shift = level.unwrap_or(LAST_LEVEL) * LEVEL_BITS;
        let place = ((set + ticks) >> shift) + 1;
        ((place << shift) * TICK).saturating_sub(self.running_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    const WHEEL: TimerWheel = TimerWheel { running_for: 0 };

    #[test]
    fn a_timer_expires_at_the_end_of_its_place() {
        // Below 252 ms places are of one tick; then of 32 ms, from 2.016 s on of 256 ms, from 16.128 s on of 2.048 s.
        let expiries = [0, 1, 40, 248, 252, 500, 2_000, 2_016, 16_127, 16_128].map(|ms| {
            let expiry = WHEEL.expiry(0, ms * MILLISECOND);
            expiry / MILLISECOND
        });
        let expected = [4, 8, 44, 252, 256, 512, 2_016, 2_048, 16_384, 16_384];
        assert_eq!(expiries, expected);
    }

    #[test]
    fn it_never_expires_early_and_less_than_a_place_and_a_tick_late() {
        for running_for in [0, 3_141_592, 7 * SECOND + 65_358] {
            let wheel = TimerWheel { running_for };
            for step in 1..2_000_u64 {
                let (now, runs) = (step * 7_777_777, step * step * 9_973);
                let late = wheel.expiry(now, now + runs) - (now + runs);
                let place = [4, 32, 256, 2_048].map(|ms| ms * MILLISECOND);
                let level = [252, 2_016, 16_128].map(|ms| runs > (ms - 4) * MILLISECOND);
                let place = place[level.iter().filter(|is_above| **is_above).count()];
                assert!(late <= place + TICK, "{runs}: {late}");
            }
        }
    }

    #[test]
    fn clocks_that_began_at_other_instants_round_differently() {
        let expiry = |running_for| TimerWheel { running_for }.expiry(0, 500 * MILLISECOND);
        assert_ne!(expiry(0), expiry(17 * MILLISECOND));
    }
}
