//! `coupled`: all subflows together are one TCP on the paths with the least loss (Kelly and Voice
//! 2005; Wischik et al., NSDI 2011). Lossy paths keep the smallest window. With equal paths, the
//! window moves from one to the other.

use super::CongestionControl;
use super::Control;
use super::fluid;
use super::parameters;
use super::parameters::Parameters;
use super::paths::{Path, total_packets};
use super::window_rule::{WindowBased, WindowRule};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "coupled",
        aliases: &[],
        summary: "Uses only the paths with the least loss",
        source: "Kelly and Voice 2005; Wischik et al., NSDI 2011",
        parameters: parameters::WINDOW_BASED,
    },
    make: control,
    fluid: Ok(|paths, _| fluid::coupled(&fluid::losses(paths))),
};

/// Returns the number of packets by which any window grows per acknowledged packet, if all windows
/// together are `total_packets`.
pub fn increase(total_packets: f64) -> f64 {
    1.0 / total_packets
}

/// Returns the window of a subflow after a loss, in packets. It was `window_packets` before and
/// shrinks by half of `total_packets`, the sum of all windows, but not below 0.
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
