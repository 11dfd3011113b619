//! The RTT as a receiver of data measures it: from a local timestamp until data echoes it (Linux's
//! `rcv_rtt_est`).

use super::timestamps;
use crate::time::{MILLISECOND, Nanos};

/// Estimates the RTT from received data.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveRtt {
    smoothed: Option<Nanos>,
    last_echo: u32,
}

impl ReceiveRtt {
    /// Records a sample from data that arrived at `now` and echoes the local timestamp `echo`. Only
    /// the first echo of each timestamp counts.
    pub fn sample(&mut self, now: Nanos, echo: u32) {
        let elapsed = timestamps::clock(now).wrapping_sub(echo);
        if echo == self.last_echo || (elapsed as i32) < 0 {
            return;
        }
        self.last_echo = echo;
        let rtt = (Nanos::from(elapsed) * MILLISECOND).max(MILLISECOND);
        let smoothed = self.smoothed.map_or(rtt, |old| old - old / 8 + rtt / 8);
        self.smoothed = Some(smoothed);
    }

    /// Returns the smoothed RTT in nanoseconds, in which each sample has the weight 1/8. Returns
    /// `None` before the first sample.
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }
}
