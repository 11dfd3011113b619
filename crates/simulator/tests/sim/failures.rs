//! What happens to packets when something fails. Each of them is accounted for.

use serde_json::{Value, json};

use crate::experiments::{
    MS, Run, SECOND, add_event, cbr, direction, pair, run, with_node_between,
};

/// Sends one datagram each 2 ms for 100 ms, at 0, 2, 4 .. 98 ms. Each is on the link for 11 ms.
fn with_event(at_ms: u64, action: Value) -> Run {
    let mut experiment = pair(cbr(2 * MS, 50));
    add_event(&mut experiment, at_ms * MS, action);
    run(&experiment)
}

fn assert_accounted(run: &Run) {
    let lost = run.total("dropped_") + run.total("queue_packets") + run.total("in_flight_packets");
    let received = run.last("flows.bulk", "packets_received");
    assert_eq!(run.last("flows.bulk", "packets_sent"), received + lost);
}

#[test]
fn a_senders_interface_that_goes_down_lets_the_wire_go_on() {
    let run = with_event(
        51,
        json!({"kind": "interface_down", "interface": "client.wire"}),
    );
    // The packets sent at 0 to 50 ms all arrive.
    assert_eq!(run.last("flows.bulk", "packets_received"), 26.0);
    assert_eq!(
        run.last("interfaces.client.wire", "dropped_interface_down"),
        24.0
    );
    assert_eq!(run.last("interfaces.client.wire", "up"), 0.0);
    assert_eq!(run.last("interfaces.server.wire", "up"), 1.0);
    assert_accounted(&run);
}

#[test]
fn a_receivers_interface_that_goes_down_loses_what_arrives() {
    let run = with_event(
        52,
        json!({"kind": "interface_down", "interface": "server.wire"}),
    );
    // Packets sent up to 40 ms arrive by 51 ms. The sender does not notice and goes on.
    assert_eq!(run.last("flows.bulk", "packets_received"), 21.0);
    assert_eq!(
        run.last("interfaces.server.wire", "dropped_interface_down"),
        29.0
    );
    assert_eq!(run.last("interfaces.client.wire", "sent_packets"), 50.0);
    assert_accounted(&run);
}

#[test]
fn a_cut_link_loses_what_is_on_the_wire_and_both_interfaces_stay_up() {
    let run = with_event(
        52,
        json!({"kind": "link_down", "link": "wire", "by": "cut"}),
    );
    assert_eq!(run.last("flows.bulk", "packets_received"), 21.0);
    assert_eq!(run.last("links.wire.forward", "dropped_link_down"), 29.0);
    assert_eq!(run.last("interfaces.client.wire", "up"), 1.0);
    assert_eq!(run.last("interfaces.server.wire", "up"), 1.0);
    assert_eq!(run.last("interfaces.client.wire", "sent_packets"), 50.0);
    assert_accounted(&run);
}

#[test]
fn a_drop_rule_lets_the_wire_go_on() {
    let run = with_event(
        51,
        json!({"kind": "link_down", "link": "wire", "by": "drop_rule"}),
    );
    assert_eq!(run.last("flows.bulk", "packets_received"), 26.0);
    assert_eq!(run.last("links.wire.forward", "dropped_link_down"), 24.0);
    assert_eq!(run.last("links.wire.forward", "offered_packets"), 50.0);
    assert_accounted(&run);
}

#[test]
fn a_port_that_goes_down_is_that_of_the_switch() {
    let mut experiment = with_node_between("switch", cbr(2 * MS, 50));
    add_event(
        &mut experiment,
        51 * MS,
        json!({"kind": "link_down", "link": "first", "by": "port_down"}),
    );
    let run = run(&experiment);
    // Packets sent up to 38 ms have passed the port before 51 ms. The one sent at 40 ms arrives
    // there at 51 ms, after the event.
    assert_eq!(run.last("flows.bulk", "packets_received"), 20.0);
    assert_eq!(
        run.last("interfaces.middle.first", "dropped_interface_down"),
        30.0
    );
    assert_eq!(run.last("interfaces.middle.first", "up"), 0.0);
    assert_eq!(run.last("interfaces.client.first", "up"), 1.0);
    assert_accounted(&run);
}

#[test]
fn what_goes_down_comes_up_again() {
    let outages = [
        (
            json!({"kind": "interface_down", "interface": "client.first"}),
            json!({"kind": "interface_up", "interface": "client.first"}),
        ),
        (
            json!({"kind": "address_remove", "interface": "client.first"}),
            json!({"kind": "address_add", "interface": "client.first"}),
        ),
        (
            json!({"kind": "link_down", "link": "first", "by": "drop_rule"}),
            json!({"kind": "link_up", "link": "first", "by": "drop_rule"}),
        ),
    ];
    for (down, up) in outages {
        let mut experiment = with_node_between("router", cbr(2 * MS, 50));
        add_event(&mut experiment, 21 * MS, down.clone());
        add_event(&mut experiment, 41 * MS, up);
        let run = run(&experiment);
        // The ten packets sent at 22 to 40 ms are lost.
        assert_eq!(run.last("flows.bulk", "packets_received"), 40.0, "{down}");
        assert_accounted(&run);
    }
    for by in ["cut", "port_down"] {
        let mut experiment = with_node_between("router", cbr(2 * MS, 50));
        add_event(
            &mut experiment,
            22 * MS,
            json!({"kind": "link_down", "link": "first", "by": by}),
        );
        add_event(
            &mut experiment,
            42 * MS,
            json!({"kind": "link_up", "link": "first", "by": by}),
        );
        let run = run(&experiment);
        // With a cut, packets sent from 12 ms on and before 42 ms are lost. With a port, those that
        // arrive in that time, sent from 12 to 30 ms.
        let lost = if by == "cut" { 15.0 } else { 10.0 };
        assert_eq!(
            run.last("flows.bulk", "packets_received"),
            50.0 - lost,
            "{by}"
        );
        assert_accounted(&run);
    }
}

#[test]
fn without_an_address_nothing_is_sent_or_delivered() {
    let sender = with_event(
        51,
        json!({"kind": "address_remove", "interface": "client.wire"}),
    );
    assert_eq!(
        sender.last("interfaces.client.wire", "dropped_no_address"),
        24.0
    );
    assert_accounted(&sender);
    let receiver = with_event(
        52,
        json!({"kind": "address_remove", "interface": "server.wire"}),
    );
    assert_eq!(
        receiver.last("interfaces.server.wire", "dropped_no_address"),
        29.0
    );
    assert_accounted(&receiver);
}

#[test]
fn a_changed_rate_and_delay_hold_from_then_on() {
    let mut slower = direction();
    slower["rate_bps"] = json!(6_000_000);
    slower["delay_ns"] = json!(20 * MS);
    let run = with_event(
        51,
        json!({"kind": "set_link", "link": "wire", "forward": slower, "backward": direction()}),
    );
    let delays: Vec<_> = run
        .units
        .iter()
        .map(|unit| (unit[3] - unit[2]) as u64)
        .collect();
    assert_eq!(delays[..26], vec![11 * MS; 26]);
    assert_eq!(delays[26..], vec![22 * MS; 24]);
    assert_accounted(&run);
}

#[test]
fn every_reason_of_a_link_is_counted_and_nothing_gets_lost_uncounted() {
    let mut experiment = with_node_between(
        "router",
        json!({"kind": "cbr", "rate_bps": 1472 * 8 * 1500, "size_bytes": 1472, "duration_ns": null}),
    );
    experiment["links"][0]["forward"]["rate_bps"] = json!(100_000_000);
    experiment["links"][0]["forward"]["loss"] = json!({"kind": "bernoulli", "probability": 0.01});
    experiment["links"][1]["forward"]["queue"] = json!({"kind": "codel", "limit_packets": 60, "limit_bytes": null, "target_ns": 5 * MS, "interval_ns": 100 * MS});
    experiment["duration_ns"] = json!(5 * SECOND);
    experiment["measure"]["probe_rtt_ns"] = json!(null);
    add_event(
        &mut experiment,
        3 * SECOND,
        json!({"kind": "link_down", "link": "second", "by": "cut"}),
    );
    add_event(
        &mut experiment,
        4 * SECOND,
        json!({"kind": "link_up", "link": "second", "by": "cut"}),
    );
    let run = run(&experiment);
    assert!(run.last("links.first.forward", "dropped_loss") > 20.0);
    for reason in ["queue_full", "aqm", "link_down"] {
        assert!(
            run.last("links.second.forward", &format!("dropped_{reason}")) > 10.0,
            "{reason}"
        );
    }
    assert_accounted(&run);
    assert_eq!(
        run.summary
            .events
            .iter()
            .map(|event| event.actual_ns)
            .collect::<Vec<_>>(),
        [3 * SECOND, 4 * SECOND]
    );
}
