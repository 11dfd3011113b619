//! Pacing: when pieces of a stream, or datagrams, may be sent.

use crate::time::{NANOS_PER_SECOND, Nanos};

/// Equal pieces at a constant rate, some of them ahead of time. Rounding errors do not accumulate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Payload of a piece in bytes.
    pub piece_bytes: u64,
    /// Payload rate in bit/s.
    pub rate_bps: u64,
    /// Pieces due within this time after the start are due at the start.
    pub ahead: Nanos,
}

impl Pace {
    /// Returns a pace of one piece after another at a constant rate, the first at the start.
    pub fn constant(rate_bps: u64, size_bytes: u32) -> Self {
        Self {
            piece_bytes: size_bytes.into(),
            rate_bps,
            ahead: 0,
        }
    }

    /// Returns when piece `number` is due, counted from the start.
    pub fn due(&self, number: u64) -> Nanos {
        // 128-bit divisions are slow and rarely needed.
        let narrow = u64::try_from(self.work()).ok();
        let at = match narrow.and_then(|work| number.checked_mul(work)) {
            Some(work) => work / self.rate_bps,
            None => {
                let work = u128::from(number) * self.work();
                Nanos::try_from(work / u128::from(self.rate_bps)).unwrap_or(Nanos::MAX)
            }
        };
        at.saturating_sub(self.ahead)
    }

    /// Returns how many pieces are due at `after_start`.
    pub fn due_by(&self, after_start: Nanos) -> u64 {
        let elapsed = u128::from(after_start) + u128::from(self.ahead);
        // The largest number with due(number) <= after_start. Pieces count from 0.
        let last = ((elapsed + 1) * u128::from(self.rate_bps) - 1) / self.work();
        u64::try_from(last).map_or(u64::MAX, |last| last.saturating_add(1))
    }

    /// Returns how many pieces are due before `duration`.
    pub fn within(&self, duration: Nanos) -> u64 {
        duration.checked_sub(1).map_or(0, |last| self.due_by(last))
    }

    /// Returns the bits of a piece times the nanoseconds of a second.
    fn work(&self) -> u128 {
        u128::from(self.piece_bytes) * 8 * u128::from(NANOS_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_due_when_the_rate_says() {
        let pace = Pace::constant(3_000_000, 1000);
        assert_eq!(pace.due(0), 0);
        assert_eq!(pace.due(3), 8_000_000);
        for number in 0..1000 {
            let due = pace.due(number);
            assert_eq!(pace.due_by(due), number + 1, "{number}");
            assert_eq!(pace.within(due), number, "{number}");
        }
        assert_eq!(pace.within(1_000_000_000), 375);
    }

    #[test]
    fn wide_products_give_what_narrow_ones_would() {
        let pace = Pace::constant(1_000_000_000, 1500);
        let number = 2_000_000_000;
        assert_eq!(pace.due(number), number * 12_000);
        assert_eq!(pace.due(1 << 20), (1 << 20) * 12_000);
    }

    #[test]
    fn what_is_ahead_is_due_at_once() {
        let pace = Pace {
            ahead: 5_000_000,
            ..Pace::constant(8_000_000, 1000)
        };
        assert_eq!(pace.due_by(0), 6);
        assert_eq!(pace.due(5), 0);
        assert_eq!(pace.due(6), 1_000_000);
    }
}
