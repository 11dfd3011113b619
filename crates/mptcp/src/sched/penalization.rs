//! Opportunistic retransmission and penalization (Raiciu et al., NSDI 2012). A free fast subflow
//! sends data with which a slow subflow blocks the connection. The slow subflow's window is halved,
//! so that it blocks less.
//!
//! As in the out-of-tree kernel since 2017, the fast subflow sends only data that it delivers
//! clearly faster.

use super::lowest_rtt::{Carried, choose};
use super::per_subflow::PerSubflow;
use super::{Decision, SubflowOrder, SubflowView, View};
use crate::time::Nanos;

/// A subflow with at most this window, in segments, gets help whatever its round-trip time.
const SMALL_WINDOW_PACKETS: u32 = 4;

/// Factor by which the other subflow must otherwise be faster.
const CLEARLY_FASTER: u64 = 4;

/// Returns whether the subflow `slow`, which carries the head and blocks the connection, is
/// penalized in favour of the free subflow `fast`.
///
/// This is the case if `slow` has a longer round-trip time than `fast` and is not in recovery, and
/// if a round trip of `fast` has passed since `fast` last caused a penalty. `since_last` is the
/// time since that penalty, or `None` if there was none.
pub fn is_penalized(fast: &SubflowView, slow: &SubflowView, since_last: Option<Nanos>) -> bool {
    // At most one penalty at a time, even if there is no RTT sample yet.
    let is_due = since_last.is_none_or(|elapsed| elapsed > 0 && elapsed >= fast.srtt);
    is_due && fast.srtt < slow.srtt && slow.is_open
}

/// Returns whether the subflow `fast` also sends the head, which the subflows `carriers` have
/// already carried.
///
/// Goes through `carriers` in the given order. The first carrier with a congestion window of at
/// most 4 segments gives true. The first one whose round-trip time is at most four times that of
/// `fast` gives false. If there is neither, returns whether there is any carrier.
pub fn is_sent_again<'a>(
    fast: &SubflowView,
    carriers: impl Iterator<Item = &'a SubflowView>,
) -> bool {
    let mut is_faster = false;
    for carrier in carriers {
        if carrier.cwnd_packets() <= SMALL_WINDOW_PACKETS {
            return true;
        }
        if CLEARLY_FASTER * fast.srtt >= carrier.srtt {
            return false;
        }
        is_faster = true;
    }
    is_faster
}

/// Returns the congestion window and the slow start threshold of a subflow after a penalty, both in
/// segments, from those before it. The window is halved, to at least 1. The threshold is halved to
/// at least 2, unless the subflow is in slow start.
pub fn penalized(cwnd_packets: u32, ssthresh_packets: u32) -> (u32, u32) {
    let ssthresh = if cwnd_packets >= ssthresh_packets {
        (ssthresh_packets / 2).max(2)
    } else {
        ssthresh_packets
    };
    ((cwnd_packets / 2).max(1), ssthresh)
}

/// When each subflow last caused a penalty as the fast one.
#[derive(Clone, Debug, Default)]
pub(super) struct Penalization {
    last: PerSubflow<Option<Nanos>>,
}

impl Penalization {
    /// Returns what the free subflow `fast` does about the head, which blocks the connection.
    pub(super) fn next(&mut self, view: &View<'_>, fast: usize, order: SubflowOrder) -> Decision {
        let subflows = view.subflows;
        let last = &mut self.last.of(subflows)[fast];
        let since_last = last.map(|last| view.now.saturating_sub(last));
        let is_slow = |&index: &usize| is_penalized(&subflows[fast], &subflows[index], since_last);
        if let Some(subflow) = carriers(view, fast, order).next().filter(is_slow) {
            *last = Some(view.now);
            return Decision::Penalize { subflow };
        }
        send_again(view, fast, order)
    }
}

/// Returns the decision to send a segment of the head, which blocks the connection, on the free
/// subflow with the lowest round-trip time; ties go to the first in `order`. Returns
/// [`Decision::Wait`] if [`is_sent_again`] does not allow it or no subflow is free. Penalizes no
/// subflow.
pub fn retransmit_opportunistically(view: &View<'_>, order: SubflowOrder) -> Decision {
    match choose(view.subflows, order, Carried::IsForgotten) {
        Some(fast) => send_again(view, fast, order),
        None => Decision::Wait,
    }
}

/// Returns the subflows other than `fast` that have carried the head.
fn carriers(view: &View<'_>, fast: usize, order: SubflowOrder) -> impl Iterator<Item = usize> {
    let indices = order.indices(view.subflows.len());
    indices.filter(move |&index| index != fast && view.subflows[index].has_carried_head)
}

fn send_again(view: &View<'_>, fast: usize, order: SubflowOrder) -> Decision {
    let others = carriers(view, fast, order).map(|index| &view.subflows[index]);
    let fast_one = &view.subflows[fast];
    match !fast_one.has_carried_head && is_sent_again(fast_one, others) {
        true => view.assign(fast, 1),
        false => Decision::Wait,
    }
}
