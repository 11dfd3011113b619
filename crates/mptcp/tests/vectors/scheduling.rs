//! Packet schedulers.

use std::collections::BTreeMap;

use mptcp::sched::{
    Arithmetic, BURST_BYTES, Decision, Estimate, FastSubflow, Forecast, KernelEstimate, KernelPath,
    Parameters, Path, Reason, Scheduler, SlowSubflow, SubflowOrder, SubflowView, average_pacing,
    by_name, expected_delay, fast_bytes, heaviest, is_penalized, is_sent_again, least_linger,
    linger_q32, linger_time, lowest_rtt, pass_turn, penalized, space_bytes,
};
use mptcp::time::MICROSECOND;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::family::{Family, Inputs};
use crate::views::{MSS_BYTES, new_data, subflow};

pub const FAMILIES: &[Family] = &[
    ("minrtt", minrtt),
    ("penal", penal),
    ("mainline", mainline),
    ("rr", round_robin),
    ("redundant", redundant),
    ("blest.paper", blest_paper),
    ("blest.kernel", blest_kernel),
    ("ecf.paper", ecf_paper),
    ("ecf.kernel", ecf_kernel),
    ("wrr", weighted_round_robin),
    ("lamps.lab", lamps),
];

/// A subflow of `minrtt`; windows are in segments.
#[derive(Deserialize)]
struct Candidate {
    name: String,
    srtt_us: u64,
    cwnd: u32,
    in_flight: u32,
    mss: u32,
    #[serde(default)]
    queued_unsent: u32,
    #[serde(default)]
    backup: bool,
    #[serde(default)]
    ca_loss: bool,
    #[serde(default)]
    pf: bool,
    #[serde(default)]
    pre_established: bool,
}

impl Candidate {
    fn view(&self, id: usize, carriers: &[String]) -> SubflowView {
        SubflowView {
            is_usable: !self.pre_established,
            is_backup: self.backup,
            is_stale: self.pf,
            in_loss: self.ca_loss,
            srtt: self.srtt_us * MICROSECOND,
            mss_bytes: self.mss,
            cwnd_bytes: self.cwnd * self.mss,
            in_flight_bytes: self.in_flight * self.mss,
            queued_bytes: self.queued_unsent,
            has_carried_head: carriers.contains(&self.name),
            ..subflow(id as u32)
        }
    }
}

fn minrtt(inputs: &Inputs) -> Result<Value, String> {
    let candidates: Vec<Candidate> = inputs.get("subflows")?;
    let carriers: Vec<String> = inputs.get("segment_already_on")?;
    let views = candidates.iter().enumerate();
    let views: Vec<_> = views.map(|(id, one)| one.view(id, &carriers)).collect();
    let pick = lowest_rtt(&views, SubflowOrder::OldestFirst);
    Ok(json!({"pick": pick.map(|index| &candidates[index].name)}))
}

#[derive(Deserialize)]
struct Fast {
    srtt_us: u64,
}

#[derive(Deserialize)]
struct Slow {
    srtt_us: u64,
    cwnd: u32,
    ssthresh: u32,
    state: String,
}

fn penal(inputs: &Inputs) -> Result<Value, String> {
    let fast: Fast = inputs.get("fast")?;
    let slow: Slow = inputs.get("slow")?;
    let (now, last): (u64, Option<u64>) = (inputs.get("now_us")?, inputs.get("last_penalty_us")?);
    let elapsed = last.map(|last| (now - last) * MICROSECOND);
    let is_limited: bool = inputs.get("window_or_sndbuf_limited")?;

    let fast = SubflowView {
        srtt: fast.srtt_us * MICROSECOND,
        ..subflow(0)
    };
    let mut carrier = SubflowView {
        srtt: slow.srtt_us * MICROSECOND,
        is_open: slow.state == "Open",
        cwnd_bytes: slow.cwnd * MSS_BYTES,
        ..subflow(1)
    };
    let is_due = is_limited && is_penalized(&fast, &carrier, elapsed);
    let (cwnd, ssthresh) = match is_due {
        true => penalized(slow.cwnd, slow.ssthresh),
        false => (slow.cwnd, slow.ssthresh),
    };
    carrier.cwnd_bytes = cwnd * MSS_BYTES;
    Ok(json!({
        "slow_cwnd": cwnd,
        "slow_ssthresh": ssthresh,
        "penalized": is_due,
        "opportunistic_retransmit": is_limited && is_sent_again(&fast, [&carrier].into_iter()),
    }))
}

/// A subflow of `mainline`; bytes, and bytes per second.
#[derive(Deserialize)]
struct Paced {
    name: String,
    wmem: u32,
    pacing: u64,
    avg_pacing: u64,
    #[serde(default)]
    backup: bool,
    #[serde(default)]
    stale: bool,
}

fn mainline(inputs: &Inputs) -> Result<Value, String> {
    let subflows: Vec<Paced> = inputs.get("subflows")?;
    let window_left: u64 = inputs.get("mptcp_window_left")?;
    let views: Vec<_> = subflows
        .iter()
        .map(|one| SubflowView {
            is_backup: one.backup,
            is_stale: one.stale,
            unacked_bytes: one.wmem,
            ..subflow(0)
        })
        .collect();
    let averages: Vec<u64> = subflows
        .iter()
        .map(|one| {
            if one.avg_pacing == 0 {
                one.pacing
            } else {
                one.avg_pacing
            }
        })
        .collect();
    let Some(index) = least_linger(&views, &averages) else {
        return Ok(json!({"pick": null, "linger_q32": null, "burst": null, "avg_pacing": null}));
    };
    let (picked, burst) = (&subflows[index], BURST_BYTES.min(window_left));
    Ok(json!({
        "pick": picked.name,
        "linger_q32": linger_q32(picked.wmem, averages[index]),
        "burst": burst,
        "avg_pacing": average_pacing(averages[index], picked.wmem, picked.pacing, burst),
    }))
}

/// Subflows with room for some segments each. Names have one letter or more.
struct Rooms {
    names: Vec<String>,
    views: Vec<SubflowView>,
}

impl Rooms {
    fn new(names: Vec<String>, segments: &BTreeMap<String, u32>) -> Self {
        let views = names.iter().enumerate().map(|(id, name)| SubflowView {
            cwnd_bytes: segments[name] * MSS_BYTES,
            ..subflow(id as u32)
        });
        let views = views.collect();
        Self { names, views }
    }

    fn fill(&mut self, index: usize, bytes: u32) {
        self.views[index].in_flight_bytes += bytes;
        self.views[index].unacked_bytes += bytes;
    }
}

fn scheduler(name: &str, parameters: &Parameters) -> Box<dyn Scheduler> {
    by_name(name).expect("it is registered")(parameters)
}

/// Assigns one segment a step, until the scheduler waits.
fn round_robin(inputs: &Inputs) -> Result<Value, String> {
    let mut rooms = Rooms::new(inputs.get("list_order")?, &inputs.get("cwnd_free")?);
    let parameters = Parameters {
        num_segments: inputs.get("num_segments")?,
        cwnd_limited: inputs.get("cwnd_limited")?,
        ..Parameters::default()
    };
    let mut scheduler = scheduler("round_robin", &parameters);
    let mut sequence = Vec::new();
    for _ in 0..inputs.get::<usize>("steps")? {
        match scheduler.next(&new_data(&rooms.views, u64::from(MSS_BYTES))) {
            Decision::Assign { subflow, bytes } => {
                rooms.fill(subflow, bytes);
                sequence.push(Value::from(rooms.names[subflow].as_str()));
            }
            _ => {
                sequence.push(Value::Null);
                break;
            }
        }
    }
    Ok(json!({"sequence": sequence}))
}

fn redundant(inputs: &Inputs) -> Result<Value, String> {
    let free: BTreeMap<String, u32> = inputs.get("cwnd_free")?;
    let segments: u64 = inputs.get("segments")?;
    let mut rooms = Rooms::new(free.keys().cloned().collect(), &free);
    let mut scheduler = scheduler("redundant", &Parameters::default());
    let (mut order, mut first_carrier) = (Vec::new(), BTreeMap::new());
    let (mss, mut assigned) = (u64::from(MSS_BYTES), 0);
    loop {
        let left = segments * mss - assigned;
        let mut view = new_data(&rooms.views, left);
        view.head.start = assigned;
        view.assigned_bytes = assigned;
        view.written_bytes = segments * mss;
        if left == 0 {
            (view.reason, view.head.start, view.head.len) = (Reason::NothingNew, 0, assigned);
        }
        let (subflow, start, bytes) = match scheduler.next(&view) {
            Decision::Assign { subflow, bytes } => (subflow, assigned, bytes),
            Decision::AssignRange { subflow, range } => (subflow, range.start, range.len as u32),
            _ => break,
        };
        rooms.fill(subflow, bytes);
        assigned = assigned.max(start + u64::from(bytes));
        let segment = start / mss + 1;
        let name = rooms.names[subflow].clone();
        first_carrier
            .entry(segment.to_string())
            .or_insert(name.clone());
        order.push(json!([name, segment]));
    }
    Ok(json!({
        "wire_segments": order.len(),
        "useful": first_carrier.len(),
        "order": order,
        "first_carrier": first_carrier,
    }))
}

fn blest_paper(inputs: &Inputs) -> Result<Value, String> {
    let mss: u32 = inputs.get("mss")?;
    let ns = |name: &str| {
        inputs
            .get::<f64>(name)
            .map(|seconds| (seconds * 1e9).round() as u64)
    };
    let fast = SubflowView {
        srtt: ns("rtt_fast")?,
        mss_bytes: mss,
        cwnd_bytes: inputs.get::<u32>("cwnd_fast")? * mss,
        ..subflow(0)
    };
    let slow = SubflowView {
        srtt: ns("rtt_slow")?,
        mss_bytes: mss,
        in_flight_bytes: inputs.get::<u32>("inflight_slow_pkts")? * mss,
        ..subflow(1)
    };
    let forecast = Forecast::new(&fast, &slow, inputs.get("meta_window_bytes")?);
    Ok(json!({
        "rtts": forecast.rounds,
        "X_bytes": forecast.fast_bytes,
        "space_bytes": forecast.space_bytes,
        "use_slow": forecast.fits(inputs.get("lambda")?),
    }))
}

#[derive(Deserialize)]
struct BlestFast {
    min_srtt8: u32,
    max_srtt8: u32,
    cwnd: u32,
    ssthresh: Option<u32>,
    mss: u32,
}

#[derive(Deserialize)]
struct BlestSlow {
    srtt8: u32,
    min_srtt8: u32,
    max_srtt8: u32,
    inflight: u32,
    cwnd: u32,
    queued_bytes: u32,
}

fn blest_kernel(inputs: &Inputs) -> Result<Value, String> {
    /// `TCP_INFINITE_SSTHRESH`.
    const INFINITE: u32 = 0x7fff_ffff;

    let fast: BlestFast = inputs.get("fast")?;
    let slow: BlestSlow = inputs.get("slow")?;
    let linger = linger_time(&SlowSubflow {
        srtt: slow.srtt8,
        min_srtt: slow.min_srtt8,
        max_srtt: slow.max_srtt8,
        in_flight: slow.inflight,
        cwnd: slow.cwnd,
    });
    let fast = FastSubflow {
        min_srtt: fast.min_srtt8,
        max_srtt: fast.max_srtt8,
        cwnd: fast.cwnd,
        ssthresh: fast.ssthresh.filter(|ssthresh| *ssthresh < INFINITE),
        mss: fast.mss,
    };
    let (rounds, packets, bytes) = fast_bytes(&fast, linger, inputs.get("lambda_1000")?);
    let (window, segment) = (inputs.get("meta_snd_wnd")?, inputs.get("segment_len")?);
    let space = space_bytes(window, segment, slow.queued_bytes);
    Ok(json!({
        "linger8": linger,
        "num_rtts": rounds,
        "packets": packets,
        "fast_bytes": bytes,
        "avail_space": space,
        "use_slow": bytes <= space,
    }))
}

fn decision(waits: bool) -> &'static str {
    if waits { "wait" } else { "slow" }
}

fn ecf_paper(inputs: &Inputs) -> Result<Value, String> {
    let path = |side: &str| {
        Ok::<_, String>(Path {
            cwnd_packets: inputs.get(&format!("cwnd_{side}"))?,
            rtt_s: inputs.get(&format!("rtt_{side}"))?,
            deviation_s: inputs.get(&format!("sd_{side}"))?,
        })
    };
    let was_waiting = inputs.get::<u32>("waiting")? > 0;
    let beta = 1.0 / f64::from(Parameters::default().inverse_beta);
    let k_packets = inputs.get("k_pkts")?;
    let estimate = Estimate::new(k_packets, &path("f")?, &path("s")?, was_waiting, beta);
    Ok(json!({
        "n": estimate.rounds,
        "delta": estimate.margin_s,
        "ineq1": estimate.fast_is_sooner,
        "ineq2": estimate.slow_is_late,
        "decision": decision(estimate.waits()),
        "waiting": u32::from(estimate.is_waiting_then(was_waiting)),
    }))
}

#[derive(Deserialize)]
struct EcfSide {
    cwnd: u32,
    srtt8: u32,
    rttvar: u32,
}

fn ecf_kernel(inputs: &Inputs) -> Result<Value, String> {
    let mss: u32 = inputs.get("mss")?;
    let path = |name: &str| {
        let side: EcfSide = inputs.get(name)?;
        Ok::<_, String>(KernelPath {
            cwnd_bytes: side.cwnd * mss,
            srtt_us: side.srtt8 >> 3,
            rttvar_us: side.rttvar,
        })
    };
    let (fast, slow) = (path("fast")?, path("slow")?);
    let unsent = inputs.get("unsent_bytes")?;
    let was_waiting = inputs.get::<u32>("waiting")? > 0;
    let r_beta = Parameters::default().inverse_beta;
    let estimate =
        |arithmetic| KernelEstimate::new(unsent, &fast, &slow, was_waiting, r_beta, arithmetic);
    let (wide, wrapping) = (estimate(Arithmetic::Wide), estimate(Arithmetic::Wrapping));
    Ok(json!({
        "delta": wide.margin_us,
        "lhs": wide.lhs,
        "rhs": wide.rhs,
        "lhs32": wrapping.lhs,
        "rhs32": wrapping.rhs,
        "decision": decision(wide.waits),
        "waiting": u32::from(wide.is_waiting_then(was_waiting)),
        "decision_if_u32_wraps": decision(wrapping.waits),
    }))
}

fn weighted_round_robin(inputs: &Inputs) -> Result<Value, String> {
    let by_name: BTreeMap<String, f64> = inputs.get("weights")?;
    let weights: Vec<_> = by_name.values().copied().map(Some).collect();
    let names: Vec<_> = by_name.keys().collect();
    let mut credits = vec![0.0; names.len()];
    let turns = (0..inputs.get::<usize>("steps")?).map(|_| {
        let turn = heaviest(&credits, &weights).ok_or("no subflow")?;
        pass_turn(&mut credits, &weights, turn);
        Ok(names[turn])
    });
    Ok(json!({"sequence": turns.collect::<Result<Vec<_>, &str>>()?}))
}

fn lamps(inputs: &Inputs) -> Result<Value, String> {
    let delay = expected_delay(inputs.get("loss")?, inputs.get("srtt")?);
    Ok(json!({"expected_delay": delay}))
}
