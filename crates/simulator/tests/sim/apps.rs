//! Constant bit rate and probes, compared with values computed by hand.

use serde_json::{Value, json};
use simulator::QueueKind;

use crate::experiments::{MS, SECOND, cbr, pair, run, run_with, with_node_between};

#[test]
fn every_datagram_arrives_exactly_when_it_must() {
    let run = run(&pair(cbr(2 * MS, 50)));
    let expected: Vec<_> = (0..50)
        .map(|unit| {
            let sent = unit * 2 * MS as i64;
            // 1 ms in the serializer, 10 ms on the link.
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
fn a_run_goes_on_for_a_flow_without_an_end_that_begins_after_the_others_have_ended() {
    let experiment = pair(cbr(2 * MS, 50));
    let mut later = experiment["flows"][0].clone();
    later["id"] = json!("later");
    later["app"] =
        json!({"kind": "cbr", "rate_bps": 1472 * 8 * 100, "size_bytes": 1472, "duration_ns": null});
    for (start, end) in [(50 * MS, 109 * MS), (500 * MS, SECOND)] {
        later["start_ns"] = json!(start);
        let mut both = experiment.clone();
        both["flows"].as_array_mut().unwrap().push(later.clone());
        let run = run(&both);
        assert_eq!(run.summary.end_ns, end);
        assert!(run.summary.flows[1].bytes > 0);
    }
}

#[test]
fn an_overloaded_link_carries_its_rate_and_drops_the_rest() {
    // 2 packets per ms where 1 fits. The queue of 100 is full, except for the packet that starts at
    // the very end.
    let run = run(&pair(
        json!({"kind": "cbr", "rate_bps": 1472 * 8 * 2000, "size_bytes": 1472, "duration_ns": null}),
    ));
    assert_eq!(run.summary.end_ns, SECOND);
    let link = "links.wire.forward";
    assert_eq!(run.last("flows.bulk", "packets_sent"), 2000.0);
    // 1000 packets have left the serializer. Eleven of them are on the link or would arrive at the
    // very end. One is in service.
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
fn at_exactly_the_capacity_nothing_waits() {
    let mut experiment = with_node_between("router", cbr(MS, 900));
    experiment["measure"]["every_ns"] = json!(333_333);
    let run = run(&experiment);
    // Twice 1 ms in the serializer and 10 ms on the link.
    assert_eq!(run.units.len(), 900);
    assert!(
        run.units
            .iter()
            .all(|unit| unit[3] - unit[2] == 22 * MS as i64)
    );
    for link in ["links.first.forward", "links.second.forward"] {
        let queue = run.series(link, "queue_packets");
        assert!(queue.len() > 2000 && queue.iter().all(|(_, packets)| *packets == 0.0));
    }
}

#[test]
fn a_tenth_above_the_capacity_fills_the_queue_and_is_lost() {
    let mut experiment = pair(
        json!({"kind": "cbr", "rate_bps": 1472 * 8 * 1100, "size_bytes": 1472, "duration_ns": null}),
    );
    experiment["duration_ns"] = json!(10 * SECOND);
    let run = run(&experiment);
    let link = "links.wire.forward";
    // 100 packets a second too many: the queue of 100 is full after 1 s.
    let full = run.series(link, "queue_packets");
    let full = full.iter().filter(|(at, _)| *at >= 2 * SECOND);
    assert!(
        full.clone()
            .all(|(_, packets)| (99.0..=100.0).contains(packets))
    );
    let dropped = run.series(link, "dropped_queue_full");
    let before = dropped
        .iter()
        .find(|(at, _)| *at == 2 * SECOND)
        .expect("a sample");
    let lost = run.last(link, "dropped_queue_full") - before.1;
    let excess = 8.0 * 100.0;
    assert!((lost / excess - 1.0).abs() < 0.005, "{lost} of {excess}");
    // A full queue, the packet's own millisecond, and the delay of the link.
    let last = run.units.last().expect("a unit");
    let delay = (last[3] - last[2]) as u64;
    assert!((110 * MS..=111 * MS).contains(&delay), "{delay}");
}

#[test]
fn a_probe_measures_the_round_trip() {
    let mut experiment = pair(
        json!({"kind": "probe", "every_ns": 100 * MS, "size_bytes": 1472, "duration_ns": 500 * MS}),
    );
    experiment["links"][0]["backward"]["delay_ns"] = json!(5 * MS);
    let run = run(&experiment);
    let rtts = run.series("probes.bulk", "rtt_s");
    // 1 ms + 10 ms forward, 1 ms + 5 ms back.
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
fn times_between_events_vary_with_the_seed_within_their_bounds_and_in_their_order() {
    let mut experiment = pair(cbr(2 * MS, 500));
    let cut = |id: &str, at_ns: u64, kind: &str| json!({"id": id, "parent": null, "at_ns": at_ns, "action": {"kind": kind, "link": "wire", "by": "cut"}});
    experiment["events"] = json!([
        cut("off", 400 * MS, "link_down"),
        cut("on", 402 * MS, "link_up"),
        cut("end", SECOND - MS, "link_down"),
    ]);
    let times = |experiment: &Value, seed| -> Vec<u64> {
        let run = run_with(experiment, seed, QueueKind::Calendar);
        let moved = run.summary.events.iter();
        moved
            .inspect(|event| assert_eq!(event.asked_ns, event.actual_ns))
            .map(|event| event.actual_ns)
            .collect()
    };
    assert_eq!(times(&experiment, 1), [400 * MS, 402 * MS, SECOND - MS]);
    experiment["vary"]["events_ppm"] = json!(50_000);
    for seed in 1..=20 {
        let [off, on, end] = times(&experiment, seed)[..] else {
            panic!("three events")
        };
        assert!((380 * MS..420 * MS).contains(&off), "{off}");
        assert!((1_900_000..2_100_000).contains(&(on - off)), "{}", on - off);
        assert!(on < end && end < SECOND, "{end}");
    }
    assert_eq!(times(&experiment, 1), times(&experiment, 1));
    assert_ne!(times(&experiment, 1), times(&experiment, 2));
}

#[test]
fn starts_and_delays_vary_with_the_seed_within_their_bounds() {
    let mut experiment = pair(cbr(2 * MS, 1));
    experiment["vary"] = json!({"start_ns": 10 * MS, "rtt_ppm": 100_000, "events_ppm": 0});
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
