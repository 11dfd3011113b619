//! Hosts with their own queue before the first link (`first_hop: host`): what waits there, what is
//! held back, and that the flow always goes on.

use serde_json::{Value, json};
use simulator::QueueKind;

use super::experiments::{
    MS, Run, SECOND, add_event, cbr, direction, pair, parallel, run, run_with,
};

/// Full-sized segments of a subflow that wait in its host. The one that exceeds two has already
/// been sent.
const SEGMENTS: f64 = 3.0;

/// Length of these segments with headers.
const SEGMENT_BYTES: f64 = 1500.0;

/// A DATA_FIN after all data. It waits behind the data, because segments without payload are never
/// held back: headers of IPv4 and TCP, timestamps, and a DSS with a DATA_ACK of four bytes and a
/// mapping without a checksum (RFC 8684, section 3.3).
const DATA_FIN_BYTES: f64 = 20.0 + 20.0 + 12.0 + 24.0;

/// Datagrams of 1500 bytes that fit into the buffer of a socket.
const DATAGRAMS: f64 = 93.0;

/// Returns a direction behind the queue of a host.
fn behind_host() -> Value {
    let mut direction = direction();
    direction["queue"]["limit_packets"] = json!(null);
    direction
}

/// Gives the client a queue before its links.
fn felt(mut experiment: Value) -> Value {
    experiment["hosts"][0]["first_hop"] = json!("host");
    for link in experiment["links"].as_array_mut().expect("links") {
        link["forward"] = behind_host();
    }
    experiment
}

fn bulk(bytes: u64) -> Value {
    json!({"kind": "bulk", "bytes": bytes, "duration_ns": null})
}

/// Returns the longest queue in any sample, in packets or in bytes.
fn most(run: &Run, link: &str, metric: &str) -> f64 {
    let series = run.series(&format!("links.{link}.forward"), metric);
    let values = series.into_iter().map(|(_, value)| value);
    values.fold(0.0, f64::max)
}

fn most_waiting(run: &Run, link: &str) -> f64 {
    most(run, link, "queue_packets")
}

fn often_sampled(mut experiment: Value) -> Value {
    experiment["measure"]["every_ns"] = json!(MS);
    experiment
}

#[test]
fn a_subflow_has_three_segments_in_its_host_and_fills_the_link() {
    let experiment = often_sampled(parallel("tcp", &["wire"], bulk(6_000_000)));
    let run_felt = run(&felt(experiment.clone()));
    assert_eq!(most_waiting(&run_felt, "wire"), SEGMENTS);
    assert_eq!(run_felt.total("dropped_"), 0.0);
    // 6 MB in segments of 1448 bytes, 1 ms each, and the time that the first round trips leave
    // unused.
    let least = 6_000_000 * MS / 1448;
    assert!(
        (least..least * 102 / 100).contains(&run_felt.summary.end_ns),
        "{}",
        run_felt.summary.end_ns
    );
    let in_network = run(&experiment);
    assert!(in_network.total("dropped_queue_full") > 0.0);
    assert!(most_waiting(&in_network, "wire") > 90.0);
}

#[test]
fn every_subflow_has_its_own_share_of_the_host() {
    let experiment = often_sampled(parallel("mptcp", &["one", "two"], bulk(6_000_000)));
    let run = run(&felt(experiment));
    for link in ["one", "two"] {
        let bytes = SEGMENTS * SEGMENT_BYTES + DATA_FIN_BYTES;
        assert_eq!(most(&run, link, "queue_bytes"), bytes, "{link}");
    }
    assert_eq!(run.total("dropped_"), 0.0);
}

#[test]
fn a_sender_of_datagrams_waits_for_room_in_its_socket_and_loses_nothing() {
    let mut experiment = often_sampled(felt(pair(cbr(MS / 2, 4000))));
    experiment["duration_ns"] = json!(10 * SECOND);
    let run = run(&experiment);
    assert_eq!(run.last("flows.bulk", "packets_received"), 4000.0);
    assert_eq!(run.total("dropped_"), 0.0);
    let most = most_waiting(&run, "wire");
    assert!((DATAGRAMS - 1.0..=DATAGRAMS).contains(&most), "{most}");
    // The sender is woken when the buffer is half empty, early enough that the link is never idle:
    // 4 s for 4000 packets.
    assert!(
        run.summary.end_ns < 4 * SECOND + 20 * MS,
        "{}",
        run.summary.end_ns
    );
}

#[test]
fn it_goes_on_after_whatever_happens_to_the_link() {
    let mut slower = behind_host();
    slower["rate_bps"] = json!(3_000_000);
    let down = |kind: &str| json!({"kind": kind, "link": "wire", "by": "cut"});
    let interface = |kind: &str| json!({"kind": kind, "interface": "client.wire"});
    let set =
        json!({"kind": "set_link", "link": "wire", "forward": slower, "backward": direction()});
    let stories = [
        vec![set],
        vec![down("link_down"), down("link_up")],
        vec![interface("interface_down"), interface("interface_up")],
        vec![interface("address_remove"), interface("address_add")],
    ];
    for story in stories {
        let mut experiment = felt(parallel("tcp", &["wire"], bulk(2_000_000)));
        for (action, at) in story.iter().zip([200 * MS, 700 * MS]) {
            add_event(&mut experiment, at, action.clone());
        }
        let runs =
            [QueueKind::Heap, QueueKind::Calendar].map(|queue| run_with(&experiment, 1, queue));
        assert_eq!(
            runs[0].last("flows.bulk", "bytes_in_order"),
            2_000_000.0,
            "{story:?}"
        );
        assert_eq!(
            runs[0].summary.trace_hash, runs[1].summary.trace_hash,
            "{story:?}"
        );
    }
}

#[test]
fn a_link_with_a_trace_or_on_a_medium_is_felt_too() {
    let mut on_trace = felt(parallel("tcp", &["wire"], bulk(2_000_000)));
    on_trace["links"][0]["forward"]["rate_bps"] = json!(null);
    on_trace["links"][0]["forward"]["trace"] = json!({"opportunities_ns": [0, MS], "rates": [], "delays": [], "trains": null, "losses": [], "period_ns": 3 * MS, "opportunity_bytes": 1500, "start": {"kind": "at", "at_ns": 0}});
    let mut on_medium = felt(parallel("mptcp", &["one", "two"], bulk(2_000_000)));
    on_medium["media"] = json!([{"id": "air", "rate_bps": 12_000_000, "overhead_bytes": 0}]);
    for link in on_medium["links"].as_array_mut().expect("links") {
        link["medium"] = json!("air");
    }
    for (experiment, link, last_bytes) in
        [(on_trace, "wire", 0.0), (on_medium, "one", DATA_FIN_BYTES)]
    {
        let run = run(&often_sampled(experiment));
        assert_eq!(run.last("flows.bulk", "bytes_in_order"), 2_000_000.0);
        assert_eq!(run.total("dropped_"), 0.0);
        let bytes = SEGMENTS * SEGMENT_BYTES + last_bytes;
        assert_eq!(most(&run, link, "queue_bytes"), bytes, "{link}");
    }
}
