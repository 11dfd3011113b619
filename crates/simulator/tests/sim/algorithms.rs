//! Parameters of algorithms, starts as a race, source routes, and users' own algorithms.

use std::collections::BTreeSet;
use std::sync::Arc;

use experiment::algorithms::parameters::Kind;
use experiment::algorithms::{Fault, Registry};
use experiment::resolved::Experiment;
use experiment::run::Run;
use mptcp::algorithm::{Description, External, Value as Parameter};
use mptcp::cc::{Acked, CONGESTION_CONTROLS, Congestion, CongestionControl, Context};
use mptcp::pm::PATH_MANAGERS;
use mptcp::sched::SCHEDULERS;
use serde_json::{Value, json};
use simulator::{QueueKind, Simulation, Summary, check};

use crate::experiments::{MS, SECOND, add_event, add_link, add_node, parallel, run};

fn endless() -> Value {
    json!({"kind": "bulk", "bytes": null, "duration_ns": null})
}

/// Returns an experiment with two links for two seconds, changed by `changes`.
fn with(changes: impl FnOnce(&mut Value)) -> Value {
    let mut experiment = parallel("mptcp", &["one", "two"], endless());
    experiment["duration_ns"] = json!(2 * SECOND);
    changes(&mut experiment["flows"][0]);
    experiment
}

fn refusal(experiment: &Value) -> String {
    let read = Experiment::from_json(&experiment.to_string());
    read.expect_err("a refusal").to_string()
}

fn bytes(experiment: &Value) -> u64 {
    run(experiment).summary.flows[0].bytes
}

#[test]
fn every_parameter_takes_its_bounds_and_nothing_beyond() {
    for control in CONGESTION_CONTROLS {
        assert_bounds(Kind::Control, &control.description);
    }
    for entry in SCHEDULERS {
        assert_bounds(Kind::Scheduler, &entry.description);
    }
    for entry in PATH_MANAGERS {
        assert_bounds(Kind::PathManager, &entry.description);
    }
}

fn assert_bounds<P>(kind: Kind, algorithm: &Description<P>) {
    for parameter in algorithm.parameters {
        let (allowed, refused) = match parameter.value {
            Parameter::Integer { least, most, .. } => (json!(least), json!(u64::from(most) + 1)),
            Parameter::Number { least, most, .. } => (json!(most), json!(least / 2.0)),
            Parameter::Flag { .. } => (json!(false), json!("false")),
            Parameter::Choice { words, .. } => (json!(words[0]), json!("nothing")),
            Parameter::Integers { least, most, .. } => (json!([least, most]), json!([])),
            // An allowed value needs routers, which this network lacks.
            Parameter::External(External::Gateways) => continue,
            Parameter::External(External::Endpoints) => (
                json!([{"interface": "client.one", "flags": ["subflow"]}]),
                json!([{"interface": "client.one", "flags": ["signal", "fullmesh"]}]),
            ),
        };
        let given = |value: &Value| {
            with(|flow| {
                flow[kind.field()] = json!([{"name": algorithm.name, parameter.name: value}])
            })
        };
        let experiment = Experiment::from_json(&given(&allowed).to_string());
        let experiment = experiment.expect("an allowed value");
        assert_eq!(
            check(&experiment, &Registry::default()),
            [],
            "{}",
            algorithm.name
        );
        let place = format!(
            "flows.bulk.{}.{}.{}",
            kind.field(),
            algorithm.name,
            parameter.name
        );
        let told = refusal(&given(&refused));
        assert!(
            told.starts_with(&format!("{place}: found {refused}")),
            "{told}"
        );
    }
}

#[test]
fn a_parameter_that_an_algorithm_does_not_have_is_refused() {
    let given =
        |algorithm: &str| with(|flow| flow["cc"] = json!([{"name": algorithm, "packets": 3}]));
    let told = refusal(&given("semicoupled"));
    assert!(
        told.ends_with(
            "allowed is ack_counting, ssthresh_floor_packets, slow_start_limit_packets, a"
        ),
        "{told}"
    );
    let told = refusal(&given("bbr"));
    assert!(
        told.ends_with("allowed is nothing: bbr has no parameters"),
        "{told}"
    );
}

#[test]
fn names_in_parameters_must_be_there() {
    let endpoints = json!([{"interface": "client.nobody", "flags": ["subflow"]}]);
    let manager = json!([{"name": "kernel_endpoints", "endpoints": endpoints}]);
    let told = refusal(&with(|flow| flow["path_manager"] = manager));
    assert!(
        told.contains("kernel_endpoints.endpoints: found \"client.nobody\""),
        "{told}"
    );
    let endpoints = json!([{"interface": "server.one", "flags": ["signal"], "port": 5001}]);
    let manager = json!([{"name": "kernel_endpoints", "endpoints": endpoints}]);
    let told = refusal(&with(|flow| flow["path_manager"] = manager));
    assert!(
        told.contains("kernel_endpoints.endpoints: found 5001"),
        "{told}"
    );
    let manager = json!([{"name": "binder", "gateways": [["client"], ["nobody"]]}]);
    let told = refusal(&with(|flow| flow["path_manager"] = manager));
    assert!(told.contains("binder.gateways: found \"nobody\""), "{told}");
}

#[test]
fn a_fixed_window_is_as_large_as_the_description_says() {
    let rate = |packets: u32| {
        bytes(&with(|flow| {
            flow["cc"] = json!([{"name": "fixed_cwnd", "packets": packets}])
        }))
    };
    let [few, many] = [2, 6].map(rate);
    assert!(
        (2.7..3.3).contains(&(many as f64 / few as f64)),
        "{few} and {many}"
    );
}

#[test]
fn weights_share_out_what_subflows_carry() {
    let scheduler =
        json!([{"name": "weighted_round_robin", "weights": [3, 1], "cwnd_limited": false}]);
    let summary = run(&with(|flow| {
        flow["scheduler"] = scheduler;
        flow["cc"] = json!([{"name": "fixed_cwnd", "packets": 4}]);
    }))
    .summary;
    let carried: Vec<_> = summary.flows[0]
        .subflows
        .iter()
        .map(|one| one.bytes as f64)
        .collect();
    assert!(
        (2.8..3.2).contains(&(carried[0] / carried[1])),
        "{carried:?}"
    );
}

#[test]
fn endpoints_are_those_of_the_description_and_limits_hold() {
    let subflows = |parameters: Value| {
        let mut manager = json!({"name": "kernel_endpoints"});
        manager
            .as_object_mut()
            .expect("an object")
            .extend(parameters.as_object().expect("one").clone());
        run(&with(|flow| flow["path_manager"] = json!([manager])))
            .summary
            .flows[0]
            .subflows
            .len()
    };
    assert_eq!(subflows(json!({})), 2);
    assert_eq!(subflows(json!({"subflows": 0})), 1);
    let only_initial = json!([{"interface": "client.one", "flags": ["subflow"]}]);
    assert_eq!(subflows(json!({"endpoints": only_initial})), 1);
}

/// A link is cut for 18 minutes, longer than a subflow is kept.
#[test]
fn a_subflow_that_timed_out_is_opened_again_when_the_behaviour_says() {
    let readings = json!({"kind": "cbr", "rate_bps": 2000, "size_bytes": 500, "duration_ns": null});
    for (recreation, subflows) in [("never", 2), ("backoff", 3)] {
        let mut experiment = parallel("mptcp", &["one", "two"], readings.clone());
        experiment["duration_ns"] = json!(1200 * SECOND);
        experiment["measure"]["every_ns"] = json!(60 * SECOND);
        experiment["flows"][0]["path_manager"] = json!([{"name": "full_mesh"}]);
        experiment["hosts"][0]["behaviour"][0]["recreation"] = json!(recreation);
        for (at_s, kind) in [(30, "link_down"), (1110, "link_up")] {
            let action = json!({"kind": kind, "link": "one", "by": "cut"});
            add_event(&mut experiment, at_s * SECOND, action);
        }
        let summary = run(&experiment).summary;
        assert_eq!(summary.flows[0].subflows.len(), subflows, "{recreation}");
    }
}

fn announced(endpoint: &Value) -> Value {
    with(|flow| {
        flow["path_manager"] = json!([{"name": "kernel_endpoints", "endpoints": [endpoint]}]);
    })
}

/// Also at the address of the initial subflow.
#[test]
fn an_address_announced_with_a_port_is_joined_there() {
    for interface in ["server.one", "server.two"] {
        let endpoint = json!({"interface": interface, "flags": ["signal"], "port": 7000});
        let summary = run(&announced(&endpoint)).summary;
        let remotes = summary.flows[0].subflows.iter().map(|one| &one.remote);
        let at_port = remotes.filter(|remote| remote.ends_with(":7000")).count();
        assert_eq!((summary.flows[0].subflows.len(), at_port), (2, 1));
    }
}

#[test]
fn a_port_goes_with_an_announcement_alone() {
    for (flags, port) in [
        (json!(["subflow"]), 7000),
        (json!(["signal", "subflow"]), 7000),
        (json!(["signal"]), 0),
        (json!(["signal"]), 70_000),
    ] {
        let endpoint = json!({"interface": "server.two", "flags": flags, "port": port});
        let told = refusal(&announced(&endpoint));
        assert!(
            told.contains("with signal and without subflow may also have a port"),
            "{told}"
        );
    }
}

#[test]
fn what_no_route_leads_to_takes_no_place_of_an_endpoint_that_one_leads_to() {
    let links = ["one", "two", "three", "four"];
    let mut experiment = parallel("mptcp", &links, endless());
    experiment["flows"][0]["path_manager"] = json!([{"name": "kernel_endpoints", "subflows": 3}]);
    let summary = run(&experiment).summary;
    let subflows = summary.flows[0].subflows.iter();
    let carriers: Vec<_> = subflows.filter(|one| one.bytes > 0).collect();
    let used: BTreeSet<_> = carriers
        .iter()
        .filter_map(|one| one.link.as_deref())
        .collect();
    assert_eq!((carriers.len(), used), (4, links.into()));
}

#[test]
fn a_race_starts_where_the_first_answer_comes_from() {
    let mut experiment = with(|flow| flow["handshake"] = json!("race"));
    experiment["links"][0]["forward"]["delay_ns"] = json!(200 * MS);
    let first = |experiment: &Value| {
        let flow = &run(experiment).summary.flows[0];
        let established = flow.established_ns.expect("a connection") - flow.start_ns;
        (flow.subflows[0].link.clone().expect("a link"), established)
    };
    let (link, established) = first(&experiment);
    assert_eq!(link, "two");
    assert!(established < 60 * MS, "{established}");
    experiment["flows"][0]["handshake"] = json!("primary");
    assert_eq!(first(&experiment).0, "one");
}

/// Returns client - west - left or right - east - server, with the flow `bulk` over both paths.
fn diamond() -> Value {
    let mut experiment = parallel("mptcp", &["spare"], endless());
    for router in ["west", "left", "right", "east"] {
        add_node(&mut experiment, router, "router");
    }
    let links = [
        ("access", "client", "west"),
        ("to_left", "west", "left"),
        ("to_right", "west", "right"),
        ("from_left", "left", "east"),
        ("from_right", "right", "east"),
        ("exit", "east", "server"),
    ];
    for (link, a, b) in links {
        add_link(&mut experiment, link, a, b);
    }
    let paths = ["left", "right"].map(|side| {
        let links = ["access".to_owned(), format!("to_{side}"), format!("from_{side}"), "exit".to_owned()];
        let hops = links.map(|link| json!({"link": link, "direction": "forward"}));
        json!({"local": "client.access", "remote": "server.exit", "hops": hops, "routed": false, "rate_bps": null, "ceiling_bps": null, "rtt_ns": 0})
    });
    experiment["flows"][0]["paths"] = json!(paths);
    experiment["duration_ns"] = json!(2 * SECOND);
    experiment
}

#[test]
fn a_source_route_leads_through_its_routers_there_and_back() {
    let mut experiment = diamond();
    experiment["flows"][0]["path_manager"] =
        json!([{"name": "binder", "gateways": [["right"], ["right"]]}]);
    let summary = run(&experiment).summary;
    let carried: Vec<_> = summary.flows[0]
        .subflows
        .iter()
        .map(|one| one.bytes)
        .collect();
    assert_eq!(carried.len(), 3);
    // The initial subflow takes the left path. Its port alone would lead the third subflow there
    // too.
    for (link, payload) in [
        ("to_left", carried[0]),
        ("to_right", carried[1] + carried[2]),
    ] {
        let both: Vec<_> = summary.links.iter().filter(|one| one.id == link).collect();
        let wire_bytes = both[0].wire_bytes;
        assert!(
            (payload..payload + payload / 5).contains(&wire_bytes),
            "{link}: {payload} and {wire_bytes}"
        );
        assert!(
            both[1].wire_packets > both[0].wire_packets / 4,
            "{link}: acknowledgments come back"
        );
    }
}

// ---- a user's own ----

/// Never lets a window grow. Fails at the acknowledgment after `left` others.
#[derive(Debug)]
struct Own {
    left: u64,
    fault: Fault,
}

impl CongestionControl for Own {
    fn acked(&mut self, _context: &mut Context<'_>, _acked: &Acked) {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.fault.record("too many acknowledgments".to_owned()),
        }
    }

    fn congestion(&mut self, _context: &mut Context<'_>, _congestion: Congestion) {}
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    let fault = registry.fault().clone();
    let make = Arc::new(move |_: &_, given: &experiment::resolved::Parameters| {
        let left = given
            .get("acks")
            .and_then(Value::as_u64)
            .unwrap_or(u64::MAX);
        let fault = fault.clone();
        Box::new(Own { left, fault }) as Box<dyn CongestionControl>
    });
    registry
        .add_control("crate:own", &["acks"], make)
        .expect("a new name");
    registry
}

fn run_own(experiment: &Value) -> Summary {
    let directory = tempfile::tempdir().expect("a directory");
    let experiment = Experiment::from_json(&experiment.to_string()).expect("a valid experiment");
    let queue = QueueKind::default();
    let run = Simulation::new(experiment, 1, directory.path(), queue, registry());
    let mut run = run.expect("a run");
    assert!(run.advance(u64::MAX).expect("a run"));
    run.finish().expect("a summary")
}

#[test]
fn a_users_control_gets_its_parameters_and_its_fault_ends_the_run() {
    let given = |acks: u64| with(|flow| flow["cc"] = json!([{"name": "crate:own", "acks": acks}]));
    let done = run_own(&given(1_000_000));
    assert_eq!((done.status, done.why), (None, None));
    let failed = run_own(&given(10));
    assert_eq!(failed.status, Some("failed"));
    let why = failed.why.expect("a reason");
    assert!(
        why.starts_with("at 0.") && why.ends_with("s of simulated time: too many acknowledgments"),
        "{why}"
    );
    assert!(failed.end_ns < SECOND);
}

#[test]
fn a_users_algorithm_that_is_not_there_is_told_with_where_it_would_be() {
    let missing = |cc: Value, registry: &Registry| {
        let experiment = with(|flow| flow["cc"] = json!([cc])).to_string();
        let missing = check(
            &Experiment::from_json(&experiment).expect("valid"),
            registry,
        );
        missing
            .into_iter()
            .map(|one| format!("{} ({})", one.feature, one.why))
            .collect::<Vec<_>>()
    };
    let own = json!("crate:own");
    assert_eq!(
        missing(own.clone(), &Registry::default()),
        ["flows.bulk.cc: crate:own (only your own simulator has it: use --on PROGRAM)"]
    );
    assert_eq!(missing(own, &registry()), [""; 0]);
    assert_eq!(
        missing(json!({"name": "crate:own", "bytes": 1}), &registry()),
        ["flows.bulk.cc.crate:own: bytes (this back-end does not know it)"]
    );
    assert!(missing(json!("./own.py:Own"), &registry())[0].contains("use --on sim"));
}

#[test]
fn a_flow_with_a_users_algorithm_that_stands_still_ends_the_run_but_not_in_an_outage() {
    let mut experiment = with(|flow| flow["cc"] = json!(["crate:own"]));
    experiment["duration_ns"] = json!(20 * SECOND);
    let loss = json!({"kind": "bernoulli", "probability": 1.0});
    let mut broken = experiment.clone();
    for link in broken["links"].as_array_mut().expect("links") {
        link["backward"]["loss"] = json!({"kind": "list", "packets": [0]});
        link["forward"]["loss"] = json!({"kind": "none"});
    }
    // Everything is lost from 1 s on, although no link is out of service.
    for link in 0..2 {
        let mut lossy = broken["links"][link]["forward"].clone();
        lossy["loss"] = loss.clone();
        let backward = broken["links"][link]["backward"].clone();
        let action = json!({"kind": "set_link", "link": broken["links"][link]["id"], "forward": lossy, "backward": backward});
        add_event(&mut broken, SECOND, action);
    }
    let why = run_own(&broken).why.expect("a reason");
    assert!(
        why.contains("flow bulk stands still: with crate:own nothing has arrived for 5.1 s"),
        "{why}"
    );
    for (at, kind) in [(SECOND, "link_down"), (12 * SECOND, "link_up")] {
        for link in ["one", "two"] {
            add_event(
                &mut experiment,
                at,
                json!({"kind": kind, "link": link, "by": "cut"}),
            );
        }
    }
    assert_eq!(run_own(&experiment).why, None);
}
