//! `ewtcp`: each subflow is a TCP of a fixed weight, so that all together are one TCP at a shared bottleneck
//! (Honda et al., PFLDNeT 2009). No load moves to better paths.

use super::CongestionControl;
use super::parameters::Parameters;
use super::paths::Path;
use super::window_rule::{WindowBased, WindowRule};

/// The weight with which n subflows of equal loss have the window of one TCP: as w = sqrt(2a/p), n sqrt(a) = 1.
///
/// The text of Wischik et al. (NSDI 2011) has 1/sqrt(n), which with the same increase would make n^(3/4) TCPs.
pub fn weight(subflows: usize) -> f64 {
    let n = subflows as f64;
    1.0 / (n * n)
}

/// Packets by which a window grows per acknowledged packet, with weight `a`.
pub fn increase(window_packets: f64, a: f64) -> f64 {
    a / window_packets
}

#[derive(Debug)]
struct Ewtcp {
    a: Option<f64>,
}

impl WindowRule for Ewtcp {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        let a = self.a.unwrap_or_else(|| weight(paths.len()));
        increase(paths[this].window_packets, a) * acked_bytes
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    let rule = Ewtcp {
        a: parameters.ewtcp.a,
    };
    Box::new(WindowBased::new(rule, parameters))
}
