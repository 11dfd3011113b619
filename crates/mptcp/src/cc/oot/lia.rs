//! `lia-oot`: LIA as in `mptcp_coupled.c`.
//!
//! Two flaws of its integers matter. With round-trip times of tens of milliseconds, the quality of
//! every path is 0, and the last path in the list is taken for the best. A large W/alpha is rounded
//! down to 4096 or 2048.

use super::super::Control;
use super::super::fluid;
use super::super::parameters::{Parameters, SubflowOrder};
use super::super::{Acked, Congestion, CongestionControl, Context};
use super::{Counter, Path};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "lia-oot",
        aliases: &[],
        summary: "Computes lia in the integer arithmetic of the out-of-tree kernel, to reproduce papers that used it",
        source: "multipath-tcp/mptcp v0.9x, mptcp_coupled.c",
        parameters: &[],
    },
    make: control,
    fluid: Err(fluid::ROUNDS),
};

const ALPHA_SHIFT: u32 = 12;
const NUMERATOR_SHIFT: u32 = 32;
const DENOMINATOR_SHIFT: u32 = 10;

/// Returns w/rtt^2 of `path`, scaled by 2^32 and rounded down. w is in packets, rtt in eighths of a
/// microsecond.
pub fn numerator(path: &Path) -> u64 {
    let srtt = u64::from(path.srtt_eighths_us);
    (u64::from(path.window_packets) << NUMERATOR_SHIFT) / (srtt * srtt)
}

/// Returns the index of the path with the largest [`numerator`]; ties go to the last. Returns
/// `None` if there are no paths.
pub fn best(paths: &[Path]) -> Option<usize> {
    (0..paths.len()).max_by_key(|index| numerator(&paths[*index]))
}

/// Returns alpha/W of LIA, scaled by 2^12, at least 1. `paths` are in the order of the kernel's
/// list. W is the sum of all windows in packets.
pub fn alpha(paths: &[Path]) -> u64 {
    let Some(best) = best(paths).map(|index| paths[index]) else {
        return 1;
    };
    let in_best_rtts = |path: &Path| {
        let scaled = u64::from(path.window_packets) << DENOMINATOR_SHIFT;
        scaled.wrapping_mul(u64::from(best.srtt_eighths_us)) / u64::from(path.srtt_eighths_us)
    };
    let sum = paths.iter().map(in_best_rtts).fold(0, u64::wrapping_add);
    let numerator = u64::from(best.window_packets) << NUMERATOR_SHIFT;
    numerator
        .checked_div(sum.wrapping_mul(sum))
        .unwrap_or(1)
        .max(1)
}

/// Returns how many acknowledgments are counted before the next one grows a window of
/// `window_packets` by one packet. `alpha` is the result of [`alpha`].
pub fn threshold(alpha: u64, window_packets: u32) -> u32 {
    let linked = (1_u64 << ALPHA_SHIFT) / alpha.max(1);
    window_packets.max(linked as u32)
}

#[derive(Debug)]
struct Lia {
    order: SubflowOrder,
    alpha: u64,
    /// Whether alpha is recomputed with the next acknowledgment, because a state changed.
    is_forced: bool,
    counters: Vec<Counter>,
}

impl Lia {
    fn recalculate(&mut self, context: &Context<'_>) {
        let mut paths: Vec<Path> = super::counted(context)
            .map(|(_, window)| Path::new(window))
            .collect();
        if self.order == SubflowOrder::NewestFirst {
            paths.reverse();
        }
        let is_coupled = super::established(context) > 1;
        self.alpha = if is_coupled { alpha(&paths) } else { 1 };
    }

    fn avoid_congestion(&mut self, context: &mut Context<'_>) {
        if std::mem::take(&mut self.is_forced) {
            self.recalculate(context);
        }
        let window = super::packets(context.this());
        let threshold = match super::established(context) {
            0 | 1 => window,
            _ => threshold(self.alpha, window),
        };
        if self.counters[context.subflow()].count_ack(context, threshold) {
            self.recalculate(context);
        }
    }
}

impl CongestionControl for Lia {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        self.counters.push(Counter::default());
        (self.alpha, self.is_forced) = (1, false);
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.counters.remove(subflow);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        if !acked.is_window_limited {
            return;
        }
        if super::slow_start(context, acked) {
            self.recalculate(context);
        } else {
            self.avoid_congestion(context);
        }
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        if congestion == Congestion::Timeout {
            self.recalculate(context);
        }
        self.is_forced = true;
        self.counters[context.subflow()] = Counter::default();
        let ssthresh = super::reno_ssthresh(super::packets(context.this()));
        super::reduce(context, congestion, ssthresh);
    }

    fn recovery_exited(&mut self, _context: &mut Context<'_>) {
        self.is_forced = true;
    }

    fn undone(&mut self, _context: &mut Context<'_>) {
        self.is_forced = true;
    }

    fn state(&self, _subflow: usize) -> Vec<(&'static str, f64)> {
        vec![("alpha_scaled", self.alpha as f64)]
    }
}

pub(in super::super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Lia {
        order: parameters.oot.subflow_order,
        alpha: 1,
        is_forced: false,
        counters: Vec::new(),
    })
}
