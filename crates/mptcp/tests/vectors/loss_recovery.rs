//! Timeouts, and how losses are detected and repaired.

use mptcp::subflow::prr::Prr;
use mptcp::subflow::rtt::{LinuxEstimator, RfcEstimator, backed_off};
use mptcp::subflow::sack::SackedAbove;
use mptcp::subflow::{rack, tlp};
use mptcp::time::{Nanos, SECOND, seconds};
use serde_json::{Value, json};

use crate::family::{Family, Inputs};

pub const FAMILIES: &[Family] = &[
    ("rto.rfc", rfc_estimator),
    ("rto.linux", linux_estimator),
    ("rto.backoff", retransmission_times),
    ("rack", reordering_window),
    ("tlp", probe_timeout),
    ("sack.islost", is_lost),
    ("prr", send_count),
];

type Outputs = Result<Value, String>;

/// Linux's tcp_rto_min, and the bounds of the vectors of RFC 6298.
const LINUX_MIN_US: u32 = 200_000;
const RFC_MIN_NS: f64 = 1e9;
const RFC_MAX_NS: f64 = 60e9;
const LINUX_MAX: Nanos = 120 * SECOND;

fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9).round() as Nanos
}

fn rfc_estimator(inputs: &Inputs) -> Outputs {
    let mut estimator = RfcEstimator::default();
    let (mut srtt, mut rttvar, mut rto) = (Vec::new(), Vec::new(), Vec::new());
    for sample in inputs.get::<Vec<f64>>("samples")? {
        estimator.sample(sample * 1e9);
        srtt.push(estimator.srtt_ns().ok_or("no sample")? / 1e9);
        rttvar.push(estimator.rttvar_ns() / 1e9);
        rto.push(estimator.rto_ns(RFC_MIN_NS, RFC_MAX_NS) / 1e9);
    }
    Ok(json!({ "srtt": srtt, "rttvar": rttvar, "rto": rto }))
}

fn linux_estimator(inputs: &Inputs) -> Outputs {
    let is_new_flight = inputs.get("new_window_per_sample")?;
    let mut estimator = LinuxEstimator::default();
    let mut sequence = Vec::new();
    for sample_us in inputs.get::<Vec<u32>>("samples_us")? {
        estimator.sample(sample_us, LINUX_MIN_US, is_new_flight);
        sequence.push(json!({
            "srtt_us": estimator.srtt_us(),
            "mdev_us": estimator.mdev_us(),
            "rttvar_us": estimator.rttvar_us(),
            "rto_us": estimator.rto_us(),
        }));
    }
    Ok(json!({ "seq": sequence }))
}

fn retransmission_times(inputs: &Inputs) -> Outputs {
    let rto = nanos(inputs.get("rto")?);
    let waits = (0..inputs.get("expiries")?).map(|expiries| backed_off(rto, expiries, LINUX_MAX));
    let times = waits.scan(0, |at, wait| {
        *at += wait;
        Some(seconds(*at))
    });
    Ok(json!({ "retransmit_times": times.collect::<Vec<_>>() }))
}

fn reordering_window(inputs: &Inputs) -> Outputs {
    let (min_rtt, srtt) = (nanos(inputs.get("min_rtt")?), nanos(inputs.get("srtt")?));
    let window = rack::reordering_window(inputs.get("mult")?, min_rtt, srtt);
    Ok(json!({ "reo_wnd": seconds(window) }))
}

fn probe_timeout(inputs: &Inputs) -> Outputs {
    let is_single_segment = inputs.get::<u32>("flight_segments")? == 1;
    let max_ack_delay = nanos(inputs.get("max_ack_delay")?);
    let (srtt, rto) = (nanos(inputs.get("srtt")?), nanos(inputs.get("rto")?));
    let timeout = tlp::probe_timeout(Some(srtt), is_single_segment, max_ack_delay);
    Ok(json!({ "pto": seconds(timeout.min(rto)) }))
}

fn is_lost(inputs: &Inputs) -> Outputs {
    let end: u32 = inputs.get("seq_end")?;
    let mut above = SackedAbove::default();
    let mut last_end = None;
    for (start, block_end) in inputs.get::<Vec<(u32, u32)>>("sacked")? {
        if start >= end {
            above.add(block_end - start, last_end == Some(start));
            last_end = Some(block_end);
        }
    }
    Ok(json!({ "is_lost": above.is_lost(inputs.get("smss")?) }))
}

/// The vectors consider every acknowledgment safe, as RFC 6937 does.
fn send_count(inputs: &Inputs) -> Outputs {
    let prr = Prr {
        recover_fs: inputs.get("RecoverFS")?,
        delivered: inputs.get("prr_delivered")?,
        out: inputs.get("prr_out")?,
    };
    let pipe: f64 = inputs.get("pipe")?;
    let count = prr.send_count(
        inputs.get("ssthresh")?,
        pipe,
        inputs.get("delivered_now")?,
        inputs.get("mss")?,
        true,
    );
    Ok(json!({ "sndcnt": count, "cwnd": pipe + count }))
}
