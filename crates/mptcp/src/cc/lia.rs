//! `lia`: Linked Increases (RFC 6356). All subflows together get the rate of TCP on the best path,
//! and no subflow grows faster than TCP. LIA is not Pareto-optimal (Khalili et al., CoNEXT 2012).

use super::CongestionControl;
use super::Control;
use super::fluid;
use super::parameters;
use super::parameters::{LiaForm, Parameters};
use super::paths::{Path, linked_increase, sum_in_rtts_of, total_packets};
use super::reno;
use super::window_rule::{WindowBased, WindowRule};
use crate::algorithm::{Description, Parameter, Value};

const FORM: Parameter<Parameters> = Parameter {
    name: "form",
    unit: "",
    meaning: "which formula is used: that of RFC 6356 in real numbers, the integer form in its section 4.1, or that of Wischik et al., NSDI 2011",
    computed_default: None,
    value: Value::Choice {
        words: &["real", "integer", "nsdi"],
        get: |given| match given.lia.form {
            LiaForm::Real => 0,
            LiaForm::Integer { .. } => 1,
            LiaForm::Nsdi => 2,
        },
        set: |given, form| {
            given.lia.form = match form {
                0 => LiaForm::Real,
                1 => LiaForm::Integer { alpha_scale: 512 },
                _ => LiaForm::Nsdi,
            }
        },
    },
};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "lia",
        aliases: &[],
        summary: "Takes as much as TCP would on the best path, and lets no subflow grow faster than TCP",
        source: "RFC 6356",
        parameters: &[
            parameters::ACK_COUNTING,
            parameters::SSTHRESH_FLOOR,
            parameters::SLOW_START_LIMIT,
            FORM,
        ],
    },
    make: control,
    fluid: Ok(|paths, _| fluid::lia(paths)),
};

/// Returns alpha, the aggressiveness of all subflows together (RFC 6356, section 3, equation 2):
/// alpha = W max(w_i/rtt_i^2) / (sum of w_i/rtt_i)^2, where W is the sum of all windows. For a
/// single path it is exactly 1.
pub fn alpha(paths: &[Path]) -> f64 {
    let quality = |path: &&Path| path.window_packets / (path.rtt_s * path.rtt_s);
    let best = paths
        .iter()
        .max_by(|one, other| quality(one).total_cmp(&quality(other)));
    best.map_or(0.0, |best| {
        let sum = sum_in_rtts_of(best, paths);
        total_packets(paths) / sum * (best.window_packets / sum)
    })
}

/// Returns the number of packets by which the window of `paths[this]` grows per acknowledged
/// packet: min(alpha/W, 1/w) (RFC 6356, section 3, equation 1).
pub fn increase(paths: &[Path], this: usize) -> f64 {
    let linked = alpha(paths) / total_packets(paths);
    linked.min(reno::increase(paths[this].window_packets))
}

/// Returns the number of packets by which the window of `paths[this]` grows per acknowledged packet
/// in the form of NSDI 2011: the smallest value of max(w_s/rtt_s^2) / (sum of w_s/rtt_s)^2 over all
/// sets of paths that contain this one (Wischik et al., section 2).
///
/// Only sets that consist of all paths up to some value of w/rtt^2 are tried, because no other set
/// gives a smaller value.
pub fn increase_over_sets(paths: &[Path], this: usize) -> f64 {
    let quality = |path: &Path| path.window_packets / (path.rtt_s * path.rtt_s);
    let mut sorted = paths.to_vec();
    sorted.sort_by(|one, other| quality(one).total_cmp(&quality(other)));
    let is_this = |path: &Path| path.subflow == paths[this].subflow;
    let first = sorted.iter().position(is_this).unwrap_or(0);
    let of_set = |last: usize| linked_increase(&sorted[..=last], last);
    let alone = reno::increase(paths[this].window_packets);
    (first..sorted.len()).map(of_set).fold(alone, f64::min)
}

/// A subflow in the integer form of LIA (RFC 6356, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerPath {
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time, above 0, in any unit that all paths share.
    pub rtt: u64,
}

/// Returns alpha of LIA for all `paths` together, times `alpha_scale` and rounded down (RFC 6356,
/// section 4.1). Returns 0 if there are no paths.
pub fn scaled_alpha(paths: &[IntegerPath], alpha_scale: u32) -> u64 {
    let Some(best) = best(paths) else { return 0 };
    let of_path = |path: &IntegerPath| best.rtt * path.cwnd_bytes / path.rtt;
    let sum = u128::from(paths.iter().map(of_path).sum::<u64>());
    let numerator = u128::from(total_bytes(paths)) * u128::from(best.cwnd_bytes);
    let scaled = u128::from(alpha_scale) * numerator / (sum * sum).max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns the path with the largest cwnd/rtt^2.
fn best(paths: &[IntegerPath]) -> Option<&IntegerPath> {
    let squared = |path: &IntegerPath| u128::from(path.rtt) * u128::from(path.rtt);
    let weighted = |path: &IntegerPath, by: &IntegerPath| u128::from(path.cwnd_bytes) * squared(by);
    paths.iter().reduce(|best, path| {
        if weighted(path, best) > weighted(best, path) {
            path
        } else {
            best
        }
    })
}

fn total_bytes(paths: &[IntegerPath]) -> u64 {
    paths.iter().map(|path| path.cwnd_bytes).sum()
}

/// Returns the number of bytes by which the window of `paths[this]` grows when `acked_bytes` are
/// acknowledged, rounded down (RFC 6356, section 4.1). `mss_bytes` is the segment size of this
/// path. `alpha_scale` is the factor by which alpha is scaled, 512 in RFC 6356.
pub fn integer_increase_bytes(
    paths: &[IntegerPath],
    this: usize,
    acked_bytes: u64,
    mss_bytes: u32,
    alpha_scale: u32,
) -> u64 {
    let acked = u128::from(acked_bytes) * u128::from(mss_bytes);
    let scaled_total = u128::from(total_bytes(paths)) * u128::from(alpha_scale);
    let linked = u128::from(scaled_alpha(paths, alpha_scale)) * acked / scaled_total.max(1);
    let alone = acked / u128::from(paths[this].cwnd_bytes.max(1));
    u64::try_from(linked.min(alone)).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct Lia;

impl WindowRule for Lia {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        increase(paths, this) * acked_bytes
    }
}

#[derive(Debug)]
struct LiaOverSets;

impl WindowRule for LiaOverSets {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        increase_over_sets(paths, this) * acked_bytes
    }
}

/// LIA in integers. Round-trip times are in microseconds.
#[derive(Debug)]
struct IntegerLia {
    alpha_scale: u32,
}

impl WindowRule for IntegerLia {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        let in_integers = |path: &Path| IntegerPath {
            cwnd_bytes: (path.window_packets * f64::from(path.mss_bytes)) as u64,
            rtt: ((path.rtt_s * 1e6) as u64).max(1),
        };
        let (mss_bytes, window_packets) = (paths[this].mss_bytes, paths[this].window_packets);
        let paths: Vec<IntegerPath> = paths.iter().map(in_integers).collect();
        let (bytes, scale) = (acked_bytes as u64, self.alpha_scale);
        let increase = integer_increase_bytes(&paths, this, bytes, mss_bytes, scale) as f64;
        // Reno's increase is the limit, because the real window can have a fraction of a byte that
        // the integer form drops.
        increase.min(reno::increase(window_packets) * acked_bytes)
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    match parameters.lia.form {
        LiaForm::Real => Box::new(WindowBased::new(Lia, parameters)),
        LiaForm::Nsdi => Box::new(WindowBased::new(LiaOverSets, parameters)),
        LiaForm::Integer { alpha_scale } => {
            Box::new(WindowBased::new(IntegerLia { alpha_scale }, parameters))
        }
    }
}
