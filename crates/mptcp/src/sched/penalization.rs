//! Opportunistic retransmission and penalization (Raiciu et al., NSDI 2012): a free fast subflow sends what a slow one holds up
//! the connection with, and the slow one's window is halved so that it does so less.
//!
//! As in the out-of-tree kernel of 2017 and later, where the fast subflow repeats only what clearly is faster there.

use super::lowest_rtt::{Carried, choose};
use super::per_subflow::PerSubflow;
use super::{Decision, SubflowOrder, SubflowView, View};
use crate::time::Nanos;

/// A carrier with so small a window, in segments, is helped whatever its round-trip time.
const SMALL_WINDOW_PACKETS: u32 = 4;

/// How much faster the other one has to be else.
const CLEARLY_FASTER: u64 = 4;

/// Whether the window of `slow`, which carries the head, is halved: it has the longer round-trip time and repairs nothing, and
/// `fast` has caused that last so long ago, if ever, that a round trip of it has passed.
pub fn is_penalized(fast: &SubflowView, slow: &SubflowView, since_last: Option<Nanos>) -> bool {
    // At one instant, once, also if there is no sample yet.
    let is_due = since_last.is_none_or(|elapsed| elapsed > 0 && elapsed >= fast.srtt);
    is_due && fast.srtt < slow.srtt && slow.is_open
}

/// Whether `fast` sends the head again that `carriers`, other subflows, have carried: from the first with a small window, or if
/// it is faster than all by a factor of four.
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

/// The penalized subflow's congestion window and slow start threshold, from those it has, in segments. In slow start the
/// threshold stays.
pub fn penalized(cwnd_packets: u32, ssthresh_packets: u32) -> (u32, u32) {
    let ssthresh = if cwnd_packets >= ssthresh_packets {
        (ssthresh_packets / 2).max(2)
    } else {
        ssthresh_packets
    };
    ((cwnd_packets / 2).max(1), ssthresh)
}

/// When each subflow, as the fast one, has last caused a penalty.
#[derive(Clone, Debug, Default)]
pub(super) struct Penalization {
    last: PerSubflow<Option<Nanos>>,
}

impl Penalization {
    /// What the free subflow `fast` does about the head, which blocks the connection.
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

/// A segment of the head, which blocks the connection, for the free subflow with the lowest round-trip time, without a penalty
/// for who carries it; waits if [`is_sent_again`] forbids it.
pub fn retransmit_opportunistically(view: &View<'_>, order: SubflowOrder) -> Decision {
    match choose(view.subflows, order, Carried::IsForgotten) {
        Some(fast) => send_again(view, fast, order),
        None => Decision::Wait,
    }
}

/// The subflows other than `fast` that have carried the head.
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
