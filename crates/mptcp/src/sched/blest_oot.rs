//! `blest-oot`: BLEST in the integers of the out-of-tree kernel 0.95.
//!
//! What differs from `blest`: the time that a segment needs on the slow subflow is estimated between the smallest and the largest
//! smoothed round-trip time, which never age; its rounds are always rounded up, by a whole one if they are exact; the fast
//! subflow doubles its window in its first slow start; counts wrap at 32 bits. One difference remains: the kernel halves the
//! windows of all slow subflows that hold up the connection, here the first of them is halved.

use super::blest::{AdaptiveLambda, Lambda};
use super::lowest_rtt::{LowestRtt, WaitRule};
use super::per_subflow::PerSubflow;
use super::{Parameters, SubflowView, View};
use crate::time::{MICROSECOND, Nanos};

/// Slow start is not foreseen for more rounds.
const MOST_ROUNDS_OF_SLOW_START: u32 = 16;

/// What the kernel looks at of the fast subflow; times in eighths of a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastSubflow {
    /// Smallest smoothed round-trip time so far.
    pub min_srtt: u32,
    /// The largest.
    pub max_srtt: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow start threshold in segments; `None` in the first slow start.
    pub ssthresh: Option<u32>,
    /// Bytes in a segment.
    pub mss: u32,
}

/// What the kernel looks at of the slow subflow; times in eighths of a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowSubflow {
    /// Smoothed round-trip time.
    pub srtt: u32,
    /// The smallest so far.
    pub min_srtt: u32,
    /// The largest.
    pub max_srtt: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
}

/// How long a further segment stays on the slow subflow, in eighths of a microsecond.
pub fn linger_time(slow: &SlowSubflow) -> u32 {
    let in_flight = slow.in_flight + 1;
    let estimate = if in_flight >= slow.cwnd {
        slow.max_srtt
    } else {
        let spread = (slow.max_srtt - slow.min_srtt).wrapping_mul(in_flight);
        slow.min_srtt.wrapping_add(spread / slow.cwnd)
    };
    slow.srtt.max(estimate)
}

/// The rounds, segments and bytes that the fast subflow sends meanwhile; the bytes times lambda, given in thousandths.
pub fn fast_bytes(fast: &FastSubflow, linger: u32, lambda: u32) -> (u32, u32, u32) {
    let mean = (fast.min_srtt.wrapping_add(fast.max_srtt)) / 2;
    let rounds = linger
        .checked_div(mean)
        .map_or(1, |rounds| rounds.saturating_add(1));
    let (rounds, packets) = match fast.ssthresh {
        None => {
            let rounds = rounds.min(MOST_ROUNDS_OF_SLOW_START);
            (rounds, fast.cwnd.wrapping_mul((1 << rounds) - 1))
        }
        Some(ssthresh) => {
            let cwnd = fast.cwnd.max(ssthresh.wrapping_add(1));
            (
                rounds,
                cwnd.wrapping_add((rounds - 1) / 2).wrapping_mul(rounds),
            )
        }
    };
    let bytes = u64::from(packets)
        .wrapping_mul(u64::from(fast.mss))
        .wrapping_mul(u64::from(lambda));
    // The kernel returns the lower 32 bits.
    (rounds, packets, (bytes / 1000) as u32)
}

/// What the connection's window leaves beside the slow subflow's unacknowledged data and this segment; all in bytes.
pub fn space_bytes(window: u32, segment: u32, unacked: u32) -> u32 {
    window.saturating_sub(segment.saturating_add(unacked))
}

/// The extremes of a smoothed round-trip time, in eighths of a microsecond.
#[derive(Clone, Copy, Debug, Default)]
struct Extremes {
    seen: Option<(u32, u32)>,
}

impl Extremes {
    fn see(&mut self, srtt: u32) -> (u32, u32) {
        let (min, max) = self.seen.unwrap_or((srtt, srtt));
        *self.seen.insert((min.min(srtt), max.max(srtt)))
    }
}

/// See [`fast_bytes`].
#[derive(Clone, Debug)]
pub struct KernelEstimation {
    lambda: AdaptiveLambda,
    extremes: PerSubflow<Extremes>,
}

impl WaitRule for KernelEstimation {
    fn waits(&mut self, view: &View<'_>, fast: usize, slow: usize) -> bool {
        let extremes = self.extremes.of(view.subflows);
        for (extremes, subflow) in extremes.iter_mut().zip(view.subflows) {
            extremes.see(eighths(subflow.srtt));
        }
        let [fast_extremes, slow_extremes] = [fast, slow].map(|index| extremes[index]);
        let (fast, slow) = (&view.subflows[fast], &view.subflows[slow]);
        let slow_seen = of_slow(slow, slow_extremes);
        let period = Nanos::from(slow_seen.min_srtt) * MICROSECOND / 8;
        let lambda = self.lambda.adapted(view.now, period);
        let linger = linger_time(&slow_seen);
        let (_, _, bytes) = fast_bytes(&of_fast(fast, fast_extremes), linger, lambda);
        let segment = view.head.len.min(u64::from(slow.mss_bytes)) as u32;
        let window = u32::try_from(view.window_bytes).unwrap_or(u32::MAX);
        bytes > space_bytes(window, segment, slow.unacked_bytes)
    }

    fn sent_again(&mut self) {
        self.lambda.sent_again();
    }
}

fn of_fast(subflow: &SubflowView, mut extremes: Extremes) -> FastSubflow {
    let (min_srtt, max_srtt) = extremes.see(eighths(subflow.srtt));
    let has_threshold = subflow.ssthresh_bytes != u32::MAX;
    FastSubflow {
        min_srtt,
        max_srtt,
        cwnd: subflow.cwnd_packets(),
        ssthresh: has_threshold.then(|| subflow.ssthresh_bytes / subflow.mss_bytes),
        mss: subflow.mss_bytes,
    }
}

fn of_slow(subflow: &SubflowView, mut extremes: Extremes) -> SlowSubflow {
    let srtt = eighths(subflow.srtt);
    let (min_srtt, max_srtt) = extremes.see(srtt);
    SlowSubflow {
        srtt,
        min_srtt,
        max_srtt,
        in_flight: subflow.in_flight_packets(),
        cwnd: subflow.cwnd_packets(),
    }
}

/// `srtt_us` of the kernel: eighths of a microsecond.
fn eighths(srtt: Nanos) -> u32 {
    u32::try_from(srtt / MICROSECOND * 8).unwrap_or(u32::MAX)
}

/// Lowest round-trip time first, with the kernel's estimation deciding about slower subflows.
pub type BlestOot = LowestRtt<KernelEstimation>;

impl BlestOot {
    /// For a new connection.
    pub fn new(parameters: &Parameters) -> Self {
        let lambda = AdaptiveLambda::new(parameters.lambda.unwrap_or(Lambda::KERNEL));
        let extremes = PerSubflow::default();
        Self::with_rule(parameters.order, KernelEstimation { lambda, extremes })
    }
}
