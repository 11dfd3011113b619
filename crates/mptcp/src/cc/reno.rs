//! `reno`: additive increase, multiplicative decrease (RFC 5681). The subflows are independent.

use super::CongestionControl;
use super::Control;
use super::fluid;
use super::parameters;
use super::parameters::Parameters;
use super::paths::Path;
use super::window_rule::{WindowBased, WindowRule};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "reno",
        aliases: &["newreno"],
        summary: "Grows the window by one packet per RTT and halves it on loss, separately for each subflow, so n subflows at one bottleneck take n shares",
        source: "RFC 5681",
        parameters: parameters::WINDOW_BASED,
    },
    make: control,
    fluid: Ok(|paths, _| fluid::each(paths, fluid::reno)),
};

/// Smallest slow start threshold in packets (RFC 5681, equation 4).
pub const SSTHRESH_FLOOR_PACKETS: f64 = 2.0;

/// Returns the number of packets by which a window of `window_packets` grows per acknowledged
/// packet: one packet per round trip (RFC 5681, equation 3).
pub fn increase(window_packets: f64) -> f64 {
    1.0 / window_packets
}

/// Returns the window in packets after a loss at a window of `window_packets`: half of it (RFC
/// 5681, equation 4).
///
/// As in Linux, cwnd is halved, not the amount in flight. The two differ if the application or the
/// scheduler did not fill the window.
pub fn after_loss(window_packets: f64) -> f64 {
    window_packets / 2.0
}

#[derive(Debug)]
struct Reno;

impl WindowRule for Reno {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        increase(paths[this].window_packets) * acked_bytes
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(WindowBased::new(Reno, parameters))
}
