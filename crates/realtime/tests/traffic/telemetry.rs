//! Tests the sockets that telemetry reads.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use realtime::applications::traffic::{StreamEnd, Traffic};
use rustix::net::sockopt;
use serde_json::json;

use crate::cables::wait_until;
use crate::driver::{Hosts, app, bulk, endless_bulk, experiment, experiment_with};

#[test]
#[ignore = "needs root"]
fn both_ends_use_the_congestion_control_of_the_flow() {
    let mut flows = Vec::new();
    for cc in ["reno", "cubic"] {
        for transport in ["tcp", "mptcp"] {
            flows.push(json!({"transport": transport, "cc": [cc], "app": endless_bulk()}));
        }
    }
    let hosts = Hosts::new();
    let (mut traffic, _units) = hosts.start(&experiment(&flows));
    wait_until("all connections", || traffic.sockets().len() == 8);
    let sockets = traffic.sockets();
    for (flow, described) in flows.iter().enumerate() {
        for end in [StreamEnd::Sender, StreamEnd::Receiver] {
            let of_end = |socket: &&realtime::applications::traffic::FlowSocket| {
                socket.flow == flow && socket.end == end
            };
            let socket = sockets.iter().find(of_end).unwrap();
            assert_eq!(socket.is_mptcp, described["transport"] == "mptcp");
            let cc = sockopt::tcp_congestion(&socket.socket).unwrap();
            assert_eq!(described["cc"][0], cc);
        }
    }
    traffic.stop().unwrap();
}

#[test]
#[ignore = "needs root"]
fn the_data_of_requests_and_responses_are_the_responses() {
    let request = app(
        "request_response",
        json!({"request_bytes": 100, "response_bytes": 1000, "count": null, "duration_ns": null}),
    );
    let hosts = Hosts::new();
    let (mut traffic, _units) = hosts.start(&experiment(&[json!({"app": request})]));
    wait_until("both ends", || traffic.sockets().len() == 2);
    for socket in traffic.sockets() {
        let local = rustix::net::getsockname(&socket.socket).unwrap();
        let address = std::net::SocketAddr::try_from(local).unwrap();
        let is_server = address.port() == 5001;
        assert_eq!(socket.end == StreamEnd::Sender, is_server);
    }
    traffic.stop().unwrap();
}

/// Reads all sockets until each was seen after its end.
fn look_until_closed(traffic: &Traffic) -> Vec<Weak<OwnedFd>> {
    let mut seen: Vec<Weak<OwnedFd>> = Vec::new();
    wait_until("all connections to be closed", || {
        let sockets = traffic.sockets();
        seen.extend(sockets.iter().map(|socket| Arc::downgrade(&socket.socket)));
        sockets.is_empty()
    });
    seen
}

#[test]
#[ignore = "needs root"]
fn a_socket_stays_until_it_was_seen_after_its_end() {
    let flows =
        ["tcp", "mptcp"].map(|transport| json!({"transport": transport, "app": bulk(1000)}));
    let (traffic, _) = Hosts::new().run(&experiment(&flows));
    assert_eq!(traffic.sockets().len(), 4);
    let seen = look_until_closed(&traffic);
    assert!(seen.iter().all(|socket| socket.upgrade().is_none()));
}

#[test]
#[ignore = "needs root"]
fn ends_close_one_after_the_other_while_others_look() {
    let flows =
        ["tcp", "mptcp"].map(|transport| json!({"transport": transport, "app": bulk(1000)}));
    let hosts = Hosts::new();
    let (mut traffic, _units) = hosts.start(&experiment(&flows));
    wait_until("the end", || traffic.flows_are_done() == Some(true));
    look_until_closed(&traffic);
    traffic.stop().unwrap();
    assert!(
        traffic
            .results()
            .iter()
            .all(|result| result.error.is_none())
    );
}

#[test]
#[ignore = "needs root"]
fn a_host_without_mptcp_takes_part_with_tcp() {
    for (host, with_mptcp) in [(0, StreamEnd::Receiver), (1, StreamEnd::Sender)] {
        let flow = json!({"transport": "mptcp", "app": bulk(100_000)});
        let experiment = experiment_with(&[flow], |resolved| {
            resolved["hosts"][host]["mptcp"] = json!(false);
        });
        let (traffic, _) = Hosts::new().run(&experiment);
        assert_eq!(traffic.results()[0].bytes, 100_000);
        let sockets = traffic.sockets();
        assert_eq!(sockets.len(), 2);
        for socket in sockets {
            // The acceptor's socket has the protocol of the connection; the opener's keeps the one
            // it was created with.
            let is_opener_with_mptcp = socket.end == StreamEnd::Sender && socket.end == with_mptcp;
            assert_eq!(socket.is_mptcp, is_opener_with_mptcp, "{socket:?}");
        }
    }
}
