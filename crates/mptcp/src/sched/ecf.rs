//! `ecf`: earliest completion first (Lim et al., CoNEXT 2017). A slow subflow is left alone where what is left to send would be
//! done sooner if it waited for the fast one.

use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, SubflowView, View};
use crate::time::seconds;

/// What the rule looks at of a subflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Congestion window in segments.
    pub cwnd_packets: f64,
    /// Smoothed round-trip time in seconds.
    pub rtt_s: f64,
    /// Its deviation sigma in seconds.
    pub deviation_s: f64,
}

impl Path {
    fn of(subflow: &SubflowView) -> Self {
        Self {
            cwnd_packets: f64::from(subflow.cwnd_bytes) / f64::from(subflow.mss_bytes),
            rtt_s: seconds(subflow.srtt),
            deviation_s: seconds(subflow.rttvar),
        }
    }
}

/// When k segments would be done over the fast subflow F alone, and with the slow one S.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// n = 1 + k / CWND_F, rounds of F.
    pub rounds: f64,
    /// d = max(sigma_F, sigma_S), in seconds.
    pub margin_s: f64,
    /// n * RTT_F < (1 + waiting * beta) * (RTT_S + d): F is done before S could be.
    pub fast_is_sooner: bool,
    /// (k / CWND_S) * RTT_S >= 2 * RTT_F + d: S would be late; only asked if F is sooner.
    pub slow_is_late: Option<bool>,
}

impl Estimate {
    /// For k segments that no subflow has; `is_waiting` if it was decided to wait before.
    pub fn new(k_packets: f64, fast: &Path, slow: &Path, is_waiting: bool, beta: f64) -> Self {
        let rounds = 1.0 + k_packets / fast.cwnd_packets;
        let margin_s = fast.deviation_s.max(slow.deviation_s);
        let advantage = if is_waiting { 1.0 + beta } else { 1.0 };
        let fast_is_sooner = rounds * fast.rtt_s < advantage * (slow.rtt_s + margin_s);
        let is_late = || k_packets / slow.cwnd_packets * slow.rtt_s >= 2.0 * fast.rtt_s + margin_s;
        Self {
            rounds,
            margin_s,
            fast_is_sooner,
            slow_is_late: fast_is_sooner.then(is_late),
        }
    }

    /// Whether S stays idle.
    pub fn waits(&self) -> bool {
        self.slow_is_late == Some(true)
    }

    /// Whether it counts as waiting from now on: until F is no longer sooner.
    pub fn is_waiting_then(&self, was_waiting: bool) -> bool {
        self.fast_is_sooner && (was_waiting || self.waits())
    }
}

/// See [`Estimate`].
#[derive(Clone, Debug)]
pub struct EarliestCompletion {
    beta: f64,
    is_waiting: bool,
}

impl WaitRule for EarliestCompletion {
    fn waits(&mut self, view: &View<'_>, fast: usize, slow: usize) -> bool {
        let (fast, slow) = (&view.subflows[fast], &view.subflows[slow]);
        let k_packets = view.unassigned_bytes() as f64 / f64::from(slow.mss_bytes);
        let (fast, slow) = (Path::of(fast), Path::of(slow));
        let estimate = Estimate::new(k_packets, &fast, &slow, self.is_waiting, self.beta);
        self.is_waiting = estimate.is_waiting_then(self.is_waiting);
        estimate.waits()
    }
}

/// Lowest round-trip time first, with [`Estimate`] deciding about slower subflows.
pub type Ecf = LowestRtt<EarliestCompletion>;

impl Ecf {
    /// For a new connection.
    pub fn new(parameters: &Parameters) -> Self {
        let rule = EarliestCompletion {
            beta: 1.0 / f64::from(parameters.inverse_beta),
            is_waiting: false,
        };
        Self::with_rule(parameters.order, rule)
    }
}
