//! Descriptions of the networks for benchmarks.
// Each benchmark uses only a part.
#![allow(dead_code)]

#[path = "../../../experiment/tests/complete/mod.rs"]
mod complete;

use serde_json::{Value, json};

/// An experiment under construction.
#[derive(Default)]
pub struct Description {
    hosts: Vec<Value>,
    pub nodes: Vec<Value>,
    interfaces: Vec<Value>,
    links: Vec<Value>,
    flows: Vec<Value>,
}

impl Description {
    pub fn host(&mut self, id: &str) {
        let host = json!({"id": id, "stack": "kernel", "rcvbuf_bytes": 33_554_432, "sndbuf_bytes": 33_554_432});
        self.hosts.push(complete::host(host));
    }

    /// Adds an interface. `address` has the third and fourth number of the IPv4 address; ports of
    /// switches have none.
    pub fn interface(&mut self, id: &str, link: &str, address: Option<(usize, usize)>) {
        let node = id.split_once('.').expect("a dot").0;
        let ipv4 = address
            .map(|(subnet, host)| format!("10.{}.{}.{host}/24", 1 + subnet / 250, subnet % 250));
        let ipv6 = address.map(|(subnet, host)| format!("fd00:1:{subnet:x}::{host:x}/64"));
        self.interfaces.push(json!({
            "id": id, "node": node, "link": link, "subnet": address.map_or(0, |(subnet, _)| subnet), "ipv4": ipv4, "ipv6": ipv6, "mtu_bytes": 1500, "up": true,
        }));
    }

    /// Adds a link with the same properties in both directions.
    pub fn link(&mut self, id: &str, a: &str, b: &str, layer: u8, direction: &Value) {
        self.links.push(json!({"id": id, "a": a, "b": b, "medium": null, "layer": layer, "forward": direction, "backward": direction}));
    }

    pub fn flow(&mut self, id: &str, (from, to): (&str, &str), paths: Vec<Value>) {
        self.flows.push(json!({
            "id": id, "group": id, "from": from, "to": to, "opened_by": "from", "transport": "mptcp", "app": {"kind": "bulk", "bytes": null, "duration_ns": null},
            "cc": ["cubic"], "scheduler": ["kernel_default"], "path_manager": [{"name": "kernel_endpoints"}], "handshake": "primary", "start_ns": 0, "via": null, "policy": null, "paths": paths, "ceiling_bps": null,
        }));
    }

    pub fn finish(self) -> Value {
        json!({
            "schema": "mptcplab/experiment/3", "name": "setup", "title": null, "description": null, "profiles": [], "parameters": {}, "duration_ns": 1_000_000_000_u64,
            "vary": {"start_ns": 0, "rtt_ppm": 0, "events_ppm": 0}, "hosts": self.hosts, "nodes": self.nodes, "interfaces": self.interfaces, "subnets": [], "media": [],
            "links": self.links, "middleboxes": [], "access": [], "control": null, "flows": self.flows, "events": [],
            "measure": {"every_ns": 100_000_000, "captures": [], "unit_bytes": 65536, "probe_rtt_ns": null}, "expect": [], "user_code": [], "origins": {},
        })
    }
}

/// Returns a direction of a link. Without `rate_bps` it is infinitely fast.
pub fn direction(rate_bps: Option<u64>, delay_ns: u64, queue_packets: u64) -> Value {
    json!({
        "rate_bps": rate_bps, "overhead_bytes": 14, "delay_ns": delay_ns, "jitter_ns": 0, "reorder": false, "loss": {"kind": "none"}, "loss_at": "ingress",
        "queue": {"kind": "drop_tail", "limit_packets": queue_packets, "limit_bytes": null}, "trace": null,
    })
}

pub fn path(local: &str, remote: &str, hops: &[(&str, &str)]) -> Value {
    let hops: Vec<Value> = hops
        .iter()
        .map(|(link, direction)| json!({"link": link, "direction": direction}))
        .collect();
    json!({"local": local, "remote": remote, "hops": hops, "routed": false, "rate_bps": 10_000_000, "ceiling_bps": 9_000_000, "rtt_ns": 2_000_000 * hops.len()})
}

/// Returns two hosts joined by `n` links, and one flow over all of them.
pub fn parallel_links(n: usize, direction: &Value) -> Value {
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
        description.link(&link, &a, &b, 3, direction);
        paths.push(path(&a, &b, &[(&link, "forward")]));
    }
    description.flow("bulk", ("client", "server"), paths);
    description.finish()
}
