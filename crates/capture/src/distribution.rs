//! A distribution of durations in constant memory.

use experiment::time::{Nanos, seconds};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Two significant digits: quantiles are correct within one hundredth.
const SIGNIFICANT_DIGITS: u8 = 2;

/// Longer durations count as one day.
const LONGEST_US: u64 = 86_400_000_000;

/// The durations added so far.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    histogram: Option<Box<Histogram<u32>>>,
    least: Nanos,
    most: Nanos,
}

/// A summary of durations in seconds.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Durations {
    /// Number of durations.
    pub n: u64,
    /// The shortest.
    pub min_s: f64,
    /// The median.
    pub median_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
    /// The longest.
    pub max_s: f64,
}

impl Distribution {
    pub(super) fn add(&mut self, duration: Nanos) {
        let histogram = self.histogram.get_or_insert_with(|| {
            let empty = Histogram::new(SIGNIFICANT_DIGITS);
            Box::new(empty.expect("a number of digits that is allowed"))
        });
        self.least = if histogram.is_empty() {
            duration
        } else {
            self.least.min(duration)
        };
        self.most = self.most.max(duration);
        // In microseconds, because captures are rarely more precise.
        let recorded = histogram.record((duration / 1000).min(LONGEST_US));
        recorded.expect("a histogram that grows");
    }

    /// Returns the summary. `None` if there are no durations.
    pub(super) fn durations(&self) -> Option<Durations> {
        let histogram = self.histogram.as_ref()?;
        let (least, most) = (seconds(self.least), seconds(self.most));
        let quantile = |of: f64| (histogram.value_at_quantile(of) as f64 / 1e6).clamp(least, most);
        Some(Durations {
            n: histogram.len(),
            min_s: least,
            median_s: quantile(0.5),
            p95_s: quantile(0.95),
            max_s: most,
        })
    }
}

#[cfg(test)]
mod tests {
    use experiment::time::NANOS_PER_SECOND;

    use super::*;

    #[test]
    fn quantiles_are_right_within_a_hundredth_over_all_magnitudes() {
        for scale in [1_000, 1_000_000, NANOS_PER_SECOND, 600 * NANOS_PER_SECOND] {
            let mut distribution = Distribution::default();
            (1..=100).for_each(|count| distribution.add(count * scale));
            let found = distribution.durations().expect("some");
            let scale_s = seconds(scale);
            assert!((found.median_s / scale_s - 50.0).abs() <= 1.0, "{found:?}");
            assert!((found.p95_s / scale_s - 95.0).abs() <= 1.5, "{found:?}");
            assert_eq!((found.n, found.min_s), (100, scale_s));
        }
    }

    #[test]
    fn nonsense_from_a_hostile_file_is_kept_in_bounds() {
        let mut distribution = Distribution::default();
        distribution.add(u64::MAX);
        assert_eq!(distribution.durations().map(|found| found.n), Some(1));
    }
}
