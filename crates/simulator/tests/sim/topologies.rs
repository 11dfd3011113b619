//! Routers, switches, shared media, long chains.

use serde_json::{Value, json};

use crate::experiments::{
    MS, add_event, add_flow, add_host, add_link, add_node, cbr, empty, pair, run, with_node_between,
};

#[test]
fn routers_and_switches_forward() {
    for kind in ["router", "switch", "ap"] {
        let run = run(&with_node_between(kind, cbr(2 * MS, 20)));
        let delays: Vec<_> = run.units.iter().map(|unit| unit[3] - unit[2]).collect();
        assert_eq!(delays, vec![22 * MS as i64; 20], "{kind}");
        assert_eq!(
            run.last("interfaces.middle.first", "received_packets"),
            20.0
        );
        assert_eq!(run.last("interfaces.middle.second", "sent_packets"), 20.0);
    }
}

#[test]
fn two_flows_share_a_medium_fairly() {
    let mut experiment = empty();
    experiment["media"] = json!([{"id": "air", "rate_bps": 12_000_000, "overhead_bytes": 0}]);
    for id in ["a", "b"] {
        add_host(&mut experiment, id);
        add_host(&mut experiment, &format!("{id}-server"));
        add_link(
            &mut experiment,
            &format!("wifi-{id}"),
            id,
            &format!("{id}-server"),
        );
        add_flow(
            &mut experiment,
            id,
            &[&format!("wifi-{id}")],
            json!({"kind": "cbr", "rate_bps": 1472 * 8 * 1000, "size_bytes": 1472, "duration_ns": null}),
        );
    }
    for link in 0..2 {
        experiment["links"][link]["medium"] = json!("air");
    }
    let run = run(&experiment);
    let (a, b) = (
        run.last("flows.a", "packets_received"),
        run.last("flows.b", "packets_received"),
    );
    assert!((a - b).abs() <= 1.0, "{a} and {b}");
    assert_eq!(a + b, 989.0);
}

#[test]
fn a_medium_without_a_rate_leaves_each_link_its_own() {
    let mut experiment = pair(cbr(2 * MS, 10));
    experiment["media"] = json!([{"id": "air", "rate_bps": null, "overhead_bytes": 100}]);
    experiment["links"][0]["medium"] = json!("air");
    experiment["links"][0]["forward"]["rate_bps"] = json!(12_800_000);
    let run = run(&experiment);
    assert_eq!(run.units[0][3], 11 * MS as i64);
}

/// Returns a network in which the router r1 reaches r3 by `short`, or by `over1` and `over2` with
/// r2 between. Every direction has a delay of its own.
fn with_a_detour(app: Value) -> Value {
    let mut experiment = empty();
    add_host(&mut experiment, "a");
    add_host(&mut experiment, "b");
    for router in ["r1", "r2", "r3"] {
        add_node(&mut experiment, router, "router");
    }
    let links = [
        ("in", "a", "r1"),
        ("short", "r1", "r3"),
        ("over1", "r1", "r2"),
        ("over2", "r2", "r3"),
        ("out", "r3", "b"),
    ];
    for (place, (link, from, to)) in links.into_iter().enumerate() {
        add_link(&mut experiment, link, from, to);
        for (side, delay) in [("forward", 1), ("backward", 32)] {
            experiment["links"][place][side]["delay_ns"] = json!((delay << place) * MS);
            experiment["links"][place][side]["rate_bps"] = json!(null);
        }
    }
    add_flow(
        &mut experiment,
        "bulk",
        &["in", "over1", "over2", "out"],
        app,
    );
    experiment
}

#[test]
fn packets_and_answers_take_the_hops_of_the_path_though_others_are_shorter() {
    let probe = json!({"kind": "probe", "every_ns": 100 * MS, "size_bytes": 64, "duration_ns": 1});
    let mut experiment = with_a_detour(probe);
    experiment["duration_ns"] = json!(2_000 * MS);
    let run = run(&experiment);
    let there = 1 + 4 + 8 + 16;
    assert_eq!(run.units[0][3], there * MS as i64);
    assert_eq!(run.last("links.over1.backward", "delivered_packets"), 1.0);
    assert_eq!(run.total("dropped_"), 0.0);
    let rtts = run.series("probes.bulk", "rtt_s");
    assert_eq!(rtts, [(33 * there as u64 * MS, 33.0 * there as f64 / 1e3)]);
}

/// Returns links `zero` and `one` between two hosts, and a flow over `zero` to the interface at
/// `one`, as on a host that answers for all its addresses.
fn to_the_other_interface(app: Value) -> Value {
    let mut experiment = empty();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    for link in ["zero", "one"] {
        add_link(&mut experiment, link, "client", "server");
    }
    add_flow(&mut experiment, "bulk", &["zero"], app);
    experiment["flows"][0]["paths"][0]["remote"] = json!("server.one");
    experiment
}

#[test]
fn a_host_answers_for_an_address_of_another_interface() {
    let probe =
        json!({"kind": "probe", "every_ns": 10 * MS, "size_bytes": 64, "duration_ns": 100 * MS});
    let mut experiment = to_the_other_interface(probe);
    // The interface with the address is down, which does not matter to packets that arrive at
    // another.
    add_event(
        &mut experiment,
        MS,
        json!({"kind": "interface_down", "interface": "server.one"}),
    );
    let run = run(&experiment);
    assert_eq!(run.last("probes.bulk", "answered"), 10.0);
    assert_eq!(run.last("links.zero.backward", "delivered_packets"), 10.0);
    assert_eq!(run.last("links.one.forward", "offered_packets"), 0.0);
}

#[test]
fn such_a_path_needs_the_arriving_interface_and_the_address_of_the_other() {
    let reasons = [
        ("interface_down", "server.zero", "dropped_interface_down"),
        ("address_remove", "server.one", "dropped_no_address"),
    ];
    for (kind, interface, reason) in reasons {
        let mut experiment = to_the_other_interface(cbr(10 * MS, 10));
        add_event(
            &mut experiment,
            55 * MS,
            json!({"kind": kind, "interface": interface}),
        );
        let run = run(&experiment);
        assert_eq!(run.last("flows.bulk", "packets_received"), 5.0);
        assert_eq!(run.last(&format!("interfaces.{interface}"), reason), 5.0);
    }
}

#[test]
fn a_path_may_be_as_long_as_it_likes() {
    let mut experiment = empty();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    let nodes: Vec<_> = (0..300).map(|index| format!("n{index}")).collect();
    for (index, node) in nodes.iter().enumerate() {
        add_node(&mut experiment, node, ["router", "switch"][index % 2]);
    }
    let nodes: Vec<_> = std::iter::once("client")
        .chain(nodes.iter().map(String::as_str))
        .chain(["server"])
        .collect();
    let links: Vec<_> = (1..nodes.len()).map(|index| format!("l{index}")).collect();
    for (link, ends) in links.iter().zip(nodes.windows(2)) {
        add_link(&mut experiment, link, ends[0], ends[1]);
    }
    let links: Vec<_> = links.iter().map(String::as_str).collect();
    add_flow(&mut experiment, "bulk", &links, cbr(2 * MS, 3));
    experiment["duration_ns"] = json!(5_000 * MS);
    let run = run(&experiment);
    assert_eq!(run.units[2][3] - run.units[2][2], 301 * 11 * MS as i64);
}
