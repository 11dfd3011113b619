//! The timer wheel of Linux: timers expire at clock ticks, and distant timers in coarser steps.
//!
//! Since Linux 4.8, a timer is put into one of several levels of a wheel by the time until it is
//! due, and stays there. Each level has 64 slots. A slot of the next level is eight times as long.
//! A timer never expires before the end of its slot, so it never expires early.

use crate::time::{MILLISECOND, Nanos};

/// The duration of a clock tick: 4 ms, which is 250 ticks per second (`CONFIG_HZ`), the default of
/// Linux and Debian.
pub const TICK: Nanos = 4 * MILLISECOND;

/// Slots of a level, without the current one.
const PLACES: u64 = 63;
/// A slot is 2^3 times as long as a slot of the level below.
const LEVEL_BITS: u32 = 3;
/// The coarsest of nine levels (with 250 ticks per second).
const LAST_LEVEL: u32 = 8;

/// The timer wheel of a host, which rounds the expiry of timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerWheel {
    /// How long before the driver's origin of time the clock of the host started. On hosts with
    /// different values, the same timer is rounded differently.
    pub running_for: Nanos,
}

impl TimerWheel {
    /// Rounds `duration` up to a whole number of ticks. Both are in nanoseconds.
    pub fn in_ticks(duration: Nanos) -> Nanos {
        duration.div_ceil(TICK) * TICK
    }

    /// Returns when a timer that is set at `now` for the time `at` expires: at the end of its slot,
    /// and never before `at`.
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
        // Below 252 ms, slots are one tick long; from there on 32 ms, from 2.016 s on 256 ms, and
        // from 16.128 s on 2.048 s.
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
