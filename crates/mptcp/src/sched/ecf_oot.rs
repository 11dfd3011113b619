//! `ecf-oot`: ECF with the integer arithmetic of the out-of-tree kernel 0.95.
//!
//! It differs from `ecf` in two ways. At least a window counts as data left to send. Products of
//! round-trip times and bytes wrap at 32 bits, which happens already with a window of 43 kB and 100
//! ms.

use super::Entry;
use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, SubflowView, View};
use crate::algorithm::{Description, Parameter, Value};
use crate::time::{MICROSECOND, MILLISECOND, Nanos};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "ecf-oot",
        aliases: &[],
        summary: "Computes ecf as the out-of-tree kernel's module does",
        source: "multipath-tcp/mptcp v0.95, mptcp_ecf.c",
        parameters: &[
            super::ecf::INVERSE_BETA,
            Parameter {
                name: "arithmetic",
                unit: "",
                meaning: "whether products wrap at 32 bits, as they did in the kernel",
                computed_default: None,
                value: Value::Choice {
                    words: &["wrapping", "wide"],
                    get: |given| match given.arithmetic {
                        Arithmetic::Wrapping => 0,
                        Arithmetic::Wide => 1,
                    },
                    set: |given, width| {
                        given.arithmetic = match width {
                            0 => Arithmetic::Wrapping,
                            _ => Arithmetic::Wide,
                        }
                    },
                },
            },
        ],
    },
    make: |given| Box::new(EcfOot::new(given)),
};

/// Smallest `rttvar_us`. It is four times the mean deviation, but at least the smallest RTO of
/// Linux.
const LEAST_RTTVAR: Nanos = 200 * MILLISECOND;

/// How `ecf-oot` multiplies round-trip times by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Keeps the lower 32 bits of a product, as in the kernel.
    Wrapping,
    /// Computes products in 64 bits, which do not overflow.
    Wide,
}

impl Arithmetic {
    fn product(self, left: u64, right: u64) -> u64 {
        match self {
            Self::Wrapping => u64::from((left as u32).wrapping_mul(right as u32)),
            Self::Wide => left * right,
        }
    }
}

/// A subflow in the integer arithmetic of `ecf-oot` ([`KernelEstimate`]). Not to be confused with a
/// path of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPath {
    /// Congestion window in bytes: whole segments times the segment size.
    pub cwnd_bytes: u32,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// `rttvar_us` of Linux, in microseconds: four times the mean deviation, but at least 200 ms.
    /// [`KernelEstimate`] uses half of it.
    pub rttvar_us: u32,
}

impl KernelPath {
    fn of(subflow: &SubflowView) -> Self {
        let us = |duration| u32::try_from(duration / MICROSECOND).unwrap_or(u32::MAX);
        Self {
            cwnd_bytes: subflow.cwnd_packets() * subflow.mss_bytes,
            srtt_us: us(subflow.srtt),
            rttvar_us: us((4 * subflow.rttvar).max(LEAST_RTTVAR)),
        }
    }
}

/// The estimate of ECF in the integers of the out-of-tree kernel 0.95:
/// [`Estimate`](super::Estimate), with both sides of each comparison in microseconds times bytes. F
/// is the fast subflow, S the slow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEstimate {
    /// d in microseconds: half of the larger `rttvar_us` of both subflows.
    pub margin_us: u32,
    /// Left side of the first comparison, in microseconds times bytes: srtt_F * (x_F + cwnd_F),
    /// where x_F is the larger of the unsent bytes and cwnd_F.
    pub lhs: u64,
    /// Right side of the first comparison, in microseconds times bytes: cwnd_F * (srtt_S + d).
    pub rhs: u64,
    /// Whether r_beta * `lhs` < (r_beta + waiting) * `rhs`: F finishes first. "waiting" is 1 in the
    /// waiting state, otherwise 0.
    pub fast_is_sooner: bool,
    /// Whether to wait for F and leave S idle, because F would finish sooner and S would finish
    /// late.
    pub waits: bool,
}

impl KernelEstimate {
    /// Computes the estimate for a connection with `unsent_bytes` that are not yet assigned to any
    /// subflow. `is_waiting` is the last result of [`KernelEstimate::is_waiting_then`], or false
    /// before the first decision. `r_beta` is 1/beta; beta is the hysteresis that favours waiting
    /// while the scheduler already waits. `arithmetic` determines whether products wrap at 32 bits.
    pub fn new(
        unsent_bytes: u32,
        fast: &KernelPath,
        slow: &KernelPath,
        is_waiting: bool,
        r_beta: u32,
        arithmetic: Arithmetic,
    ) -> Self {
        let at_least = |window: u32| u64::from(unsent_bytes.max(window));
        let [cwnd_fast, cwnd_slow] = [fast, slow].map(|path| u64::from(path.cwnd_bytes));
        let [srtt_fast, srtt_slow] = [fast, slow].map(|path| u64::from(path.srtt_us));
        let margin_us = (fast.rttvar_us / 2).max(slow.rttvar_us / 2);
        let margin = u64::from(margin_us);

        let lhs = arithmetic.product(srtt_fast, at_least(fast.cwnd_bytes) + cwnd_fast);
        let rhs = arithmetic.product(cwnd_fast, srtt_slow + margin);
        let factor = u64::from(r_beta) + u64::from(is_waiting);
        let fast_is_sooner = u64::from(r_beta) * lhs < factor * rhs;

        let late = arithmetic.product(srtt_slow, at_least(slow.cwnd_bytes));
        let bound = arithmetic.product(cwnd_slow, 2 * srtt_fast + margin);
        Self {
            margin_us,
            lhs,
            rhs,
            fast_is_sooner,
            waits: fast_is_sooner && late >= bound,
        }
    }

    /// Returns the waiting state after this decision. `was_waiting` is the state before it. The
    /// state begins with a decision to wait and lasts until F would no longer finish sooner.
    pub fn is_waiting_then(&self, was_waiting: bool) -> bool {
        self.fast_is_sooner && (was_waiting || self.waits)
    }
}

/// The rule of [`EcfOot`]: waits for the fast subflow if that is expected to send the remaining
/// data sooner ([`KernelEstimate::waits`]).
#[derive(Clone, Debug)]
pub struct KernelCompletion {
    r_beta: u32,
    arithmetic: Arithmetic,
    is_waiting: bool,
}

impl WaitRule for KernelCompletion {
    fn waits(&mut self, view: &View<'_>, fast: usize, slow: usize) -> bool {
        let [fast, slow] = [fast, slow].map(|index| KernelPath::of(&view.subflows[index]));
        let unsent = u32::try_from(view.unassigned_bytes()).unwrap_or(u32::MAX);
        let estimate = KernelEstimate::new(
            unsent,
            &fast,
            &slow,
            self.is_waiting,
            self.r_beta,
            self.arithmetic,
        );
        self.is_waiting = estimate.is_waiting_then(self.is_waiting);
        estimate.waits
    }
}

/// The scheduler `ecf-oot`: prefers the subflow with the lowest round-trip time. While that subflow
/// is busy, leaves a slower one idle if the fast subflow alone is expected to send the remaining
/// data sooner ([`KernelEstimate::waits`]).
pub type EcfOot = LowestRtt<KernelCompletion>;

impl EcfOot {
    /// Creates the scheduler for a new connection. Uses only `order`, `inverse_beta` and
    /// `arithmetic` of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        let rule = KernelCompletion {
            r_beta: parameters.inverse_beta,
            arithmetic: parameters.arithmetic,
            is_waiting: false,
        };
        Self::with_rule(parameters.order, rule)
    }
}
