//! Tests switches under control, with a controller of a few lines.
#![cfg(target_os = "linux")]

#[path = "../../benches/description/mod.rs"]
mod description;
mod networks;

use std::path::Path;

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use experiment::run::{Latest, Run};
use experiment::time::Nanos;
use realtime::{Controlling, LiveError, LiveRun, Status, Summary};
use serde_json::{Value, json};

use networks::{controller, geant5, hundred, probed, two_ways};

const MILLISECOND: u64 = 1_000_000;

/// Starts a run whose controller reports and takes commands as ours does.
fn start(resolved: &Value, directory: &Path) -> Result<LiveRun, LiveError> {
    let resolved = resolved.to_string();
    let experiment = Experiment::from_json(&resolved).unwrap();
    let controlling = Controlling {
        resolved: &resolved,
        controller: &controller(&["ours"]),
    };
    let registry = Registry::default();
    LiveRun::start(experiment, 1, directory, &registry, None, controlling)
}

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
        event("cut", at_ns, json!({"kind": "link_down", "link": link, "by": by})),
        event("mended", at_ns + for_ns, json!({"kind": "link_up", "link": link, "by": by})),
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
    resolved["duration_ns"] = json!(300 * MILLISECOND);
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
    let started = LiveRun::start(experiment, 1, directory.path(), &registry, None, controlling);
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
    let bytes: Vec<u64> = summary.flows[0].subflows.iter().map(|one| one.bytes).collect();
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
        let told: Vec<_> = rules.iter().map(|rule| (rule.event.as_str(), rule.added)).collect();
        assert_eq!(told, [("cut", true), ("mended", false)]);
        assert!(rules.iter().all(|rule| rule.sent_ns < rule.answered_ns));
        assert!(rules[0].answered_ns < rules[1].sent_ns);
        let probe = &latest["probes.bulk"];
        let lost = probe["sent"] - probe["answered"];
        assert!((150.0..260.0).contains(&lost), "{link}: {lost} of {probe:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn ports_that_go_down_and_up_carry_again_and_the_controller_is_not_told() {
    let mut resolved = probed();
    resolved["duration_ns"] = json!(600 * MILLISECOND);
    resolved["events"] = outage("s0-s1", "port_down", 200 * MILLISECOND, 200 * MILLISECOND);
    let (summary, latest) = run(&resolved);
    assert_eq!(summary.control.unwrap().controller.reactions, []);
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
        assert_eq!(causes, if has_moved { vec![Some("turn")] } else { vec![] });
    }
}

#[test]
#[ignore = "needs root"]
fn traffic_goes_on_without_its_controller_and_the_record_has_its_end() {
    let mut resolved = probed();
    resolved["duration_ns"] = json!(500 * MILLISECOND);
    let script = "python3 \"$0\" ours & until grep -q 19FD /proc/net/tcp; do sleep 0.01; done; sleep 0.5; kill -9 $!; exit 7";
    let resolved = resolved.to_string();
    let experiment = Experiment::from_json(&resolved).unwrap();
    let command = [vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()], controller(&[])[1..].to_vec()].concat();
    let controlling = Controlling {
        resolved: &resolved,
        controller: &command,
    };
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::default();
    let run = LiveRun::start(experiment, 1, directory.path(), &registry, None, controlling);
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
    resolved["duration_ns"] = json!(200 * MILLISECOND);
    let (summary, latest) = run(&resolved);
    assert_eq!(summary.control.unwrap().controller.ended_ns, None);
    assert_eq!(latest.keys().filter(|name| name.starts_with("switches.")).count(), 100);
}
