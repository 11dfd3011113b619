//! Constant bit rate and probes, against what can be computed by hand.

use serde_json::json;

use crate::experiments::{MS, SECOND, cbr, pair, run, run_with};
use netlab::sim::QueueKind;

#[test]
fn every_datagram_arrives_exactly_when_it_must() {
    let run = run(&pair(cbr(2 * MS, 50)));
    let expected: Vec<_> = (0..50)
        .map(|unit| {
            let sent = unit * 2 * MS as i64;
            // 1 ms in the serializer, 10 ms on the wire.
            vec![
                unit,
                1472,
                sent,
                sent + 11 * MS as i64,
                sent + 11 * MS as i64,
            ]
        })
        .collect();
    assert_eq!(run.units, expected);
    assert_eq!(run.summary.end_ns, 98 * MS + 11 * MS);
    assert_eq!(run.summary.flows[0].end_ns, Some(run.summary.end_ns));
    assert_eq!(run.summary.flows[0].bytes, 50 * 1472);
    assert_eq!(run.summary.packets, 50);
}

#[test]
fn an_overloaded_link_carries_its_rate_and_drops_the_rest() {
    // 2 packets per ms where 1 fits. The queue of 100 is full, but for the one that starts at the very end.
    let run = run(&pair(
        json!({"kind": "cbr", "rate_bps": 1472 * 8 * 2000, "size_bytes": 1472, "duration_ns": null}),
    ));
    assert_eq!(run.summary.end_ns, SECOND);
    let link = "links.wire.forward";
    assert_eq!(run.last("flows.bulk", "packets_sent"), 2000.0);
    // Of 1000 that have left the serializer, eleven are on the wire or would arrive at the very end; one is in service.
    assert_eq!(run.last(link, "delivered_packets"), 989.0);
    assert_eq!(run.last(link, "queue_packets"), 99.0);
    let accounted = run.last(link, "delivered_packets")
        + run.last(link, "queue_packets")
        + run.last(link, "in_flight_packets")
        + run.last(link, "dropped_queue_full");
    assert_eq!(accounted, 2000.0);
    assert_eq!(run.summary.flows[0].end_ns, None);
}

#[test]
fn a_probe_measures_the_round_trip() {
    let mut experiment = pair(
        json!({"kind": "probe", "every_ns": 100 * MS, "size_bytes": 1472, "duration_ns": 500 * MS}),
    );
    experiment["links"][0]["backward"]["delay_ns"] = json!(5 * MS);
    let run = run(&experiment);
    let rtts = run.series("probes.bulk", "rtt_s");
    // 1 ms + 10 ms there, 1 ms + 5 ms back.
    assert_eq!(
        rtts,
        (0..5)
            .map(|probe| (probe * 100 * MS + 17 * MS, 0.017))
            .collect::<Vec<_>>()
    );
    assert_eq!(run.last("probes.bulk", "sent"), 5.0);
    assert_eq!(run.last("probes.bulk", "answered"), 5.0);
    assert_eq!(run.summary.packets, 10);
    assert_eq!(run.summary.end_ns, 417 * MS);
}

#[test]
fn a_lost_answer_is_not_answered() {
    let mut experiment = pair(
        json!({"kind": "probe", "every_ns": 100 * MS, "size_bytes": 64, "duration_ns": 500 * MS}),
    );
    experiment["links"][0]["forward"]["loss"] = json!({"kind": "list", "packets": [0]});
    experiment["links"][0]["backward"]["loss"] = json!({"kind": "list", "packets": [1, 2]});
    let run = run(&experiment);
    assert_eq!(run.last("probes.bulk", "sent"), 5.0);
    assert_eq!(run.last("flows.bulk", "packets_received"), 4.0);
    assert_eq!(run.last("probes.bulk", "answered"), 2.0);
    assert_eq!(run.units.len(), 4);
}

#[test]
fn measured_paths_are_probed_without_being_data() {
    let mut experiment = pair(cbr(2 * MS, 50));
    experiment["links"][0]["forward"]["rate_bps"] = json!(null);
    experiment["links"][0]["backward"]["rate_bps"] = json!(null);
    experiment["measure"]["probe_rtt_ns"] = json!(30 * MS);
    let run = run(&experiment);
    let rtts = run.series("probes.client.wire-server.wire", "rtt_s");
    assert_eq!(
        rtts.iter().map(|(_, rtt)| *rtt).collect::<Vec<_>>(),
        vec![0.02; 3]
    );
    assert_eq!(run.units.len(), 50);
    assert_eq!(run.last("flows.bulk", "packets_sent"), 50.0);
}

#[test]
fn starts_and_delays_vary_with_the_seed_within_their_bounds() {
    let mut experiment = pair(cbr(2 * MS, 1));
    experiment["vary"] = json!({"start_ns": 10 * MS, "rtt_ppm": 100_000});
    let arrivals = |seed| {
        let run = run_with(&experiment, seed, QueueKind::Calendar);
        let start = run.summary.flows[0].start_ns;
        assert!(start < 10 * MS);
        let delay = run.units[0][3] - run.units[0][2] - MS as i64;
        assert!((9 * MS as i64..=11 * MS as i64).contains(&delay), "{delay}");
        (start, delay)
    };
    assert_eq!(arrivals(1), arrivals(1));
    assert_ne!(arrivals(1), arrivals(2));
}
