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
        self.hosts.push(json!({"id": id, "stack": "kernel", "rcvbuf_bytes": 33_554_432, "sndbuf_bytes": 33_554_432}));
    }

    /// Adds an interface. `address` has the third and fourth number of the IPv4 address; ports of
    /// switches have none.
    pub fn interface(&mut self, id: &str, link: &str, address: Option<(usize, usize)>) {
        let ipv4 = address
            .map(|(subnet, host)| format!("10.{}.{}.{host}/24", 1 + subnet / 250, subnet % 250));
        let ipv6 = address.map(|(subnet, host)| format!("fd00:1:{subnet:x}::{host:x}/64"));
        let subnet = address.map_or(0, |(subnet, _)| subnet);
        self.interfaces
            .push(json!({"id": id, "link": link, "subnet": subnet, "ipv4": ipv4, "ipv6": ipv6}));
    }

    /// Adds a link with the same properties in both directions.
    pub fn link(&mut self, id: &str, a: &str, b: &str, layer: u8, direction: &Value) {
        self.links.push(json!({"id": id, "a": a, "b": b, "layer": layer, "forward": direction, "backward": direction}));
    }

    pub fn flow(&mut self, id: &str, (from, to): (&str, &str), paths: Vec<Value>) {
        self.flows.push(json!({
            "id": id, "from": from, "to": to, "transport": "mptcp", "app": {"kind": "bulk", "bytes": null, "duration_ns": null},
            "cc": ["cubic"], "scheduler": ["kernel_default"], "path_manager": [{"name": "kernel_endpoints"}], "paths": paths,
        }));
    }

    pub fn finish(self) -> Value {
        complete::whole(json!({
            "name": "setup", "hosts": self.hosts, "nodes": self.nodes, "interfaces": self.interfaces, "links": self.links,
            "flows": self.flows, "measure": {"unit_bytes": 65536},
        }))
    }
}

/// Returns a direction of a link. Without `rate_bps` it is infinitely fast.
pub fn direction(rate_bps: Option<u64>, delay_ns: u64, queue_packets: u64) -> Value {
    let queue = json!({"kind": "drop_tail", "limit_packets": queue_packets, "limit_bytes": null});
    complete::direction(json!({"rate_bps": rate_bps, "delay_ns": delay_ns, "queue": queue}))
}

pub fn path(local: &str, remote: &str, hops: &[(&str, &str)]) -> Value {
    let hops: Vec<Value> = hops
        .iter()
        .map(|(link, direction)| json!({"link": link, "direction": direction}))
        .collect();
    json!({"local": local, "remote": remote, "hops": hops, "rate_bps": 10_000_000, "ceiling_bps": 9_000_000, "rtt_ns": 2_000_000 * hops.len()})
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
