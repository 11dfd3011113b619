//! Routers, switches, shared media, long chains.

use serde_json::json;

use crate::experiments::{
    MS, add_flow, add_host, add_link, add_node, cbr, empty, pair, run, with_node_between,
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

#[test]
fn a_chain_longer_than_the_hop_limit_ends_in_a_drop() {
    let mut experiment = empty();
    let routers: Vec<_> = (0..70).map(|index| format!("r{index}")).collect();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    for router in &routers {
        add_node(&mut experiment, router, "router");
    }
    let nodes: Vec<_> = std::iter::once("client")
        .chain(routers.iter().map(String::as_str))
        .chain(["server"])
        .collect();
    let links: Vec<_> = (0..nodes.len() - 1)
        .map(|index| format!("l{index}"))
        .collect();
    for (link, ends) in links.iter().zip(nodes.windows(2)) {
        add_link(&mut experiment, link, ends[0], ends[1]);
    }
    for link in experiment["links"].as_array_mut().expect("links") {
        link["forward"]["delay_ns"] = json!(0);
    }
    let links: Vec<_> = links.iter().map(String::as_str).collect();
    add_flow(&mut experiment, "bulk", &links, cbr(2 * MS, 3));
    let run = run(&experiment);
    assert_eq!(run.last("nodes.r63", "dropped_hop_limit"), 3.0);
    assert_eq!(run.last("flows.bulk", "packets_received"), 0.0);
    assert_eq!(run.summary.end_ns, 4 * MS + 64 * MS);
}

#[test]
fn a_switch_does_not_count_hops() {
    let mut experiment = empty();
    let switches: Vec<_> = (0..70).map(|index| format!("s{index}")).collect();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    for switch in &switches {
        add_node(&mut experiment, switch, "switch");
    }
    let nodes: Vec<_> = std::iter::once("client")
        .chain(switches.iter().map(String::as_str))
        .chain(["server"])
        .collect();
    let links: Vec<_> = (0..nodes.len() - 1)
        .map(|index| format!("l{index}"))
        .collect();
    for (link, ends) in links.iter().zip(nodes.windows(2)) {
        add_link(&mut experiment, link, ends[0], ends[1]);
    }
    let links: Vec<_> = links.iter().map(String::as_str).collect();
    add_flow(&mut experiment, "bulk", &links, cbr(2 * MS, 3));
    experiment["duration_ns"] = json!(2_000 * MS);
    assert_eq!(run(&experiment).last("flows.bulk", "packets_received"), 3.0);
}
