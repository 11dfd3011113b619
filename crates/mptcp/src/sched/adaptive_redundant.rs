//! `x-adaptive_redundant`: `redundant` while copies pay, `min_rtt` otherwise. Defined here.
//!
//! Copies pay ([`copies_pay`]) while one of these holds:
//!
//! - little is on its way: all that is written and not acknowledged fits into the smallest window of the regular subflows
//!   that are available. So short messages, which wait for their last segment, take the fastest path each time, and a copy
//!   takes room that nothing else needs;
//! - a path fails: a regular subflow is stale or repairs a timeout;
//! - a path is lossy: more than 5 % of what a regular subflow sends is lost.
//!
//! Once they pay, what is assigned from then on is copied; what is on its way by then is not.

use super::loss_rate::LossRates;
use super::{Decision, MinRtt, Parameters, Redundant, Scheduler, SubflowView, View};

/// Share lost above which a subflow is lossy.
const LOSSY: f64 = 0.05;

/// Whether everything is to go over all regular subflows: see above. `outstanding_bytes` are written and not acknowledged;
/// `losses` are the shares lost in the order of the subflows.
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

/// See [`copies_pay`].
#[derive(Clone, Debug)]
pub struct AdaptiveRedundant {
    losses: LossRates,
    is_redundant: bool,
    redundant: Redundant,
    min_rtt: MinRtt,
}

impl AdaptiveRedundant {
    /// For a new connection.
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
