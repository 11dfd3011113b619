//! `ecf`: earliest completion first (Lim et al., CoNEXT 2017). Does not use a slow subflow if the
//! remaining data is sent sooner by waiting for the fast one.

use super::Entry;
use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, SubflowView, View};
use crate::algorithm::{Description, Parameter, Value};
use crate::time::seconds;

/// The reciprocal of beta.
pub(super) const INVERSE_BETA: Parameter<Parameters> = Parameter {
    name: "inverse_beta",
    unit: "",
    meaning: "the reciprocal of beta, the margin in favour of continuing to wait",
    computed_default: None,
    value: Value::Integer {
        least: 1,
        most: 1000,
        get: |given| Some(given.inverse_beta),
        set: |given, value| given.inverse_beta = value,
    },
};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "ecf",
        aliases: &[],
        summary: "Works like min_rtt, but skips a slow subflow if the data would complete sooner by waiting for the fast one",
        source: "Lim et al., CoNEXT 2017",
        parameters: &[INVERSE_BETA],
    },
    make: |given| Box::new(Ecf::new(given)),
};

/// A subflow in the formulas of ECF ([`Estimate`]). Not to be confused with a path of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Congestion window in segments, not rounded.
    pub cwnd_packets: f64,
    /// Smoothed round-trip time in seconds.
    pub rtt_s: f64,
    /// sigma: mean deviation of the round-trip time (RTTVAR of RFC 6298) in seconds.
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

/// The estimate of ECF (Lim et al., CoNEXT 2017): whether k segments are sent sooner with the fast
/// subflow F alone than with the slow subflow S.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// n = 1 + k / CWND_F: round trips that F needs, with its window in segments.
    pub rounds: f64,
    /// d = max(sigma_F, sigma_S): margin for the deviation of both round-trip times, in seconds.
    pub margin_s: f64,
    /// Whether n * RTT_F < (1 + waiting * beta) * (RTT_S + d): F finishes before S could. "waiting"
    /// is 1 in the waiting state, otherwise 0.
    pub fast_is_sooner: bool,
    /// Whether (k / CWND_S) * RTT_S >= 2 * RTT_F + d: S would finish late. `None` if
    /// `fast_is_sooner` is false.
    pub slow_is_late: Option<bool>,
}

impl Estimate {
    /// Computes the estimate for `k_packets` segments that are not yet assigned to any subflow.
    /// `is_waiting` is the last result of [`Estimate::is_waiting_then`], or false before the first
    /// decision. `beta` is the hysteresis that favours waiting while the scheduler already waits.
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

    /// Returns whether to wait for F and leave S idle, because F would finish sooner and S would
    /// finish late.
    pub fn waits(&self) -> bool {
        self.slow_is_late == Some(true)
    }

    /// Returns the waiting state after this decision. `was_waiting` is the state before it. The
    /// state begins with a decision to wait and lasts until F would no longer finish sooner.
    pub fn is_waiting_then(&self, was_waiting: bool) -> bool {
        self.fast_is_sooner && (was_waiting || self.waits())
    }
}

/// The rule of [`Ecf`]: waits for the fast subflow if that is expected to send the remaining data
/// sooner ([`Estimate::waits`]).
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

/// The scheduler `ecf`: prefers the subflow with the lowest round-trip time. While that subflow is
/// busy, leaves a slower one idle if the fast subflow alone is expected to send the remaining data
/// sooner ([`Estimate::waits`]).
pub type Ecf = LowestRtt<EarliestCompletion>;

impl Ecf {
    /// Creates the scheduler for a new connection. Uses only `order` and `inverse_beta` of
    /// `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        let rule = EarliestCompletion {
            beta: 1.0 / f64::from(parameters.inverse_beta),
            is_waiting: false,
        };
        Self::with_rule(parameters.order, rule)
    }
}
