//! `blest`: does not use a slow subflow if it would block the fast one (Ferlin et al., IFIP
//! Networking 2016).
//!
//! While a segment is in flight on the slow subflow S, the fast subflow F sends for RTT_S/RTT_F
//! rounds. Its window grows by one segment per round. S is not used if this data does not fit into
//! the connection's window in addition to the data of S.

use super::Entry;
use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, SubflowView, View};
use crate::algorithm::{Description, Parameter, Value};
use crate::time::{Nanos, seconds};

/// The parameters of a [`Lambda`] in a field of [`Parameters`].
macro_rules! lambda_parameters {
    ($field:ident) => {
        &[
            lambda_parameters!(
                $field,
                start,
                "lambda_start",
                1,
                10_000,
                "the initial value of the factor that scales BLEST's forecast"
            ),
            lambda_parameters!(
                $field,
                min,
                "lambda_min",
                1,
                1000,
                "the lower limit of the factor"
            ),
            lambda_parameters!(
                $field,
                max,
                "lambda_max",
                1000,
                10_000,
                "the upper limit of the factor"
            ),
            lambda_parameters!(
                $field,
                up,
                "lambda_up",
                0,
                1000,
                "the step by which the factor grows"
            ),
            lambda_parameters!(
                $field,
                down,
                "lambda_down",
                0,
                1000,
                "the step by which the factor shrinks"
            ),
        ]
    };
    ($field:ident, $part:ident, $name:literal, $least:literal, $most:literal, $meaning:literal) => {
        Parameter {
            name: $name,
            unit: "thousandths",
            meaning: $meaning,
            computed_default: None,
            value: Value::Integer {
                least: $least,
                most: $most,
                get: |given: &Parameters| Some(given.$field.$part),
                set: |given: &mut Parameters, value| given.$field.$part = value,
            },
        }
    };
}
pub(super) use lambda_parameters;

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "blest",
        aliases: &[],
        summary: "Works like min_rtt, but sends nothing on a slow subflow that would block the fast one",
        source: "Ferlin et al., IFIP Networking 2016",
        parameters: lambda_parameters!(blest),
    },
    make: |given| Box::new(Blest::new(given)),
};

/// The forecast of BLEST (Ferlin et al., IFIP Networking 2016): how much the fast subflow F sends
/// while a segment is in flight on the slow subflow S, and how much of the connection's window is
/// left for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// n = RTT_S / RTT_F: round trips of F during one round trip of S.
    pub rounds: f64,
    /// X = MSS_F * (CWND_F + (n - 1) / 2) * n: bytes that F sends in `rounds`, if its window of
    /// CWND_F segments grows by one segment per round.
    pub fast_bytes: f64,
    /// |M| - MSS_S * (inflight_S + 1): bytes of the connection's window |M| that the data in flight
    /// on S and one more segment leave. Can be negative.
    pub space_bytes: f64,
}

impl Forecast {
    /// Computes the forecast for the subflows `fast` and `slow`, both with an RTT sample.
    /// `window_bytes` is |M|, the peer's receive window in bytes.
    pub fn new(fast: &SubflowView, slow: &SubflowView, window_bytes: u64) -> Self {
        let rounds = seconds(slow.srtt) / seconds(fast.srtt);
        let mss_fast = f64::from(fast.mss_bytes);
        let cwnd_packets = f64::from(fast.cwnd_bytes) / mss_fast;
        let in_flight = f64::from(slow.in_flight_packets());
        Self {
            rounds,
            fast_bytes: mss_fast * (cwnd_packets + (rounds - 1.0) / 2.0) * rounds,
            space_bytes: window_bytes as f64 - f64::from(slow.mss_bytes) * (in_flight + 1.0),
        }
    }

    /// Returns whether S may be used: whether `fast_bytes` times `lambda` is at most `space_bytes`.
    /// `lambda` is the correction factor; 1.0 corrects nothing.
    pub fn fits(&self, lambda: f64) -> bool {
        self.fast_bytes * lambda <= self.space_bytes
    }
}

/// The correction factor of BLEST's [`Forecast`], and how it adapts. All fields are in thousandths:
/// 1000 stands for a factor of 1.
///
/// The factor adapts at most once per round-trip time of the slow subflow. It grows by `up` if data
/// that blocked a window has been sent again on another subflow since the last step, and otherwise
/// shrinks by `down`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lambda {
    /// Initial factor, in thousandths.
    pub start: u32,
    /// Smallest factor, in thousandths.
    pub min: u32,
    /// Largest factor, in thousandths.
    pub max: u32,
    /// Increment of the factor in a step up, in thousandths.
    pub up: u32,
    /// Decrement of the factor in a step down, in thousandths.
    pub down: u32,
}

impl Lambda {
    /// The factor as in the paper, which starts at 1. Its bounds and steps are those of
    /// [`Lambda::KERNEL`], because the paper's are not known.
    pub const PAPER: Self = Self {
        start: 1000,
        ..Self::KERNEL
    };

    /// The factor as in the out-of-tree kernel 0.95: it starts at 1.2, stays between 1.0 and 1.3,
    /// and changes by +0.04 or -0.01.
    pub const KERNEL: Self = Self {
        start: 1200,
        min: 1000,
        max: 1300,
        up: 40,
        down: 10,
    };
}

/// The current value of the factor.
#[derive(Clone, Debug)]
pub(super) struct AdaptiveLambda {
    settings: Lambda,
    thousandths: u32,
    has_sent_again: bool,
    last: Nanos,
}

impl AdaptiveLambda {
    pub(super) fn new(settings: Lambda) -> Self {
        Self {
            settings,
            thousandths: settings.start,
            has_sent_again: false,
            last: 0,
        }
    }

    pub(super) fn sent_again(&mut self) {
        self.has_sent_again = true;
    }

    /// Returns the factor in thousandths. Adapts it first if a `period` has passed.
    pub(super) fn adapted(&mut self, now: Nanos, period: Nanos) -> u32 {
        if now.saturating_sub(self.last) < period {
            return self.thousandths;
        }
        let Lambda {
            min, max, up, down, ..
        } = self.settings;
        let stepped = match self.has_sent_again {
            true => self.thousandths.saturating_add(up),
            false => self.thousandths.saturating_sub(down),
        };
        self.thousandths = stepped.min(max).max(min);
        self.has_sent_again = false;
        self.last = now;
        self.thousandths
    }
}

/// The rule of [`Blest`]: waits for the fast subflow if the bytes that it is expected to send in
/// the meantime, times the correction factor ([`Lambda`]), do not fit into the rest of the
/// connection's window ([`Forecast`]).
#[derive(Clone, Debug)]
pub struct BlockingEstimation {
    lambda: AdaptiveLambda,
}

impl WaitRule for BlockingEstimation {
    fn waits(&mut self, view: &View<'_>, fast: usize, slow: usize) -> bool {
        let (fast, slow) = (&view.subflows[fast], &view.subflows[slow]);
        let lambda = self.lambda.adapted(view.now, slow.srtt);
        // Without an RTT sample, there is no forecast.
        fast.srtt > 0
            && !Forecast::new(fast, slow, view.window_bytes).fits(f64::from(lambda) / 1000.0)
    }

    fn sent_again(&mut self) {
        self.lambda.sent_again();
    }
}

/// The scheduler `blest`: prefers the subflow with the lowest round-trip time. While that subflow
/// is busy, uses a slower one only if the bytes that the fast subflow is expected to send in the
/// meantime fit into the rest of the connection's window ([`Forecast::fits`]).
pub type Blest = LowestRtt<BlockingEstimation>;

impl Blest {
    /// Creates the scheduler for a new connection. Uses only `order` and `blest` of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        let lambda = AdaptiveLambda::new(parameters.blest);
        Self::with_rule(parameters.order, BlockingEstimation { lambda })
    }
}
