//! Durations as a distribution that takes the same space for any number of them.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::time::{Nanos, seconds};

/// Quantiles are right within one hundredth.
const SIGNIFICANT_DIGITS: u8 = 2;

/// Durations that were seen.
#[derive(Debug, Default)]
pub(in crate::trace) struct Distribution {
    histogram: Option<Box<Histogram<u32>>>,
    least: Nanos,
    most: Nanos,
}

/// What is said of durations, in seconds.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Durations {
    /// How many.
    pub n: u64,
    /// The shortest.
    pub min_s: f64,
    /// Half are no longer.
    pub median_s: f64,
    /// 95 % are no longer.
    pub p95_s: f64,
    /// The longest.
    pub max_s: f64,
}

impl Distribution {
    pub(in crate::trace) fn add(&mut self, duration: Nanos) {
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
        // In microseconds, as captures rarely know better.
        histogram.saturating_record(duration / 1000);
    }

    /// What is said of them; nothing if there are none.
    pub(in crate::trace) fn durations(&self) -> Option<Durations> {
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
