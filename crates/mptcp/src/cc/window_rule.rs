//! Congestion controls that differ from Reno only in how the window grows in congestion avoidance
//! and shrinks after a loss.

use std::fmt::Debug;

use super::parameters::{Growth, Parameters};
use super::paths::{Path, Paths};
use super::{Acked, Congestion, CongestionControl, Context, reno, slow_start};

/// The rule in which a control differs from Reno. Windows are in packets.
pub(super) trait WindowRule: Debug + Send {
    /// Returns the number of bytes by which the window of `paths[this]` grows when `acked_bytes`
    /// are acknowledged in congestion avoidance. Can be negative. For a formula in packets per
    /// packet, this is its product with `acked_bytes`.
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64;

    /// Returns the window of `paths[this]` after a loss, in packets, before the floor of ssthresh
    /// applies.
    fn after_loss(&self, paths: &[Path], this: usize) -> f64 {
        reno::after_loss(paths[this].window_packets)
    }

    /// Returns the smallest slow start threshold in packets for this number of paths.
    fn ssthresh_floor(&self, _paths: usize) -> f64 {
        reno::SSTHRESH_FLOOR_PACKETS
    }

    /// Called when a subflow is added.
    fn subflow_added(&mut self) {}

    /// Called when a subflow is removed.
    fn subflow_removed(&mut self, _subflow: usize) {}

    /// Called for each acknowledgment.
    fn observe_ack(&mut self, _context: &Context<'_>) {}

    /// Called on congestion, before windows change.
    fn observe_congestion(&mut self, _context: &Context<'_>) {}

    /// Returns named values for traces.
    fn state(&self, _subflow: usize) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A congestion control that follows a rule.
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

    fn subflow_removed(&mut self, subflow: usize) {
        self.rule.subflow_removed(subflow);
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

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        self.rule.state(subflow)
    }
}
