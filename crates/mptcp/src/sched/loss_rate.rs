//! How much of what a subflow sends is lost.

use super::per_subflow::PerSubflow;
use super::{SubflowView, View};
use crate::time::Nanos;

/// How much of a new sample counts, once per round-trip time.
const GAIN: f64 = 1.0 / 8.0;

/// What is lost on each subflow: a smoothed share of the bytes that it had to send again.
#[derive(Clone, Debug, Default)]
pub(super) struct LossRates {
    rates: PerSubflow<LossRate>,
}

impl LossRates {
    /// The shares lost in the order of the subflows, up to now.
    pub(super) fn now(&mut self, view: &View<'_>) -> Vec<f64> {
        let rates = self.rates.of(view.subflows).iter_mut().zip(view.subflows);
        let shares = rates.map(|(rate, subflow)| rate.now(view.now, subflow));
        shares.collect()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct LossRate {
    share: f64,
    since: Nanos,
    sent_bytes: u64,
    resent_bytes: u64,
}

impl LossRate {
    fn now(&mut self, now: Nanos, subflow: &SubflowView) -> f64 {
        let sent = subflow.sent_bytes.saturating_sub(self.sent_bytes);
        if sent > 0 && now.saturating_sub(self.since) >= subflow.srtt {
            let resent = subflow.resent_bytes.saturating_sub(self.resent_bytes);
            self.share += GAIN * (resent as f64 / sent as f64 - self.share);
            self.since = now;
            self.sent_bytes = subflow.sent_bytes;
            self.resent_bytes = subflow.resent_bytes;
        }
        self.share
    }
}
