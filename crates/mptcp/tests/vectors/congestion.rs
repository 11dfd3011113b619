//! Congestion controls.

use mptcp::cc::fluid::{self, LossyPath};
use mptcp::cc::oot;
use mptcp::cc::parameters::Parameters;
use mptcp::cc::paths::{Path, linked_increase, total_packets};
use mptcp::cc::{
    balia, bbr, coupled, cubic_rfc9438 as cubic, dwc, ewtcp, lia, mpcubic, olia, reno, semicoupled,
    slow_start, wvegas,
};
use mptcp::subflow::InitialWindow;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::family::{Family, Inputs};

pub const FAMILIES: &[Family] = &[
    ("reno.iw", initial_window),
    ("reno.step", reno_step),
    ("reno.eq", reno_equilibrium),
    ("cubic.curve", cubic_curve),
    ("cubic.target", cubic_target),
    ("cubic.west", cubic_friendly_window),
    ("cubic.loss", cubic_loss),
    ("uncoupled.eq", uncoupled_equilibrium),
    ("ewtcp.step", ewtcp_step),
    ("ewtcp.eq", ewtcp_equilibrium),
    ("coupled.step", coupled_step),
    ("coupled.eq", coupled_equilibrium),
    ("semicoupled.step", semicoupled_step),
    ("semicoupled.eq", semicoupled_equilibrium),
    ("lia.alpha", lia_alpha),
    ("lia.bytes", lia_bytes),
    ("lia.rfcint", lia_integer_form),
    ("lia.kernel", lia_kernel),
    ("lia.eq", lia_equilibrium),
    ("lia.eqrtt", lia_rates),
    ("olia.sets", olia_sets),
    ("olia.kernel", olia_kernel),
    ("olia.eq", olia_equilibrium),
    ("balia", balia_step),
    ("balia.kernel", balia_kernel),
    ("balia.eq", balia_equilibrium),
    ("wvegas.diff", wvegas_queued),
    ("wvegas.weight", wvegas_weight),
    ("wvegas.kernel", wvegas_kernel),
    ("dwc.lab", dwc_group),
    ("mpcubic.lab", mpcubic_increase),
    ("bbr.bdp", bbr_window),
];

type Outputs = Result<Value, String>;

/// The default parameter of CUBIC.
const C: f64 = 0.4;

fn path(subflow: usize, window_packets: f64, rtt_s: f64) -> Path {
    Path {
        subflow,
        window_packets,
        mss_bytes: 1,
        rtt_s,
        loss_interval_packets: 0.0,
    }
}

/// Paths of windows `w` and round-trip times `rtt`.
fn paths(inputs: &Inputs) -> Result<Vec<Path>, String> {
    let windows: Vec<f64> = inputs.get("w")?;
    let rtts: Vec<f64> = inputs.get("rtt")?;
    let pairs = windows.iter().zip(rtts).enumerate();
    Ok(pairs
        .map(|(subflow, (window, rtt))| path(subflow, *window, rtt))
        .collect())
}

/// Returns the result of a formula for each path.
fn each<T>(paths: &[Path], formula: impl Fn(&[Path], usize) -> T) -> Vec<T> {
    (0..paths.len())
        .map(|index| formula(paths, index))
        .collect()
}

fn lossy_paths(inputs: &Inputs) -> Result<Vec<LossyPath>, String> {
    let p: Vec<f64> = inputs.get("p")?;
    let rtts: Vec<f64> = inputs.get("rtt")?;
    let pairs = p.iter().zip(rtts);
    Ok(pairs.map(|(p, rtt_s)| LossyPath { p: *p, rtt_s }).collect())
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

fn initial_window(inputs: &Inputs) -> Outputs {
    Ok(json!({"iw_bytes": InitialWindow::Rfc6928.bytes(inputs.get("mss")?)}))
}

fn reno_step(inputs: &Inputs) -> Outputs {
    let mss: u32 = inputs.get("mss")?;
    let segment = f64::from(mss);
    let (cwnd, flight): (f64, f64) = (inputs.get("cwnd")?, inputs.get("flight_size")?);
    let acked: f64 = inputs.get("bytes_acked")?;
    let ssthresh = reno::after_loss(flight).max(reno::SSTHRESH_FLOOR_PACKETS * segment);
    Ok(json!({
        "slow_start_inc": slow_start::increase_bytes(acked, mss, 1.0),
        "cong_avoid_inc": reno::increase(cwnd / segment) * segment,
        "ssthresh_on_loss": ssthresh,
        "cwnd_after_rto": mss,
        // RFC 5681, section 3.2, step 3: three segments have left the network.
        "cwnd_after_3dupack": ssthresh + 3.0 * segment,
    }))
}

fn reno_equilibrium(inputs: &Inputs) -> Outputs {
    let p = inputs.get("p")?;
    Ok(json!({"w_fluid": fluid::reno(p), "w_sawtooth": fluid::reno_sawtooth(p)}))
}

fn cubic_curve(inputs: &Inputs) -> Outputs {
    let (w_max, times): (f64, Vec<f64>) = (inputs.get("w_max")?, inputs.get("t")?);
    let k = cubic::time_to_w_max(w_max, inputs.get("cwnd_epoch")?, C);
    let windows: Vec<f64> = times
        .iter()
        .map(|t| cubic::window(*t, k, w_max, C))
        .collect();
    Ok(json!({"K": k, "W": windows}))
}

fn cubic_target(inputs: &Inputs) -> Outputs {
    let (w_max, cwnd): (f64, f64) = (inputs.get("w_max")?, inputs.get("cwnd")?);
    let (t, rtt): (f64, f64) = (inputs.get("t")?, inputs.get("rtt")?);
    let k = cubic::time_to_w_max(w_max, inputs.get("cwnd_epoch")?, C);
    let after_rtt = cubic::window(t + rtt, k, w_max, C);
    let target = cubic::target(after_rtt, cwnd);
    Ok(json!({
        "K": k,
        "W_t_plus_rtt": after_rtt,
        "target": target,
        "inc_per_acked_segment": cubic::increase(target, cwnd),
    }))
}

fn cubic_friendly_window(inputs: &Inputs) -> Outputs {
    let alpha = cubic::friendly_alpha(inputs.get("beta")?);
    let (w_est, cwnd) = (inputs.get("w_est")?, inputs.get("cwnd")?);
    let w_est = cubic::friendly_window(w_est, inputs.get("segments_acked")?, cwnd, alpha);
    Ok(json!({"alpha": alpha, "w_est": w_est}))
}

fn cubic_loss(inputs: &Inputs) -> Outputs {
    let beta = 0.7;
    let w_max = cubic::w_max_after_loss(inputs.get("cwnd")?, inputs.get("w_max_prev")?, beta, true);
    let floor = reno::SSTHRESH_FLOOR_PACKETS;
    let ssthresh = cubic::ssthresh_after_loss(inputs.get("flight")?, beta, floor);
    Ok(json!({"w_max": w_max, "ssthresh": ssthresh, "cwnd": ssthresh}))
}

fn uncoupled_equilibrium(inputs: &Inputs) -> Outputs {
    let p: Vec<f64> = inputs.get("p")?;
    let windows: Vec<f64> = p.iter().copied().map(fluid::reno).collect();
    let (total, best) = (sum(&windows), windows.iter().copied().fold(0.0, f64::max));
    Ok(json!({"w": windows, "total": total, "ratio_to_best_tcp": total / best}))
}

fn ewtcp_step(inputs: &Inputs) -> Outputs {
    let windows: Vec<f64> = inputs.get("w")?;
    let a = ewtcp::weight(windows.len());
    let increases: Vec<f64> = windows.iter().map(|w| ewtcp::increase(*w, a)).collect();
    Ok(json!({"inc": increases, "dec": reno_decreases(&windows)}))
}

fn reno_decreases(windows: &[f64]) -> Vec<f64> {
    windows.iter().map(|w| w - reno::after_loss(*w)).collect()
}

fn ewtcp_equilibrium(inputs: &Inputs) -> Outputs {
    let p: Vec<f64> = inputs.get("p")?;
    let a = ewtcp::weight(inputs.get("n")?);
    let windows: Vec<f64> = p.iter().map(|p| fluid::ewtcp(*p, a)).collect();
    Ok(json!({"a": a, "w": windows, "total": sum(&windows)}))
}

fn coupled_step(inputs: &Inputs) -> Outputs {
    let windows: Vec<f64> = inputs.get("w")?;
    let total = sum(&windows);
    let after: Vec<f64> = windows
        .iter()
        .map(|w| coupled::after_loss(*w, total))
        .collect();
    Ok(json!({"inc": vec![coupled::increase(total); windows.len()], "after_loss": after}))
}

fn coupled_equilibrium(inputs: &Inputs) -> Outputs {
    let windows = fluid::coupled(&inputs.get::<Vec<f64>>("p")?);
    Ok(json!({"w": windows, "total": sum(&windows)}))
}

fn semicoupled_step(inputs: &Inputs) -> Outputs {
    let windows: Vec<f64> = inputs.get("w")?;
    let increase = semicoupled::increase(sum(&windows), inputs.get("a")?);
    Ok(json!({"inc": vec![increase; windows.len()], "dec": reno_decreases(&windows)}))
}

fn semicoupled_equilibrium(inputs: &Inputs) -> Outputs {
    let windows = fluid::semicoupled(&inputs.get::<Vec<f64>>("p")?, inputs.get("a")?);
    Ok(json!({"w": windows, "total": sum(&windows)}))
}

fn lia_alpha(inputs: &Inputs) -> Outputs {
    let paths = paths(inputs)?;
    let increases = each(&paths, lia::increase);
    let reno = each(&paths, |paths, index| {
        reno::increase(paths[index].window_packets)
    });
    let linked = lia::alpha(&paths) / total_packets(&paths);
    let is_capped: Vec<bool> = reno.iter().map(|reno| *reno < linked).collect();
    let per_rtt = each(&paths, |paths, index| {
        increases[index] * paths[index].window_packets
    });
    Ok(json!({
        "alpha": lia::alpha(&paths),
        "inc": increases,
        "reno_inc": reno,
        "capped": is_capped,
        "inc_per_rtt": per_rtt,
    }))
}

fn lia_bytes(inputs: &Inputs) -> Outputs {
    let mss: f64 = inputs.get("mss")?;
    let windows: Vec<f64> = inputs.get("cwnd")?;
    let rtts: Vec<f64> = inputs.get("rtt")?;
    let pairs = windows.iter().zip(rtts).enumerate();
    let paths: Vec<Path> = pairs
        .map(|(index, (cwnd, rtt))| path(index, cwnd / mss, rtt))
        .collect();
    let acked: f64 = inputs.get("bytes_acked")?;
    let increase = lia::increase(&paths, inputs.get("subflow")?) * acked;
    Ok(json!({"alpha": lia::alpha(&paths), "inc_bytes": increase}))
}

fn lia_integer_form(inputs: &Inputs) -> Outputs {
    let windows: Vec<u64> = inputs.get("cwnd")?;
    let rtts: Vec<u64> = inputs.get("rtt_ms")?;
    let pairs = windows.into_iter().zip(rtts);
    let paths: Vec<_> = pairs
        .map(|(cwnd_bytes, rtt)| lia::IntegerPath { cwnd_bytes, rtt })
        .collect();
    let scale: u32 = inputs.get("alpha_scale")?;
    let (acked, mss) = (inputs.get("bytes_acked")?, inputs.get("mss")?);
    let increase = |index| lia::integer_increase_bytes(&paths, index, acked, mss, scale);
    let increases: Vec<u64> = (0..paths.len()).map(increase).collect();
    let scaled = lia::scaled_alpha(&paths, scale);
    Ok(json!({"alpha_scaled": scaled, "alpha": scaled as f64 / f64::from(scale), "inc": increases}))
}

/// Returns paths with windows `w` and smoothed round-trip times `srtt_field`, as the kernel has
/// them.
fn kernel_paths(inputs: &Inputs) -> Result<Vec<oot::Path>, String> {
    let windows: Vec<u32> = inputs.get("w")?;
    let srtts: Vec<u32> = inputs.get("srtt_field")?;
    let pairs = windows.into_iter().zip(srtts);
    Ok(pairs
        .map(|(window_packets, srtt_eighths_us)| oot::Path {
            window_packets,
            srtt_eighths_us,
        })
        .collect())
}

/// Returns the same paths for the formulas in real numbers.
fn in_real_numbers(kernel: &[oot::Path]) -> Vec<Path> {
    let real = |(index, it): (usize, &oot::Path)| {
        path(
            index,
            f64::from(it.window_packets),
            f64::from(it.srtt_eighths_us) / 8e6,
        )
    };
    kernel.iter().enumerate().map(real).collect()
}

fn lia_kernel(inputs: &Inputs) -> Outputs {
    let paths = kernel_paths(inputs)?;
    let real = in_real_numbers(&paths);
    let alpha = oot::lia::alpha(&paths);
    let of_path = |path: &oot::Path| {
        let threshold = oot::lia::threshold(alpha, path.window_packets);
        json!({
            "numerators": paths.iter().map(oot::lia::numerator).collect::<Vec<u64>>(),
            "best_index": oot::lia::best(&paths),
            "alpha_k": alpha,
            "threshold": threshold,
            "acks_for_plus1": threshold + 1,
        })
    };
    Ok(json!({
        "per_subflow": paths.iter().map(of_path).collect::<Vec<Value>>(),
        "exact_alpha": lia::alpha(&real),
        "exact_acks_per_plus1": each(&real, |paths, index| 1.0 / lia::increase(paths, index)),
    }))
}

fn lia_equilibrium(inputs: &Inputs) -> Outputs {
    let paths = lossy_paths(inputs)?;
    let windows = fluid::lia(&paths);
    let best = paths
        .iter()
        .map(|path| fluid::reno(path.p))
        .fold(0.0, f64::max);
    let last = paths.len() - 1;
    Ok(json!({
        "w": windows,
        "total": sum(&windows),
        "small_p_theory_total": best,
        "ratio": windows[0] / windows[last],
        "theory_ratio": paths[last].p / paths[0].p,
    }))
}

fn lia_rates(inputs: &Inputs) -> Outputs {
    let paths = lossy_paths(inputs)?;
    let windows = fluid::lia(&paths);
    let rates: Vec<f64> = windows
        .iter()
        .zip(&paths)
        .map(|(w, path)| w / path.rtt_s)
        .collect();
    Ok(json!({
        "w": windows,
        "rate": rates,
        "total_rate": sum(&rates),
        "best_tcp_rate": paths.iter().map(LossyPath::tcp_rate).fold(0.0, f64::max),
    }))
}

fn olia_sets(inputs: &Inputs) -> Outputs {
    let intervals: Vec<f64> = inputs.get("l")?;
    let with_interval = |(path, l): (Path, f64)| Path {
        loss_interval_packets: l,
        ..path
    };
    let paths: Vec<Path> = paths(inputs)?
        .into_iter()
        .zip(intervals)
        .map(with_interval)
        .collect();
    let sets = olia::Sets::of(&paths);
    let members = |has: fn(&olia::Sets, &Path) -> bool| -> Vec<usize> {
        (0..paths.len())
            .filter(|index| has(&sets, &paths[*index]))
            .collect()
    };
    Ok(json!({
        "B": members(olia::Sets::is_best),
        "M": members(olia::Sets::is_largest),
        "collected": members(olia::Sets::is_collected),
        "alpha": each(&paths, olia::alpha),
        "base": each(&paths, linked_increase),
        "inc": each(&paths, olia::increase),
    }))
}

fn olia_kernel(inputs: &Inputs) -> Outputs {
    #[derive(Deserialize)]
    struct Fraction {
        num: i32,
        den: u32,
    }
    let paths = kernel_paths(inputs)?;
    let this: usize = inputs.get("subflow")?;
    let Fraction { num, den } = inputs.get("epsilon")?;
    let epsilon = oot::olia::Epsilon {
        numerator: num,
        denominator: den,
    };
    let addend = oot::olia::addend(&paths, this, epsilon);
    let real = in_real_numbers(&paths);
    let alpha = f64::from(num) / f64::from(den);
    let exact = linked_increase(&real, this) + alpha / real[this].window_packets;
    Ok(json!({
        "counter_addend": addend.value,
        "u64_wraps": addend.is_overflowed,
        "exact_addend": exact * 1024.0,
    }))
}

fn olia_equilibrium(inputs: &Inputs) -> Outputs {
    let windows = fluid::olia(&lossy_paths(inputs)?);
    Ok(json!({"w": windows, "total_window": sum(&windows)}))
}

fn balia_step(inputs: &Inputs) -> Outputs {
    let paths = paths(inputs)?;
    let after =
        |paths: &[Path], index: usize| paths[index].window_packets - balia::decrease(paths, index);
    Ok(json!({
        "alpha": each(&paths, balia::alpha),
        "inc": each(&paths, balia::increase),
        "dec": each(&paths, balia::decrease),
        "w_after_loss": each(&paths, after),
    }))
}

fn balia_kernel(inputs: &Inputs) -> Outputs {
    let paths = kernel_paths(inputs)?;
    let this: usize = inputs.get("subflow")?;
    let adaptation = oot::balia::Adaptation::of(&paths, this, inputs.get("mss")?);
    let real = in_real_numbers(&paths);
    Ok(json!({
        "alpha_int": adaptation.alpha,
        "scale_downs": adaptation.scale_downs,
        "ai": adaptation.threshold,
        "md": adaptation.decrease,
        "ssthresh": adaptation.ssthresh(paths[this].window_packets),
        "exact_alpha": balia::alpha(&real, this),
        "exact_acks_per_plus1": 1.0 / balia::increase(&real, this),
        "exact_dec": balia::decrease(&real, this),
    }))
}

fn balia_equilibrium(inputs: &Inputs) -> Outputs {
    let paths = lossy_paths(inputs)?;
    let windows = fluid::balia(&paths);
    let worst = fluid::balia_alphas(&paths).into_iter().fold(0.0, f64::max);
    Ok(json!({"alpha_of_worse_path": worst, "total": sum(&windows), "w": windows}))
}

fn wvegas_queued(inputs: &Inputs) -> Outputs {
    let (cwnd, base_rtt) = (inputs.get("cwnd")?, inputs.get("base_rtt")?);
    Ok(json!({"diff": wvegas::queued_packets(cwnd, base_rtt, inputs.get("rtt")?)}))
}

fn wvegas_weight(inputs: &Inputs) -> Outputs {
    let rates: Vec<f64> = inputs.get("rate")?;
    let (total, total_alpha): (f64, u32) = (sum(&rates), inputs.get("total_alpha")?);
    let of_each =
        |formula: &dyn Fn(f64) -> f64| -> Vec<f64> { rates.iter().copied().map(formula).collect() };
    let weight = |rate| wvegas::weight(rate, total);
    let integer = |rate: f64| {
        let weight = oot::wvegas::weight(rate as u64, total as u64).unwrap_or(0);
        f64::from(oot::wvegas::alpha_packets(weight, total_alpha))
    };
    Ok(json!({
        "weight": of_each(&weight),
        "alpha_real": of_each(&|rate| wvegas::alpha_packets(weight(rate), f64::from(total_alpha))),
        "alpha_int": of_each(&integer),
    }))
}

fn wvegas_kernel(inputs: &Inputs) -> Outputs {
    let end = oot::wvegas::RoundEnd {
        window_packets: inputs.get("cwnd")?,
        ssthresh_packets: inputs.get("ssthresh")?,
        base_rtt_us: inputs.get("base_rtt_us")?,
        rtt_us: inputs.get("avg_rtt_us")?,
        alpha_packets: inputs.get("alpha")?,
        weight: 1 << 16,
        other_rates: inputs.get("other_rates_q16_pkt_per_us")?,
        least_queueing_us: inputs.get("min_queue_delay_us")?,
    };
    let decision = oot::wvegas::decide(&end, &Parameters::default().wvegas);
    Ok(json!({
        "diff": decision.queued_packets,
        "target": decision.target_packets,
        "branch": match decision.branch {
            oot::wvegas::Branch::LeaveSlowStart => "leave slow start",
            oot::wvegas::Branch::SlowStart => "slow start",
            oot::wvegas::Branch::Vegas => "vegas",
        },
        "instant_rate": decision.rate,
        "weight": decision.rate.map(|_| decision.after.weight),
        "queue_delay_us": decision.after.least_queueing_us,
        "cwnd": decision.after.window_packets,
        "ssthresh": decision.after.ssthresh_packets,
        "alpha": decision.after.alpha_packets,
    }))
}

fn dwc_group(inputs: &Inputs) -> Outputs {
    let (least, largest) = (inputs.get("d_min")?, inputs.get("d_max")?);
    let fraction = inputs.get("x")?;
    Ok(json!({
        "threshold": dwc::delay_threshold(least, largest, fraction),
        "joins_group": dwc::is_delayed(inputs.get("delay")?, least, largest, fraction),
    }))
}

fn mpcubic_increase(inputs: &Inputs) -> Outputs {
    let cubic: Vec<f64> = inputs.get("cubic_inc")?;
    let paths = paths(inputs)?;
    let increases = each(&paths, |paths, index| {
        mpcubic::increase(cubic[index], paths, index)
    });
    Ok(json!({"inc": increases}))
}

fn bbr_window(inputs: &Inputs) -> Outputs {
    let bits_per_second: f64 = inputs.get("bw_bps")?;
    let mss: f64 = inputs.get("mss")?;
    let (bandwidth, min_rtt) = (bits_per_second / 8.0, inputs.get("min_rtt")?);
    Ok(json!({
        "bdp_bytes": bbr::inflight_bytes(bandwidth, min_rtt, 1.0),
        "cwnd_packets": bbr::inflight_bytes(bandwidth, min_rtt, bbr::CWND_GAIN) / mss,
        "startup_gain": bbr::STARTUP_GAIN,
        "drain_gain": bbr::DRAIN_GAIN,
    }))
}
