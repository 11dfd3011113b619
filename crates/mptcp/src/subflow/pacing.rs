//! Pacing: when the next segment may be sent, if the congestion control sets a rate.

use super::delivery_rate::interval;
use crate::cc::Window;
use crate::time::{Nanos, seconds};

/// The pacing state of a subflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacing {
    /// The rate in bytes per second, if the subflow is paced.
    rate: Option<f64>,
    next_at: Nanos,
}

impl Pacing {
    /// Sets the rate in bytes per second for the next segments. `None` switches pacing off.
    pub fn set_rate(&mut self, rate: Option<f64>) {
        self.rate = rate;
    }

    /// Returns the time at which pacing allows the next segment, or `None` if it allows one at
    /// `now`.
    pub fn blocked_until(&self, now: Nanos) -> Option<Nanos> {
        (self.rate.is_some() && self.next_at > now).then_some(self.next_at)
    }

    /// Records that a segment of `bytes` was sent at `now`, which postpones the next one.
    pub fn sent(&mut self, now: Nanos, bytes: u32) {
        if let Some(rate) = self.rate {
            self.next_at = self.next_at.max(now) + interval(bytes, rate);
        }
    }

    /// Returns the pacing rate in bytes per second. Without pacing, returns the rate that Linux
    /// computes for `window`: 200 % of cwnd per smoothed RTT while cwnd is below half of ssthresh,
    /// 120 % otherwise. Infinite before the first RTT sample.
    pub fn rate(&self, window: &Window) -> f64 {
        if let Some(rate) = self.rate {
            return rate;
        }
        let Some(srtt) = window.srtt.filter(|srtt| *srtt > 0) else {
            return f64::INFINITY;
        };
        let ratio = if window.cwnd_bytes < window.ssthresh_bytes / 2.0 {
            2.0
        } else {
            1.2
        };
        ratio * window.cwnd_bytes / seconds(srtt)
    }
}
