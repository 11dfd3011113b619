//! Tests the coupled congestion controls in the running kernel. `make test-kernels` runs these
//! tests on other kernels too.
#![cfg(target_os = "linux")]

#[path = "../../experiment/tests/complete/mod.rs"]
mod complete;

use std::fs;

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use experiment::run::Run;
use experiment::time::Nanos;
use realtime::kernel::congestion::{State, install, list, remove};
use realtime::{Controlling, LiveRun, check};
use serde_json::json;

const TWO_PATHS: &str = include_str!("traffic/two_paths.json");
/// Bytes of both subflows together, and the least for each.
const BYTES: u64 = 2_000_000;
const LEAST_BYTES: u64 = 200_000;

/// Returns whether this kernel must take the controls. Older kernels lack what the objects need.
fn has_to_take_controls() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>());
    let mut next = || numbers.next().unwrap().unwrap();
    (next(), next()) >= (6, 4)
}

/// Returns the controls of mptcplab.
fn controls() -> impl Iterator<Item = String> {
    let ours = list().into_iter();
    let ours = ours.filter(|control| control.state != State::InKernel);
    ours.map(|control| control.name)
}

/// Returns one MPTCP transfer with that control, over two links of 8 Mbit/s and 20 ms.
fn transfer(control: &str) -> Experiment {
    let mut resolved = complete::experiment(TWO_PATHS);
    let mut flow = resolved["flows"][1].take();
    flow["cc"] = json!([control]);
    flow["app"]["bytes"] = json!(BYTES);
    for path in flow["paths"].as_array_mut().unwrap() {
        path["rtt_ns"] = json!(20_000_000);
    }
    resolved["flows"] = json!([flow]);
    resolved["duration_ns"] = json!(60_000_000_000_u64);
    for link in resolved["links"].as_array_mut().unwrap() {
        for direction in ["forward", "backward"] {
            link[direction]["rate_bps"] = json!(8_000_000);
            link[direction]["delay_ns"] = json!(10_000_000);
        }
    }
    Experiment::from_json(&resolved.to_string()).unwrap()
}

/// Returns the bytes of the transfer that each subflow carried.
fn carried(experiment: Experiment) -> Vec<u64> {
    let directory = tempfile::tempdir().unwrap();
    let run = LiveRun::start(
        experiment,
        1,
        directory.path(),
        &Registry::default(),
        None,
        Controlling::default(),
        Vec::new(),
    );
    let mut run = run.unwrap();
    assert!(run.advance(Nanos::MAX).unwrap());
    let summary = run.finish().unwrap();
    let [flow] = &summary.flows[..] else {
        panic!("{:?}", summary.flows);
    };
    assert_eq!((flow.bytes, flow.fallback), (BYTES, None), "{flow:?}");
    assert!(summary.congestion_controls[0].object_sha256.is_some());
    flow.subflows.iter().map(|subflow| subflow.bytes).collect()
}

#[test]
#[ignore = "needs root"]
fn each_control_carries_over_two_subflows_or_is_refused() {
    for control in controls() {
        let experiment = transfer(&control);
        let missing = check(&experiment, None);
        if has_to_take_controls() {
            assert!(missing.is_empty(), "{missing:?}");
            let carried = carried(experiment);
            println!("{control}: carries {carried:?} bytes over its subflows");
            assert_eq!(carried.len(), 2);
            assert!(carried.iter().all(|bytes| *bytes >= LEAST_BYTES));
        } else {
            println!("{control}: refused: {}", missing[0].why);
            assert!(missing[0].why.contains("needs Linux 6.4"), "{missing:?}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn each_control_can_be_installed_and_removed_or_is_refused() {
    let state_of = |name: &str| {
        let found = list().into_iter().find(|control| control.name == name);
        found.unwrap().state
    };
    for control in controls() {
        if has_to_take_controls() {
            install(&control).unwrap();
            assert_eq!(state_of(&control), State::Installed);
            remove(&control).unwrap();
            assert_eq!(state_of(&control), State::NotInstalled);
        } else {
            let refusal = install(&control).unwrap_err().to_string();
            assert!(refusal.contains("needs Linux 6.4"), "{refusal}");
        }
    }
}
