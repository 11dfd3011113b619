//! `reno`: additive increase, multiplicative decrease (RFC 5681), each subflow for itself.

use super::CongestionControl;
use super::parameters::Parameters;
use super::paths::Path;
use super::window_rule::{WindowBased, WindowRule};

/// The least slow start threshold in packets (RFC 5681, equation 4).
pub const SSTHRESH_FLOOR_PACKETS: f64 = 2.0;

/// Packets by which a window of `window_packets` grows per acknowledged packet (RFC 5681, equation 3): one per round
/// trip.
pub fn increase(window_packets: f64) -> f64 {
    1.0 / window_packets
}

/// What a loss leaves of a window (RFC 5681, equation 4). As in Linux it halves cwnd, not what is in flight, which
/// differs when the application or the scheduler gave too little.
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
