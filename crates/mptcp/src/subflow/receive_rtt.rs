//! The round-trip time as a receiver of data sees it (`rcv_rtt_est` of Linux): from a timestamp of ours until data echoes it.

use super::timestamps;
use crate::time::{MILLISECOND, Nanos};

/// The estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveRtt {
    smoothed: Option<Nanos>,
    last_echo: u32,
}

impl ReceiveRtt {
    /// Data came that echoes a timestamp of ours. The first that does so answers what had that timestamp.
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

    /// The mean, each sample weighing an eighth.
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }
}
