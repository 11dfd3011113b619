//! `coupled`: all subflows together are one TCP on the paths of least loss (Kelly and Voice 2005; Wischik et al.,
//! NSDI 2011). It leaves lossy paths at the least window, and of equal paths it takes now one and now the other.

use super::CongestionControl;
use super::parameters::Parameters;
use super::paths::{Path, total_packets};
use super::window_rule::{WindowBased, WindowRule};

/// Packets by which any window grows per acknowledged packet when all together have `total_packets`.
pub fn increase(total_packets: f64) -> f64 {
    1.0 / total_packets
}

/// What a loss leaves of a window: it takes half of all windows from the one that lost.
pub fn after_loss(window_packets: f64, total_packets: f64) -> f64 {
    (window_packets - total_packets / 2.0).max(0.0)
}

#[derive(Debug)]
struct Coupled;

impl WindowRule for Coupled {
    fn increase_bytes(&self, paths: &[Path], _this: usize, acked_bytes: f64) -> f64 {
        increase(total_packets(paths)) * acked_bytes
    }

    fn after_loss(&self, paths: &[Path], this: usize) -> f64 {
        after_loss(paths[this].window_packets, total_packets(paths))
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(WindowBased::new(Coupled, parameters))
}
