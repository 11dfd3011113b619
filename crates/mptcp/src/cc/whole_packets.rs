//! Windows of whole packets, as Linux counts them.

use super::{Context, Window};

/// `snd_cwnd`: the congestion window, one packet at least.
pub(super) fn packets(window: &Window) -> u32 {
    (window.cwnd_packets() as u32).max(1)
}

/// Sets the congestion window.
pub(super) fn set_packets(context: &mut Context<'_>, packets: u32) {
    context.set_cwnd(f64::from(packets) * f64::from(context.this().mss_bytes));
}

/// `snd_cwnd_cnt`: what was acknowledged and the window has not yet grown by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter(u32);

impl Counter {
    /// `acked` packets were acknowledged, and the window is to grow by one for each `interval` of them. What was left from a longer
    /// interval is worth one packet at most.
    pub fn grow(&mut self, context: &mut Context<'_>, interval: u32, acked: u32) {
        let mut grown = 0;
        if self.0 >= interval {
            (self.0, grown) = (0, 1);
        }
        self.0 = self.0.saturating_add(acked);
        grown += self.0 / interval;
        self.0 %= interval;
        if grown > 0 {
            set_packets(context, packets(context.this()).saturating_add(grown));
        }
    }
}
