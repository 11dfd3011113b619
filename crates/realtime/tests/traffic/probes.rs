//! Tests round-trip times.

use serde_json::json;

use crate::cables::{ip, wait_until};
use crate::driver::{Hosts, app, bulk, endless_bulk, experiment, experiment_with};

#[test]
#[ignore = "needs root"]
fn each_probe_of_a_flow_is_answered() {
    let probe = app(
        "probe",
        json!({"every_ns": 1_000_000, "size_bytes": 64, "duration_ns": 100_000_000}),
    );
    let flows = [
        json!({"transport": "udp", "cc": [], "app": probe}),
        json!({"transport": "udp", "cc": [], "app": probe, "from": "server", "to": "client"}),
        json!({"transport": "tcp", "app": probe}),
        json!({"transport": "tcp", "opened_by": "to", "app": probe}),
        json!({"transport": "mptcp", "app": probe}),
        json!({"transport": "mptcp", "opened_by": "to", "app": probe}),
    ];
    let (traffic, units) = Hosts::new().run(&experiment(&flows));
    let answers = traffic.rtts();
    for (flow, result) in traffic.results().iter().enumerate() {
        assert_eq!(result.error, None);
        assert_eq!(traffic.probe_names()[flow], format!("probes.flow{flow}"));
        let probe = traffic.probes()[flow];
        assert_eq!((probe.sent, probe.answered), (100, 100));
        let of_flow: Vec<_> = answers
            .iter()
            .filter(|answer| answer.probe == flow)
            .collect();
        assert_eq!(of_flow.len(), 100);
        assert_eq!(
            probe.last_rtt_ns,
            of_flow.last().map(|answer| answer.rtt_ns)
        );
        assert_eq!(result.end_ns, of_flow.last().map(|answer| answer.time_ns));
        let counters = traffic.flows()[flow];
        assert_eq!(
            (counters.packets_sent, counters.packets_received),
            (100, 100)
        );
        assert_eq!((counters.bytes_sent, counters.bytes_received), (6400, 6400));
        let units = units.iter().filter(|unit| unit.flow == flow);
        assert_eq!(units.count(), 100);
    }
}

#[test]
#[ignore = "needs root"]
fn measure_probes_every_path_once() {
    let flows = [
        json!({"app": endless_bulk()}),
        json!({"app": bulk(1000)}),
        json!({"app": bulk(1000), "from": "server", "to": "client"}),
    ];
    let experiment = experiment_with(&flows, |resolved| {
        resolved["measure"]["probe_rtt_ns"] = json!(5_000_000);
        let mut second = resolved["flows"][0]["paths"][0].clone();
        second["local"] = json!("client.eth2");
        second["remote"] = json!("server.eth2");
        second["hops"][0]["link"] = json!("two");
        resolved["flows"][1]["paths"]
            .as_array_mut()
            .unwrap()
            .push(second);
    });
    let hosts = Hosts::new();
    let (mut traffic, _units) = hosts.start(&experiment);
    let names = [
        "probes.client.eth1-server.eth1",
        "probes.client.eth2-server.eth2",
        "probes.server.eth1-client.eth1",
    ];
    assert_eq!(traffic.probe_names(), names);
    wait_until("answers to all", || {
        traffic.probes().iter().all(|probe| probe.answered >= 10)
    });
    traffic.stop().unwrap();
}

#[test]
#[ignore = "needs root"]
fn probes_and_datagrams_survive_an_outage() {
    let cbr = app(
        "cbr",
        json!({"rate_bps": 8_000_000, "size_bytes": 1000, "duration_ns": null}),
    );
    let flows = [json!({"transport": "udp", "cc": [], "app": cbr})];
    let experiment = experiment_with(&flows, |resolved| {
        resolved["measure"]["probe_rtt_ns"] = json!(1_000_000);
    });
    let hosts = Hosts::new();
    let (mut traffic, _units) = hosts.start(&experiment);
    let received =
        |traffic: &realtime::applications::traffic::Traffic| traffic.flows()[0].packets_received;
    wait_until("the first datagrams", || received(&traffic) > 10);
    ip(&hosts.client, "link set eth1 down");
    let before = traffic.flows()[0].packets_sent;
    wait_until("datagrams to be sent in vain", || {
        traffic.flows()[0].packets_sent > before + 50
    });
    let (at_outage, answered) = (received(&traffic), traffic.probes()[0].answered);
    ip(&hosts.client, "address flush dev eth1");
    ip(&hosts.client, "link set eth1 up");
    ip(&hosts.client, "address add 10.1.1.1/24 dev eth1");
    wait_until("datagrams and answers after the outage", || {
        received(&traffic) > at_outage + 10 && traffic.probes()[0].answered > answered + 10
    });
    traffic.stop().unwrap();
    assert_eq!(traffic.results()[0].error, None);
}

#[test]
#[ignore = "needs root"]
fn lost_datagrams_do_not_keep_a_flow_from_ending() {
    let cbr = app(
        "cbr",
        json!({"rate_bps": 8_000_000, "size_bytes": 1000, "duration_ns": 100_000_000}),
    );
    let probe = app(
        "probe",
        json!({"every_ns": 1_000_000, "size_bytes": 64, "duration_ns": 100_000_000}),
    );
    let flows = [cbr, probe].map(|app| json!({"transport": "udp", "cc": [], "app": app}));
    let hosts = Hosts::new();
    let (traffic, _units) = hosts.start(&experiment(&flows));
    wait_until("the first datagrams", || {
        traffic
            .flows()
            .iter()
            .all(|flow| flow.packets_received > 10)
    });
    ip(&hosts.server, "link set eth1 down");
    wait_until("the end", || traffic.flows_are_done() == Some(true));
    for (flow, result) in traffic.flows().iter().zip(traffic.results()) {
        assert_eq!(flow.packets_sent, 100);
        assert!(flow.packets_received < 100);
        assert!(result.end_ns.is_some());
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_may_come_later() {
    let cbr = app(
        "cbr",
        json!({"rate_bps": 8_000_000, "size_bytes": 1000, "duration_ns": null}),
    );
    let flows = [json!({"transport": "udp", "cc": [], "app": cbr})];
    let experiment = experiment_with(&flows, |resolved| {
        resolved["measure"]["probe_rtt_ns"] = json!(1_000_000);
    });
    let hosts = Hosts::new();
    ip(&hosts.client, "address flush dev eth1");
    ip(&hosts.client, "link set eth1 down");
    let (mut traffic, _units) = hosts.start(&experiment);
    wait_until("datagrams to be sent in vain", || {
        traffic.flows()[0].packets_sent > 10 && traffic.probes()[0].sent > 10
    });
    assert_eq!(traffic.flows()[0].packets_received, 0);
    ip(&hosts.client, "link set eth1 up");
    ip(&hosts.client, "address add 10.1.1.1/24 dev eth1");
    wait_until("datagrams and answers", || {
        traffic.flows()[0].packets_received > 10 && traffic.probes()[0].answered > 10
    });
    traffic.stop().unwrap();
}
