//! `blest`: does not use a slow subflow if it would block the fast one (Ferlin et al., IFIP
//! Networking 2016).
//!
//! While a segment is in flight on the slow subflow S, the fast subflow F sends for RTT_S/RTT_F
//! rounds. Its window grows by one segment per round. S is not used if this data does not fit into
//! the connection's window beside the data of S.

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
                "the factor of the forecast at the start"
            ),
            lambda_parameters!($field, min, "lambda_min", 1, 1000, "the smallest factor"),
            lambda_parameters!(
                $field,
                max,
                "lambda_max",
                1000,
                10_000,
                "the largest factor"
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
        summary: "As min_rtt, but not to a slow subflow that would block the fast one",
        source: "Ferlin et al., IFIP Networking 2016",
        parameters: lambda_parameters!(blest),
    },
    make: |given| Box::new(Blest::new(given)),
};

/// The data that F will send, and the space for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// n = RTT_S / RTT_F: rounds of F during one of S.
    pub rounds: f64,
    /// X = MSS_F * (CWND_F + (n - 1) / 2) * n: bytes that F sends in these rounds.
    pub fast_bytes: f64,
    /// |M| - MSS_S * (inflight_S + 1): space in the connection's window, in bytes. Can be negative.
    pub space_bytes: f64,
}

impl Forecast {
    /// Computes the forecast for `fast` and `slow`, both with a known round-trip time.
    /// `window_bytes` is the peer's window |M|.
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

    /// Returns whether S may be used: whether X * `lambda` fits into the space.
    pub fn fits(&self, lambda: f64) -> bool {
        self.fast_bytes * lambda <= self.space_bytes
    }
}

/// The correction factor of the forecast, in thousandths, and how it adapts.
///
/// It adapts at most once per round-trip time of S: up if data that blocked a window was sent again
/// since the last time, otherwise down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lambda {
    /// Initial value.
    pub start: u32,
    /// Smallest value.
    pub min: u32,
    /// Largest value.
    pub max: u32,
    /// Increment of a step up.
    pub up: u32,
    /// Decrement of a step down.
    pub down: u32,
}

impl Lambda {
    /// The paper's factor, which starts at 1. Its bounds and steps are not known here; those of the
    /// kernel are used.
    pub const PAPER: Self = Self {
        start: 1000,
        ..Self::KERNEL
    };

    /// The factor of the out-of-tree kernel.
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

/// The rule of [`Blest`]; see [`Forecast`].
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

/// The scheduler `blest`: lowest round-trip time first; [`Forecast`] decides whether slower
/// subflows are used.
pub type Blest = LowestRtt<BlockingEstimation>;

impl Blest {
    /// Creates the scheduler for a new connection.
    pub fn new(parameters: &Parameters) -> Self {
        let lambda = AdaptiveLambda::new(parameters.blest);
        Self::with_rule(parameters.order, BlockingEstimation { lambda })
    }
}
