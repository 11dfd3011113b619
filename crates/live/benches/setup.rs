//! How long it takes to build the hosts of an experiment, to verify them, and to take everything down: addresses, routes and settings included.
//!
//! Needs root. Prints `NAME-STEP SECONDS`, medians of several runs; `verified` counts from the beginning. With a name as argument, only that one.

use std::time::{Duration, Instant};

use live::{Clock, Emulator, Hosts};
use netlab::resolved::Experiment;
use serde_json::{Value, json};

const RUNS: usize = 7;

const STEPS: [&str; 3] = ["up", "verified", "down"];

/// Names, number of runs, and descriptions.
fn topologies() -> [(&'static str, usize, Value); 3] {
    [
        ("setup-8links", RUNS, parallel_links(8)),
        ("setup-star100", RUNS, star(100)),
        ("setup-1000interfaces", 3, parallel_links(500)),
    ]
}

fn main() {
    let wanted = std::env::args()
        .nth(1)
        .filter(|word| !word.starts_with('-'));
    for (name, runs, description) in topologies() {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let experiment = Experiment::from_json(&description.to_string()).expect("it is valid");
        let times: Vec<[Duration; 3]> = (0..runs).map(|_| once(&experiment)).collect();
        for (step, word) in STEPS.into_iter().enumerate() {
            let mut times: Vec<f64> = times
                .iter()
                .map(|times| times[step].as_secs_f64())
                .collect();
            times.sort_by(f64::total_cmp);
            println!("{name}-{word} {:.6}", times[runs / 2]);
        }
    }
}

fn once(experiment: &Experiment) -> [Duration; 3] {
    let begun = Instant::now();
    let (mut hosts, devices) = Hosts::build(experiment).expect("this needs root and /dev/net/tun");
    let up = begun.elapsed();
    let folder = std::env::temp_dir();
    let emulator = Emulator::start(experiment, 1, devices, &folder, Clock::start());
    let mut emulator = emulator.expect("there is memory for it");
    hosts.verify(experiment).expect("built as described");
    let verified = begun.elapsed();
    let begun = Instant::now();
    emulator.finish().expect("it captures nothing");
    drop(hosts);
    [up, verified, begun.elapsed()]
}

// ---- descriptions --------------------------------------------------------------------------------------------------

/// An experiment in the making.
#[derive(Default)]
struct Description {
    hosts: Vec<Value>,
    nodes: Vec<Value>,
    interfaces: Vec<Value>,
    links: Vec<Value>,
    flows: Vec<Value>,
}

impl Description {
    fn host(&mut self, id: &str) {
        self.hosts.push(json!({
            "id": id, "stack": "kernel", "mptcp": true, "one_at_a_time": false, "syn_retries": 3, "syn_linear_timeouts": 4, "checksum": false,
            "first_hop": "network", "rcvbuf_bytes": 6_291_456, "sndbuf_bytes": 4_194_304, "initial_window_segments": 10,
            "behaviour": [{"name": "mainline", "failed_after": "stale", "stale_intervals": 4, "reinjection": "on_stale", "reinject_whole_queue": true,
                          "subflow_order": "oldest_first", "path_manager_delay_ns": 0}],
        }));
    }

    /// `address` is the third and fourth number of the IPv4 address; ports of switches have none.
    fn interface(&mut self, id: &str, link: &str, address: Option<(usize, usize)>) {
        let node = id.split_once('.').expect("a dot").0;
        let ipv4 = address
            .map(|(subnet, host)| format!("10.{}.{}.{host}/24", 1 + subnet / 250, subnet % 250));
        let ipv6 = address.map(|(subnet, host)| format!("fd00:1:{subnet:x}::{host:x}/64"));
        self.interfaces.push(json!({
            "id": id, "node": node, "link": link, "subnet": address.map_or(0, |(subnet, _)| subnet), "ipv4": ipv4, "ipv6": ipv6, "mtu_bytes": 1500, "up": true,
        }));
    }

    fn link(&mut self, id: &str, a: &str, b: &str, layer: u8) {
        let direction = json!({
            "rate_bps": 10_000_000, "overhead_bytes": 14, "delay_ns": 10_000_000, "jitter_ns": 0, "reorder": false, "loss": {"kind": "none"}, "loss_at": "ingress",
            "queue": {"kind": "drop_tail", "limit_packets": 100, "limit_bytes": null}, "trace": null,
        });
        self.links.push(json!({"id": id, "a": a, "b": b, "medium": null, "layer": layer, "forward": direction, "backward": direction}));
    }

    fn flow(&mut self, id: &str, (from, to): (&str, &str), paths: Vec<Value>) {
        self.flows.push(json!({
            "id": id, "group": id, "from": from, "to": to, "opened_by": "from", "transport": "mptcp", "app": {"kind": "bulk", "bytes": null, "duration_ns": null},
            "cc": ["cubic"], "scheduler": ["kernel_default"], "path_manager": [{"name": "kernel_endpoints"}], "start_ns": 0, "via": null, "paths": paths, "ceiling_bps": null,
        }));
    }

    fn finish(self) -> Value {
        json!({
            "schema": "mptcplab/experiment/1", "name": "setup", "title": null, "description": null, "profiles": [], "parameters": {}, "duration_ns": 1_000_000_000_u64,
            "vary": {"start_ns": 0, "rtt_ppm": 0}, "hosts": self.hosts, "nodes": self.nodes, "interfaces": self.interfaces, "subnets": [], "media": [],
            "links": self.links, "flows": self.flows, "events": [],
            "measure": {"every_ns": 100_000_000, "captures": [], "unit_bytes": 65536, "probe_rtt_ns": null}, "expect": [],
        })
    }
}

fn path(local: &str, remote: &str, hops: &[(&str, &str)]) -> Value {
    let hops: Vec<Value> = hops
        .iter()
        .map(|(link, direction)| json!({"link": link, "direction": direction}))
        .collect();
    json!({"local": local, "remote": remote, "hops": hops, "rate_bps": 10_000_000, "ceiling_bps": 9_000_000, "rtt_ns": 20_000_000 * hops.len()})
}

/// Two hosts joined by `n` links, and one flow over all of them.
fn parallel_links(n: usize) -> Value {
    let mut description = Description::default();
    description.host("client");
    description.host("server");
    let mut paths = Vec::new();
    for index in 0..n {
        let [a, b, link] = [
            format!("client.eth{index}"),
            format!("server.eth{index}"),
            format!("link{index}"),
        ];
        description.interface(&a, &link, Some((index, 1)));
        description.interface(&b, &link, Some((index, 2)));
        description.link(&link, &a, &b, 3);
        paths.push(path(&a, &b, &[(&link, "forward")]));
    }
    description.flow("bulk", ("client", "server"), paths);
    description.finish()
}

/// `n` hosts on a switch, each with a flow to the next.
fn star(n: usize) -> Value {
    let mut description = Description::default();
    description
        .nodes
        .push(json!({"id": "hub", "kind": "switch"}));
    for index in 0..n {
        let [host, link] = [format!("h{index}"), format!("link{index}")];
        let [a, b] = [format!("{host}.eth0"), format!("hub.p{index}")];
        description.host(&host);
        description.interface(&a, &link, Some((0, index + 1)));
        description.interface(&b, &link, None);
        description.link(&link, &a, &b, 2);
    }
    for index in 0..n {
        let next = (index + 1) % n;
        let ends = (&*format!("h{index}"), &*format!("h{next}"));
        let [here, there] = [format!("link{index}"), format!("link{next}")];
        let hops = [(&*here, "forward"), (&*there, "backward")];
        let way = path(&format!("h{index}.eth0"), &format!("h{next}.eth0"), &hops);
        description.flow(&format!("flow{index}"), ends, vec![way]);
    }
    description.finish()
}
