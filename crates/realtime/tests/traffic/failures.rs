//! Tests what is refused and what fails.

use std::net::TcpListener;
use std::time::Instant;

use realtime::LiveError;
use serde_json::{Value, json};

use crate::cables::{ip, wait_until};
use crate::driver::{Hosts, app, bulk, endless_bulk, experiment, experiment_with, port, set};

fn refusal(hosts: &Hosts, flows: &[Value]) -> String {
    match hosts.prepare(&experiment(flows)) {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
#[ignore = "needs root"]
fn a_refused_connection_is_an_error_of_the_flow_alone() {
    let hosts = Hosts::new();
    // The client's connections now end at the client itself, which has no listener.
    ip(&hosts.client, "address add 10.1.1.2/32 dev lo");
    let short = app(
        "short_flows",
        json!({"bytes": 1000, "every_ns": 10_000_000, "poisson_mean_ns": null}),
    );
    let flows = [
        json!({"app": bulk(1000)}),
        json!({"app": bulk(1000), "from": "server", "to": "client"}),
        json!({"app": short}),
    ];
    let (mut traffic, _units) = hosts.start(&experiment(&flows));
    // The client's answers to the server would also go to the client itself.
    wait_until("the refusal", || {
        let results = traffic.results();
        results[0].error.is_some() && results[2].error.is_some()
    });
    traffic.stop().unwrap();
    let results = traffic.results();
    let error = results[0].error.clone().unwrap();
    assert!(
        error.contains("connecting from 10.1.1.1 to 10.1.1.2:5001"),
        "{error}"
    );
    assert!(error.contains("refused"), "{error}");
    assert_eq!(results[0].end_ns, None);
    assert_eq!(results[0].established_ns, None);
    assert_eq!(results[1].error, None);
    let error = results[2].error.clone().unwrap();
    assert!(error.starts_with("transfer 0: connecting"), "{error}");
}

#[test]
#[ignore = "needs root"]
fn an_unreachable_peer_is_an_error_after_the_retries_of_the_host() {
    let hosts = Hosts::new();
    set(&hosts.client, "net/ipv4/tcp_syn_retries", "1");
    // The neighbour stays known, so that the only answer is silence.
    let script = "neighbour replace 10.1.1.2 lladdr 02:00:00:00:00:01 dev eth1 nud permanent";
    ip(&hosts.client, script);
    let flows: Vec<_> = ["tcp", "mptcp"]
        .map(|transport| json!({"transport": transport, "app": bulk(1000)}))
        .into();
    let (traffic, _units) = hosts.start(&experiment(&flows));
    wait_until("the end of patience", || {
        traffic.flows_are_done() == Some(true)
    });
    for result in traffic.results() {
        let error = result.error.unwrap();
        assert!(error.contains("timed out"), "{error}");
        assert_eq!(result.bytes, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn an_address_that_the_host_lacks_is_an_error_of_the_flow() {
    let hosts = Hosts::new();
    ip(&hosts.client, "address del 10.1.1.1/24 dev eth1");
    let (traffic, _units) = hosts.start(&experiment(&[json!({"app": bulk(1000)})]));
    wait_until("the error", || traffic.flows_are_done() == Some(true));
    let error = traffic.results()[0].error.clone().unwrap();
    assert!(error.contains("Cannot assign requested address"), "{error}");
}

#[test]
#[ignore = "needs root"]
fn a_connection_that_breaks_is_an_error_of_the_flow() {
    let hosts = Hosts::new();
    set(&hosts.client, "net/ipv4/tcp_retries2", "1");
    let (traffic, _units) = hosts.start(&experiment(&[json!({"app": bulk(1 << 40)})]));
    wait_until("data", || traffic.flows()[0].bytes_received > 0);
    ip(&hosts.server, "link set eth1 down");
    wait_until("the error", || traffic.flows_are_done() == Some(true));
    let result = &traffic.results()[0];
    assert!(result.error.is_some());
    assert!(result.established_ns.is_some());
    assert_eq!(result.end_ns, None);
}

#[test]
#[ignore = "needs root"]
fn all_threads_stop_while_the_network_is_cut() {
    let hosts = Hosts::new();
    let request = app(
        "request_response",
        json!({"request_bytes": 100, "response_bytes": 10_000_000, "count": null, "duration_ns": null}),
    );
    let mut flows = Vec::new();
    for transport in ["tcp", "mptcp"] {
        for app in [&endless_bulk(), &request] {
            flows.push(json!({"transport": transport, "app": app}));
            flows.push(json!({"transport": transport, "app": app, "start_ns": 500_000_000}));
        }
    }
    let cbr = app(
        "cbr",
        json!({"rate_bps": 8_000_000, "size_bytes": 1000, "duration_ns": null}),
    );
    flows.push(json!({"transport": "udp", "cc": [], "app": cbr}));
    let (mut traffic, _units) = hosts.start(&experiment(&flows));
    wait_until("data", || traffic.flows()[0].bytes_received > 0);
    ip(&hosts.server, "link set eth1 down");
    // Half of the flows are connecting now; the others wait for room or for data.
    let half = &[1, 3, 5, 7];
    wait_until("the later flows to connect", || {
        let results = traffic.results();
        half.iter().all(|flow| results[*flow].start_ns > 0) && traffic.flows()[8].packets_sent > 600
    });
    let start = Instant::now();
    traffic.stop().unwrap();
    println!("stopped in {:?}", start.elapsed());
}

#[test]
#[ignore = "needs root"]
fn a_port_in_use_is_named() {
    let hosts = Hosts::new();
    let listen = || Ok(TcpListener::bind(format!("0.0.0.0:{}", port(1))).unwrap());
    let _taken = hosts.server.run(listen).unwrap();
    let flows = [json!({"app": bulk(1)}), json!({"app": bulk(1)})];
    let error = refusal(&hosts, &flows);
    assert_eq!(
        error,
        "flows.flow1 at host server: listening on TCP port 5002: Address already in use (os error 98)"
    );
}

#[test]
#[ignore = "needs root"]
fn a_congestion_control_that_is_not_there_is_named() {
    let error = refusal(
        &Hosts::new(),
        &[json!({"app": bulk(1), "cc": ["nonesuch"]})],
    );
    assert!(error.contains("congestion control \"nonesuch\""), "{error}");
}

#[test]
#[ignore = "needs root"]
fn pieces_without_room_for_a_header_are_refused() {
    let hosts = Hosts::new();
    let small = app(
        "cbr",
        json!({"rate_bps": 1, "size_bytes": 15, "duration_ns": null}),
    );
    let error = refusal(
        &hosts,
        &[json!({"transport": "udp", "cc": [], "app": small})],
    );
    assert!(
        error.starts_with("flows.flow0: a piece of 15 bytes"),
        "{error}"
    );
    let experiment = experiment_with(&[json!({"app": bulk(1)})], |resolved| {
        resolved["measure"]["unit_bytes"] = json!(8);
    });
    let refused = hosts.prepare(&experiment).err();
    assert!(matches!(refused, Some(LiveError::Failed(_))));
}

#[test]
#[ignore = "needs root"]
fn traffic_that_never_begins_leaves_nothing() {
    let hosts = Hosts::new();
    let experiment = experiment(&[json!({"app": bulk(1000)})]);
    for _ in 0..3 {
        // The ports are free again each time.
        drop(hosts.prepare(&experiment).unwrap());
    }
    let (traffic, _) = hosts.run(&experiment);
    assert_eq!(traffic.results()[0].bytes, 1000);
}
