//! Windows in whole packets, as Linux counts them.

use super::{Context, Window};

/// `snd_cwnd`: returns the congestion window in packets, at least one.
pub(super) fn packets(window: &Window) -> u32 {
    (window.cwnd_packets() as u32).max(1)
}

/// Sets the congestion window in packets.
pub(super) fn set_packets(context: &mut Context<'_>, packets: u32) {
    context.set_cwnd(f64::from(packets) * f64::from(context.this().mss_bytes));
}

/// `snd_cwnd_cnt`: acknowledged packets that the window has not grown by yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter(u32);

impl Counter {
    /// Counts `acked` packets and grows the window by one packet for each `interval` of them. A
    /// remainder from a longer interval adds at most one packet.
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
