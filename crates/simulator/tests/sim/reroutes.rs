//! Packets of a path that is sent over other links in mid-run.

use serde_json::{Value, json};

use crate::experiments::{
    MS, Run, add_event, add_flow, add_host, add_link, add_node, cbr, control, empty, run,
};

/// Returns client - s1 - s2 - server, where s3 and s4 are beside s2. A datagram is sent each 2 ms,
/// 50 in all. It needs 11 ms for each link.
fn diamond() -> Value {
    let mut experiment = empty();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    for node in ["s1", "s2", "s3", "s4"] {
        add_node(&mut experiment, node, "openflow");
    }
    experiment["control"] = control();
    for (link, a, b) in [
        ("in", "client", "s1"),
        ("upper", "s1", "s2"),
        ("lower", "s1", "s3"),
        ("lowest", "s3", "s4"),
        ("up", "s4", "s2"),
        ("out", "s2", "server"),
    ] {
        add_link(&mut experiment, link, a, b);
    }
    add_flow(
        &mut experiment,
        "bulk",
        &["in", "upper", "out"],
        cbr(2 * MS, 50),
    );
    experiment
}

const UPPER: [&str; 3] = ["in", "upper", "out"];
const LOWER: [&str; 5] = ["in", "lower", "lowest", "up", "out"];

fn reroute(links: &[&str]) -> Value {
    let hops = |links: Vec<&&str>, direction: &str| -> Vec<_> {
        let hops = links.iter();
        hops.map(|link| json!({"link": link, "direction": direction}))
            .collect()
    };
    json!({
        "kind": "reroute", "flow": "bulk", "path": 0, "by": "description",
        "there": hops(links.iter().collect(), "forward"), "back": hops(links.iter().rev().collect(), "backward"),
    })
}

fn carried(run: &Run, link: &str) -> f64 {
    run.last(&format!("links.{link}.forward"), "delivered_packets")
}

#[test]
fn packets_before_the_node_where_ways_part_take_the_new_way() {
    let mut experiment = diamond();
    add_event(&mut experiment, 52 * MS, reroute(&LOWER));
    let run = run(&experiment);
    // Packets sent up to 40 ms are past s1 at 52 ms, which takes 11 ms.
    assert_eq!(carried(&run, "upper"), 21.0);
    for link in &LOWER[1..4] {
        assert_eq!(carried(&run, link), 29.0, "{link}");
    }
    assert_eq!(run.last("flows.bulk", "packets_received"), 50.0);
}

#[test]
fn packets_that_left_the_new_way_come_back_to_it_where_they_meet_it() {
    let mut experiment = diamond();
    add_event(&mut experiment, 52 * MS, reroute(&LOWER));
    add_event(&mut experiment, 72 * MS, reroute(&UPPER));
    let run = run(&experiment);
    // From 52 to 72 ms, packets reach s1 that were sent from 42 to 60 ms.
    assert_eq!(carried(&run, "lower"), 10.0);
    assert_eq!(carried(&run, "upper"), 40.0);
    assert_eq!(carried(&run, "out"), 50.0);
    assert_eq!(run.last("flows.bulk", "packets_received"), 50.0);
}

#[test]
fn answers_take_the_way_back() {
    let mut experiment = diamond();
    let probe =
        json!({"kind": "probe", "every_ns": 10 * MS, "size_bytes": 100, "duration_ns": 400 * MS});
    experiment["flows"][0]["app"] = probe;
    let mut action = reroute(&LOWER);
    action["there"] = reroute(&UPPER)["there"].clone();
    add_event(&mut experiment, 0, action);
    let run = run(&experiment);
    let back = |link: &str| run.last(&format!("links.{link}.backward"), "delivered_packets");
    assert_eq!(carried(&run, "upper"), 40.0);
    assert_eq!((back("upper"), back("lowest")), (0.0, 40.0));
}
