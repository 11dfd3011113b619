//! Loss rates of subflows.

use super::per_subflow::PerSubflow;
use super::{SubflowView, View};
use crate::time::Nanos;

/// Weight of a new sample. Samples are taken once per round-trip time.
const GAIN: f64 = 1.0 / 8.0;

/// The loss rate of each subflow: the smoothed share of its bytes that it had to retransmit.
#[derive(Clone, Debug, Default)]
pub(super) struct LossRates {
    rates: PerSubflow<LossRate>,
}

impl LossRates {
    /// Updates the loss rates and returns them in the order of the subflows, from 0 to 1.
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
