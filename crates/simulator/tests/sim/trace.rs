//! The trace: what it depends on, and what it does not.

use std::path::Path;
use std::{env, fs};

use experiment::algorithms::Registry;
use experiment::resolved::Action;
use experiment::run::Run as _;
use serde_json::{Value, json};
use simulator::QueueKind;

use crate::complete;
use crate::experiments::{
    MS, SECOND, add_event, add_link, add_node, finish, run, run_with, set_jitter, start,
};

/// The experiment of the golden trace, which uses every part of the simulator.
const GOLDEN: &str = include_str!("golden.json");
const GOLDEN_HASH: &str = include_str!("golden.hash");

/// Two streams over two links, one of which fails. The hashes have a line for each algorithm, with
/// its name and the hash of its trace.
const STREAMS: &str = include_str!("golden-streams.json");
const STREAMS_HASHES: &str = include_str!("golden-streams.hashes");

/// Both experiments with hosts that take time, one line each.
const JITTER_HASHES: &str = include_str!("golden-jitter.hashes");

/// Compares hashes with those on record. With `UPDATE_SNAPSHOTS`, writes the file instead.
fn assert_snapshot(name: &str, recorded: &str, found: &str) {
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sim");
        fs::write(Path::new(folder).join(name), found).expect("a file");
        return;
    }
    assert!(
        found == recorded,
        "{name} should be as follows; UPDATE_SNAPSHOTS=1 writes it\n{found}"
    );
}

fn golden() -> Value {
    complete::experiment(GOLDEN)
}

fn hash(experiment: &Value, seed: u64, queue: QueueKind) -> String {
    run_with(experiment, seed, queue).summary.trace_hash
}

#[test]
fn the_golden_trace_is_the_same_on_every_machine_and_in_every_build() {
    assert_eq!(hash(&golden(), 1, QueueKind::Calendar), GOLDEN_HASH.trim());
}

#[test]
fn hosts_that_are_said_to_take_no_time_leave_the_trace_as_it_was_before_they_could() {
    for text in [GOLDEN, STREAMS] {
        let unstated = complete::experiment(text);
        let mut none = unstated.clone();
        for host in none["hosts"].as_array_mut().expect("hosts") {
            assert_eq!(host["host_jitter"], json!({"kind": "unstated"}));
            host["host_jitter"] = json!({"kind": "none"});
        }
        let [unstated, none] = [unstated, none].map(|it| hash(&it, 1, QueueKind::Calendar));
        assert_eq!(none, unstated);
    }
}

#[test]
fn hosts_that_take_time_have_one_trace_on_every_machine_in_every_build_and_with_both_queues() {
    let hashes = [("all", GOLDEN), ("streams", STREAMS)].map(|(name, text)| {
        let mut experiment = complete::experiment(text);
        set_jitter(&mut experiment, [20_000, 50_000, 140_000, 350_000]);
        let found = hash(&experiment, 1, QueueKind::Calendar);
        assert_eq!(hash(&experiment, 1, QueueKind::Heap), found, "{name}");
        assert_ne!(hash(&experiment, 2, QueueKind::Heap), found, "{name}");
        format!("{name} {found}\n")
    });
    assert_snapshot("golden-jitter.hashes", JITTER_HASHES, &hashes.concat());
}

/// Returns the streams of the golden experiment with one algorithm.
fn streams_with(kind: &str, name: &str) -> Value {
    let mut experiment = complete::experiment(STREAMS);
    experiment["flows"][0][kind] = match kind {
        "path_manager" => json!([{"name": name}]),
        _ => json!([name]),
    };
    experiment
}

#[test]
fn every_algorithm_has_one_trace_on_every_machine_in_every_build_and_with_both_queues() {
    let registry = Registry::default();
    let hashes = registry.names().map(|(kind, name)| {
        let kind = kind.field();
        let experiment = streams_with(kind, name);
        let found = hash(&experiment, 1, QueueKind::Calendar);
        assert_eq!(
            hash(&experiment, 1, QueueKind::Heap),
            found,
            "{kind} {name}"
        );
        format!("{kind} {name} {found}\n")
    });
    let hashes: String = hashes.collect();
    assert_snapshot("golden-streams.hashes", STREAMS_HASHES, &hashes);
}

#[test]
fn timeouts_expire_with_the_timer_wheel_of_a_host_and_its_wheel_comes_from_the_seed() {
    let with_timers = |timers: &str, seed| {
        let mut experiment = streams_with("cc", "reno");
        for host in experiment["hosts"].as_array_mut().expect("hosts") {
            host["behaviour"][0]["timers"] = json!(timers);
        }
        // The same starts and delays with each seed.
        experiment["vary"] = json!({"start_ns": 0, "rtt_ppm": 0, "events_ppm": 0});
        hash(&experiment, seed, QueueKind::Calendar)
    };
    assert_ne!(with_timers("exact", 1), with_timers("wheel", 1));
    assert_ne!(with_timers("wheel", 1), with_timers("wheel", 2));
    assert_eq!(with_timers("wheel", 2), with_timers("wheel", 2));
}

#[test]
fn both_event_queues_give_the_same_trace() {
    for seed in 0..5 {
        assert_eq!(
            hash(&golden(), seed, QueueKind::Heap),
            hash(&golden(), seed, QueueKind::Calendar)
        );
    }
}

#[test]
fn another_seed_gives_another_trace() {
    assert_ne!(
        hash(&golden(), 1, QueueKind::Calendar),
        hash(&golden(), 2, QueueKind::Calendar)
    );
}

#[test]
fn the_sampling_interval_does_not_matter() {
    let mut experiment = golden();
    let first = run(&experiment);
    for every in [MS + 1, 30 * MS, 2 * SECOND] {
        experiment["measure"]["every_ns"] = json!(every);
        let other = run(&experiment);
        assert_eq!(
            other.summary.trace_hash, first.summary.trace_hash,
            "sampled each {every} ns"
        );
        assert_eq!(other.summary.end_ns, first.summary.end_ns);
    }
}

#[test]
fn captures_do_not_matter() {
    for text in [GOLDEN, STREAMS] {
        let mut experiment = complete::experiment(text);
        let uncaptured = hash(&experiment, 1, QueueKind::Calendar);
        let interfaces = experiment["interfaces"].as_array().expect("interfaces");
        let ids: Vec<_> = interfaces.iter().map(|one| one["id"].clone()).collect();
        experiment["measure"]["captures"] = json!(ids);
        assert_eq!(hash(&experiment, 1, QueueKind::Calendar), uncaptured);
    }
}

#[test]
fn the_steps_of_advance_do_not_matter() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(&golden(), 1, directory.path(), QueueKind::Calendar);
    let mut until = 0;
    while !simulation.advance(until).expect("a run") {
        assert_eq!(simulation.now(), until);
        until += 777_777;
    }
    assert_eq!(
        finish(simulation, directory.path()).summary.trace_hash,
        GOLDEN_HASH.trim()
    );
}

#[test]
fn an_injected_event_is_like_a_scheduled_one() {
    let action = json!({"kind": "link_down", "link": "wire", "by": "cut"});
    let at = 250 * MS;
    let mut scheduled = golden();
    scheduled["events"] = json!([]);
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(&scheduled, 1, directory.path(), QueueKind::Calendar);
    simulation.advance(at).expect("a run");
    let parsed: Action = serde_json::from_value(action.clone()).expect("an action");
    let record = simulation.inject(&parsed).expect("an event");
    assert_eq!(
        (record.actual_ns, record.injected, record.id.as_str()),
        (at, true, "injected.1")
    );
    simulation.advance(u64::MAX).expect("a run");
    let injected = finish(simulation, directory.path());
    assert_eq!(injected.summary.events, vec![record]);
    let untouched = hash(&scheduled, 1, QueueKind::Calendar);
    add_event(&mut scheduled, at, action);
    assert_eq!(
        injected.summary.trace_hash,
        hash(&scheduled, 1, QueueKind::Calendar)
    );
    assert_ne!(injected.summary.trace_hash, untouched);
}

#[test]
fn a_host_more_does_not_change_what_others_draw() {
    let mut experiment = golden();
    let before = run(&experiment);
    let mut hosts = experiment["hosts"].as_array().expect("hosts").clone();
    let mut stranger = hosts[0].clone();
    stranger["id"] = json!("stranger");
    hosts.push(stranger);
    experiment["hosts"] = json!(hosts);
    add_node(&mut experiment, "nowhere", "router");
    add_link(&mut experiment, "elsewhere", "stranger", "nowhere");
    assert_eq!(run(&experiment).units, before.units);
}
