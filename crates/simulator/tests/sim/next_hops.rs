//! Routers that select one of several equal next hops.

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use serde_json::{Value, json};
use simulator::{QueueKind, check};

use crate::experiments::{Run, add_flow, add_host, add_link, add_node, empty, run_with};

/// The links in the middle; each path takes another one.
const MIDDLE: [&str; 4] = ["a1-b1", "a1-b2", "a2-b1", "a2-b2"];

/// Returns two hosts with a router at each, and four paths between the routers over two levels of
/// two routers; a flow of four subflows.
fn four_ways(next_hop: Option<&str>) -> Value {
    let mut experiment = empty();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    for id in ["near", "a1", "a2", "b1", "b2", "far"] {
        add_node(&mut experiment, id, "router");
        let nodes = experiment["nodes"].as_array_mut().expect("nodes");
        let node = nodes.last_mut().expect("a node");
        node["next_hop"] = json!(next_hop);
    }
    add_link(&mut experiment, "in", "client", "near");
    for (from, to) in [("near", "a1"), ("near", "a2")] {
        add_link(&mut experiment, &format!("{from}-{to}"), from, to);
    }
    for link in MIDDLE {
        let (from, to) = link.split_once('-').expect("two ends");
        add_link(&mut experiment, link, from, to);
    }
    for (from, to) in [("b1", "far"), ("b2", "far")] {
        add_link(&mut experiment, &format!("{from}-{to}"), from, to);
    }
    add_link(&mut experiment, "out", "far", "server");
    let app = json!({"kind": "bulk", "bytes": 400_000, "duration_ns": null});
    add_flow(&mut experiment, "bulk", &["in", "out"], app);
    let flow = &mut experiment["flows"][0];
    flow["transport"] = json!("mptcp");
    flow["cc"] = json!(["reno"]);
    flow["scheduler"] = json!(["round_robin"]);
    flow["path_manager"] = json!([{"name": "n_diff_ports", "subflows": 4}]);
    flow["paths"][0]["routed"] = json!(true);
    experiment["duration_ns"] = json!(20_000_000_000_u64);
    experiment
}

/// Returns the links in the middle that carried data.
fn ways_taken(run: &Run) -> Vec<&'static str> {
    assert_eq!(run.summary.flows[0].bytes, 400_000);
    assert_eq!(run.summary.flows[0].subflows.len(), 4);
    let carried = |link: &&str| run.last(&format!("links.{link}.forward"), "wire_bytes") > 30_000.0;
    MIDDLE.into_iter().filter(carried).collect()
}

fn ways(next_hop: Option<&str>, seed: u64) -> Vec<&'static str> {
    ways_taken(&run_with(&four_ways(next_hop), seed, QueueKind::default()))
}

#[test]
fn by_port_subflows_take_all_ways_in_turn() {
    assert_eq!(ways(Some("by_port"), 1), MIDDLE);
}

#[test]
fn by_addresses_all_subflows_take_one_way() {
    assert_eq!(ways(Some("ecmp_l3"), 1).len(), 1);
}

#[test]
fn without_a_choice_the_first_link_is_taken() {
    assert_eq!(ways(None, 1), ["a1-b1"]);
}

#[test]
fn ecmp_is_the_same_for_all_seeds_and_random_is_not() {
    let of_seeds = |next_hop| (1..=4).map(move |seed| ways(Some(next_hop), seed));
    let ecmp: Vec<_> = of_seeds("ecmp_l4").collect();
    assert!(ecmp[0].len() > 1, "{ecmp:?}");
    assert!(ecmp.iter().all(|ways| *ways == ecmp[0]), "{ecmp:?}");
    let random: Vec<_> = of_seeds("random").collect();
    assert!(random.iter().any(|ways| *ways != random[0]), "{random:?}");
}

#[test]
fn datagrams_and_their_answers_are_routed_too() {
    let mut experiment = four_ways(Some("ecmp_l4"));
    experiment["flows"][0]["transport"] = json!("udp");
    experiment["flows"][0]["app"] = json!({"kind": "probe", "every_ns": 1_000_000, "size_bytes": 64, "duration_ns": 10_000_000});
    let run = run_with(&experiment, 1, QueueKind::default());
    assert_eq!(run.last("probes.bulk", "answered"), 10.0);
    for side in ["forward", "backward"] {
        let carried = MIDDLE.map(|link| {
            let entity = format!("links.{link}.{side}");
            run.last(&entity, "delivered_packets")
        });
        assert_eq!(carried.iter().sum::<f64>(), 10.0);
        assert!(carried.contains(&10.0), "{side}: {carried:?}");
    }
}

#[test]
fn a_path_between_whose_ends_no_routers_lead_is_refused() {
    let mut experiment = four_ways(Some("ecmp_l4"));
    for link in MIDDLE {
        let links = experiment["links"].as_array_mut().expect("links");
        links.retain(|one| one["id"] != link);
        let interfaces = experiment["interfaces"].as_array_mut().expect("interfaces");
        interfaces.retain(|one| one["link"] != link);
    }
    let experiment = Experiment::from_json(&experiment.to_string()).expect("a valid experiment");
    let missing = check(&experiment, &Registry::default());
    assert_eq!(missing.len(), 1);
    assert_eq!(
        missing[0].why,
        "no routers lead from its first link to its last"
    );
}
