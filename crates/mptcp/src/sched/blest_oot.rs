//! `blest-oot`: BLEST with the integer arithmetic of the out-of-tree kernel 0.95.
//!
//! It differs from `blest` as follows:
//!
//! - The time of a segment on the slow subflow is estimated between the smallest and the largest
//!   smoothed round-trip time, which never expire.
//! - Its rounds are always rounded up, by a whole round if they are exact.
//! - The fast subflow doubles its window in its first slow start.
//! - Counts wrap at 32 bits.
//!
//! One difference from the kernel remains: the kernel halves the windows of all slow subflows that
//! block the connection; this scheduler halves that of the first.

use super::Entry;
use super::blest::AdaptiveLambda;
use super::blest::lambda_parameters;
use super::lowest_rtt::{LowestRtt, WaitRule};
use super::per_subflow::PerSubflow;
use super::{Parameters, SubflowView, View};
use crate::algorithm::{Description, Parameter, Value};
use crate::time::{MICROSECOND, Nanos};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "blest-oot",
        aliases: &[],
        summary: "Computes blest as the out-of-tree kernel's module does",
        source: "multipath-tcp/mptcp v0.95, mptcp_blest.c",
        parameters: lambda_parameters!(blest_oot),
    },
    make: |given| Box::new(BlestOot::new(given)),
};

/// Slow start is predicted for at most this many rounds.
const MOST_ROUNDS_OF_SLOW_START: u32 = 16;

/// The fast subflow in the integer arithmetic of `blest-oot`, as [`fast_bytes`] needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastSubflow {
    /// Smallest smoothed round-trip time so far, in eighths of a microsecond.
    pub min_srtt: u32,
    /// Largest smoothed round-trip time so far, in eighths of a microsecond.
    pub max_srtt: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow start threshold in segments. `None` in the first slow start.
    pub ssthresh: Option<u32>,
    /// Payload of a full-sized segment, in bytes.
    pub mss: u32,
}

/// The slow subflow in the integer arithmetic of `blest-oot`, as [`linger_time`] needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowSubflow {
    /// Smoothed round-trip time, in eighths of a microsecond.
    pub srtt: u32,
    /// Smallest smoothed round-trip time so far, in eighths of a microsecond.
    pub min_srtt: u32,
    /// Largest smoothed round-trip time so far, in eighths of a microsecond.
    pub max_srtt: u32,
    /// Segments in flight: sent, and neither acknowledged nor marked lost.
    pub in_flight: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
}

/// Returns the estimated time that one more segment stays on the subflow `slow`, in eighths of a
/// microsecond. The estimate rises from the smallest to the largest smoothed round-trip time as the
/// window fills. It is at least the current smoothed round-trip time.
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

/// Returns `(rounds, segments, bytes)`: how many round trips the subflow `fast` completes in the
/// time `linger`, and how many segments and bytes it sends in them.
///
/// `linger` is in eighths of a microsecond. `lambda` is the correction factor in thousandths; it
/// multiplies only the bytes. The bytes are the lower 32 bits of the result, as in the kernel. In
/// the first slow start, at most 16 rounds are counted.
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

/// Returns how many bytes of the connection's `window` remain after `segment`, the length of the
/// next segment, and `unacked`, the unacknowledged data of the slow subflow, are subtracted. All
/// are in bytes. Returns 0 if nothing remains.
pub fn space_bytes(window: u32, segment: u32, unacked: u32) -> u32 {
    window.saturating_sub(segment.saturating_add(unacked))
}

/// The smallest and largest smoothed round-trip time, in eighths of a microsecond.
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

/// The rule of [`BlestOot`]: waits for the fast subflow if the bytes that it is expected to send in
/// the meantime ([`fast_bytes`]) do not fit into the rest of the connection's window
/// ([`space_bytes`]).
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

/// Returns `srtt_us` of the kernel: eighths of a microsecond.
fn eighths(srtt: Nanos) -> u32 {
    u32::try_from(srtt / MICROSECOND * 8).unwrap_or(u32::MAX)
}

/// The scheduler `blest-oot`: prefers the subflow with the lowest round-trip time. While that
/// subflow is busy, uses a slower one only if the bytes that the fast subflow is expected to send
/// in the meantime ([`fast_bytes`]) fit into the rest of the connection's window ([`space_bytes`]).
pub type BlestOot = LowestRtt<KernelEstimation>;

impl BlestOot {
    /// Creates the scheduler for a new connection. Uses only `order` and `blest_oot` of
    /// `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        let lambda = AdaptiveLambda::new(parameters.blest_oot);
        let extremes = PerSubflow::default();
        Self::with_rule(parameters.order, KernelEstimation { lambda, extremes })
    }
}
