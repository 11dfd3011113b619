//! `blest`: a slow subflow is left alone where it would block the fast one (Ferlin et al., IFIP Networking 2016).
//!
//! While a segment is on its way over the slow subflow S, the fast one F sends for RTT_S/RTT_F rounds, with a window that grows
//! by one segment a round. If that does not fit into what the connection's window leaves beside the data of S, S is not used.

use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, SubflowView, View};
use crate::time::{Nanos, seconds};

/// What F will send, and the space for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// n = RTT_S / RTT_F, rounds of F during one of S.
    pub rounds: f64,
    /// X = MSS_F * (CWND_F + (n - 1) / 2) * n.
    pub fast_bytes: f64,
    /// |M| - MSS_S * (inflight_S + 1).
    pub space_bytes: f64,
}

impl Forecast {
    /// For `fast` and `slow`, whose round-trip times are known, and the peer's window |M| in bytes.
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

    /// Whether S may be used: X * lambda fits.
    pub fn fits(&self, lambda: f64) -> bool {
        self.fast_bytes * lambda <= self.space_bytes
    }
}

/// The factor that corrects the forecast, in thousandths, and how it adapts: up when data that blocked a window was sent again
/// since the last time, down otherwise, at most once per round-trip time of S.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lambda {
    /// At the start.
    pub start: u32,
    /// The lowest.
    pub min: u32,
    /// The highest.
    pub max: u32,
    /// The step up.
    pub up: u32,
    /// The step down.
    pub down: u32,
}

impl Lambda {
    /// The paper's, which starts at 1; bounds and steps are the kernel's, the paper's not being known here.
    pub const PAPER: Self = Self {
        start: 1000,
        ..Self::KERNEL
    };

    /// The out-of-tree kernel's.
    pub const KERNEL: Self = Self {
        start: 1200,
        min: 1000,
        max: 1300,
        up: 40,
        down: 10,
    };
}

/// Its value now.
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

    /// In thousandths, after it has adapted if a `period` has passed.
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

/// See [`Forecast`].
#[derive(Clone, Debug)]
pub struct BlockingEstimation {
    lambda: AdaptiveLambda,
}

impl WaitRule for BlockingEstimation {
    fn waits(&mut self, view: &View<'_>, fast: usize, slow: usize) -> bool {
        let (fast, slow) = (&view.subflows[fast], &view.subflows[slow]);
        let lambda = self.lambda.adapted(view.now, slow.srtt);
        // Without a sample nothing can be foretold.
        fast.srtt > 0
            && !Forecast::new(fast, slow, view.window_bytes).fits(f64::from(lambda) / 1000.0)
    }

    fn sent_again(&mut self) {
        self.lambda.sent_again();
    }
}

/// Lowest round-trip time first, with [`Forecast`] deciding about slower subflows.
pub type Blest = LowestRtt<BlockingEstimation>;

impl Blest {
    /// For a new connection.
    pub fn new(parameters: &Parameters) -> Self {
        let lambda = AdaptiveLambda::new(parameters.lambda.unwrap_or(Lambda::PAPER));
        Self::with_rule(parameters.order, BlockingEstimation { lambda })
    }
}
