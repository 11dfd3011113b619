//! Controls that differ from Reno only in how much a window grows in congestion avoidance and shrinks after a loss.

use std::fmt::Debug;

use super::parameters::{Growth, Parameters};
use super::paths::{Path, Paths};
use super::{Acked, Congestion, CongestionControl, Context, reno, slow_start};

/// What is special about a control. Windows are in packets.
pub(super) trait WindowRule: Debug + Send {
    /// Bytes by which the window of `paths[this]` grows when so many are acknowledged in congestion avoidance; may be
    /// negative. For a formula in packets per packet that is its product with the bytes.
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64;

    /// What is left of the window of `paths[this]` after a loss, before the floor applies.
    fn after_loss(&self, paths: &[Path], this: usize) -> f64 {
        reno::after_loss(paths[this].window_packets)
    }

    /// The least slow start threshold in packets when there are so many paths.
    fn ssthresh_floor(&self, _paths: usize) -> f64 {
        reno::SSTHRESH_FLOOR_PACKETS
    }

    /// A subflow came.
    fn subflow_added(&mut self) {}

    /// A subflow went.
    fn subflow_removed(&mut self, _which: usize) {}

    /// An acknowledgment arrived.
    fn observe_ack(&mut self, _context: &Context<'_>) {}

    /// Congestion was noticed; the windows are still as before.
    fn observe_congestion(&mut self, _context: &Context<'_>) {}

    /// What is to be seen in traces besides the increase.
    fn state(&self, _which: usize) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A control made of a rule.
#[derive(Debug)]
pub(super) struct WindowBased<R> {
    rule: R,
    growth: Growth,
    paths: Paths,
}

impl<R: WindowRule> WindowBased<R> {
    pub fn new(rule: R, parameters: &Parameters) -> Self {
        Self {
            rule,
            growth: parameters.growth(),
            paths: Paths::default(),
        }
    }

    fn avoid_congestion(&mut self, context: &mut Context<'_>, bytes: f64) {
        let counted = self.growth.counted_bytes(bytes, context);
        let (paths, this) = self.paths.of(context);
        let increase = self.rule.increase_bytes(paths, this, counted);
        context.grow(increase);
    }
}

impl<R: WindowRule> CongestionControl for WindowBased<R> {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        self.rule.subflow_added();
    }

    fn subflow_removed(&mut self, which: usize) {
        self.rule.subflow_removed(which);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        self.rule.observe_ack(context);
        if !acked.is_window_limited {
            return;
        }
        let limit = self.growth.slow_start_limit_packets;
        let left = slow_start::grow(context, f64::from(acked.bytes), limit);
        if left > 0.0 {
            self.avoid_congestion(context, left);
        }
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        self.rule.observe_congestion(context);
        let (paths, this) = self.paths.of(context);
        let floor = self.rule.ssthresh_floor(paths.len());
        let ssthresh = self.rule.after_loss(paths, this) * f64::from(context.this().mss_bytes);
        context.set_ssthresh(
            ssthresh,
            self.growth.ssthresh_floor_packets.unwrap_or(floor),
        );
        if congestion == Congestion::Timeout {
            context.collapse();
        }
    }

    fn state(&self, which: usize) -> Vec<(&'static str, f64)> {
        self.rule.state(which)
    }
}
