//! The choice of the free subflow with the lowest round-trip time, and the schedulers that begin with it: some then rather wait
//! for a faster one.

use std::fmt::Debug;

use super::penalization::Penalization;
use super::{Decision, Reason, Scheduler, SubflowOrder, SubflowView, View};

/// What became of the search among the regular or the backup subflows.
enum Found {
    /// One that may take the data now.
    Free(usize),
    /// One that has not carried the data is busy: it is waited for.
    Busy,
    /// None, or only such as have carried the data before.
    Nothing,
}

/// Whether it counts that a subflow has carried the data before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    Counts,
    IsForgotten,
}

/// The subflow for the head according to the out-of-tree kernel's default scheduler: the lowest smoothed round-trip time among
/// those that are free and have not carried it; the first in `order` of equal ones. Backup subflows are looked at only if no
/// regular one is merely busy. What has been on all of them starts again.
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

/// The subflow with the lowest round-trip time of those like `other`, regular or backup, whether it is free or not.
fn fastest_like(other: &SubflowView, subflows: &[SubflowView], order: SubflowOrder) -> usize {
    let alike = order.indices(subflows.len()).filter(|&index| {
        subflows[index].is_available() && subflows[index].is_backup == other.is_backup
    });
    alike
        .min_by_key(|&index| subflows[index].srtt)
        .expect("the other one is among them")
}

/// All of the head that fits goes to the subflow that [`lowest_rtt`] says.
pub(super) fn assign_lowest_rtt(view: &View<'_>, order: SubflowOrder) -> Decision {
    match lowest_rtt(view.subflows, order) {
        Some(index) => view.assign(index, u32::MAX),
        None => Decision::Wait,
    }
}

/// When a free subflow is not used because a faster one, now busy, will be free soon.
pub trait WaitRule: Debug + Send {
    /// Whether to wait for the subflow `fast` instead of using `slow`: indices in the view.
    fn waits(&mut self, view: &View<'_>, fast: usize, slow: usize) -> bool;

    /// Data that blocked a window was sent again.
    fn sent_again(&mut self) {}
}

/// Lowest round-trip time first, unless `R` has it wait; with opportunistic retransmission and penalization.
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

    /// The subflow and how many segments may go there before the rule is asked again.
    fn choose(&mut self, view: &View<'_>, carried: Carried) -> Option<(usize, u32)> {
        let chosen = choose(view.subflows, self.order, carried)?;
        let fastest = fastest_like(&view.subflows[chosen], view.subflows, self.order);
        if chosen == fastest {
            return Some((chosen, u32::MAX));
        }
        (!self.rule.waits(view, fastest, chosen)).then_some((chosen, 1))
    }

    /// A window or the buffer is full: a free subflow can help with what holds it up.
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
