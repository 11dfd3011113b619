//! Middleboxes at the ends of links: what they change in TCP, and what they count.

use serde_json::{Value, json};
use simulator::{QueueKind, Summary};

use crate::experiments::{MS, SECOND, add_link, add_node, add_stream, parallel, run, run_with};

/// Returns data in both directions on one connection.
fn both_ways() -> Value {
    json!({"kind": "request_response", "request_bytes": 150_000, "response_bytes": 250_000, "count": 3, "duration_ns": null})
}

/// Bytes of the responses.
const ALL_BYTES: u64 = 3 * 250_000;

fn middlebox(at: &str, direction: &str, element: Value) -> Value {
    json!({"at": at, "direction": direction, "element": element})
}

/// Returns TCP over one link that loses some packets.
fn over_tcp(middleboxes: Value) -> Value {
    let mut experiment = parallel("tcp", &["wire"], both_ways());
    for direction in ["forward", "backward"] {
        experiment["links"][0][direction]["loss"] =
            json!({"kind": "bernoulli", "probability": 0.01});
    }
    experiment["middleboxes"] = middleboxes;
    experiment
}

fn outside(number: u8) -> Value {
    json!({"kind": "nat", "ipv4": format!("100.64.0.{number}"), "ipv6": format!("fd64::{number}")})
}

/// Returns the elements that TCP must not notice.
fn unnoticed() -> [Value; 7] {
    [
        json!({"kind": "rewrite_sequence"}),
        json!({"kind": "split", "largest_bytes": 500, "options": "all"}),
        json!({"kind": "split", "largest_bytes": 300, "options": "first"}),
        json!({"kind": "coalesce", "largest_bytes": 5000, "hold_ns": MS}),
        json!({"kind": "duplicate", "probability": 0.3}),
        json!({"kind": "acknowledge_early", "buffer_bytes": 100_000}),
        json!({"kind": "strip_options", "options": ["dss"], "segments": ["syn", "syn_ack", "non_syn"], "after_bytes": 0}),
    ]
}

fn assert_all_arrived(summary: &Summary, what: &Value) {
    let flow = &summary.flows[0];
    assert_eq!(flow.error, None, "{what}");
    assert_eq!(flow.bytes, ALL_BYTES, "{what}");
    assert!(flow.end_ns.is_some(), "{what}");
}

#[test]
fn tcp_notices_nothing_of_most() {
    for element in unnoticed() {
        for at in ["client.wire", "server.wire"] {
            for direction in ["leaving", "arriving", "both"] {
                let what = middlebox(at, direction, element.clone());
                let summary = run(&over_tcp(json!([what]))).summary;
                assert_all_arrived(&summary, &what);
                let counters = summary.middleboxes[0].counters;
                let touched = counters.changed_packets + counters.made_packets;
                let has_options = element["kind"] != "strip_options";
                assert_eq!(touched > 0, has_options, "{what} {counters:?}");
            }
        }
    }
}

#[test]
fn all_of_them_stand_in_a_row_at_both_ends() {
    let at = |end: &str| unnoticed().map(|element| middlebox(end, "both", element));
    let all: Vec<_> = [at("client.wire"), at("server.wire")].concat();
    let experiment = over_tcp(json!(all));
    for seed in 1..4 {
        let trace = |queue| {
            let summary = run_with(&experiment, seed, queue).summary;
            assert_all_arrived(&summary, &json!("all"));
            summary.trace_hash
        };
        assert_eq!(trace(QueueKind::Heap), trace(QueueKind::Calendar));
    }
}

#[test]
fn a_nat_hides_the_host_at_either_end_of_its_link() {
    for transport in ["tcp", "mptcp"] {
        for (at, direction) in [("client.wire", "leaving"), ("server.wire", "arriving")] {
            let mut experiment = parallel(transport, &["wire"], both_ways());
            let what = middlebox(at, direction, outside(1));
            experiment["middleboxes"] = json!([what]);
            let summary = run(&experiment).summary;
            assert_all_arrived(&summary, &what);
            assert!(summary.middleboxes[0].counters.changed_packets > 100);
            assert_eq!(summary.middleboxes[0].counters.dropped_packets, 0);
        }
    }
}

#[test]
fn a_host_may_be_hidden_twice_and_behind_a_router() {
    let mut experiment = parallel("tcp", &["wire"], both_ways());
    add_node(&mut experiment, "core", "router");
    add_link(&mut experiment, "access", "client", "core");
    add_link(&mut experiment, "uplink", "core", "server");
    experiment["flows"] = json!([]);
    add_stream(&mut experiment, "mptcp", &["access", "uplink"], both_ways());
    let hop = |link: &str| json!({"link": link, "direction": "forward"});
    experiment["flows"][0]["to"] = json!("server");
    experiment["flows"][0]["paths"] = json!([{"local": "client.access", "remote": "server.uplink", "rate_bps": null,
        "ceiling_bps": null, "rtt_ns": 40 * MS, "hops": [hop("access"), hop("uplink")], "routed": false}]);
    experiment["middleboxes"] = json!([
        middlebox("client.access", "leaving", outside(1)),
        middlebox("core.access", "arriving", outside(2)),
    ]);
    let summary = run(&experiment).summary;
    assert_all_arrived(&summary, &json!("two NATs"));
    let subflow = &summary.flows[0].subflows[0];
    assert_eq!(subflow.remote_interface.as_deref(), Some("client.access"));
}

#[test]
fn nobody_gets_in_through_a_nat() {
    let mut experiment = parallel("tcp", &["wire"], both_ways());
    experiment["middleboxes"] = json!([middlebox("server.wire", "leaving", outside(1))]);
    let summary = run(&experiment).summary;
    assert_eq!(summary.flows[0].bytes, 0);
    assert!(summary.middleboxes[0].counters.dropped_packets > 1);
}

#[test]
fn tcp_delivers_what_was_changed_or_inserted() {
    for element in [
        json!({"kind": "change_bytes", "after_bytes": 30_000, "probability": null}),
        json!({"kind": "change_bytes", "after_bytes": null, "probability": 0.1}),
        json!({"kind": "insert_bytes", "bytes": 3, "after_bytes": 30_000}),
    ] {
        let what = middlebox("client.wire", "leaving", element);
        let summary = run(&over_tcp(json!([what]))).summary;
        let error = summary.flows[0].error.as_deref().unwrap_or_default();
        assert!(
            error.contains("other bytes than were sent"),
            "{what}: {error}"
        );
    }
}

/// TCP goes on without a gap; only the data is longer.
#[test]
fn bytes_are_inserted_once_however_often_they_are_sent() {
    let mut experiment = over_tcp(json!([]));
    experiment["links"][0]["forward"]["loss"] = json!({"kind": "bernoulli", "probability": 0.05});
    let inserted = json!({"kind": "insert_bytes", "bytes": 3, "after_bytes": 50_000});
    // After the last byte nothing is inserted or shifted.
    let never = json!({"kind": "insert_bytes", "bytes": 3, "after_bytes": 10_000_000});
    experiment["middleboxes"] = json!([middlebox("client.wire", "both", never)]);
    assert_all_arrived(&run(&experiment).summary, &json!("never"));
    experiment["middleboxes"] = json!([middlebox("client.wire", "both", inserted)]);
    for seed in 1..5 {
        let summary = run_with(&experiment, seed, QueueKind::default()).summary;
        let made = summary.middleboxes[0].counters.made_packets;
        assert!((1..30).contains(&made), "{made}");
    }
}

#[test]
fn an_interface_counts_what_its_host_sends_and_receives() {
    let app = json!({"kind": "bulk", "bytes": 100_000, "duration_ns": null});
    let mut experiment = parallel("tcp", &["wire"], app);
    let twice = json!({"kind": "duplicate", "probability": 1.0});
    experiment["middleboxes"] = json!([
        middlebox("client.wire", "leaving", twice.clone()),
        middlebox("client.wire", "arriving", twice),
    ]);
    let run = run(&experiment);
    let interface = |of: &str, metric: &str| run.last(&format!("interfaces.{of}.wire"), metric);
    let link = |of: &str, metric: &str| run.last(&format!("links.wire.{of}"), metric);
    let sent = interface("client", "sent_packets");
    assert!(sent > 70.0);
    assert_eq!(link("forward", "offered_packets"), 2.0 * sent);
    let received = interface("client", "received_packets");
    assert_eq!(received, 2.0 * link("backward", "delivered_packets"));
    assert_eq!(
        interface("server", "received_packets"),
        link("forward", "delivered_packets")
    );
}

#[test]
fn options_are_dropped_or_taken_out_where_they_are_meant() {
    let selection = |kind: &str, options: &[&str], segments: &[&str]| json!({"kind": kind, "options": options, "segments": segments, "after_bytes": 0});
    let mptcp = |element: Value| {
        let mut experiment = parallel("mptcp", &["one", "two"], both_ways());
        experiment["middleboxes"] = json!([middlebox("client.one", "leaving", element)]);
        run(&experiment).summary
    };
    let summary = mptcp(selection("strip_options", &["mp_capable"], &["syn"]));
    assert_all_arrived(&summary, &json!("strip"));
    assert!(summary.flows[0].fallback.is_some());
    assert_eq!(summary.middleboxes[0].counters.changed_packets, 1);
    let summary = mptcp(selection("drop_options", &["mp_capable"], &["syn"]));
    assert_all_arrived(&summary, &json!("drop"));
    assert!(summary.flows[0].fallback.is_some());
    assert_eq!(summary.middleboxes[0].counters.dropped_packets, 4);
    let summary = mptcp(selection("strip_options", &["mp_join"], &["syn"]));
    assert_all_arrived(&summary, &json!("join"));
    assert_eq!(summary.flows[0].fallback, None);
    assert_eq!(summary.middleboxes[0].counters.changed_packets, 0);
}

#[test]
fn data_that_a_proxy_acknowledged_come_though_they_are_lost_behind_it() {
    let mut experiment = over_tcp(json!([middlebox(
        "client.wire",
        "leaving",
        json!({"kind": "acknowledge_early", "buffer_bytes": 50_000})
    )]));
    experiment["links"][0]["forward"]["loss"] = json!({"kind": "list", "packets": [40, 41, 60]});
    let summary = run(&experiment).summary;
    assert_all_arrived(&summary, &json!("proxy"));
    // Each of the losses would take a timeout of half a second.
    assert!(summary.end_ns < 2 * SECOND, "{}", summary.end_ns);
}

#[test]
fn a_held_segment_goes_on_when_no_other_comes() {
    let app = json!({"kind": "request_response", "request_bytes": 100, "response_bytes": 100, "count": 10, "duration_ns": null});
    let mut experiment = parallel("tcp", &["wire"], app);
    let hold = json!({"kind": "coalesce", "largest_bytes": 5000, "hold_ns": 5 * MS});
    experiment["middleboxes"] = json!([middlebox("client.wire", "both", hold)]);
    let summary = run(&experiment).summary;
    // Each of 20 messages waits and takes the link.
    assert_eq!(summary.flows[0].bytes, 1000);
    assert!(summary.end_ns > 20 * 15 * MS, "{}", summary.end_ns);
}
