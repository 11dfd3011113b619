//! Tests what each application transfers.

use std::thread;
use std::time::Duration;

use experiment::samples::Unit;
use realtime::applications::traffic::FlowResult;
use serde_json::{Value, json};

use crate::cables::wait_until;
use crate::driver::{Hosts, app, bulk, endless_bulk, experiment, experiment_with};

const TRANSPORTS: [&str; 2] = ["tcp", "mptcp"];
const OPENERS: [&str; 2] = ["from", "to"];

/// Returns flows with this application for every transport, opener and direction.
fn all_ways(app: &Value) -> Vec<Value> {
    let mut flows = Vec::new();
    for transport in TRANSPORTS {
        for opened_by in OPENERS {
            for (from, to) in [("client", "server"), ("server", "client")] {
                flows.push(json!({
                    "transport": transport, "opened_by": opened_by, "from": from, "to": to, "app": app,
                }));
            }
        }
    }
    flows
}

fn units_of(units: &[Unit], flow: usize) -> Vec<Unit> {
    let of_flow = units.iter().filter(|unit| unit.flow == flow);
    of_flow.copied().collect()
}

fn assert_went_well(result: &FlowResult) {
    assert_eq!(result.error, None);
    let established = result.established_ns.unwrap();
    let end = result.end_ns.unwrap();
    assert!(result.start_ns <= established && established <= end);
}

/// Checks that units are numbered from 0 without a gap, and that none arrived before it was sent.
fn assert_in_order(units: &[Unit]) {
    for (number, unit) in units.iter().enumerate() {
        assert_eq!(unit.unit, number as u64);
        assert!(unit.sent_ns <= unit.received_ns);
        assert_eq!(unit.received_ns, unit.delivered_ns);
    }
}

#[test]
#[ignore = "needs root"]
fn bulk_transfers_exactly_its_bytes_in_units() {
    let flows = all_ways(&bulk(1_000_100));
    let (traffic, units) = Hosts::new().run(&experiment(&flows));
    for (flow, result) in traffic.results().iter().enumerate() {
        assert_went_well(result);
        assert_eq!(result.bytes, 1_000_100);
        let counters = traffic.flows()[flow];
        assert_eq!(counters.bytes_sent, 1_000_100);
        assert_eq!(counters.bytes_in_order, 1_000_100);
        let units = units_of(&units, flow);
        assert_in_order(&units);
        let sizes: Vec<_> = units.iter().map(|unit| unit.bytes).collect();
        let mut expected = vec![64_000; 15];
        expected.push(40_100);
        assert_eq!(sizes, expected);
        assert_eq!(units.last().unwrap().delivered_ns, result.end_ns.unwrap());
    }
}

#[test]
#[ignore = "needs root"]
fn small_units_and_a_last_one_without_room_for_a_header() {
    let experiment = experiment_with(&[json!({"app": bulk(100_005)})], |resolved| {
        resolved["measure"]["unit_bytes"] = json!(100);
    });
    let (traffic, units) = Hosts::new().run(&experiment);
    assert_eq!(traffic.results()[0].bytes, 100_005);
    assert_in_order(&units);
    assert_eq!(units.len(), 1000);
}

#[test]
#[ignore = "needs root"]
fn units_may_be_larger_than_the_transfer() {
    let experiment = experiment_with(&[json!({"app": bulk(3_000_000)})], |resolved| {
        resolved["measure"]["unit_bytes"] = json!(1_000_000_000_000_u64);
    });
    let (_, units) = Hosts::new().run(&experiment);
    assert_eq!(units.len(), 1);
    assert_eq!(units[0].bytes, 3_000_000);
}

#[test]
#[ignore = "needs root"]
fn bulk_for_a_time_ends_with_all_that_was_sent() {
    let app = app("bulk", json!({"bytes": null, "duration_ns": 100_000_000}));
    let (traffic, units) = Hosts::new().run(&experiment(&all_ways(&app)));
    for (flow, result) in traffic.results().iter().enumerate() {
        assert_went_well(result);
        let counters = traffic.flows()[flow];
        assert_eq!(counters.bytes_sent, result.bytes);
        let units = units_of(&units, flow);
        assert_in_order(&units);
        let left = result.bytes - units.iter().map(|unit| unit.bytes).sum::<u64>();
        assert!(left < 16, "{left}");
    }
}

#[test]
#[ignore = "needs root"]
fn endless_bulk_goes_on_until_it_is_stopped() {
    let hosts = Hosts::new();
    let (mut traffic, _units) = hosts.start(&experiment(&all_ways(&endless_bulk())));
    wait_until("every flow to move", || {
        traffic
            .flows()
            .iter()
            .all(|flow| flow.bytes_received > 1_000_000)
    });
    assert!(traffic.flows_are_done() != Some(true));
    traffic.stop().unwrap();
    let at_stop = traffic.flows();
    for (counters, result) in at_stop.iter().zip(traffic.results()) {
        assert_eq!(result.end_ns, None);
        assert_eq!(result.error, None);
        assert_eq!(result.bytes, counters.bytes_received);
        assert!(counters.bytes_sent >= counters.bytes_received);
    }
    thread::sleep(Duration::from_millis(10));
    assert_eq!(at_stop, traffic.flows());
}

#[test]
#[ignore = "needs root"]
fn a_constant_rate_over_udp_is_counted_in_datagrams() {
    let cbr = app(
        "cbr",
        json!({"rate_bps": 8_000_000, "size_bytes": 1000, "duration_ns": 300_000_000}),
    );
    let flow = |from, to| json!({"transport": "udp", "cc": [], "from": from, "to": to, "app": cbr});
    let flows = [flow("client", "server"), flow("server", "client")];
    let (traffic, units) = Hosts::new().run(&experiment(&flows));
    for (flow, result) in traffic.results().iter().enumerate() {
        assert_eq!(result.error, None);
        assert_eq!(result.established_ns, None);
        let counters = traffic.flows()[flow];
        assert_eq!(counters.packets_sent, 300);
        assert_eq!(counters.packets_received, 300);
        assert_eq!(counters.bytes_sent, 300_000);
        assert_eq!(counters.bytes_in_order, 300_000);
        let units = units_of(&units, flow);
        assert_in_order(&units);
        for unit in &units {
            assert!(unit.sent_ns >= unit.unit * 1_000_000, "{unit:?} is early");
        }
        assert_eq!(result.end_ns, units.last().map(|unit| unit.received_ns));
    }
}

#[test]
#[ignore = "needs root"]
fn a_constant_rate_in_a_connection_makes_each_piece_a_unit() {
    let app = app(
        "cbr",
        json!({"rate_bps": 8_000_000, "size_bytes": 1000, "duration_ns": 200_000_000}),
    );
    let (traffic, units) = Hosts::new().run(&experiment(&all_ways(&app)));
    for (flow, result) in traffic.results().iter().enumerate() {
        assert_went_well(result);
        assert_eq!(result.bytes, 200_000);
        let units = units_of(&units, flow);
        assert_in_order(&units);
        assert_eq!(units.len(), 200);
        for unit in &units {
            assert_eq!(unit.bytes, 1000);
            let due = result.start_ns + unit.unit * 1_000_000;
            assert!(unit.sent_ns >= due, "{unit:?} is early");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn streaming_begins_with_its_buffer_and_goes_on_at_its_rate() {
    let app = app(
        "streaming",
        json!({"bitrate_bps": 5_120_000, "startup_ns": 1_000_000_000}),
    );
    let hosts = Hosts::new();
    let (mut traffic, units) = hosts.start(&experiment(&[json!({"app": app})]));
    // 10 units a second: units 0 to 10 at once, then one each 100 ms.
    let units: Vec<_> = units.iter().take(13).collect();
    let start = traffic.results()[0].start_ns;
    assert_in_order(&units);
    assert!(units[11].sent_ns >= start + 100_000_000);
    assert!(units[12].sent_ns >= start + 200_000_000);
    assert!(traffic.flows_are_done() != Some(true));
    traffic.stop().unwrap();
}

#[test]
#[ignore = "needs root"]
fn each_response_is_a_unit() {
    let app = app(
        "request_response",
        json!({"request_bytes": 300, "response_bytes": 200_000, "count": 20, "duration_ns": null}),
    );
    let (traffic, units) = Hosts::new().run(&experiment(&all_ways(&app)));
    for (flow, result) in traffic.results().iter().enumerate() {
        assert_went_well(result);
        assert_eq!(result.bytes, 20 * 200_000);
        assert_eq!(traffic.flows()[flow].bytes_sent, 20 * 200_000);
        let units = units_of(&units, flow);
        assert_in_order(&units);
        assert_eq!(units.len(), 20);
        assert!(units.iter().all(|unit| unit.bytes == 200_000));
        for pair in units.windows(2) {
            assert!(pair[0].delivered_ns <= pair[1].sent_ns);
        }
        assert_eq!(result.end_ns, Some(units[19].delivered_ns));
    }
}

#[test]
#[ignore = "needs root"]
fn requests_for_a_time() {
    let app = app(
        "request_response",
        json!({"request_bytes": 100_000, "response_bytes": 1, "count": null, "duration_ns": 50_000_000}),
    );
    let (traffic, units) = Hosts::new().run(&experiment(&[json!({"app": app})]));
    let result = &traffic.results()[0];
    assert_went_well(result);
    assert_eq!(result.bytes, units.len() as u64);
    let last_sent = units.last().unwrap().sent_ns;
    assert!(last_sent < result.start_ns + 50_000_000);
}

#[test]
#[ignore = "needs root"]
fn each_short_flow_is_a_unit_in_a_connection_of_its_own() {
    let every = app(
        "short_flows",
        json!({"bytes": 50_000, "every_ns": 5_000_000, "poisson_mean_ns": null}),
    );
    let hosts = Hosts::new();
    let (mut traffic, units) = hosts.start(&experiment(&all_ways(&every)));
    wait_until("20 transfers of each flow", || {
        let flows = traffic.flows();
        flows.iter().all(|flow| flow.bytes_received >= 20 * 50_000)
    });
    assert!(traffic.flows_are_done() != Some(true));
    traffic.stop().unwrap();
    let units: Vec<_> = units.try_iter().collect();
    for (flow, result) in traffic.results().iter().enumerate() {
        assert_eq!(result.error, None);
        let mut units = units_of(&units, flow);
        units.sort_by_key(|unit| unit.unit);
        assert_in_order(&units[..20]);
        assert!(units.iter().all(|unit| unit.bytes == 50_000));
        for unit in &units {
            assert!(unit.sent_ns >= unit.unit * 5_000_000, "{unit:?} is early");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_hundred_short_flows_at_once() {
    let burst = app(
        "short_flows",
        json!({"bytes": 100_000, "every_ns": null, "poisson_mean_ns": 1000}),
    );
    let hosts = Hosts::new();
    let (mut traffic, _units) = hosts.start(&experiment(&[json!({"app": burst})]));
    wait_until("100 transfers", || {
        traffic.sockets();
        traffic.flows()[0].bytes_received >= 100 * 100_000
    });
    traffic.stop().unwrap();
    assert_eq!(traffic.results()[0].error, None);
}

#[test]
#[ignore = "needs root"]
fn fifty_clients_in_parallel() {
    for transport in TRANSPORTS {
        let flow = json!({"transport": transport, "app": bulk(200_000)});
        let (traffic, _) = Hosts::new().run(&experiment(&vec![flow; 50]));
        let results = traffic.results();
        assert_eq!(results.len(), 50);
        for result in &results {
            assert_went_well(result);
            assert_eq!(result.bytes, 200_000);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn flows_start_when_they_are_to() {
    let flows: Vec<_> = (0..4)
        .map(|index| json!({"start_ns": index * 30_000_000, "app": bulk(1000)}))
        .collect();
    let experiment = experiment_with(&flows, |resolved| {
        resolved["vary"]["start_ns"] = json!(10_000_000);
    });
    let (traffic, _) = Hosts::new().run(&experiment);
    for (index, result) in traffic.results().iter().enumerate() {
        assert!(result.start_ns >= index as u64 * 30_000_000);
    }
    let sums: u64 = traffic
        .results()
        .iter()
        .map(|result| result.start_ns % 10_000_000)
        .sum();
    assert_ne!(sums, 0);
}

#[test]
#[ignore = "needs root"]
fn an_address_of_the_other_family_serves_where_ipv4_is_missing() {
    let experiment = experiment_with(&[json!({"app": bulk(1000)})], |resolved| {
        for interface in resolved["interfaces"].as_array_mut().unwrap() {
            interface["ipv4"] = Value::Null;
        }
    });
    let (traffic, _) = Hosts::new().run(&experiment);
    assert_went_well(&traffic.results()[0]);
}
