//! `olia`: Opportunistic Linked Increases (Khalili et al., CoNEXT 2012;
//! draft-khalili-mptcp-congestion-control-05). Capacity moves from the largest windows to the small
//! windows of the best paths. In the end, only the best paths carry data.

use super::CongestionControl;
use super::Control;
use super::fluid;
use super::parameters;
use super::parameters::Parameters;
use super::paths::{Path, linked_increase};
use super::reno;
use super::window_rule::{WindowBased, WindowRule};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "olia",
        aliases: &[],
        summary: "Uses only the best paths, and returns to paths that become free",
        source: "Khalili et al., CoNEXT 2012; draft-khalili-mptcp-congestion-control-05",
        parameters: parameters::WINDOW_BASED_LOW_FLOOR,
    },
    make: control,
    fluid: Ok(|paths, _| fluid::olia(paths)),
};

/// Qualities with a smaller relative difference are equal, because they are computed in floating
/// point.
const EQUAL: f64 = 1e-12;

/// The sets of OLIA: the set B of best paths and the set M of paths with the largest window, kept
/// as the thresholds that define them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sets {
    best_quality: f64,
    largest_window: f64,
}

impl Sets {
    /// Computes the thresholds from all paths of a connection.
    pub fn of(paths: &[Path]) -> Self {
        Self {
            best_quality: paths.iter().map(quality).fold(0.0, f64::max),
            largest_window: paths.iter().map(whole_packets).fold(0.0, f64::max),
        }
    }

    /// Returns whether `path` is in B, the set of best paths.
    pub fn is_best(&self, path: &Path) -> bool {
        quality(path) >= self.best_quality * (1.0 - EQUAL)
    }

    /// Returns whether `path` is in M, the set of paths with the largest window. Windows are
    /// compared in whole packets.
    pub fn is_largest(&self, path: &Path) -> bool {
        whole_packets(path) >= self.largest_window
    }

    /// Returns whether `path` is a "collected" path: in B but not in M.
    pub fn is_collected(&self, path: &Path) -> bool {
        self.is_best(path) && !self.is_largest(path)
    }
}

/// Quality of a path: l/rtt^2, because l estimates 1/p, and TCP's rate is proportional to 1/(rtt
/// sqrt(p)).
fn quality(path: &Path) -> f64 {
    path.loss_interval_packets / (path.rtt_s * path.rtt_s)
}

fn whole_packets(path: &Path) -> f64 {
    path.window_packets.floor()
}

/// Returns alpha of `paths[this]`, which moves capacity between the n paths: 1/(n|B\M|) for a
/// collected path, -1/(n|M|) for a path with the largest window, 0 otherwise. If no path is
/// collected, alpha is 0 for all. The sum over all paths is 0.
pub fn alpha(paths: &[Path], this: usize) -> f64 {
    let sets = Sets::of(paths);
    let count =
        |has: fn(&Sets, &Path) -> bool| paths.iter().filter(|path| has(&sets, path)).count();
    let (collected, largest) = (count(Sets::is_collected), count(Sets::is_largest));
    let of_set = |members: usize| 1.0 / (paths.len() * members) as f64;
    if collected > 0 && sets.is_collected(&paths[this]) {
        of_set(collected)
    } else if collected > 0 && sets.is_largest(&paths[this]) {
        -of_set(largest)
    } else {
        0.0
    }
}

/// Returns the number of packets by which the window of `paths[this]` grows per acknowledged
/// packet: the linked increase plus alpha/w. Can be negative.
pub fn increase(paths: &[Path], this: usize) -> f64 {
    linked_increase(paths, this) + alpha(paths, this) / paths[this].window_packets
}

/// Returns the smallest slow start threshold in packets for a connection with `paths` subflows: 2
/// with one subflow, as in TCP; 1 with several, because the others then carry the connection.
pub fn ssthresh_floor(paths: usize) -> f64 {
    if paths > 1 {
        1.0
    } else {
        reno::SSTHRESH_FLOOR_PACKETS
    }
}

#[derive(Debug)]
struct Olia;

impl WindowRule for Olia {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        increase(paths, this) * acked_bytes
    }

    fn ssthresh_floor(&self, paths: usize) -> f64 {
        ssthresh_floor(paths)
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(WindowBased::new(Olia, parameters))
}
