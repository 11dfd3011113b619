//! Bytes over time, in a bounded number of bins however long a capture is.

use experiment::time::{Nanos, seconds};
use serde::Serialize;

/// Initial width of the bins.
const FIRST_WIDTH: Nanos = 10_000_000;
/// The most bins. Beyond that, pairs of bins are merged.
const MOST_BINS: usize = 512;

/// Bytes in bins of equal width, from an origin common to all rates.
#[derive(Debug)]
pub(super) struct Rate {
    width: Nanos,
    bins: Vec<u64>,
}

/// Bytes over time.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Bins {
    /// Width of a bin.
    pub bin_s: f64,
    /// Bytes in each bin, from the start of the capture.
    pub bytes: Vec<u64>,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            width: FIRST_WIDTH,
            bins: Vec::new(),
        }
    }
}

impl Rate {
    /// Adds bytes at a time since the origin.
    pub(super) fn add(&mut self, at: Nanos, bytes: u64) {
        while at / self.width >= MOST_BINS as u64 {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.width = self.width.saturating_mul(2);
        }
        let index = (at / self.width) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, 0);
        }
        self.bins[index] += bytes;
    }

    pub(super) fn bins(&self) -> Bins {
        Bins {
            bin_s: seconds(self.width),
            bytes: self.bins.clone(),
        }
    }
}
