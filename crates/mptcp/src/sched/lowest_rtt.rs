//! Selection of the free subflow with the lowest round-trip time, and the schedulers based on it.
//! Some of them wait for a faster subflow instead.

use std::fmt::Debug;

use super::penalization::Penalization;
use super::{Decision, Reason, Scheduler, SubflowOrder, SubflowView, View};

/// Result of the search among regular or among backup subflows.
enum Found {
    /// A subflow that can take the data now.
    Free(usize),
    /// A subflow that has not carried the data is busy; the scheduler waits for it.
    Busy,
    /// There is no subflow, or all have carried the data before.
    Nothing,
}

/// Whether subflows that have carried the data before are excluded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    Counts,
    IsForgotten,
}

/// Returns the index of the subflow for the data in question ([`View::head`]), as the default
/// scheduler of the out-of-tree kernel does. Returns `None` if the scheduler has to wait.
///
/// The subflow is the one with the lowest smoothed round-trip time among those that are free and
/// have not carried the head; ties go to the first in `order`. Backup subflows are considered only
/// if no regular subflow is merely busy. If all subflows have carried the head, all are candidates
/// again.
pub fn lowest_rtt(subflows: &[SubflowView], order: SubflowOrder) -> Option<usize> {
    choose(subflows, order, Carried::Counts)
}

pub(super) fn choose(
    subflows: &[SubflowView],
    order: SubflowOrder,
    carried: Carried,
) -> Option<usize> {
    let rounds = [
        (carried, false),
        (carried, true),
        (Carried::IsForgotten, false),
        (Carried::IsForgotten, true),
    ];
    for (carried, is_backup) in rounds {
        match best_of(subflows, order, carried, is_backup) {
            Found::Free(index) => return Some(index),
            Found::Busy => return None,
            Found::Nothing => {}
        }
    }
    None
}

fn best_of(
    subflows: &[SubflowView],
    order: SubflowOrder,
    carried: Carried,
    is_backup: bool,
) -> Found {
    let mut found = Found::Nothing;
    for index in order.indices(subflows.len()) {
        let subflow = &subflows[index];
        let was_used = carried == Carried::Counts && subflow.has_carried_head;
        if subflow.is_backup != is_backup || !subflow.is_available() || was_used {
            continue;
        }
        found = match found {
            Found::Free(best) if subflows[best].srtt <= subflow.srtt => found,
            Found::Free(_) if subflow.is_busy() => found,
            _ if subflow.is_busy() => Found::Busy,
            _ => Found::Free(index),
        };
    }
    found
}

/// Returns the subflow with the lowest round-trip time among those with the same priority as
/// `other`, whether or not it is free.
fn fastest_like(other: &SubflowView, subflows: &[SubflowView], order: SubflowOrder) -> usize {
    let alike = order.indices(subflows.len()).filter(|&index| {
        subflows[index].is_available() && subflows[index].is_backup == other.is_backup
    });
    alike
        .min_by_key(|&index| subflows[index].srtt)
        .expect("the other one is among them")
}

/// Assigns as much of the head as fits to the subflow that [`lowest_rtt`] selects.
pub(super) fn assign_lowest_rtt(view: &View<'_>, order: SubflowOrder) -> Decision {
    match lowest_rtt(view.subflows, order) {
        Some(index) => view.assign(index, u32::MAX),
        None => Decision::Wait,
    }
}

/// Decides whether a free subflow stays unused because a faster, busy one will soon be free.
pub trait WaitRule: Debug + Send {
    /// Returns whether to wait for the subflow `fast` instead of using the subflow `slow` now. Both
    /// are indices into [`View::subflows`] of `view`.
    fn waits(&mut self, view: &View<'_>, fast: usize, slow: usize) -> bool;

    /// Called after data that blocked the window or the send buffer was assigned to a further
    /// subflow.
    fn sent_again(&mut self) {}
}

/// The scheduler on which `min_rtt`, `blest` and `ecf` are based: uses the free subflow with the
/// lowest round-trip time, unless the rule `R` decides to wait for a faster one. Includes
/// opportunistic retransmission and penalization (Raiciu et al., NSDI 2012).
#[derive(Clone, Debug)]
pub struct LowestRtt<R> {
    order: SubflowOrder,
    penalization: Penalization,
    rule: R,
}

impl<R: WaitRule> LowestRtt<R> {
    pub(super) fn with_rule(order: SubflowOrder, rule: R) -> Self {
        Self {
            order,
            penalization: Penalization::default(),
            rule,
        }
    }

    /// Returns the subflow, and how many segments may be assigned before the rule decides again.
    fn choose(&mut self, view: &View<'_>, carried: Carried) -> Option<(usize, u32)> {
        let chosen = choose(view.subflows, self.order, carried)?;
        let fastest = fastest_like(&view.subflows[chosen], view.subflows, self.order);
        if chosen == fastest {
            return Some((chosen, u32::MAX));
        }
        (!self.rule.waits(view, fastest, chosen)).then_some((chosen, 1))
    }

    /// Uses a free subflow to unblock a full window or send buffer.
    fn unblock(&mut self, view: &View<'_>) -> Decision {
        let Some((fast, _)) = self.choose(view, Carried::IsForgotten) else {
            return Decision::Wait;
        };
        let decision = self.penalization.next(view, fast, self.order);
        if let Decision::Assign { .. } = decision {
            self.rule.sent_again();
        }
        decision
    }
}

impl<R: WaitRule> Scheduler for LowestRtt<R> {
    fn next(&mut self, view: &View<'_>) -> Decision {
        match view.reason {
            Reason::NewData | Reason::Reinject | Reason::MetaTimeout => {
                match self.choose(view, Carried::Counts) {
                    Some((index, segments)) => view.assign(index, segments),
                    None => Decision::Wait,
                }
            }
            Reason::WindowBlocked | Reason::BufferBlocked => self.unblock(view),
            Reason::NothingNew => Decision::Wait,
        }
    }
}
