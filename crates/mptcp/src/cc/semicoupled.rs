//! `semicoupled`: windows in inverse proportion to loss, with probes on every path (Wischik et al., NSDI 2011).

use super::CongestionControl;
use super::parameters::Parameters;
use super::paths::{Path, total_packets};
use super::window_rule::{WindowBased, WindowRule};

/// Packets by which any window grows per acknowledged packet when all together have `total_packets`.
pub fn increase(total_packets: f64, a: f64) -> f64 {
    a / total_packets
}

#[derive(Debug)]
struct Semicoupled {
    a: f64,
}

impl WindowRule for Semicoupled {
    fn increase_bytes(&self, paths: &[Path], _this: usize, acked_bytes: f64) -> f64 {
        increase(total_packets(paths), self.a) * acked_bytes
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    let rule = Semicoupled {
        a: parameters.semicoupled.a,
    };
    Box::new(WindowBased::new(rule, parameters))
}
