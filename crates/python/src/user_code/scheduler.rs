//! Schedulers.

use std::sync::Arc;

use mptcp::sched::{Decision, Range, Reason, Scheduler, SubflowView, View};
use netlab::registry::MakeScheduler;
use netlab::time::Nanos;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Class, Object, fields, made, refused};

/// So often may one be asked at one instant; it decides at least for a byte each time, or waits.
const MOST_QUESTIONS: u32 = 100_000;

#[derive(Debug)]
struct Own {
    object: Object,
    now: Nanos,
    questions: u32,
}

pub(super) fn maker(class: Arc<Class>) -> MakeScheduler {
    Arc::new(move |_, given| {
        let object = Python::attach(|py| class.object(py, Ok(Vec::new()), given));
        Box::new(Own {
            object,
            now: 0,
            questions: 0,
        })
    })
}

impl Scheduler for Own {
    fn next(&mut self, view: &View<'_>) -> Decision {
        self.questions = if view.now == self.now {
            self.questions + 1
        } else {
            0
        };
        self.now = view.now;
        if self.questions > MOST_QUESTIONS {
            let why = "asked 100000 times at one instant, and every answer left something to ask: it would never end";
            self.object.note("next", why);
        }
        let decision = Python::attach(|py| {
            let arguments = || PyTuple::new(py, [seen(py, view)?]);
            self.object
                .call(py, "next", arguments, |answer| decision(answer, view))
        });
        decision.unwrap_or(Decision::Wait)
    }
}

fn decision(answer: &Bound<'_, PyAny>, view: &View<'_>) -> PyResult<Decision> {
    if answer.is_none() {
        return Ok(Decision::Wait);
    }
    let kind = answer.get_type().name()?.to_string();
    if !["Assign", "AssignRange", "Penalize"].contains(&kind.as_str()) {
        let allowed = "None, Assign(..), AssignRange(..) and Penalize(..)";
        return Err(refused(format!(
            "the answer is {answer}, allowed are {allowed}"
        )));
    }
    let subflow = subflow(answer, view)?;
    if kind == "Penalize" {
        return Ok(Decision::Penalize { subflow });
    }
    if !view.subflows[subflow].is_usable {
        let id = view.subflows[subflow].id;
        return Err(refused(format!(
            "subflow {id} cannot carry data now: its is_usable is False"
        )));
    }
    if kind == "Assign" {
        let most = view.head.len.min(u64::from(u32::MAX));
        let bytes = whole(answer, "bytes", 1, most)?;
        return Ok(Decision::Assign {
            subflow,
            bytes: bytes as u32,
        });
    }
    let start = whole(answer, "start", view.acked_bytes, view.written_bytes - 1)?;
    let len = whole(answer, "len", 1, view.written_bytes - start)?;
    Ok(Decision::AssignRange {
        subflow,
        range: Range { start, len },
    })
}

/// The place of the subflow with the ID that an answer has.
fn subflow(answer: &Bound<'_, PyAny>, view: &View<'_>) -> PyResult<usize> {
    let given = answer.getattr("subflow")?;
    let id: Option<u32> = given.extract().ok();
    let place = view.subflows.iter().position(|one| Some(one.id) == id);
    place.ok_or_else(|| {
        let ids: Vec<_> = view.subflows.iter().map(|one| one.id.to_string()).collect();
        refused(format!(
            "there is no subflow {given}, allowed are the ids {}",
            ids.join(", ")
        ))
    })
}

fn whole(answer: &Bound<'_, PyAny>, name: &str, least: u64, most: u64) -> PyResult<u64> {
    let given = answer.getattr(name)?;
    let number: Option<u64> = given.extract().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        refused(format!(
            "{name} is {given}, allowed is a whole number from {least} to {most}"
        ))
    })
}

fn seen<'py>(py: Python<'py>, view: &View<'_>) -> PyResult<Bound<'py, PyAny>> {
    let subflows = view
        .subflows
        .iter()
        .map(|subflow| subflow_seen(py, subflow));
    let subflows = PyTuple::new(py, subflows.collect::<PyResult<Vec<_>>>()?)?;
    let reason = match view.reason {
        Reason::Reinject => "reinject",
        Reason::MetaTimeout => "meta_timeout",
        Reason::NewData => "new_data",
        Reason::WindowBlocked => "window_blocked",
        Reason::BufferBlocked => "buffer_blocked",
        Reason::NothingNew => "nothing_new",
    };
    let head = made(py, "Range", fields!(py, view.head.start, view.head.len))?;
    let fields = fields!(
        py,
        view.now,
        reason,
        subflows,
        head,
        view.acked_bytes,
        view.written_bytes,
        view.assigned_bytes,
        view.window_bytes,
        view.unassigned_bytes(),
        view.window_left_bytes(),
    );
    made(py, "View", fields)
}

fn subflow_seen<'py>(py: Python<'py>, subflow: &SubflowView) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(
        py,
        subflow.id,
        subflow.is_usable,
        subflow.is_backup,
        subflow.is_stale,
        subflow.in_loss,
        subflow.is_open,
        subflow.srtt,
        subflow.rttvar,
        subflow.mss_bytes,
        subflow.cwnd_bytes,
        subflow.ssthresh_bytes,
        subflow.in_flight_bytes,
        subflow.queued_bytes,
        subflow.unacked_bytes,
        subflow.buffer_bytes,
        subflow.pacing_rate,
        subflow.sent_bytes,
        subflow.resent_bytes,
        subflow.missed_intervals,
        subflow.has_carried_head,
        subflow.is_available(),
        subflow.has_window(),
        subflow.room_bytes(),
        subflow.buffer_left_bytes(),
    );
    made(py, "SubflowView", fields)
}
