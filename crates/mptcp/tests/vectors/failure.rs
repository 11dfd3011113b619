//! Failure of paths.

use std::collections::{BTreeMap, BTreeSet};

use mptcp::failure::{AddAddressTimer, MetaRto, StaleDetector, is_worth_reinjecting, waits};
use mptcp::time::{Nanos, SECOND, seconds};
use serde_json::{Value, json};

use crate::family::{Family, Inputs};

pub const FAMILIES: &[Family] = &[
    ("fail.metarto", meta_rto),
    ("fail.stale", stale),
    ("fail.reinject", reinjection),
    ("fail.addaddr", add_address),
];

/// More expiries than any vector has.
const MOST_EXPIRIES: usize = 300;

fn nanos(seconds: f64) -> Nanos {
    (seconds * SECOND as f64).round() as Nanos
}

fn meta_rto(inputs: &Inputs) -> Result<Value, String> {
    let rtos: Vec<f64> = inputs.get("subflow_rto")?;
    let mut timer = MetaRto::new(rtos.into_iter().map(nanos));
    let first = seconds(timer.timeout());
    let next = (0..5).map(|_| {
        let timeout = seconds(timer.timeout());
        timer.expired();
        timeout
    });
    let next: Vec<_> = next.collect();
    Ok(json!({"meta_rto": first, "next": next}))
}

/// One subflow at which nothing arrives, and another that misses nothing.
fn stale(inputs: &Inputs) -> Result<Value, String> {
    let (first, interval) = (
        nanos(inputs.get("first_timer")?),
        nanos(inputs.get("interval")?),
    );
    let limit = inputs.get("stale_loss_cnt")?;
    let mut detector = StaleDetector::default();
    let mut history = Vec::new();
    for expiry in 0..MOST_EXPIRIES {
        let now = seconds(first + expiry as Nanos * interval);
        detector.timer_expired(0, limit, [0].into_iter());
        history.push(json!([now, detector.missed_intervals()]));
        if detector.is_stale() {
            return Ok(json!({"history": history, "stale_at": now}));
        }
    }
    Ok(json!({"history": history, "stale_at": null}))
}

fn reinjection(inputs: &Inputs) -> Result<Value, String> {
    let failed: String = inputs.get("failed")?;
    let subflows: Vec<String> = inputs.get("subflows")?;
    let carried_by: BTreeMap<String, BTreeSet<String>> = inputs.get("carried_by")?;
    let mut failed_ones: BTreeSet<String> = inputs.get("pf")?;
    failed_ones.insert(failed);
    let mut segments: Vec<u32> = inputs.get("segments")?;
    segments.retain(|segment| {
        let carriers = &carried_by[&segment.to_string()];
        let others = subflows.iter().filter(|id| !failed_ones.contains(*id));
        is_worth_reinjecting(others.map(|id| carriers.contains(id)))
    });
    Ok(json!({"reinject": segments, "pf_after": failed_ones}))
}

fn add_address(inputs: &Inputs) -> Result<Value, String> {
    let longest: Option<f64> = inputs.get("max_subflow_rto")?;
    let timeout = nanos(inputs.get("add_addr_timeout")?);
    let waits = |timer| {
        let waits = waits(timer, longest.map(nanos), timeout).map(seconds);
        waits.collect::<Vec<_>>()
    };
    Ok(json!({
        "fixed": waits(AddAddressTimer::Fixed),
        "adaptive": waits(AddAddressTimer::Adaptive),
    }))
}
