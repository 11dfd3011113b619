//! Equilibria of the controls as fluids: windows at which growth and loss balance, for loss that does not depend on
//! them. They say what to expect of a simulated or a real run.
//!
//! `p` is the probability that a packet begins a loss episode, more than 0, windows are in packets, times in seconds.

use thiserror::Error;

use super::parameters::{AckCounting, LiaForm, Parameters};
use super::{balia, ewtcp as weighted};

/// A path with the loss that it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossyPath {
    /// Loss episodes per packet.
    pub p: f64,
    /// Round-trip time in seconds.
    pub rtt_s: f64,
}

impl LossyPath {
    /// What TCP has on the path, in packets per second.
    pub fn tcp_rate(&self) -> f64 {
        reno(self.p) / self.rtt_s
    }
}

/// The windows of a fluid in packets, one for each path.
pub type Fluid = fn(&[LossyPath], &Parameters) -> Vec<f64>;

/// The fluid of each of [`CONGESTION_CONTROLS`](super::CONGESTION_CONTROLS), or why it has none.
pub const FLUIDS: &[(&str, Result<Fluid, &str>)] = &[
    ("reno", Ok(|paths, _| each(paths, reno))),
    ("cubic", Err(GROWS_WITH_TIME)),
    ("cubic-rfc9438", Err(GROWS_WITH_TIME)),
    ("bbr", Err("its windows follow rates, not losses")),
    ("lia", Ok(|paths, _| lia(paths))),
    ("olia", Ok(|paths, _| olia(paths))),
    ("balia", Ok(|paths, _| balia(paths))),
    ("wvegas", Err(FOLLOWS_DELAYS)),
    (
        "ewtcp",
        Ok(|paths, given| {
            let a = given
                .ewtcp
                .a
                .unwrap_or_else(|| weighted::weight(paths.len()));
            each(paths, |p| ewtcp(p, a))
        }),
    ),
    ("coupled", Ok(|paths, _| coupled(&losses(paths)))),
    (
        "semicoupled",
        Ok(|paths, given| semicoupled(&losses(paths), given.semicoupled.a)),
    ),
    ("fixed_cwnd", Err("its windows are constant")),
    ("lia-oot", Err(ROUNDS)),
    ("olia-oot", Err(ROUNDS)),
    ("balia-oot", Err(ROUNDS)),
    ("wvegas-oot", Err(FOLLOWS_DELAYS)),
    (
        "x-dwc",
        Err("which subflows are coupled changes all the time"),
    ),
    ("x-mpcubic", Err(GROWS_WITH_TIME)),
];

const GROWS_WITH_TIME: &str = "its windows grow with the time since a loss";
const FOLLOWS_DELAYS: &str = "its windows follow delays, not losses";
const ROUNDS: &str = "the integers of the out-of-tree kernel leave its formula";

/// Why there is no equilibrium. Paths are numbered from 0.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NoEquilibrium {
    /// No control of the engine has this name.
    #[error("no fluid of {0} is known; there are those of {found}", found = with_fluid())]
    UnknownControl(String),
    /// The control has no fluid, or not with these parameters.
    #[error("{control} has no fluid: {because}")]
    NoFluid {
        /// Its name.
        control: String,
        /// Why.
        because: &'static str,
    },
    /// There is no path.
    #[error("found no path, allowed is one or more")]
    NoPath,
    /// The loss of a path is no probability between 0 and 1: without losses windows grow until something else stops
    /// them.
    #[error("path {path}: found a loss rate of {p}, allowed is above 0 and below 1")]
    Loss {
        /// Which path.
        path: usize,
        /// What was given.
        p: f64,
    },
    /// The round-trip time of a path is not a finite time above 0.
    #[error("path {path}: found a round-trip time of {rtt_s} s, allowed is any above 0")]
    RoundTrip {
        /// Which path.
        path: usize,
        /// What was given, in seconds.
        rtt_s: f64,
    },
}

fn with_fluid() -> String {
    let found = FLUIDS.iter().filter(|(_, fluid)| fluid.is_ok());
    found.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The fluid of a control with these parameters.
///
/// # Errors
/// It has none.
pub fn of(control: &str, parameters: &Parameters) -> Result<Fluid, NoEquilibrium> {
    let found = FLUIDS.iter().find(|(name, _)| *name == control);
    let (_, fluid) = found.ok_or_else(|| NoEquilibrium::UnknownControl(control.to_owned()))?;
    let fluid = fluid.and_then(|fluid| departure(parameters).map_or(Ok(fluid), Err));
    fluid.map_err(|because| NoEquilibrium::NoFluid {
        control: control.to_owned(),
        because,
    })
}

/// The windows in packets, one for each path, at which a control with these parameters settles.
///
/// # Errors
/// The control has no fluid, there is no path, or one has no loss or no round-trip time.
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

/// What the parameters change of the formulas that the fluids have.
fn departure(parameters: &Parameters) -> Option<&'static str> {
    if parameters.ack_counting == AckCounting::Acks {
        return Some(
            "with ack_counting: acks it grows by how many packets an acknowledgment covers",
        );
    }
    (parameters.lia.form == LiaForm::Nsdi).then_some("with form: nsdi it is another formula")
}

fn each(paths: &[LossyPath], window: impl Fn(f64) -> f64) -> Vec<f64> {
    paths.iter().map(|path| window(path.p)).collect()
}

fn losses(paths: &[LossyPath]) -> Vec<f64> {
    paths.iter().map(|path| path.p).collect()
}

/// The window of TCP when every packet may be lost: (1/w) = p (w/2).
pub fn reno(p: f64) -> f64 {
    (2.0 / p).sqrt()
}

/// The mean window of TCP when every 1/p-th packet is lost, between a half and the whole of its largest.
pub fn reno_sawtooth(p: f64) -> f64 {
    (3.0 / (2.0 * p)).sqrt()
}

/// EWTCP of weight `a`: a/w = p (w/2).
pub fn ewtcp(p: f64, a: f64) -> f64 {
    (2.0 * a / p).sqrt()
}

/// COUPLED: all windows together are TCP's on the paths of least loss. How those share is not determined; here equally.
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

/// SEMICOUPLED: a/W = p (w/2), so that W^2 = 2a (sum of 1/p).
pub fn semicoupled(p: &[f64], a: f64) -> Vec<f64> {
    let total = (2.0 * a * p.iter().map(|p| 1.0 / p).sum::<f64>()).sqrt();
    p.iter().map(|p| 2.0 * a / (p * total)).collect()
}

/// LIA: (1-p) min(alpha/W, 1/w) = p (w/2), where alpha/W = max(w/rtt^2) / (sum of w/rtt)^2.
///
/// Given alpha/W every window follows, and given the windows so does alpha/W; halving finds where both agree.
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

/// The window when every acknowledged packet adds `linked`, or 1/w if that is less.
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

/// OLIA: only the best paths carry, together as much as TCP on one of them; here equally.
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

/// BALIA: the rates of the paths, compared with that of the best, follow from p rtt^2, compared with its. All rates
/// together are TCP's on the best path.
///
/// Of paths that are equally good the first is taken for the best, and the others get the rate of slightly worse
/// ones: that all are equal is a second equilibrium.
pub fn balia(paths: &[LossyPath]) -> Vec<f64> {
    let alphas = balia_alphas(paths);
    let best_rate = paths.iter().map(LossyPath::tcp_rate).fold(0.0, f64::max);
    let shares: f64 = alphas.iter().map(|alpha| 1.0 / alpha).sum();
    let windows = paths.iter().zip(&alphas);
    windows
        .map(|(path, alpha)| best_rate / shares / alpha * path.rtt_s)
        .collect()
}

/// By how much the rate of the best path exceeds that of each.
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

/// The solution of (1+alpha)(4+alpha)/10 = min(alpha, 1.5) `ratio`, for a ratio of 1 or more: there alpha is above 1.5.
fn balia_alpha(ratio: f64) -> f64 {
    let constant = 4.0 - 10.0 * balia::LARGEST_DECREASE_ALPHA * ratio;
    (-5.0 + (25.0 - 4.0 * constant).sqrt()) / 2.0
}
