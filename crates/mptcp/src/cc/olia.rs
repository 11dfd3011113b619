//! `olia`: Opportunistic Linked Increases (Khalili et al., CoNEXT 2012; draft-khalili-mptcp-congestion-control-05).
//! Windows move from the largest to those of the best paths that are still small; in the end only the best paths
//! carry.

use super::CongestionControl;
use super::parameters::Parameters;
use super::paths::{Path, linked_increase};
use super::reno;
use super::window_rule::{WindowBased, WindowRule};

/// Qualities that differ by less, relatively, are equal: they are computed from real numbers.
const EQUAL: f64 = 1e-12;

/// What tells the sets B of best paths and M of largest windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sets {
    best_quality: f64,
    largest_window: f64,
}

impl Sets {
    /// The sets of these paths.
    pub fn of(paths: &[Path]) -> Self {
        Self {
            best_quality: paths.iter().map(quality).fold(0.0, f64::max),
            largest_window: paths.iter().map(whole_packets).fold(0.0, f64::max),
        }
    }

    /// Whether the path is in B.
    pub fn is_best(&self, path: &Path) -> bool {
        quality(path) >= self.best_quality * (1.0 - EQUAL)
    }

    /// Whether the path is in M. Windows are compared in whole packets.
    pub fn is_largest(&self, path: &Path) -> bool {
        whole_packets(path) >= self.largest_window
    }

    /// Whether the path is best and its window not the largest: a "collected" path.
    pub fn is_collected(&self, path: &Path) -> bool {
        self.is_best(path) && !self.is_largest(path)
    }
}

/// l/rtt^2, as l estimates 1/p and the rate of TCP is in proportion to 1/(rtt sqrt(p)).
fn quality(path: &Path) -> f64 {
    path.loss_interval_packets / (path.rtt_s * path.rtt_s)
}

fn whole_packets(path: &Path) -> f64 {
    path.window_packets.floor()
}

/// What moves windows: 1/(n|B\M|) on collected paths, -1/(n|M|) on the largest, 0 elsewhere, and everywhere if none is
/// collected. The sum over all paths is 0.
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

/// Packets by which the window grows per acknowledged packet; it may shrink.
pub fn increase(paths: &[Path], this: usize) -> f64 {
    linked_increase(paths, this) + alpha(paths, this) / paths[this].window_packets
}

/// The least slow start threshold in packets: below that of TCP when other subflows carry the connection.
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
