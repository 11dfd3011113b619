//! How late packets are delivered, and which transmissions they missed because they were read late.
//! Decides whether a run in real time is valid.

use experiment::time::Nanos;
use serde::Serialize;

/// A run is invalid if more than one in a hundred packets of a link direction is delivered later
/// than this.
pub const LATENESS_BOUND_NS: Nanos = 5_000_000;
/// A run is invalid if the emulator ever stood still for this long. It is the kernel's shortest
/// retransmission timeout, which such a pause would fire.
pub const STANDSTILL_BOUND_NS: Nanos = 200_000_000;
/// A run is invalid if more than one in this many transmissions of a link direction would have
/// carried more packets had they been read in time.
pub const TRANSMISSIONS_PER_MISS: u64 = 100;
/// With fewer packets, or transmissions, the hundredth is not evaluated.
const LEAST_PACKETS: u64 = 100;

/// Buckets per factor of two: quantiles are at most an eighth too large.
const BUCKETS_PER_OCTAVE: u32 = 8;
const BUCKETS: usize = (64 * BUCKETS_PER_OCTAVE) as usize;

/// How late the deliveries of one link direction were.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    sum: Nanos,
    worst: Nanos,
    /// Deliveries since the last sample.
    recent_count: u64,
    recent_sum: Nanos,
    /// Transmissions that a packet missed, and the start of the last of them.
    missed: u64,
    last_missed: Option<Nanos>,
}

/// How late the deliveries of a link direction were, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessSummary {
    /// The mean.
    pub mean_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The maximum.
    pub max_s: f64,
    /// The number of deliveries.
    pub deliveries: u64,
    /// Transmissions that would have carried more packets had they been read in time.
    pub missed_transmissions: u64,
}

/// Which bound a link direction exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// Deliveries are too late.
    Lateness,
    /// Packets missed too many of the transmissions, of which this is the number.
    Missed { of: u64 },
}

impl Lateness {
    pub(crate) fn new() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            sum: 0,
            worst: 0,
            recent_count: 0,
            recent_sum: 0,
            missed: 0,
            last_missed: None,
        }
    }

    /// Records that a packet missed the transmission that began at `start`. Several packets may have
    /// missed the same.
    pub(super) fn record_missed(&mut self, start: Nanos) {
        self.missed += u64::from(self.last_missed != Some(start));
        self.last_missed = Some(start);
    }

    pub(crate) fn record(&mut self, late: Nanos) {
        self.buckets[bucket(late)] += 1;
        self.count += 1;
        self.sum += late;
        self.worst = self.worst.max(late);
        self.recent_count += 1;
        self.recent_sum += late;
    }

    /// Returns the mean lateness in seconds since the last call; `None` if there was no delivery.
    pub(super) fn take_recent_mean_s(&mut self) -> Option<f64> {
        let count = std::mem::take(&mut self.recent_count);
        let sum = std::mem::take(&mut self.recent_sum);
        (count > 0).then(|| sum as f64 / count as f64 / 1e9)
    }

    pub(crate) fn summary(&self) -> LatenessSummary {
        LatenessSummary {
            mean_s: self.sum as f64 / self.count.max(1) as f64 / 1e9,
            p99_s: self.p99() as f64 / 1e9,
            max_s: self.worst as f64 / 1e9,
            deliveries: self.count,
            missed_transmissions: self.missed,
        }
    }

    /// Returns the bound that a direction with so many `transmissions` exceeds, if any.
    pub(super) fn excess(&self, transmissions: u64) -> Option<Excess> {
        if self.is_too_large() {
            return Some(Excess::Lateness);
        }
        let is_beyond =
            transmissions >= LEAST_PACKETS && self.missed * TRANSMISSIONS_PER_MISS > transmissions;
        is_beyond.then_some(Excess::Missed { of: transmissions })
    }

    /// Returns whether too many deliveries were too late.
    pub(crate) fn is_too_large(&self) -> bool {
        self.count >= LEAST_PACKETS && self.p99() > LATENESS_BOUND_NS
    }

    fn p99(&self) -> Nanos {
        let mut above = self.count / 100;
        for (index, count) in self.buckets.iter().enumerate().rev() {
            if *count > above {
                return upper_end(index).min(self.worst);
            }
            above -= count;
        }
        0
    }
}

fn bucket(late: Nanos) -> usize {
    let octave = late.max(1).ilog2();
    let within = ((late.max(1) - (1 << octave)) as u128 * u128::from(BUCKETS_PER_OCTAVE)) >> octave;
    (octave * BUCKETS_PER_OCTAVE) as usize + within as usize
}

fn upper_end(bucket: usize) -> Nanos {
    let (octave, within) = (
        bucket as u32 / BUCKETS_PER_OCTAVE,
        bucket as u64 % u64::from(BUCKETS_PER_OCTAVE),
    );
    let octave_start = 1_u128 << octave;
    let end = octave_start + octave_start * u128::from(within + 1) / u128::from(BUCKETS_PER_OCTAVE);
    Nanos::try_from(end).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close_and_never_below() {
        let mut lateness = Lateness::new();
        for late in 1..=10_000 {
            lateness.record(late * 1000);
        }
        let summary = lateness.summary();
        assert!(
            (9.9e-3..=9.9e-3 * 1.125).contains(&summary.p99_s),
            "{summary:?}"
        );
        assert_eq!(summary.max_s, 10e-3);
        assert_eq!(lateness.excess(0), Some(Excess::Lateness));
    }

    #[test]
    fn one_transmission_in_a_hundred_may_be_missed() {
        let mut lateness = Lateness::new();
        for start in [1, 1, 5, 5, 5] {
            lateness.record_missed(start);
        }
        assert_eq!(lateness.summary().missed_transmissions, 2);
        assert_eq!(lateness.excess(200), None);
        assert_eq!(lateness.excess(199), Some(Excess::Missed { of: 199 }));
        assert_eq!(lateness.excess(99), None, "too few to tell");
    }

    #[test]
    fn one_in_a_hundred_may_be_late() {
        let mut lateness = Lateness::new();
        for number in 0..1000 {
            lateness.record(if number % 100 == 0 {
                50_000_000
            } else {
                10_000
            });
        }
        assert_eq!(lateness.excess(0), None);
        lateness.record(50_000_000);
        assert_eq!(lateness.excess(0), Some(Excess::Lateness));
    }

    #[test]
    fn nothing_recorded_is_not_late() {
        let lateness = Lateness::new();
        assert_eq!(lateness.excess(0), None);
        assert_eq!(lateness.summary(), LatenessSummary::default());
    }

    #[test]
    fn every_time_has_a_bucket_that_holds_it() {
        for late in [0, 1, 2, 3, 7, 1000, 123_456_789, u64::MAX / 2, u64::MAX] {
            assert!(upper_end(bucket(late)) >= late);
        }
    }
}
