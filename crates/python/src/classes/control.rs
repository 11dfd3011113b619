//! Congestion controls written in Python.

use std::sync::Arc;

use experiment::algorithms::MakeControl;
use experiment::time::Nanos;
use mptcp::cc::{Acked, Congestion, CongestionControl, Context};
use pyo3::prelude::*;

use super::{Class, Object};

/// The smallest slow start threshold in segments (RFC 5681, section 3.1).
const FLOOR_PACKETS: f64 = 2.0;

#[derive(Debug)]
struct Control {
    object: Object,
    /// The hooks that the class implements.
    hooks: Vec<String>,
}

pub(crate) fn maker(class: Arc<Class>) -> MakeControl {
    Arc::new(move |_, given| {
        let object = Object::new(&class, given, ());
        let hooks = object.hooks();
        Box::new(Control { object, hooks })
    })
}

impl Control {
    fn has(&self, hook: &str) -> bool {
        self.hooks.iter().any(|one| one == hook)
    }

    /// Calls a hook if the class implements it, with the context and `told`, and applies its answer
    /// to the window. Returns whether it set cwnd.
    fn change<T>(&self, hook: &str, context: &mut Context<'_>, told: T) -> bool
    where
        T: for<'py> IntoPyObject<'py>,
    {
        if !self.has(hook) {
            return false;
        }
        let given = (
            hook,
            context.now(),
            context.subflow(),
            windows(context),
            told,
        );
        let answer: Option<(Option<f64>, Option<f64>)> = self.object.call("change", hook, given);
        let (cwnd_bytes, ssthresh_bytes) = answer.unwrap_or_default();
        if let Some(bytes) = ssthresh_bytes {
            context.set_ssthresh(bytes, FLOOR_PACKETS);
        }
        if let Some(bytes) = cwnd_bytes {
            context.set_cwnd(bytes);
        }
        cwnd_bytes.is_some()
    }
}

impl CongestionControl for Control {
    fn subflow_added(&mut self, context: &mut Context<'_>) {
        self.change("subflow_added", context, ());
    }

    fn subflow_removed(&mut self, subflow: usize) {
        if self.has("subflow_removed") {
            let _: Option<Option<bool>> =
                self.object.call("removed", "subflow_removed", (subflow,));
        }
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.change("segment_sent", context, (bytes,));
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let rate = acked.delivery_rate;
        let rate = rate.map(|it| {
            (
                it.bytes_per_second,
                it.is_application_limited,
                it.delivered_before_bytes,
            )
        });
        let Acked {
            bytes,
            lost_bytes,
            rtt,
            is_window_limited,
            delivered_bytes,
            ..
        } = *acked;
        let told = (
            bytes,
            lost_bytes,
            rtt,
            is_window_limited,
            rate,
            delivered_bytes,
        );
        self.change("acked", context, (told,));
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let name = match congestion {
            Congestion::Loss => "loss",
            Congestion::Ecn => "ecn",
            Congestion::Timeout => "timeout",
        };
        let has_set_window = self.change("congestion", context, (name,));
        if congestion == Congestion::Timeout && !has_set_window {
            context.collapse();
        }
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        self.change("recovery_exited", context, ());
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.change("undone", context, ());
    }

    fn restarted_after_idle(&mut self, context: &mut Context<'_>, idle: Nanos) {
        self.change("restarted_after_idle", context, (idle,));
    }

    fn owns_window(&self) -> bool {
        self.has("owns_window")
    }

    fn pacing_rate(&self, context: &Context<'_>) -> Option<f64> {
        if !self.has("pacing_rate") {
            return None;
        }
        let given = (context.now(), context.subflow(), windows(context));
        self.object
            .call("pacing_rate", "pacing_rate", given)
            .flatten()
    }
}

/// Returns the fields of `mptcplab.hooks.Window`, in order, as nested tuples.
fn windows(context: &Context<'_>) -> Vec<Fields> {
    let halves = context.all().iter().map(|it| {
        let first = (
            it.cwnd_bytes,
            it.ssthresh_bytes,
            it.mss_bytes,
            it.srtt,
            it.min_rtt,
        );
        let flags = (it.in_recovery, it.is_usable);
        let acked = (it.acked_since_loss_bytes, it.acked_between_losses_bytes);
        (
            first,
            (it.in_flight_bytes, flags.0, flags.1, acked.0, acked.1),
        )
    });
    halves.collect()
}

type Fields = (
    (f64, f64, u32, Option<Nanos>, Option<Nanos>),
    (u32, bool, bool, u64, u64),
);
