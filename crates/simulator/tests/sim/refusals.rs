//! What is refused, and with which texts.

use experiment::algorithms::Registry;
use experiment::resolved::{Action, Experiment};
use experiment::run::Run;
use serde_json::{Value, json};
use simulator::{QueueKind, Simulation, capabilities, check};

use crate::experiments::{
    MS, SECOND, add_event, cbr, control, direction, pair, set_jitter, start, with_node_between,
};

fn valid() -> Value {
    with_node_between("router", cbr(2 * MS, 50))
}

/// Returns the error of `valid` after a change.
fn error_after(change: impl FnOnce(&mut Value)) -> String {
    let mut experiment = valid();
    change(&mut experiment);
    Experiment::from_json(&experiment.to_string())
        .expect_err("an error")
        .to_string()
}

#[test]
fn broken_json_is_refused_with_its_place() {
    let text = valid().to_string();
    let error = Experiment::from_json(&text[..text.len() / 2])
        .expect_err("an error")
        .to_string();
    assert!(
        error.contains("EOF") && error.contains("line 1 column"),
        "{error}"
    );
}

/// Returns the JSON pointers of all keys of objects below `value`, except for names that the
/// description chose.
fn keys(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::Object(object) => object
            .iter()
            .flat_map(|(key, inner)| {
                let at = format!("{at}/{key}");
                [vec![at.clone()], keys(inner, &at)].concat()
            })
            .collect(),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items
                .flat_map(|(index, item)| keys(item, &format!("{at}/{index}")))
                .collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn an_experiment_that_lacks_any_key_is_refused() {
    let experiment = valid();
    for key in keys(&experiment, "") {
        let error = error_after(|e| {
            let (object, name) = key.rsplit_once('/').expect("a pointer");
            let object = e.pointer_mut(object).expect("an object");
            object.as_object_mut().expect("an object").remove(name);
        });
        assert!(error.contains("missing field"), "{key}: {error}");
    }
}

#[test]
fn what_the_schema_does_not_have_is_refused() {
    assert!(error_after(|e| e["surprise"] = json!(1)).contains("unknown field `surprise`"));
    assert!(
        error_after(|e| e["flows"][0]["app"]["surprise"] = json!(1))
            .contains("unknown field `surprise`")
    );
    assert!(
        error_after(|e| e["schema"] = json!("mptcplab/experiment/4"))
            .contains("allowed is mptcplab/experiment/3")
    );
    assert!(error_after(|e| e["duration_ns"] = json!(1.5)).contains("floating point"));
}

#[test]
fn times_of_a_host_that_do_not_ascend_are_refused() {
    for times in [[2, 1, 3, 4], [1, 2, 3, 2 * SECOND]] {
        let error = error_after(|e| set_jitter(e, times));
        assert!(error.contains("host_jitter"), "{error}");
        assert!(
            error.contains("quantiles that ascend, up to a second"),
            "{error}"
        );
    }
}

#[test]
fn ids_that_nothing_has_are_refused() {
    let unknown = |place: &str, error: String| {
        assert!(
            error.contains(place) && error.contains("\"nobody\""),
            "{error}"
        )
    };
    unknown(
        "interfaces.client.first.node",
        error_after(|e| e["interfaces"][0]["node"] = json!("nobody")),
    );
    unknown(
        "interfaces.client.first.link",
        error_after(|e| e["interfaces"][0]["link"] = json!("nobody")),
    );
    unknown(
        "links.first.a",
        error_after(|e| e["links"][0]["a"] = json!("nobody")),
    );
    unknown(
        "links.first.medium",
        error_after(|e| e["links"][0]["medium"] = json!("nobody")),
    );
    unknown(
        "flows.bulk.to",
        error_after(|e| e["flows"][0]["to"] = json!("nobody")),
    );
    unknown(
        "flows.bulk.via",
        error_after(|e| e["flows"][0]["via"] = json!(["nobody"])),
    );
    unknown(
        "flows.bulk.paths.0.local",
        error_after(|e| e["flows"][0]["paths"][0]["local"] = json!("nobody")),
    );
    unknown(
        "flows.bulk.paths.0.hops",
        error_after(|e| e["flows"][0]["paths"][0]["hops"][1]["link"] = json!("nobody")),
    );
    unknown(
        "measure.captures",
        error_after(|e| e["measure"]["captures"] = json!(["nobody"])),
    );
    for action in [
        json!({"kind": "interface_down", "interface": "nobody"}),
        json!({"kind": "link_down", "link": "nobody", "by": "cut"}),
        json!({"kind": "address_add", "interface": "nobody"}),
        json!({"kind": "exec", "host": "nobody", "argv": []}),
        json!({"kind": "reroute", "flow": "nobody", "path": 0, "there": [], "back": [], "by": "description"}),
        json!({"kind": "set_link", "link": "nobody", "forward": direction(), "backward": direction()}),
    ] {
        unknown(
            "events.e0.action",
            error_after(|e| add_event(e, MS, action)),
        );
    }
}

#[test]
fn a_change_of_the_strategy_without_switches_under_control_is_refused() {
    let action = json!({"kind": "set_recovery", "strategy": "optical"});
    assert_eq!(
        error_after(|e| add_event(e, MS, action)),
        "events.e0.action.strategy: found optical, allowed is nothing: no switches are under control"
    );
}

#[test]
fn a_reroute_over_links_that_do_not_join_is_refused() {
    let reroute = |there: &[(&str, &str)], back: &[(&str, &str)]| {
        let hops = |hops: &[(&str, &str)]| -> Vec<_> {
            let hops = hops.iter();
            hops.map(|(link, direction)| json!({"link": link, "direction": direction}))
                .collect()
        };
        json!({"kind": "reroute", "flow": "bulk", "path": 0, "there": hops(there), "back": hops(back), "by": "recovery"})
    };
    let there = [("first", "forward"), ("second", "forward")];
    let back = [("second", "backward"), ("first", "backward")];
    let mut valid = valid();
    add_event(&mut valid, MS, reroute(&there, &back));
    Experiment::from_json(&valid.to_string()).expect("no error");
    for (place, action) in [
        ("there", reroute(&there[..1], &back)),
        ("there", reroute(&there[1..], &back)),
        ("back", reroute(&there, &there)),
        ("back", reroute(&there, &[])),
    ] {
        let error = error_after(|e| add_event(e, MS, action));
        assert!(
            error.contains(&format!("events.e0.action.{place}")),
            "{error}"
        );
    }
    let mut action = reroute(&there, &back);
    action["path"] = json!(1);
    let error = error_after(|e| add_event(e, MS, action));
    assert!(
        error.contains("less than 1, the number of paths"),
        "{error}"
    );
}

#[test]
fn openflow_switches_need_control() {
    let error = error_after(|e| e["nodes"][0]["kind"] = json!("openflow"));
    assert!(error.contains("nodes.middle.kind"), "{error}");
}

/// Gives an interface an IPv6 address instead of its IPv4 address.
fn give_only_ipv6(experiment: &mut Value, id: &str) {
    let interfaces = experiment["interfaces"].as_array_mut().expect("a list");
    let number = interfaces
        .iter()
        .position(|it| it["id"] == id)
        .expect("it is there");
    interfaces[number]["ipv4"] = json!(null);
    interfaces[number]["ipv6"] = json!(format!("fd00::{}/64", number + 1));
}

#[test]
fn contradictions_are_refused() {
    assert!(error_after(|e| e["hosts"][1]["id"] = json!("client")).contains("\"client\" twice"));
    assert!(
        error_after(|e| e["links"][1]["a"] = json!("middle.first"))
            .contains("middle.first is on first")
    );
    assert!(error_after(|e| e["flows"][0]["paths"] = json!([])).contains("at least one path"));
    assert!(
        error_after(|e| drop(
            e["flows"][0]["paths"][0]["hops"]
                .as_array_mut()
                .expect("hops")
                .pop()
        ))
        .contains("links up to server.second")
    );
    assert!(
        error_after(|e| e["flows"][0]["paths"][0]["local"] = json!("middle.first"))
            .contains("an interface of client")
    );
    let error = error_after(|e| give_only_ipv6(e, "client.first"));
    assert!(
        error.contains(
            "client.first and server.second, allowed is ends with addresses of one family"
        )
    );
    assert!(
        error_after(|e| {
            add_event(
                e,
                2 * MS,
                json!({"kind": "interface_down", "interface": "client.first"}),
            );
            add_event(
                e,
                MS,
                json!({"kind": "interface_up", "interface": "client.first"}),
            );
        })
        .contains("events.e1.at_ns: found 1000000, allowed is 2000000, that of the event before")
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused = |place: &str, error: String| {
        assert!(
            error.contains(place) && error.contains("allowed is"),
            "{error}"
        )
    };
    refused("duration_ns", error_after(|e| e["duration_ns"] = json!(0)));
    refused(
        "measure.every_ns",
        error_after(|e| e["measure"]["every_ns"] = json!(0)),
    );
    refused(
        "measure.probe_rtt_ns",
        error_after(|e| e["measure"]["probe_rtt_ns"] = json!(0)),
    );
    refused(
        "vary.rtt_ppm",
        error_after(|e| e["vary"]["rtt_ppm"] = json!(2_000_000)),
    );
    refused(
        "flows.bulk.start_ns",
        error_after(|e| e["flows"][0]["start_ns"] = json!(u64::MAX)),
    );
    refused(
        "flows.bulk.app.rate_bps",
        error_after(|e| e["flows"][0]["app"]["rate_bps"] = json!(0)),
    );
    refused(
        "flows.bulk.app.size_bytes",
        error_after(|e| e["flows"][0]["app"]["size_bytes"] = json!(0)),
    );
    refused(
        "media.air.overhead_bytes",
        error_after(|e| {
            e["media"] = json!([{"id": "air", "rate_bps": null, "overhead_bytes": 70_000}])
        }),
    );
    refused(
        "events.e0.at_ns",
        error_after(|e| {
            add_event(
                e,
                SECOND,
                json!({"kind": "interface_down", "interface": "client.first"}),
            )
        }),
    );
    refused(
        "links.first.forward.rate_bps",
        error_after(|e| e["links"][0]["forward"]["rate_bps"] = json!(0)),
    );
    refused(
        "links.second.backward.delay_ns",
        error_after(|e| e["links"][1]["backward"]["delay_ns"] = json!(u64::MAX)),
    );
}

/// Returns the features that `check` names in `valid` after a change.
fn missing_after(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut experiment = valid();
    change(&mut experiment);
    let experiment = Experiment::from_json(&experiment.to_string()).expect("a valid experiment");
    let missing = check(&experiment, &Registry::default());
    assert!(
        missing.iter().all(|missing| missing.why.contains(' ')),
        "reasons in words: {missing:?}"
    );
    let directory = tempfile::tempdir().expect("a directory");
    let run = Simulation::new(
        experiment,
        1,
        directory.path(),
        QueueKind::Heap,
        Registry::default(),
    );
    assert_eq!(run.is_err(), !missing.is_empty());
    missing.into_iter().map(|missing| missing.feature).collect()
}

#[test]
fn all_that_the_simulator_cannot_do_is_named() {
    assert_eq!(missing_after(|_| ()), [""; 0]);
    assert_eq!(
        missing_after(|e| e["hosts"][0]["stack"] = json!("kernel")),
        ["hosts.client.stack: kernel"]
    );
    assert_eq!(
        missing_after(|e| e["hosts"][1]["stack"] = json!("userspace")),
        ["hosts.server.stack: userspace"]
    );
    assert_eq!(
        missing_after(|e| {
            e["flows"][0]["transport"] = json!("tcp");
            e["flows"][0]["cc"] = json!(["nobody"]);
        }),
        ["flows.bulk.cc: nobody"]
    );
    let bulk = json!({"kind": "bulk", "bytes": 1, "duration_ns": null});
    assert_eq!(
        missing_after(|e| e["flows"][0]["app"] = bulk),
        ["flows.bulk.app: bulk"]
    );
    assert_eq!(
        missing_after(|e| e["flows"][0]["app"]["size_bytes"] = json!(1473)),
        ["flows.bulk.app.size_bytes: 1473"]
    );
    assert_eq!(
        missing_after(|e| e["interfaces"][2]["mtu_bytes"] = json!(1400)),
        ["flows.bulk.app.size_bytes: 1472"]
    );
    assert_eq!(
        missing_after(|e| {
            give_only_ipv6(e, "client.first");
            give_only_ipv6(e, "server.second");
        }),
        ["flows.bulk.app.size_bytes: 1472"],
        "IPv6 has longer headers"
    );
    assert_eq!(
        missing_after(|e| {
            add_event(
                e,
                MS,
                json!({"kind": "exec", "host": "client", "argv": ["true"]}),
            );
        }),
        ["events.e0: exec"]
    );
}

#[test]
fn a_port_that_is_not_there_cannot_go_down() {
    let mut experiment = pair(cbr(2 * MS, 50));
    for kind in ["link_down", "link_up"] {
        add_event(
            &mut experiment,
            MS,
            json!({"kind": kind, "link": "wire", "by": "port_down"}),
        );
    }
    let experiment = Experiment::from_json(&experiment.to_string()).expect("a valid experiment");
    let missing = check(&experiment, &Registry::default());
    let features: Vec<_> = missing
        .iter()
        .map(|missing| missing.feature.as_str())
        .collect();
    assert_eq!(features, ["events.e0: port_down", "events.e1: port_down"]);
    assert!(missing[0].why.contains("wire joins two hosts"));
    let router = json!({"kind": "link_down", "link": "first", "by": "port_down"});
    assert_eq!(missing_after(|e| add_event(e, MS, router)), [""; 0]);
}

#[test]
fn what_is_listed_as_missing_is_what_check_refuses() {
    let listed = capabilities(&Registry::default()).into_iter();
    let listed = listed.filter(|capability| capability.missing_because.is_some());
    let listed: Vec<_> = listed
        .map(|capability| capability.feature.clone())
        .collect();
    let mut refused = Vec::new();
    let mut ask = |prefix: &str, change: &dyn Fn(&mut Value)| {
        let features = missing_after(change);
        let names = features.iter().map(|feature| feature.split(": ").last());
        refused.extend(names.map(|name| format!("{prefix} {}", name.expect("a name"))));
    };
    for transport in ["udp", "tcp", "mptcp"] {
        ask("transport", &|e| {
            e["flows"][0]["transport"] = json!(transport)
        });
    }
    for app in [
        json!({"kind": "cbr", "rate_bps": 1, "size_bytes": 1, "duration_ns": null}),
        json!({"kind": "probe", "every_ns": 1, "size_bytes": 1, "duration_ns": null}),
        json!({"kind": "bulk", "bytes": 1000, "duration_ns": null}),
        json!({"kind": "request_response", "request_bytes": 1, "response_bytes": 1, "count": 1, "duration_ns": null}),
        json!({"kind": "short_flows", "bytes": 1, "every_ns": 1, "poisson_mean_ns": null}),
        json!({"kind": "streaming", "bitrate_bps": 1, "startup_ns": 1}),
        json!({"kind": "iperf3", "args": []}),
        json!({"kind": "command", "argv": ["true"]}),
    ] {
        ask("app", &|e| {
            e["flows"][0]["transport"] = json!("tcp");
            e["flows"][0]["app"] = app.clone();
        });
    }
    for action in [
        json!({"kind": "interface_down", "interface": "client.first"}),
        json!({"kind": "interface_up", "interface": "client.first"}),
        json!({"kind": "link_down", "link": "first", "by": "cut"}),
        json!({"kind": "link_up", "link": "first", "by": "cut"}),
        json!({"kind": "set_link", "link": "first", "forward": direction(), "backward": direction()}),
        json!({"kind": "address_add", "interface": "client.first"}),
        json!({"kind": "address_remove", "interface": "client.first"}),
        json!({"kind": "set_backup", "interface": "client.first", "on": true}),
        json!({"kind": "exec", "host": "client", "argv": ["true"]}),
    ] {
        ask("action", &|e| add_event(e, MS, action.clone()));
    }
    for (prefix, change) in [
        ("install", json!({"install": "reactive"})),
        ("control", json!({"command": ["true"]})),
        ("control", json!({"discover": true})),
    ] {
        ask(prefix, &|e| {
            e["control"] = control();
            let control = e["control"].as_object_mut().expect("an object");
            control.extend(change.as_object().expect("an object").clone());
        });
    }
    for stack in ["backend", "kernel", "userspace"] {
        ask("stack", &|e| e["hosts"][0]["stack"] = json!(stack));
    }
    for (own, feature) in [
        ("./own.py:Own", "own class"),
        ("crate:own", "own simulator"),
        ("./own.bpf.o", "own object"),
    ] {
        let missing = missing_after(|e| {
            e["flows"][0]["transport"] = json!("tcp");
            e["flows"][0]["cc"] = json!([own]);
        });
        refused.extend(missing.iter().map(|_| feature.to_owned()));
    }
    let missing = missing_after(|e| {
        *e = pair(cbr(2 * MS, 50));
        e["links"][0]["real"] = json!(true);
        for side in ["forward", "backward"] {
            let direction = &mut e["links"][0][side];
            (direction["rate_bps"], direction["delay_ns"]) = (json!(null), json!(0));
        }
        for (end, device) in ["eth0", "eth1"].into_iter().enumerate() {
            e["interfaces"][end]["device"] = json!({"name": device, "child": null});
        }
    });
    assert_eq!(missing, ["links.wire.real"]);
    refused.push("real".to_owned());
    refused.sort_unstable();
    let mut listed = listed;
    listed.sort_unstable();
    assert_eq!(refused, listed);
}

#[test]
fn a_wrong_injection_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(
        &pair(cbr(2 * MS, 50)),
        1,
        directory.path(),
        QueueKind::Calendar,
    );
    simulation.advance(10 * MS).expect("a run");
    let mut inject = |action: Value| {
        let action: Action = serde_json::from_value(action).expect("an action");
        simulation
            .inject(&action)
            .map_err(|error| error.to_string())
    };
    let unknown =
        inject(json!({"kind": "interface_down", "interface": "nobody"})).expect_err("an error");
    assert!(
        unknown.contains("action.interface: found \"nobody\""),
        "{unknown}"
    );
    let exec = inject(json!({"kind": "exec", "host": "client", "argv": []})).expect_err("an error");
    assert!(exec.contains("real kernel"), "{exec}");
    let port = inject(json!({"kind": "link_down", "link": "wire", "by": "port_down"}))
        .expect_err("an error");
    assert!(port.contains("cut or drop_rule"), "{port}");
    simulation.advance(u64::MAX).expect("a run");
    let late = Action::InterfaceDown {
        interface: "client.wire".to_owned(),
    };
    let refusal = simulation.inject(&late).expect_err("a refusal");
    let ended = "the run has ended at 109000000 ns: nothing can be injected any more";
    assert_eq!(refusal.to_string(), ended);
    assert_eq!(simulation.finish().expect("a result").events, []);
}

#[test]
fn an_injection_that_changes_nothing_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(
        &pair(cbr(2 * MS, 50)),
        1,
        directory.path(),
        QueueKind::Calendar,
    );
    simulation.advance(10 * MS).expect("a run");
    let mut inject = |kind: &str| {
        let action = json!({"kind": kind, "interface": "client.wire"});
        let action: Action = serde_json::from_value(action).expect("an action");
        let injected = simulation.inject(&action);
        injected.map(drop).map_err(|error| error.to_string())
    };
    let already = |what: &str| Err(format!("action: client.wire is already {what}"));
    assert_eq!(inject("interface_up"), already("up"));
    assert_eq!(inject("interface_down"), Ok(()));
    assert_eq!(inject("interface_down"), already("down"));
    assert_eq!(inject("interface_up"), Ok(()));
    assert_eq!(inject("interface_up"), already("up"));
    let events = simulation.finish().expect("a result").events;
    let ids: Vec<_> = events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids, ["injected.1", "injected.2"]);
}

#[test]
fn a_strategy_that_recovers_the_network_already_is_refused() {
    let mut experiment = with_node_between("openflow", cbr(2 * MS, 50));
    experiment["control"] = control();
    let change = |strategy: &str| json!({"kind": "set_recovery", "strategy": strategy});
    add_event(&mut experiment, 20 * MS, change("optical"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(&experiment, 1, directory.path(), QueueKind::Calendar);
    let mut inject = |at: u64, strategy: &str| {
        simulation.advance(at).expect("a run");
        let action: Action = serde_json::from_value(change(strategy)).expect("an action");
        let injected = simulation.inject(&action);
        injected.map(drop).map_err(|error| error.to_string())
    };
    let already = |name: &str| Err(format!("action: the network already recovers with {name}"));
    assert_eq!(inject(10 * MS, "none"), already("none"));
    assert_eq!(inject(30 * MS, "optical"), already("optical"));
    assert_eq!(inject(30 * MS, "none"), Ok(()));
    assert_eq!(inject(30 * MS, "none"), already("none"));
    let events = simulation.finish().expect("a result").events;
    let ids: Vec<_> = events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids, ["e0", "injected.1"]);
}
