//! `balia-oot`: BALIA as in `mptcp_balia.c`.
//!
//! Its alpha is an integer. Unless the fastest path is at least twice as fast, a loss takes half of
//! a window where it should take up to three quarters. The decrease is computed when the window
//! grows and can be outdated at the loss. If the window is smaller than the decrease, for instance
//! because a scheduler penalized the subflow, ssthresh wraps around and becomes infinite.

use super::super::Control;
use super::super::fluid;
use super::super::parameters::Parameters;
use super::super::{Acked, Congestion, CongestionControl, Context};
use super::{Counter, Path};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "balia-oot",
        aliases: &[],
        summary: "Computes balia in the integer arithmetic of the out-of-tree kernel, to reproduce papers that used it",
        source: "multipath-tcp/mptcp v0.9x, mptcp_balia.c",
        parameters: &[],
    },
    make: control,
    fluid: Err(fluid::ROUNDS),
};

/// Rates above 2^25 bytes per second are scaled down by 2^5, repeatedly.
const LARGEST_RATE: u64 = 1 << 25;
const RATE_SHIFT: u32 = 5;
const ALPHA_SHIFT: u32 = 10;
const EIGHTHS_US_PER_SECOND: u64 = 8_000_000;

/// How the window of a subflow grows and shrinks with `balia-oot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptation {
    /// The rate of the fastest path divided by that of this path, rounded down. 0 if the window
    /// follows Reno, for instance because the path is the only one.
    pub alpha: u64,
    /// How many times all rates were divided by 2^5, until the fastest was at most 2^25 bytes per
    /// second.
    pub scale_downs: u32,
    /// `ai` of the kernel: acknowledgments counted before the next one grows the window by a
    /// packet.
    pub threshold: u64,
    /// `md` of the kernel: packets by which a loss reduces the window.
    pub decrease: u64,
}

impl Adaptation {
    /// Returns Reno's growth and decrease.
    fn alone(window_packets: u32) -> Self {
        Self {
            threshold: u64::from(window_packets),
            decrease: u64::from(window_packets / 2),
            ..Self::default()
        }
    }

    /// Computes how the window of `paths[this]` grows and shrinks. `mss_bytes` is the segment size
    /// of this path, and is used for all paths.
    pub fn of(paths: &[Path], this: usize, mss_bytes: u32) -> Self {
        let rate = |path: &Path| {
            let bytes = u64::from(mss_bytes) * u64::from(path.window_packets);
            bytes * EIGHTHS_US_PER_SECOND / u64::from(path.srtt_eighths_us)
        };
        let window = paths[this].window_packets;
        let fastest = paths.iter().map(rate).max().unwrap_or(0);
        let Some(alpha) = fastest.checked_div(rate(&paths[this])) else {
            return Self::alone(window);
        };
        let scale_downs = scale_downs(fastest);
        let scaled = |path: &Path| rate(path) >> (RATE_SHIFT * scale_downs);
        let sum = paths.iter().map(scaled).fold(0, u64::wrapping_add);
        let fastest = fastest >> (RATE_SHIFT * scale_downs);
        Self {
            alpha,
            scale_downs,
            threshold: threshold(window, scaled(&paths[this]), fastest, sum),
            decrease: decrease(window, alpha),
        }
    }

    /// Returns ssthresh in packets after a loss at a window of `window_packets`: the window minus
    /// `decrease`, modulo 2^32, at least 1.
    pub fn ssthresh(&self, window_packets: u32) -> u32 {
        window_packets.wrapping_sub(self.decrease as u32).max(1)
    }
}

fn scale_downs(mut fastest: u64) -> u32 {
    let mut times = 0;
    while fastest > LARGEST_RATE {
        fastest >>= RATE_SHIFT;
        times += 1;
    }
    times
}

/// Returns 10 (sum x)^2 w / ((x + max)(4x + max)), where x are rates and w is the window.
fn threshold(window: u32, rate: u64, fastest: u64, sum: u64) -> u64 {
    let numerator = sum.wrapping_mul(sum).wrapping_mul(10);
    let window = u64::from(window);
    let first = numerator.checked_div(rate + fastest).unwrap_or(0);
    let threshold = first.wrapping_mul(window).checked_div(4 * rate + fastest);
    threshold
        .filter(|threshold| *threshold > 0)
        .unwrap_or(window)
}

/// Returns floor(w/2) min(alpha, 1.5), where w is the window.
fn decrease(window: u32, alpha: u64) -> u64 {
    let limit = (3 << ALPHA_SHIFT) >> 1;
    (u64::from(window / 2) * (alpha << ALPHA_SHIFT).min(limit)) >> ALPHA_SHIFT
}

#[derive(Debug, Default)]
struct Flow {
    adaptation: Adaptation,
    counter: Counter,
}

#[derive(Debug, Default)]
struct Balia {
    flows: Vec<Flow>,
}

impl Balia {
    fn recalculate(&mut self, context: &Context<'_>) {
        let window = super::packets(context.this());
        let is_coupled = super::established(context) > 1 && context.this().counts();
        self.flows[context.subflow()].adaptation = if is_coupled {
            let counted = super::counted(context).map(|(_, window)| Path::new(window));
            let this =
                super::counted(context).take_while(|(subflow, _)| *subflow < context.subflow());
            let paths: Vec<Path> = counted.collect();
            Adaptation::of(&paths, this.count(), context.this().mss_bytes)
        } else {
            Adaptation::alone(window)
        };
    }
}

impl CongestionControl for Balia {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        self.flows.push(Flow::default());
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.flows.remove(subflow);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        if !acked.is_window_limited {
            return;
        }
        if super::slow_start(context, acked) {
            self.recalculate(context);
            return;
        }
        let window = super::packets(context.this());
        let flow = &mut self.flows[context.subflow()];
        let threshold = match super::established(context) {
            0 | 1 => window,
            _ => flow.adaptation.threshold as u32,
        };
        if flow.counter.count_ack(context, threshold) {
            self.recalculate(context);
        }
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let window = super::packets(context.this());
        let flow = &mut self.flows[context.subflow()];
        flow.counter = Counter::default();
        let ssthresh = match super::established(context) {
            0 | 1 => super::reno_ssthresh(window),
            _ => flow.adaptation.ssthresh(window),
        };
        if congestion == Congestion::Timeout {
            self.recalculate(context);
        }
        super::reduce(context, congestion, ssthresh);
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        self.recalculate(context);
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        let adaptation = &self.flows[subflow].adaptation;
        vec![
            ("threshold", adaptation.threshold as f64),
            ("decrease_packets", adaptation.decrease as f64),
        ]
    }
}

pub(in super::super) fn control(_parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Balia::default())
}
