//! `olia-oot`: OLIA as in `mptcp_olia.c`.
//!
//! The increase is rounded down to 1/1024 packet. For n equal subflows, it is 0 from a window of
//! 1024/n^2 packets on. Large windows overflow its denominator.

use super::super::Control;
use super::super::fluid;
use super::super::parameters::Parameters;
use super::super::{Acked, Congestion, CongestionControl, Context, Window};
use super::Path;
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "olia-oot",
        aliases: &[],
        summary: "Computes olia in the integer arithmetic of the out-of-tree kernel, to reproduce papers that used it",
        source: "multipath-tcp/mptcp v0.9x, mptcp_olia.c",
        parameters: &[],
    },
    make: control,
    fluid: Err(fluid::ROUNDS),
};

const SHIFT: u32 = 10;
/// The count in 1/1024 packets at which the window changes by one packet. The remainder is dropped.
const WHOLE_PACKET: i32 = (1 << SHIFT) - 1;

/// OLIA's alpha of a path as a fraction, the kernel's `epsilon_num` and `epsilon_den`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epsilon {
    /// 1 for a collected path, -1 for a path with the largest window, otherwise 0.
    pub numerator: i32,
    /// Number of subflows times the number of paths with the same numerator; 1 if the numerator is
    /// 0.
    pub denominator: u32,
}

impl Epsilon {
    const NONE: Self = Self {
        numerator: 0,
        denominator: 1,
    };
}

/// The amount that an acknowledgment adds to the counter of a window. When the counter reaches a
/// packet, the window changes by one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addend {
    /// The amount in 1/1024 packets. Can be negative.
    pub value: i32,
    /// Whether an intermediate result exceeded 64 bits, which makes the value arbitrary.
    pub is_overflowed: bool,
}

/// Returns the amount that an acknowledgment on `paths[this]` adds to the counter of its window.
/// `epsilon` is OLIA's alpha of this path.
pub fn addend(paths: &[Path], this: usize, epsilon: Epsilon) -> Addend {
    let window = u64::from(paths[this].window_packets);
    let scaled = window << SHIFT;
    let (rate, rate_overflows) = squared_rate(paths, &paths[this]);
    let denominator = u64::from(epsilon.denominator);
    let (divisor, divisor_overflows) = (denominator * window).overflowing_mul(rate);
    let (own, own_overflows) = (denominator * scaled).overflowing_mul(scaled);
    let (numerator, is_negative) = match epsilon.numerator {
        -1 => (own.abs_diff(rate), own < rate),
        0 => (own, false),
        _ => (own.wrapping_add(rate), false),
    };
    let value = ((numerator << SHIFT) / divisor.max(1)) as i32;
    let numerator_overflows = numerator.leading_zeros() < SHIFT;
    Addend {
        value: if is_negative {
            value.wrapping_neg()
        } else {
            value
        },
        is_overflowed: rate_overflows || divisor_overflows || own_overflows || numerator_overflows,
    }
}

/// Returns the packets that all paths send in a round-trip time of `path`, scaled and squared, and
/// whether that overflows.
fn squared_rate(paths: &[Path], path: &Path) -> (u64, bool) {
    let in_its_rtts = |other: &Path| {
        let scaled = u64::from(other.window_packets) << SHIFT;
        scaled.wrapping_mul(u64::from(path.srtt_eighths_us)) / u64::from(other.srtt_eighths_us)
    };
    // The sum starts at 1 to avoid a division by 0.
    let sum = paths.iter().map(in_its_rtts).fold(1, u64::wrapping_add);
    sum.overflowing_mul(sum)
}

/// The acknowledged bytes at the last losses, modulo 2^32, as sequence numbers are.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    before_last: u32,
    last: u32,
    now: u32,
}

impl Losses {
    fn interval(&self) -> u64 {
        let current = self.now.wrapping_sub(self.last);
        u64::from(current.max(self.last.wrapping_sub(self.before_last)))
    }

    fn shift(&mut self) {
        if self.now != self.last {
            self.before_last = self.last;
            self.last = self.now;
        }
    }
}

#[derive(Debug, Default)]
struct Flow {
    losses: Losses,
    counter: i32,
}

/// A path and the values that determine its sets.
struct Candidate {
    subflow: usize,
    path: Path,
    interval: u64,
    squared_srtt: u64,
}

impl Candidate {
    fn is_as_good_as(&self, best: &Self) -> bool {
        self.interval.wrapping_mul(best.squared_srtt)
            == best.interval.wrapping_mul(self.squared_srtt)
    }

    fn better<'a>(best: &'a Self, other: &'a Self) -> &'a Self {
        let of_other = other.interval.wrapping_mul(best.squared_srtt);
        if of_other >= best.interval.wrapping_mul(other.squared_srtt) {
            other
        } else {
            best
        }
    }
}

/// Returns the fraction alpha of OLIA for the subflow with the index `subflow`.
fn epsilon(candidates: &[Candidate], subflow: usize, established: u32) -> Epsilon {
    let windows = candidates.iter().map(|it| it.path.window_packets);
    let largest = windows.max().unwrap_or(0);
    let Some(best) = candidates.iter().reduce(Candidate::better) else {
        return Epsilon::NONE;
    };
    let is_largest = |it: &&Candidate| it.path.window_packets == largest;
    let is_collected = |it: &&Candidate| !is_largest(it) && it.is_as_good_as(best);
    let count = |members: usize| established * members as u32;
    let collected = candidates.iter().filter(is_collected).count();
    let this = candidates.iter().find(|it| it.subflow == subflow);
    let (numerator, denominator) = match this {
        Some(this) if collected > 0 && is_collected(&this) => (1, count(collected)),
        Some(this) if collected > 0 && is_largest(&this) => {
            (-1, count(candidates.iter().filter(is_largest).count()))
        }
        _ => return Epsilon::NONE,
    };
    Epsilon {
        numerator,
        denominator,
    }
}

#[derive(Debug, Default)]
struct Olia {
    flows: Vec<Flow>,
}

impl Olia {
    fn candidates(&self, context: &Context<'_>) -> Vec<Candidate> {
        let candidate = |(subflow, window): (usize, &Window)| {
            let mut path = Path::new(window);
            if window.in_recovery {
                path.window_packets = path.window_packets.min(super::ssthresh_packets(window));
            }
            let srtt = u64::from(path.srtt_eighths_us);
            Candidate {
                subflow,
                path,
                interval: self.flows[subflow].losses.interval(),
                squared_srtt: srtt * srtt,
            }
        };
        super::counted(context).map(candidate).collect()
    }

    fn avoid_congestion(&mut self, context: &mut Context<'_>) {
        let candidates = self.candidates(context);
        let subflow = context.subflow();
        let Some(this) = candidates.iter().position(|it| it.subflow == subflow) else {
            return;
        };
        let epsilon = epsilon(&candidates, subflow, super::established(context));
        let paths: Vec<Path> = candidates.iter().map(|it| it.path).collect();
        let flow = &mut self.flows[subflow];
        flow.counter = flow
            .counter
            .wrapping_add(addend(&paths, this, epsilon).value);
        let window = super::packets(context.this());
        if flow.counter >= WHOLE_PACKET {
            super::set_packets(context, window + 1);
            flow.counter = 0;
        } else if flow.counter <= -WHOLE_PACKET {
            super::set_packets(context, window - 1);
            flow.counter = 0;
        }
    }
}

impl CongestionControl for Olia {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        self.flows.push(Flow::default());
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.flows.remove(subflow);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        self.flows[context.subflow()].losses.now = acked.delivered_bytes as u32;
        if acked.is_window_limited && !super::slow_start(context, acked) {
            self.avoid_congestion(context);
        }
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        self.flows[context.subflow()].losses.shift();
        let ssthresh = super::reno_ssthresh(super::packets(context.this()));
        super::reduce(context, congestion, ssthresh);
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        let flow = &self.flows[subflow];
        vec![
            ("loss_interval_bytes", flow.losses.interval() as f64),
            ("counter", f64::from(flow.counter)),
        ]
    }
}

pub(in super::super) fn control(_parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Olia::default())
}
