//! `balia`: Balanced Linked Adaptation (Peng et al., ToN 2016;
//! draft-walid-mptcp-congestion-control-04). It lies between LIA and OLIA in friendliness,
//! responsiveness and oscillation.

use super::CongestionControl;
use super::Control;
use super::fluid;
use super::olia;
use super::parameters;
use super::parameters::Parameters;
use super::paths::{Path, linked_increase};
use super::window_rule::{WindowBased, WindowRule};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "balia",
        aliases: &[],
        summary: "Compromises between the rules of lia and olia",
        source: "Peng et al., ToN 2016; draft-walid-mptcp-congestion-control-04",
        parameters: parameters::WINDOW_BASED_LOW_FLOOR,
    },
    make: control,
    fluid: Ok(|paths, _| fluid::balia(paths)),
};

/// Upper limit of alpha in [`decrease`]: a loss reduces the window by at most three quarters.
pub const LARGEST_DECREASE_ALPHA: f64 = 1.5;

/// Returns alpha of `paths[this]`: the rate of the fastest path divided by the rate of this path,
/// at least 1.
pub fn alpha(paths: &[Path], this: usize) -> f64 {
    let fastest = paths.iter().map(Path::rate).fold(0.0, f64::max);
    fastest / paths[this].rate()
}

/// Returns the factor by which BALIA multiplies the linked increase: (1+alpha)/2 (4+alpha)/5.
/// `alpha` is that of the path ([`alpha`]).
pub fn increase_factor(alpha: f64) -> f64 {
    (1.0 + alpha) / 2.0 * ((4.0 + alpha) / 5.0)
}

/// Returns the number of packets by which the window of `paths[this]` grows per acknowledged
/// packet: the linked increase times [`increase_factor`].
pub fn increase(paths: &[Path], this: usize) -> f64 {
    linked_increase(paths, this) * increase_factor(alpha(paths, this))
}

/// Returns the number of packets by which a loss on `paths[this]` reduces its window w: w/2
/// min(alpha, 1.5).
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
