//! Tests controlled switches, with a controller of a few lines.
#![cfg(target_os = "linux")]

#[path = "../../benches/description/mod.rs"]
mod description;
mod networks;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use experiment::run::{Latest, Run};
use experiment::time::Nanos;
use realtime::{Controlling, LiveRun, Status, Summary};
use serde_json::{Value, json};

use networks::{controller, geant5, hundred, probed, start, two_ways};

const MILLISECOND: u64 = 1_000_000;

fn run(resolved: &Value) -> (Summary, Latest) {
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(resolved, directory.path()).unwrap();
    assert!(run.advance(Nanos::MAX).unwrap());
    let latest = run.latest();
    let summary = run.finish().unwrap();
    assert_ne!(summary.status, Status::Failed, "{:?}", summary.why);
    (summary, latest)
}

/// Returns the error of a run that cannot start.
fn refusal(resolved: &Value) -> String {
    let directory = tempfile::tempdir().unwrap();
    let started = start(resolved, directory.path());
    started.map(drop).unwrap_err().to_string()
}

fn event(id: &str, at_ns: u64, action: Value) -> Value {
    json!({"id": id, "parent": null, "at_ns": at_ns, "action": action})
}

/// Returns the two events of an outage.
fn outage(link: &str, by: &str, at_ns: u64, for_ns: u64) -> Value {
    json!([
        event(
            "cut",
            at_ns,
            json!({"kind": "link_down", "link": link, "by": by})
        ),
        event(
            "mended",
            at_ns + for_ns,
            json!({"kind": "link_up", "link": link, "by": by})
        ),
    ])
}

/// Returns the packets that a switch has received.
fn received(latest: &Latest, switch: &str) -> f64 {
    latest[&format!("switches.{switch}")]["received_packets"]
}

#[test]
#[ignore = "needs root"]
fn every_path_of_a_full_mesh_is_verified_with_the_entries_of_a_controller_of_the_user() {
    let mut resolved = geant5();
    resolved["control"]["command"] = json!(controller(&[]));
    resolved["duration_ns"] = json!(1000 * MILLISECOND);
    for flow in resolved["flows"].as_array_mut().unwrap() {
        flow["transport"] = json!("udp");
        flow["app"] =
            json!({"kind": "cbr", "rate_bps": 100_000, "size_bytes": 100, "duration_ns": null});
        for field in ["cc", "scheduler", "path_manager"] {
            flow[field] = json!([]);
        }
    }
    let (summary, latest) = run(&resolved);
    let control = summary.control.unwrap();
    assert_eq!(control.controller.ended_ns, None, "{control:?}");
    for switch in ["s0", "s1", "s2", "s3", "s4"] {
        let counters = &latest[&format!("switches.{switch}")];
        assert!(counters["entries"] > 0.0, "{counters:?}");
        assert!(counters["matched"] > 0.0, "{counters:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_path_without_entries_is_named_before_the_run() {
    let mut resolved = two_ways();
    resolved["control"]["command"] = json!(controller(&[]));
    let mut flow = resolved["flows"][0].clone();
    flow["id"] = json!("unknown");
    let mut described = resolved.clone();
    described["flows"].as_array_mut().unwrap().remove(0);
    flow["paths"].as_array_mut().unwrap().truncate(1);
    described["flows"].as_array_mut().unwrap().push(flow);
    let experiment = Experiment::from_json(&resolved.to_string()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let described = described.to_string();
    let controlling = Controlling {
        resolved: &described,
        controller: &[],
    };
    let registry = Registry::default();
    let started = LiveRun::start(
        experiment,
        1,
        directory.path(),
        &registry,
        None,
        controlling,
        Vec::new(),
    );
    let why = started.map(drop).unwrap_err().to_string();
    assert!(why.contains("flow bulk, path a.eth1 - b.eth1"), "{why}");
}

#[test]
#[ignore = "needs root"]
fn subflows_of_a_connection_take_disjoint_paths() {
    let mut resolved = two_ways();
    resolved["duration_ns"] = json!(3000 * MILLISECOND);
    resolved["flows"][0]["cc"] = json!(["cubic"]);
    let (summary, latest) = run(&resolved);
    let bytes: Vec<u64> = summary.flows[0]
        .subflows
        .iter()
        .map(|one| one.bytes)
        .collect();
    assert_eq!(bytes.len(), 2, "{:?}", summary.flows[0]);
    let wire = |link: &str| latest[&format!("links.{link}.forward")]["wire_bytes"];
    for (link, bytes) in ["s0-s1", "s2-s1"].into_iter().zip(bytes) {
        let ratio = wire(link) / bytes as f64;
        assert!((1.0..1.2).contains(&ratio), "{link}: {ratio}");
    }
    assert!(received(&latest, "s2") > 1000.0);
}

#[test]
#[ignore = "needs root"]
fn a_drop_rule_takes_its_link_out_in_both_directions_and_the_record_has_its_barriers() {
    for link in ["s0-s1", "a.eth0", "b.eth0"] {
        let mut resolved = probed();
        resolved["duration_ns"] = json!(600 * MILLISECOND);
        resolved["events"] = outage(link, "drop_rule", 200 * MILLISECOND, 200 * MILLISECOND);
        let (summary, latest) = run(&resolved);
        let rules = summary.control.unwrap().rules;
        let told: Vec<_> = rules
            .iter()
            .map(|rule| (rule.event.as_str(), rule.added))
            .collect();
        assert_eq!(told, [("cut", true), ("mended", false)]);
        assert!(rules.iter().all(|rule| rule.sent_ns < rule.answered_ns));
        assert!(rules[0].answered_ns < rules[1].sent_ns);
        let probe = &latest["probes.bulk"];
        let lost = probe["sent"] - probe["answered"];
        assert!(
            (150.0..260.0).contains(&lost),
            "{link}: {lost} of {probe:?}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn ports_that_go_down_and_up_carry_again_and_the_controller_is_not_told() {
    let mut resolved = probed();
    resolved["duration_ns"] = json!(600 * MILLISECOND);
    resolved["events"] = outage("s0-s1", "port_down", 200 * MILLISECOND, 200 * MILLISECOND);
    let (summary, latest) = run(&resolved);
    assert!(summary.control.unwrap().controller.reactions.is_empty());
    let probe = &latest["probes.bulk"];
    assert!(probe["sent"] - probe["answered"] > 150.0, "{probe:?}");
    assert!(probe["answered"] > 250.0, "{probe:?}");
}

#[test]
#[ignore = "needs root"]
fn a_controller_is_told_of_a_failure_after_the_time_of_its_detection() {
    let mut resolved = probed();
    resolved["duration_ns"] = json!(500 * MILLISECOND);
    resolved["control"]["recovery"]["detect_ns"] = json!(50 * MILLISECOND);
    resolved["events"] = outage("s0-s1", "drop_rule", 200 * MILLISECOND, 100 * MILLISECOND);
    let (summary, _) = run(&resolved);
    let reactions = summary.control.unwrap().controller.reactions;
    let [failed, repaired] = &reactions[..] else {
        panic!("{reactions:?}");
    };
    assert_eq!(failed.cause.as_deref(), Some("s0-s1"));
    assert!(failed.detected_ns >= 250 * MILLISECOND, "{failed:?}");
    assert!(repaired.detected_ns >= 350 * MILLISECOND, "{repaired:?}");
    assert!(failed.detected_ns < 300 * MILLISECOND, "{failed:?}");
}

#[test]
#[ignore = "needs root"]
fn a_reroute_moves_the_packets_of_a_path_and_one_of_the_recovery_is_left_to_the_controller() {
    let over = |links: &[&str], direction: &str| -> Vec<Value> {
        let links = links.iter();
        let hops = links.map(|link| match link.split_once('!') {
            Some((link, other)) => json!({"link": link, "direction": other}),
            None => json!({"link": link, "direction": direction}),
        });
        hops.collect()
    };
    let there = over(&["a.eth0", "s0-s2", "s2-s1", "b.eth0!backward"], "forward");
    let back = over(&["b.eth0!forward", "s2-s1", "s0-s2", "a.eth0"], "backward");
    for (by, has_moved) in [("description", true), ("recovery", false)] {
        let mut resolved = probed();
        resolved["duration_ns"] = json!(600 * MILLISECOND);
        let action = json!({"kind": "reroute", "flow": "bulk", "path": 0, "there": there, "back": back, "by": by});
        resolved["events"] = json!([event("turn", 200 * MILLISECOND, action)]);
        let (summary, latest) = run(&resolved);
        assert_eq!(received(&latest, "s2") > 500.0, has_moved, "{latest:?}");
        let reactions = summary.control.unwrap().controller.reactions;
        let causes: Vec<_> = reactions.iter().map(|one| one.cause.as_deref()).collect();
        assert_eq!(
            causes,
            if has_moved {
                vec![Some("turn")]
            } else {
                vec![]
            }
        );
    }
}

#[test]
#[ignore = "needs root"]
fn traffic_goes_on_without_its_controller_and_the_record_has_its_end() {
    let mut resolved = probed();
    resolved["duration_ns"] = json!(6000 * MILLISECOND);
    let script = "exec 3<&0; python3 \"$0\" ours <&3 & sleep 4; kill -9 $!; exit 7";
    let resolved = resolved.to_string();
    let experiment = Experiment::from_json(&resolved).unwrap();
    let command = [
        vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
        controller(&[])[1..].to_vec(),
    ]
    .concat();
    let controlling = Controlling {
        resolved: &resolved,
        controller: &command,
    };
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::default();
    let run = LiveRun::start(
        experiment,
        1,
        directory.path(),
        &registry,
        None,
        controlling,
        Vec::new(),
    );
    let mut run = run.unwrap();
    assert!(run.advance(Nanos::MAX).unwrap());
    let probe = run.latest()["probes.bulk"].clone();
    let control = run.finish().unwrap().control.unwrap();
    assert_eq!(control.controller.exit_status, Some(7), "{control:?}");
    assert!(control.controller.ended_ns.is_some());
    assert!(probe["answered"] >= probe["sent"] - 20.0, "{probe:?}");
}

#[test]
#[ignore = "needs root"]
fn a_controller_that_does_not_start_is_named_with_its_last_words() {
    let mut resolved = two_ways();
    resolved["control"]["command"] = json!(["sh", "-c", "echo no table here >&2; exit 3"]);
    let why = refusal(&resolved);
    assert!(why.contains("exit status: 3: no table here"), "{why}");
    resolved["control"]["command"] = json!(["no-such-controller"]);
    let why = refusal(&resolved);
    assert!(why.contains("no program no-such-controller"), "{why}");
}

#[test]
#[ignore = "needs root"]
fn a_hundred_switches_with_two_hundred_links_are_verified() {
    let mut resolved = hundred();
    resolved["duration_ns"] = json!(20_000 * MILLISECOND);
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(&resolved, directory.path()).unwrap();
    let counted = |run: &LiveRun| {
        let names = run.latest().into_keys();
        names.filter(|name| name.starts_with("switches.")).count()
    };
    while counted(&run) < 100 {
        let next = run.record().now + 100 * MILLISECOND;
        assert!(!run.advance(next).unwrap(), "{} of 100", counted(&run));
    }
    let summary = run.finish().unwrap();
    assert_eq!(summary.control.unwrap().controller.ended_ns, None);
}

#[test]
#[ignore = "needs root"]
fn flows_between_the_same_addresses_are_verified_and_sent_over_their_own_links() {
    let mut resolved = two_ways();
    resolved["duration_ns"] = json!(1000 * MILLISECOND);
    let template = resolved["flows"][0].clone();
    let around = template["paths"][1]["hops"].clone();
    let flow = |id: &str, transport: &str, is_direct: bool, app: Value| {
        let mut flow = template.clone();
        flow["id"] = json!(id);
        flow["transport"] = json!(transport);
        flow["app"] = app;
        for field in ["cc", "scheduler", "path_manager"] {
            flow[field] = json!([]);
        }
        if transport == "tcp" {
            flow["cc"] = json!(["cubic"]);
        }
        flow["paths"].as_array_mut().unwrap().truncate(1);
        if !is_direct {
            let mut hops = around.clone();
            hops[0]["link"] = json!("a.eth0");
            hops[3]["link"] = json!("b.eth0");
            flow["paths"][0]["hops"] = hops;
            flow["paths"][0]["rtt_ns"] = json!(8 * MILLISECOND);
        }
        flow
    };
    let cbr =
        || json!({"kind": "cbr", "rate_bps": 2_000_000, "size_bytes": 1000, "duration_ns": null});
    let bulk = || json!({"kind": "bulk", "bytes": null, "duration_ns": null});
    resolved["flows"] = json!([
        flow("direct", "udp", true, cbr()),
        flow("around", "udp", false, cbr()),
        flow("stream", "tcp", false, bulk()),
    ]);
    let (summary, latest) = run(&resolved);
    let wire = |link: &str| latest[&format!("links.{link}.forward")]["wire_bytes"];
    let of_flow = |flow: usize| summary.flows[flow].bytes as f64;
    assert!(of_flow(2) > 100_000.0, "{:?}", summary.flows[2]);
    assert!(
        wire("s0-s1") < 1.2 * of_flow(0),
        "{} {:?}",
        wire("s0-s1"),
        summary.flows
    );
    assert!(
        wire("s2-s1") > of_flow(1) + of_flow(2),
        "{} {:?}",
        wire("s2-s1"),
        summary.flows
    );
}

/// The environment variable that a test sets for its child process: the place of its temporary
/// files. Without it, `victim` does nothing.
const VICTIM: &str = "MPTCPLAB_TEST_VICTIM";

/// Returns the processes that have this text in their command line.
fn processes_with(text: &str) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(text).then_some((pid, line))
    });
    found.collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "waiting for {what}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "needs root"]
fn victim() {
    if env::var_os(VICTIM).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(&probed(), directory.path()).unwrap();
    println!("\nstanding");
    let _ = run.advance(Nanos::MAX);
    thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "needs root"]
fn a_killed_run_leaves_only_its_directory_and_the_next_run_removes_that() {
    let place = tempfile::tempdir().unwrap();
    let scratch = || -> Vec<PathBuf> {
        let entries = fs::read_dir(place.path()).unwrap().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .filter(|path| path.to_string_lossy().contains("mptcplab-switches-"))
            .collect()
    };
    let start_victim = || {
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "victim", "--nocapture"])
            .env(VICTIM, "1")
            .env("TMPDIR", place.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "standing"));
        victim
    };
    let mut victim = start_victim();
    let [left] = &scratch()[..] else {
        panic!("{:?}", scratch());
    };
    let path = left.to_string_lossy().into_owned();
    // The database server, the switch daemon and the controller.
    assert!(
        processes_with(&path).len() >= 3,
        "{:?}",
        processes_with(&path)
    );
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_until("the end of its programs", || {
        processes_with(&path).is_empty()
    });
    assert!(left.exists());
    let mut next = start_victim();
    assert!(!left.exists());
    assert_eq!(scratch().len(), 1);
    next.kill().unwrap();
    next.wait().unwrap();
}

#[test]
#[ignore = "needs root"]
fn a_switch_daemon_that_is_killed_ends_the_run_with_its_name_and_nothing_is_left() {
    let mut resolved = probed();
    resolved["duration_ns"] = json!(10_000 * MILLISECOND);
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(&resolved, directory.path()).unwrap();
    assert!(!run.advance(100 * MILLISECOND).unwrap());
    let own = format!("mptcplab-switches-{}-", std::process::id());
    let daemons = processes_with(&own);
    let daemon = daemons
        .iter()
        .find(|(_, line)| line.contains("ovs-vswitchd"));
    let (pid, _) = daemon.expect("the daemon");
    Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .unwrap();
    let why = run.advance(Nanos::MAX).unwrap_err().to_string();
    assert!(why.contains("Open vSwitch ended with signal: 9"), "{why}");
    drop(run);
    assert!(processes_with(&own).is_empty());
}

#[test]
#[ignore = "needs root"]
fn two_runs_at_once_do_not_meet() {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut resolved = probed();
    resolved["duration_ns"] = json!(300 * MILLISECOND);
    let runs = directories
        .each_ref()
        .map(|one| start(&resolved, one.path()).unwrap());
    for mut run in runs {
        let _ = run.advance(Nanos::MAX).unwrap();
        let probe = run.latest()["probes.bulk"].clone();
        assert!(probe["answered"] > 100.0, "{probe:?}");
        run.finish().unwrap();
    }
}
