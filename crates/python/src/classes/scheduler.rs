//! Schedulers written in Python.

use std::sync::Arc;

use experiment::algorithms::MakeScheduler;
use mptcp::sched::{Decision, Range, Reason, Scheduler, View};

use super::{Class, Object};

/// The answer of an adapter: index of the subflow, first byte unless it is the head's, and number
/// of bytes. Without a number of bytes the subflow is penalized.
type Answer = (usize, Option<u64>, Option<u32>);

#[derive(Debug)]
struct Own {
    object: Object,
}

pub(crate) fn maker(class: Arc<Class>) -> MakeScheduler {
    Arc::new(move |_, given| {
        let object = Object::new(&class, given, ());
        Box::new(Own { object })
    })
}

impl Scheduler for Own {
    fn next(&mut self, view: &View<'_>) -> Decision {
        let reason = match view.reason {
            Reason::Reinject => "reinject",
            Reason::MetaTimeout => "meta_timeout",
            Reason::NewData => "new_data",
            Reason::WindowBlocked => "window_blocked",
            Reason::BufferBlocked => "buffer_blocked",
            Reason::NothingNew => "nothing_new",
        };
        // The fields of `mptcplab.hooks.SubflowView`, in order. They are nested because a tuple can
        // have at most twelve elements.
        let subflows: Vec<_> = view
            .subflows
            .iter()
            .map(|it| {
                let state = (
                    it.id,
                    it.is_usable,
                    it.is_backup,
                    it.is_stale,
                    it.in_loss,
                    it.is_open,
                );
                let path = (
                    it.srtt,
                    it.rttvar,
                    it.mss_bytes,
                    it.cwnd_bytes,
                    it.ssthresh_bytes,
                );
                let data = (
                    it.in_flight_bytes,
                    it.queued_bytes,
                    it.unacked_bytes,
                    it.buffer_bytes,
                );
                let rest = (
                    it.pacing_rate,
                    it.sent_bytes,
                    it.resent_bytes,
                    it.missed_intervals,
                );
                let derived = (
                    it.is_available(),
                    it.has_window(),
                    it.room_bytes(),
                    it.buffer_left_bytes(),
                );
                (state, path, data, rest, (it.has_carried_head,), derived)
            })
            .collect();
        let head = (view.head.start, view.head.len);
        let counts = (
            view.acked_bytes,
            view.written_bytes,
            view.assigned_bytes,
            view.window_bytes,
        );
        let derived = (view.unassigned_bytes(), view.window_left_bytes());
        let given = (view.now, reason, subflows, head, counts, derived);
        let answer: Option<Option<Answer>> = self.object.call("next", "next", given);
        match answer.flatten() {
            None => Decision::Wait,
            Some((subflow, _, None)) => Decision::Penalize { subflow },
            Some((subflow, None, Some(bytes))) => Decision::Assign { subflow, bytes },
            Some((subflow, Some(start), Some(len))) => {
                let len = u64::from(len);
                Decision::AssignRange {
                    subflow,
                    range: Range { start, len },
                }
            }
        }
    }
}
