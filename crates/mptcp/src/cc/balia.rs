//! `balia`: Balanced Linked Adaptation (Peng et al., ToN 2016; draft-walid-mptcp-congestion-control-04), between LIA
//! and OLIA in friendliness, responsiveness and oscillation.

use super::CongestionControl;
use super::olia;
use super::parameters::Parameters;
use super::paths::{Path, linked_increase};
use super::window_rule::{WindowBased, WindowRule};

/// A loss takes at most three quarters of a window.
pub const LARGEST_DECREASE_ALPHA: f64 = 1.5;

/// By how much the rate of the fastest path exceeds that of this one; at least 1.
pub fn alpha(paths: &[Path], this: usize) -> f64 {
    let fastest = paths.iter().map(Path::rate).fold(0.0, f64::max);
    fastest / paths[this].rate()
}

/// (1+alpha)/2 (4+alpha)/5: what the linked increase is multiplied by.
pub fn increase_factor(alpha: f64) -> f64 {
    (1.0 + alpha) / 2.0 * ((4.0 + alpha) / 5.0)
}

/// Packets by which the window grows per acknowledged packet.
pub fn increase(paths: &[Path], this: usize) -> f64 {
    linked_increase(paths, this) * increase_factor(alpha(paths, this))
}

/// Packets that a loss takes from the window: w/2 min(alpha, 1.5).
pub fn decrease(paths: &[Path], this: usize) -> f64 {
    paths[this].window_packets / 2.0 * alpha(paths, this).min(LARGEST_DECREASE_ALPHA)
}

#[derive(Debug)]
struct Balia;

impl WindowRule for Balia {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        increase(paths, this) * acked_bytes
    }

    fn after_loss(&self, paths: &[Path], this: usize) -> f64 {
        paths[this].window_packets - decrease(paths, this)
    }

    fn ssthresh_floor(&self, paths: usize) -> f64 {
        olia::ssthresh_floor(paths)
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(WindowBased::new(Balia, parameters))
}
