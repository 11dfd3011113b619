//! Flows over TCP and MPTCP: what arrives, when, and over which subflows.

use serde_json::{Value, json};
use simulator::QueueKind;

use crate::experiments::{MS, SECOND, add_event, add_flow, parallel, run, run_with};

/// Bytes of the bulk transfers.
const BYTES: u64 = 4_000_000;

fn bulk() -> Value {
    json!({"kind": "bulk", "bytes": BYTES, "duration_ns": null})
}

fn goodput_bps(experiment: &Value) -> f64 {
    let summary = run(experiment).summary;
    let flow = &summary.flows[0];
    assert_eq!(flow.error, None);
    assert_eq!(flow.bytes, BYTES);
    let end = flow.end_ns.expect("it ends");
    BYTES as f64 * 8.0 * 1e9 / (end - flow.start_ns) as f64
}

#[test]
fn tcp_fills_a_link() {
    let goodput = goodput_bps(&parallel("tcp", &["one"], bulk()));
    assert!((10.5e6..11.6e6).contains(&goodput), "{goodput}");
}

#[test]
fn mptcp_fills_two_links() {
    let goodput = goodput_bps(&parallel("mptcp", &["one", "two"], bulk()));
    assert!((19e6..23e6).contains(&goodput), "{goodput}");
}

#[test]
fn subflows_are_told_with_their_links_and_what_they_carried() {
    let summary = run(&parallel("mptcp", &["one", "two"], bulk())).summary;
    let subflows = &summary.flows[0].subflows;
    let links: Vec<_> = subflows.iter().map(|it| it.link.as_deref()).collect();
    assert_eq!(links, [Some("one"), Some("two")]);
    assert!(subflows.iter().all(|it| it.opened_by == "client"));
    let carried: u64 = subflows.iter().map(|it| it.bytes).sum();
    assert!((BYTES..BYTES + BYTES / 10).contains(&carried), "{carried}");
}

#[test]
fn subflows_of_short_connections_carried_all_that_their_flow_did() {
    let app = json!({"kind": "short_flows", "bytes": 100_000, "every_ns": 400 * MS, "poisson_mean_ns": null});
    for transport in ["tcp", "mptcp"] {
        let mut experiment = parallel(transport, &["one", "two"], app.clone());
        experiment["links"][1]["forward"]["delay_ns"] = json!(15 * MS);
        experiment["duration_ns"] = json!(3 * SECOND);
        let summary = run(&experiment).summary;
        let flow = &summary.flows[0];
        assert_eq!((&flow.error, flow.bytes), (&None, 800_000), "{transport}");
        let carried: u64 = flow.subflows.iter().map(|it| it.bytes).sum();
        assert_eq!(carried, flow.bytes, "{transport}");
    }
}

#[test]
fn one_connection_goes_over_ipv4_and_ipv6() {
    for handshake in ["primary", "race"] {
        let mut experiment = parallel("mptcp", &["one", "two"], bulk());
        for (number, end) in [(1, "client.two"), (2, "server.two")] {
            let mut interfaces = experiment["interfaces"]
                .as_array_mut()
                .into_iter()
                .flatten();
            let two = interfaces.find(|it| it["id"] == end).expect("it is there");
            two["ipv6"] = json!(format!("fd00::{number}/64"));
            if number == 1 {
                two["ipv4"] = json!(null);
            }
        }
        experiment["flows"][0]["handshake"] = json!(handshake);
        let flow = run(&experiment).summary.flows.remove(0);
        let families = flow.subflows.iter().map(|it| it.local.starts_with('['));
        assert_eq!(families.collect::<Vec<_>>(), [false, true], "{handshake}");
        assert!(flow.subflows.iter().all(|it| it.bytes > BYTES / 4));
        assert_eq!(flow.bytes, BYTES);
    }
}

#[test]
fn a_transfer_survives_the_failure_of_a_link() {
    let mut experiment = parallel("mptcp", &["one", "two"], bulk());
    add_event(
        &mut experiment,
        500 * MS,
        json!({"kind": "interface_down", "interface": "client.one"}),
    );
    let summary = run(&experiment).summary;
    assert_eq!(summary.flows[0].bytes, BYTES);
    assert!(summary.flows[0].end_ns.is_some());
}

#[test]
fn a_host_without_mptcp_makes_it_tcp() {
    let mut experiment = parallel("mptcp", &["one", "two"], bulk());
    experiment["hosts"][1]["mptcp"] = json!(false);
    let summary = run(&experiment).summary;
    let flow = &summary.flows[0];
    assert_eq!((flow.bytes, flow.subflows.len()), (BYTES, 1));
    assert!(flow.fallback.expect("a reason").contains("Multipath TCP"));
}

#[test]
fn all_applications_run_over_both_transports() {
    let duration = 2 * SECOND;
    for app in [
        json!({"kind": "cbr", "rate_bps": 2_000_000, "size_bytes": 1000, "duration_ns": duration}),
        json!({"kind": "probe", "every_ns": 50 * MS, "size_bytes": 64, "duration_ns": duration}),
        json!({"kind": "bulk", "bytes": null, "duration_ns": duration}),
        json!({"kind": "request_response", "request_bytes": 100, "response_bytes": 50_000, "count": 20, "duration_ns": null}),
        json!({"kind": "short_flows", "bytes": 20_000, "every_ns": 100 * MS, "poisson_mean_ns": null}),
        json!({"kind": "streaming", "bitrate_bps": 3_000_000, "startup_ns": SECOND}),
    ] {
        for transport in ["tcp", "mptcp"] {
            let mut experiment = parallel(transport, &["one", "two"], app.clone());
            experiment["duration_ns"] = json!(4 * SECOND);
            let finished = run(&experiment);
            let flow = &finished.summary.flows[0];
            assert_eq!(flow.error, None, "{app} over {transport}");
            assert!(flow.bytes > 2_000, "{app} over {transport}: {}", flow.bytes);
            assert!(!finished.units.is_empty(), "{app} over {transport}");
        }
    }
}

#[test]
fn a_datagram_does_not_wait_for_streams_in_a_queue_with_a_turn_for_each_flow() {
    let mut experiment = parallel("mptcp", &["one"], bulk());
    experiment["flows"][0]["path_manager"] = json!([{"name": "n_diff_ports", "subflows": 3}]);
    let call = json!({"kind": "cbr", "rate_bps": 64_000, "size_bytes": 160, "duration_ns": null});
    add_flow(&mut experiment, "call", &["one"], call);
    experiment["duration_ns"] = json!(3 * SECOND);
    experiment["links"][0]["forward"]["queue"] = json!({"kind": "fq_codel", "limit_packets": 1000, "limit_bytes": null,
        "target_ns": 5 * MS, "interval_ns": 100 * MS, "flows": 1024, "quantum_bytes": 1514});
    let finished = run(&experiment);
    // A unit of a call has the length of a datagram: number, bytes, sent, received, delivered.
    let calls = finished.units.iter().filter(|unit| unit[1] == 160);
    let delays: Vec<_> = calls.map(|unit| unit[3] - unit[2]).collect();
    assert!(delays.len() > 140, "{}", delays.len());
    // The delay of the link, and packets of others that are in service or have their turn before, 1
    // ms each.
    let longest = *delays.iter().max().expect("some") as u64;
    assert!(longest < 10 * MS + 6 * MS, "{longest} ns");
}

#[test]
fn equal_seeds_give_equal_traces_whatever_the_queue() {
    let experiment = parallel("mptcp", &["one", "two"], bulk());
    let hash = |seed, queue| run_with(&experiment, seed, queue).summary.trace_hash;
    assert_eq!(hash(1, QueueKind::Heap), hash(1, QueueKind::Calendar));
    assert_ne!(hash(1, QueueKind::Heap), hash(2, QueueKind::Heap));
}
