//! `ecf-oot`: ECF in the integers of the out-of-tree kernel 0.95.
//!
//! What differs from `ecf`: never less than a window counts as left to send, and products of round-trip times and bytes wrap at
//! 32 bits, which a window of 43 kB and 100 ms do already.

use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, SubflowView, View};
use crate::time::{MICROSECOND, MILLISECOND, Nanos};

/// `rttvar_us` is four times the mean deviation, and never below the smallest retransmission timeout of Linux.
const LEAST_RTTVAR: Nanos = 200 * MILLISECOND;

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Modulo 2^32, as in the kernel.
    Wrapping,
    /// Without loss.
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

/// What the kernel looks at of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPath {
    /// Congestion window in bytes: segments times the size of one.
    pub cwnd_bytes: u32,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// `rttvar_us`, of which the kernel takes the half.
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

/// The two sides of each comparison of [`Estimate`](super::Estimate), in microseconds times bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEstimate {
    /// d in microseconds.
    pub margin_us: u32,
    /// srtt_F * (x_F + cwnd_F).
    pub lhs: u64,
    /// cwnd_F * (srtt_S + d).
    pub rhs: u64,
    /// Whether r_beta * lhs < (r_beta + waiting) * rhs.
    pub fast_is_sooner: bool,
    /// Whether the slow subflow stays idle.
    pub waits: bool,
}

impl KernelEstimate {
    /// For so many bytes that no subflow has; r_beta is the reciprocal of beta.
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

    /// Whether it counts as waiting from now on: until the fast one is no longer sooner.
    pub fn is_waiting_then(&self, was_waiting: bool) -> bool {
        self.fast_is_sooner && (was_waiting || self.waits)
    }
}

/// See [`KernelEstimate`].
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

/// Lowest round-trip time first, with [`KernelEstimate`] deciding about slower subflows.
pub type EcfOot = LowestRtt<KernelCompletion>;

impl EcfOot {
    /// For a new connection.
    pub fn new(parameters: &Parameters) -> Self {
        let rule = KernelCompletion {
            r_beta: parameters.inverse_beta,
            arithmetic: parameters.arithmetic,
            is_waiting: false,
        };
        Self::with_rule(parameters.order, rule)
    }
}
