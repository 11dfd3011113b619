//! Hosts take time: how much, in which order, and the effect on flows that meet at a full queue.

use serde_json::{Value, json};

use crate::experiments::{
    MS, Run, SECOND, add_flow, add_host, add_link, add_node, cbr, empty, pair, run, run_with,
    set_jitter,
};

const LINUX: [u64; 4] = [20_000, 50_000, 140_000, 350_000];

/// Returns the time that each datagram took, from sending to reading.
fn delays(run: &Run) -> Vec<u64> {
    // Number, bytes, sent, received, delivered.
    let delay = |unit: &Vec<i64>| (unit[3] - unit[2]) as u64;
    run.units.iter().map(delay).collect()
}

/// Returns 500 datagrams, one each 2 ms, over a link that takes 1 ms for each and has a delay of 10
/// ms.
fn call() -> Value {
    pair(cbr(2 * MS, 500))
}

#[test]
fn without_jitter_the_delay_of_an_idle_link_is_constant_to_the_nanosecond() {
    let mut experiment = call();
    for host in experiment["hosts"].as_array_mut().expect("hosts") {
        host["host_jitter"] = json!({"kind": "none"});
    }
    let delays = delays(&run(&experiment));
    assert_eq!(
        delays.len(),
        500 - 5,
        "what is under way at the end is not read"
    );
    assert!(delays.iter().all(|delay| *delay == 11 * MS), "{delays:?}");
}

#[test]
fn a_host_takes_its_time_with_what_arrives_and_with_timers() {
    let mut experiment = call();
    set_jitter(&mut experiment, LINUX);
    let jittered = run(&experiment);
    let mut read_late: Vec<_> = delays(&jittered).iter().map(|it| it - 11 * MS).collect();
    read_late.sort_unstable();
    assert!(
        (15_000..25_000).contains(&read_late[read_late.len() / 2]),
        "{read_late:?}"
    );
    assert!(*read_late.last().expect("some") <= 350_000);
    let sent_late = jittered.units.iter().map(|unit| unit[2] as u64 % (2 * MS));
    let mut sent_late: Vec<_> = sent_late.collect();
    sent_late.sort_unstable();
    assert!(
        (15_000..25_000).contains(&sent_late[sent_late.len() / 2]),
        "{sent_late:?}"
    );
}

#[test]
fn a_host_handles_what_arrives_in_order() {
    let mut experiment = call();
    experiment["links"][0]["forward"]["rate_bps"] = json!(null);
    experiment["flows"][0]["app"] = cbr(10_000, 50_000);
    set_jitter(&mut experiment, [MS, 2 * MS, 3 * MS, 4 * MS]);
    let units = run(&experiment).units;
    assert!(units.len() > 40_000, "{}", units.len());
    let in_order = units.is_sorted_by(|one, next| one[0] < next[0] && one[3] <= next[3]);
    assert!(in_order);
}

/// Returns the share of the first of two senders, behind links of the bottleneck's rate and at a
/// queue of 100 packets.
fn share(experiment: &Value, seed: u64) -> f64 {
    let flows = run_with(experiment, seed, Default::default()).summary.flows;
    flows[0].bytes as f64 / (flows[0].bytes + flows[1].bytes) as f64
}

#[test]
fn two_senders_on_a_lan_share_when_hosts_take_time_and_lock_each_other_out_when_they_do_not() {
    let mut experiment = empty();
    experiment["duration_ns"] = json!(10 * SECOND);
    experiment["vary"]["start_ns"] = json!(10 * MS);
    for host in ["one", "two", "server"] {
        add_host(&mut experiment, host);
    }
    add_node(&mut experiment, "switch", "switch");
    for (link, from, to) in [
        ("first", "one", "switch"),
        ("second", "two", "switch"),
        ("last", "switch", "server"),
    ] {
        add_link(&mut experiment, link, from, to);
    }
    for link in experiment["links"].as_array_mut().expect("links") {
        for direction in ["forward", "backward"] {
            link[direction]["delay_ns"] = json!(MS / 10);
        }
    }
    let bulk = json!({"kind": "bulk", "bytes": null, "duration_ns": null});
    for (index, link) in ["first", "second"].into_iter().enumerate() {
        add_flow(&mut experiment, link, &[link, "last"], bulk.clone());
        let flow = &mut experiment["flows"][index];
        flow["transport"] = json!("tcp");
        flow["cc"] = json!(["cubic"]);
    }
    let furthest = |experiment: &Value| {
        let shares = (1..=4).map(|seed| (share(experiment, seed) - 0.5).abs());
        shares.fold(0.0, f64::max)
    };
    let locked_out = furthest(&experiment);
    assert!(locked_out > 0.25, "{locked_out}");
    set_jitter(&mut experiment, [200_000, 500_000, 1_000_000, 1_200_000]);
    let shared = furthest(&experiment);
    assert!(shared < 0.2, "{shared}");
}
