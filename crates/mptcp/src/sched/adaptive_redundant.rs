//! `x-adaptive_redundant`: `redundant` while copies pay, `min_rtt` otherwise. mptcplab's own
//! definition.
//!
//! Copies pay ([`copies_pay`]) while one of these conditions holds:
//!
//! - Little data is in flight: all data that is written and not acknowledged fits into the smallest
//!   window of the available regular subflows. A short message, which is complete only with its
//!   last segment, then always uses the fastest path, and copies use windows that nothing else
//!   needs.
//! - A path fails: a regular subflow is stale or recovers from a timeout.
//! - A path is lossy: a regular subflow loses more than 5 % of what it sends.
//!
//! When copies start to pay, only data assigned from then on is copied, not data in flight.

use super::Entry;
use super::loss_rate::LossRates;
use super::{Decision, MinRtt, Parameters, Redundant, Scheduler, SubflowView, View};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "x-adaptive_redundant",
        aliases: &[],
        summary: "Behaves like redundant while copies are worthwhile, and like min_rtt otherwise",
        source: "mptcplab",
        parameters: &[],
    },
    make: |given| Box::new(AdaptiveRedundant::new(given)),
};

/// Loss rate above which a subflow is lossy.
const LOSSY: f64 = 0.05;

/// Returns whether `x-adaptive_redundant` sends all data on every regular subflow.
///
/// This is the case while one of the following conditions holds: `outstanding_bytes` fits into the
/// smallest congestion window of the available regular subflows; a regular subflow is stale or
/// recovers from a retransmission timeout; or a regular subflow has a loss rate above 5 %.
/// `outstanding_bytes` is the number of bytes written and not acknowledged. `losses` are the loss
/// rates, from 0 to 1, in the order of `subflows`.
pub fn copies_pay(subflows: &[SubflowView], losses: &[f64], outstanding_bytes: u64) -> bool {
    let regular = || {
        let all = subflows.iter().zip(losses);
        all.filter(|(subflow, _)| subflow.is_usable && !subflow.is_backup)
    };
    let fails = |subflow: &SubflowView| subflow.is_stale || subflow.in_loss;
    let available = regular().filter(|(subflow, _)| subflow.is_available());
    let smallest = available.map(|(subflow, _)| subflow.cwnd_bytes).min();
    let is_little = smallest.is_some_and(|smallest| outstanding_bytes <= u64::from(smallest));
    is_little || regular().any(|(subflow, &loss)| fails(subflow) || loss > LOSSY)
}

/// The scheduler `x-adaptive_redundant`: sends all data on every regular subflow, like
/// [`Redundant`], while copies are worthwhile ([`copies_pay`]). Otherwise it works like [`MinRtt`].
#[derive(Clone, Debug)]
pub struct AdaptiveRedundant {
    losses: LossRates,
    is_redundant: bool,
    redundant: Redundant,
    min_rtt: MinRtt,
}

impl AdaptiveRedundant {
    /// Creates the scheduler for a new connection. Uses only `order` of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            losses: LossRates::default(),
            is_redundant: false,
            redundant: Redundant::new(parameters),
            min_rtt: MinRtt::new(parameters),
        }
    }
}

impl Scheduler for AdaptiveRedundant {
    fn next(&mut self, view: &View<'_>) -> Decision {
        let losses = self.losses.now(view);
        let outstanding = view.written_bytes - view.acked_bytes;
        let was_redundant = self.is_redundant;
        self.is_redundant = copies_pay(view.subflows, &losses, outstanding);
        if !self.is_redundant {
            return self.min_rtt.next(view);
        }
        if !was_redundant {
            self.redundant.start_at(view.assigned_bytes);
        }
        self.redundant.next(view)
    }
}
