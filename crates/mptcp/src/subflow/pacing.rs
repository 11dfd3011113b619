//! When the next segment may go, if the congestion control gives a rate.

use super::delivery_rate::interval;
use crate::cc::Window;
use crate::time::{Nanos, seconds};

/// The pace.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacing {
    /// Bytes per second, if it is paced.
    rate: Option<f64>,
    next_at: Nanos,
}

impl Pacing {
    /// The rate of now on.
    pub fn set_rate(&mut self, rate: Option<f64>) {
        self.rate = rate;
    }

    /// When the next segment may go, if that is later than now.
    pub fn blocked_until(&self, now: Nanos) -> Option<Nanos> {
        (self.rate.is_some() && self.next_at > now).then_some(self.next_at)
    }

    /// A segment was sent.
    pub fn sent(&mut self, now: Nanos, bytes: u32) {
        if let Some(rate) = self.rate {
            self.next_at = self.next_at.max(now) + interval(bytes, rate);
        }
    }

    /// Bytes per second, paced or as Linux would: twice the window per round trip in slow start, else 120 % of it.
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
