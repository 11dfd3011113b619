//! Congestion controls.

use std::sync::Arc;

use mptcp::cc::{Acked, Congestion, CongestionControl, Context, Window};
use netlab::registry::MakeControl;
use netlab::time::Nanos;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Class, Object, bounded, fields, made, refused};

/// The largest window and rate that an answer may have.
const MOST: f64 = (1_u64 << 40) as f64;
/// The least slow start threshold (RFC 5681, section 3.1).
const FLOOR_PACKETS: f64 = 2.0;

/// Hooks that a class may do without.
#[derive(Debug)]
struct Has {
    subflow_added: bool,
    subflow_removed: bool,
    segment_sent: bool,
    recovery_exited: bool,
    undone: bool,
    restarted_after_idle: bool,
    pacing_rate: bool,
}

#[derive(Debug)]
struct Control {
    object: Object,
    has: Has,
    owns_window: bool,
}

pub(super) fn maker(class: Arc<Class>) -> MakeControl {
    Arc::new(move |_, given| {
        Python::attach(|py| {
            Box::new(Control::new(py, class.object(py, Ok(Vec::new()), given))) as _
        })
    })
}

impl Control {
    fn new(py: Python<'_>, object: Object) -> Self {
        let has = |hook| object.has(py, hook);
        let owns = object
            .made
            .as_ref()
            .and_then(|one| one.bind(py).getattr("owns_window").ok());
        Self {
            has: Has {
                subflow_added: has("subflow_added"),
                subflow_removed: has("subflow_removed"),
                segment_sent: has("segment_sent"),
                recovery_exited: has("recovery_exited"),
                undone: has("undone"),
                restarted_after_idle: has("restarted_after_idle"),
                pacing_rate: has("pacing_rate"),
            },
            owns_window: owns.is_some_and(|owns| owns.is_truthy().unwrap_or(false)),
            object,
        }
    }

    /// Calls a hook about a subflow, with what it is told besides, and changes its window as it answers.
    fn call(
        &self,
        hook: &str,
        context: &mut Context<'_>,
        told: impl for<'py> FnOnce(Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>>,
    ) -> Option<Change> {
        let change = Python::attach(|py| {
            let arguments = || {
                let mut arguments = vec![view(py, context)?];
                arguments.extend(told(py)?);
                PyTuple::new(py, arguments)
            };
            self.object.call(py, hook, arguments, read_change)
        })?;
        if let Some(bytes) = change.ssthresh_bytes {
            context.set_ssthresh(bytes, FLOOR_PACKETS);
        }
        if let Some(bytes) = change.cwnd_bytes {
            context.set_cwnd(bytes);
        }
        Some(change)
    }
}

impl CongestionControl for Control {
    fn subflow_added(&mut self, context: &mut Context<'_>) {
        if self.has.subflow_added {
            self.call("subflow_added", context, |_| Ok(Vec::new()));
        }
    }

    fn subflow_removed(&mut self, which: usize) {
        if self.has.subflow_removed {
            Python::attach(|py| {
                let arguments = || PyTuple::new(py, [which]);
                self.object
                    .call(py, "subflow_removed", arguments, |_| Ok(()))
            });
        }
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        if self.has.segment_sent {
            self.call("segment_sent", context, |py| Ok(fields!(py, bytes)));
        }
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        self.call("acked", context, |py| Ok(vec![acked_view(py, acked)?]));
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let name = match congestion {
            Congestion::Loss => "loss",
            Congestion::Ecn => "ecn",
            Congestion::Timeout => "timeout",
        };
        let change = self.call("congestion", context, |py| Ok(fields!(py, name)));
        let has_window = change.is_some_and(|change| change.cwnd_bytes.is_some());
        if congestion == Congestion::Timeout && !has_window {
            context.collapse();
        }
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        if self.has.recovery_exited {
            self.call("recovery_exited", context, |_| Ok(Vec::new()));
        }
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        if self.has.undone {
            self.call("undone", context, |_| Ok(Vec::new()));
        }
    }

    fn restarted_after_idle(&mut self, context: &mut Context<'_>, idle: Nanos) {
        if self.has.restarted_after_idle {
            self.call("restarted_after_idle", context, |py| Ok(fields!(py, idle)));
        }
    }

    fn owns_window(&self) -> bool {
        self.owns_window
    }

    fn pacing_rate(&self, context: &Context<'_>) -> Option<f64> {
        if !self.has.pacing_rate {
            return None;
        }
        Python::attach(|py| {
            let arguments = || PyTuple::new(py, [view(py, context)?]);
            self.object.call(py, "pacing_rate", arguments, |answer| {
                let name = "the answer, in bytes per second,";
                (!answer.is_none())
                    .then(|| bounded(name, answer, 1.0, MOST))
                    .transpose()
            })
        })?
    }
}

/// What a hook answers.
struct Change {
    cwnd_bytes: Option<f64>,
    ssthresh_bytes: Option<f64>,
}

fn read_change(answer: &Bound<'_, PyAny>) -> PyResult<Change> {
    let number = |name: &str| {
        let value = answer.getattr(name).map_err(|_| {
            refused(format!(
                "the answer is {answer}, allowed are None and Change(..)"
            ))
        })?;
        (!value.is_none())
            .then(|| bounded(name, &value, 0.0, MOST))
            .transpose()
    };
    if answer.is_none() {
        return Ok(Change {
            cwnd_bytes: None,
            ssthresh_bytes: None,
        });
    }
    Ok(Change {
        cwnd_bytes: number("cwnd_bytes")?,
        ssthresh_bytes: number("ssthresh_bytes")?,
    })
}

fn acked_view<'py>(py: Python<'py>, acked: &Acked) -> PyResult<Bound<'py, PyAny>> {
    let rate = acked.delivery_rate.map(|rate| {
        let fields = fields!(
            py,
            rate.bytes_per_second,
            rate.is_application_limited,
            rate.delivered_before_bytes,
        );
        made(py, "DeliveryRate", fields)
    });
    let fields = fields!(
        py,
        acked.bytes,
        acked.lost_bytes,
        acked.rtt,
        acked.is_window_limited,
        rate.transpose()?,
        acked.delivered_bytes,
    );
    made(py, "Acked", fields)
}

fn view<'py>(py: Python<'py>, context: &Context<'_>) -> PyResult<Bound<'py, PyAny>> {
    let windows = context.all().iter().map(|window| window_view(py, window));
    let windows = PyTuple::new(py, windows.collect::<PyResult<Vec<_>>>()?)?;
    made(
        py,
        "Context",
        fields!(py, context.now(), context.which(), windows),
    )
}

fn window_view<'py>(py: Python<'py>, window: &Window) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(
        py,
        window.cwnd_bytes,
        window.ssthresh_bytes,
        window.mss_bytes,
        window.srtt,
        window.min_rtt,
        window.in_flight_bytes,
        window.in_recovery,
        window.is_usable,
        window.acked_since_loss_bytes,
        window.acked_between_losses_bytes,
    );
    made(py, "Window", fields)
}
