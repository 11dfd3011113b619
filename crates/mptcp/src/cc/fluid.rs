//! Equilibria of the congestion controls in fluid models: the windows at which growth and loss
//! balance, if loss does not depend on the windows. They predict what a simulated or real run
//! should show.
//!
//! `p` is the probability, above 0, that a packet starts a loss episode. Windows are in packets,
//! times in seconds.

use thiserror::Error;

use super::parameters::{AckCounting, LiaForm, Parameters};
use super::{CONGESTION_CONTROLS, balia};

/// A path with a fixed loss rate and round-trip time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossyPath {
    /// Loss rate: the probability that a packet starts a loss episode, above 0 and below 1.
    pub p: f64,
    /// Round-trip time in seconds.
    pub rtt_s: f64,
}

impl LossyPath {
    /// Returns the equilibrium rate of TCP (Reno) on this path, in packets per second.
    pub fn tcp_rate(&self) -> f64 {
        reno(self.p) / self.rtt_s
    }
}

/// A function that computes the equilibrium windows of a congestion control in packets, one for
/// each path, in the order of the paths.
pub type Fluid = fn(&[LossyPath], &Parameters) -> Vec<f64>;

pub(super) const GROWS_WITH_TIME: &str = "its windows grow with the time since a loss";
pub(super) const FOLLOWS_DELAYS: &str = "its windows follow delays, not losses";
pub(super) const ROUNDS: &str =
    "the out-of-tree kernel's integer arithmetic deviates from the formula";

/// Reasons why no equilibrium can be computed. Paths are numbered from 0.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NoEquilibrium {
    /// The engine has no congestion control with the given name.
    #[error("no fluid of {0} is known; there are those of {found}", found = with_fluid())]
    UnknownControl(String),
    /// The congestion control has no fluid model, or none for the given parameters.
    #[error("{control} has no fluid: {because}")]
    NoFluid {
        /// Name of the congestion control.
        control: String,
        /// The reason, as a clause without capital letter and full stop.
        because: &'static str,
    },
    /// No paths were given.
    #[error("found no path, allowed is one or more")]
    NoPath,
    /// The loss rate of a path is not between 0 and 1, both excluded. Without losses, windows grow
    /// until something else limits them.
    #[error("path {path}: found a loss rate of {p}, allowed is above 0 and below 1")]
    Loss {
        /// Number of the path, from 0.
        path: usize,
        /// The given loss rate, in loss episodes per packet.
        p: f64,
    },
    /// The round-trip time of a path is not finite or not above 0.
    #[error("path {path}: found a round-trip time of {rtt_s} s, allowed is any above 0")]
    RoundTrip {
        /// Number of the path, from 0.
        path: usize,
        /// The given round-trip time in seconds.
        rtt_s: f64,
    },
}

fn with_fluid() -> String {
    let found = CONGESTION_CONTROLS.iter().filter(|it| it.fluid.is_ok());
    let names: Vec<_> = found.map(|it| it.description.name).collect();
    names.join(", ")
}

/// Returns the fluid model of the congestion control named `control` with `parameters`.
///
/// # Errors
/// Fails if there is no such congestion control, or if it has no fluid model with `parameters`.
pub fn of(control: &str, parameters: &Parameters) -> Result<Fluid, NoEquilibrium> {
    let mut controls = CONGESTION_CONTROLS.iter();
    let found = controls.find(|it| it.description.name == control);
    let found = found.ok_or_else(|| NoEquilibrium::UnknownControl(control.to_owned()))?;
    let fluid = found
        .fluid
        .and_then(|fluid| departure(parameters).map_or(Ok(fluid), Err));
    fluid.map_err(|because| NoEquilibrium::NoFluid {
        control: control.to_owned(),
        because,
    })
}

/// Returns the equilibrium windows of the congestion control named `control` with `parameters`, in
/// packets, one for each of `paths`.
///
/// # Errors
/// Fails if there is no such congestion control, if it has no fluid model with `parameters`, if
/// there are no paths, or if the loss rate or round-trip time of a path is out of range.
pub fn equilibrium(
    control: &str,
    parameters: &Parameters,
    paths: &[LossyPath],
) -> Result<Vec<f64>, NoEquilibrium> {
    let fluid = of(control, parameters)?;
    if paths.is_empty() {
        return Err(NoEquilibrium::NoPath);
    }
    for (path, LossyPath { p, rtt_s }) in paths.iter().copied().enumerate() {
        if !(p > 0.0 && p < 1.0) {
            return Err(NoEquilibrium::Loss { path, p });
        }
        if !(rtt_s > 0.0 && rtt_s.is_finite()) {
            return Err(NoEquilibrium::RoundTrip { path, rtt_s });
        }
    }
    Ok(fluid(paths, parameters))
}

/// Returns why `parameters` change a control so that no fluid model applies, if they do.
fn departure(parameters: &Parameters) -> Option<&'static str> {
    if parameters.ack_counting == AckCounting::Acks {
        return Some(
            "with ack_counting: acks it grows by how many packets an acknowledgment covers",
        );
    }
    (parameters.lia.form == LiaForm::Nsdi).then_some("with form: nsdi it is another formula")
}

pub(super) fn each(paths: &[LossyPath], window: impl Fn(f64) -> f64) -> Vec<f64> {
    paths.iter().map(|path| window(path.p)).collect()
}

pub(super) fn losses(paths: &[LossyPath]) -> Vec<f64> {
    paths.iter().map(|path| path.p).collect()
}

/// Returns the equilibrium window w of TCP (Reno) in packets if each packet is lost with
/// probability `p`: (1/w) = p (w/2).
pub fn reno(p: f64) -> f64 {
    (2.0 / p).sqrt()
}

/// Returns the mean congestion window of TCP Reno, in packets, if losses are periodic: one packet
/// in every 1/`p` is lost. The window then rises from half its maximum to its maximum and halves
/// again, and its mean is sqrt(3/(2p)).
pub fn reno_sawtooth(p: f64) -> f64 {
    (3.0 / (2.0 * p)).sqrt()
}

/// Returns the equilibrium window w of an EWTCP subflow in packets if each packet is lost with
/// probability `p` and the subflow has weight `a`: a/w = p (w/2).
pub fn ewtcp(p: f64, a: f64) -> f64 {
    (2.0 * a / p).sqrt()
}

/// Returns the equilibrium windows of COUPLED in packets, one for each loss rate in `p`. The
/// windows of the paths with the least loss add up to the window of TCP on such a path; the windows
/// of all other paths are 0. How the best paths divide the sum is undetermined; this function
/// divides it equally.
pub fn coupled(p: &[f64]) -> Vec<f64> {
    let least = p.iter().copied().fold(f64::INFINITY, f64::min);
    let carrying = p.iter().filter(|p| **p <= least).count() as f64;
    let window = |p: &f64| {
        if *p <= least {
            reno(least) / carrying
        } else {
            0.0
        }
    };
    p.iter().map(window).collect()
}

/// Returns the equilibrium windows of SEMICOUPLED in packets, one for each loss rate in `p`, with
/// aggressiveness `a`. For a window w and the sum W of all windows, a/W = p (w/2), so W^2 = 2a (sum
/// of 1/p).
pub fn semicoupled(p: &[f64], a: f64) -> Vec<f64> {
    let total = (2.0 * a * p.iter().map(|p| 1.0 / p).sum::<f64>()).sqrt();
    p.iter().map(|p| 2.0 * a / (p * total)).collect()
}

/// Returns the equilibrium windows of LIA in packets, one for each path. For each window w, (1-p)
/// min(alpha/W, 1/w) = p (w/2), where alpha/W = max(w/rtt^2) / (sum of w/rtt)^2.
///
/// Each window follows from alpha/W, and alpha/W follows from the windows. Bisection finds the
/// value at which both agree.
pub fn lia(paths: &[LossyPath]) -> Vec<f64> {
    let windows = |linked: f64| -> Vec<f64> {
        let window = |path: &LossyPath| lia_window(path.p, linked);
        paths.iter().map(window).collect()
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..f64::MANTISSA_DIGITS + 20 {
        let middle = (low + high) / 2.0;
        if linked_increase(paths, &windows(middle)) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    windows(high)
}

/// Window if every acknowledged packet adds `linked`, or 1/w if that is less.
fn lia_window(p: f64, linked: f64) -> f64 {
    let survivors_per_loss = 2.0 * (1.0 - p) / p;
    (survivors_per_loss * linked).min(survivors_per_loss.sqrt())
}

/// alpha/W of LIA.
fn linked_increase(paths: &[LossyPath], windows: &[f64]) -> f64 {
    let rates = || {
        paths
            .iter()
            .zip(windows)
            .map(|(path, window)| window / path.rtt_s)
    };
    let per_rtt = paths
        .iter()
        .zip(rates())
        .map(|(path, rate)| rate / path.rtt_s);
    let total: f64 = rates().sum();
    per_rtt.fold(0.0, f64::max) / (total * total)
}

/// Returns the equilibrium windows of OLIA in packets, one for each path. Only the paths on which
/// TCP would be fastest carry data, and together they carry as much as TCP on one of them. This
/// function divides the sum equally among them; the windows of the other paths are 0.
pub fn olia(paths: &[LossyPath]) -> Vec<f64> {
    let best = paths.iter().map(LossyPath::tcp_rate).fold(0.0, f64::max);
    let is_best = |path: &LossyPath| path.tcp_rate() >= best * (1.0 - 1e-12);
    let carrying = paths.iter().filter(|path| is_best(path)).count() as f64;
    let window = |path: &LossyPath| {
        if is_best(path) {
            best * path.rtt_s / carrying
        } else {
            0.0
        }
    };
    paths.iter().map(window).collect()
}

/// Returns the equilibrium windows of BALIA in packets, one for each path. The rate of each path
/// relative to the best path follows from the ratio of their p rtt^2. The rates of all paths add up
/// to the rate of TCP on the best path.
///
/// Of several equally good paths, the first is treated as the best and the others as slightly
/// worse. Equal rates on all paths are a second equilibrium.
pub fn balia(paths: &[LossyPath]) -> Vec<f64> {
    let alphas = balia_alphas(paths);
    let best_rate = paths.iter().map(LossyPath::tcp_rate).fold(0.0, f64::max);
    let shares: f64 = alphas.iter().map(|alpha| 1.0 / alpha).sum();
    let windows = paths.iter().zip(&alphas);
    windows
        .map(|(path, alpha)| best_rate / shares / alpha * path.rtt_s)
        .collect()
}

/// Returns alpha of each path in the equilibrium of BALIA: the rate of the best path divided by the
/// rate of the path. The best path has the smallest p rtt^2.
pub fn balia_alphas(paths: &[LossyPath]) -> Vec<f64> {
    let badness = |path: &LossyPath| path.p * path.rtt_s * path.rtt_s;
    let by_badness =
        |one: &usize, other: &usize| badness(&paths[*one]).total_cmp(&badness(&paths[*other]));
    let Some(best) = (0..paths.len()).min_by(by_badness) else {
        return Vec::new();
    };
    let alpha = |index: usize| {
        let ratio = badness(&paths[index]) / badness(&paths[best]);
        if index == best {
            1.0
        } else {
            balia_alpha(ratio)
        }
    };
    (0..paths.len()).map(alpha).collect()
}

/// Solves (1+alpha)(4+alpha)/10 = min(alpha, 1.5) `ratio` for a ratio of at least 1, where alpha is
/// above 1.5.
fn balia_alpha(ratio: f64) -> f64 {
    let constant = 4.0 - 10.0 * balia::LARGEST_DECREASE_ALPHA * ratio;
    (-5.0 + (25.0 - 4.0 * constant).sqrt()) / 2.0
}
