//! The networks of these tests, and runs of them.

use std::path::Path;

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use realtime::{Controlling, LiveError, LiveRun};
use serde_json::{Value, json};

use crate::description::{Description, direction, path};

const MEGABIT: u64 = 1_000_000;
const MILLISECOND: u64 = 1_000_000;

/// Returns the command of the controller of these tests.
pub fn controller(arguments: &[&str]) -> Vec<String> {
    let script = format!(
        "{}/tests/switches/controller.py",
        env!("CARGO_MANIFEST_DIR")
    );
    let words = ["python3", &script].into_iter();
    words
        .chain(arguments.iter().copied())
        .map(str::to_owned)
        .collect()
}

/// Starts a run whose controller reports and takes commands as ours does.
///
/// # Errors
/// The run cannot start.
pub fn start(resolved: &Value, directory: &Path) -> Result<LiveRun, LiveError> {
    let resolved = resolved.to_string();
    let experiment = Experiment::from_json(&resolved).unwrap();
    let controlling = Controlling {
        resolved: &resolved,
        controller: &controller(&["ours"]),
    };
    let registry = Registry::default();
    LiveRun::start(
        experiment,
        1,
        directory,
        &registry,
        None,
        controlling,
        Vec::new(),
    )
}

/// A network under construction, in which all delays are 1 ms.
#[derive(Default)]
struct Network {
    description: Description,
    interfaces: usize,
    hosts: usize,
}

impl Network {
    fn switch(&mut self, name: &str) {
        let node = json!({"id": name, "kind": "openflow", "next_hop": null});
        self.description.nodes.push(node);
    }

    /// Adds a link of switches. Its name is that of its ends.
    fn trunk(&mut self, a: &str, b: &str) {
        let link = format!("{a}-{b}");
        let ends = [a, b].map(|node| self.interface(node, &link));
        self.join(&link, &ends, 100);
    }

    fn interface(&mut self, node: &str, link: &str) -> String {
        self.interfaces += 1;
        let id = format!("{node}.p{}", self.interfaces);
        self.description.interface(&id, link, None);
        id
    }

    /// Adds a host with some interfaces at a switch. The links have their names.
    fn host(&mut self, name: &str, switch: &str, interfaces: usize) {
        self.description.host(name);
        for index in 0..interfaces {
            self.hosts += 1;
            let id = format!("{name}.eth{index}");
            let port = self.interface(switch, &id);
            self.description.interface(&id, &id, Some((0, self.hosts)));
            self.join(&id, &[id.clone(), port], 1000);
        }
    }

    fn join(&mut self, link: &str, [a, b]: &[String; 2], rate: u64) {
        let direction = direction(Some(rate * MEGABIT), MILLISECOND, 100);
        self.description.link(link, a, b, 2, &direction);
    }

    /// Adds a path between the interfaces with the same number, over these trunks.
    fn path(&self, from: &str, to: &str, number: usize, trunks: &[(&str, &str)]) -> Value {
        let [local, remote] = [from, to].map(|host| format!("{host}.eth{number}"));
        let mut hops = vec![(local.as_str(), "forward")];
        hops.extend(trunks);
        hops.push((remote.as_str(), "backward"));
        path(&local, &remote, &hops)
    }

    fn finish(self) -> Value {
        let mut resolved = self.description.finish();
        resolved["control"] = json!({
            "install": "proactive", "command": null, "discover": false, "statistics_ns": 100 * MILLISECOND,
            "costs": [], "srlg": [], "recovery": {"strategy": "none", "parameters": {}, "detect_ns": null},
        });
        for flow in resolved["flows"].as_array_mut().unwrap() {
            flow["path_manager"] = json!([{"name": "full_mesh"}]);
        }
        resolved
    }
}

/// Returns five switches in full mesh, each with a host of two interfaces. Each host sends to the
/// next, over the link between their switches and over a third switch.
pub fn geant5() -> Value {
    let mut network = Network::default();
    let nodes = ["s0", "s1", "s2", "s3", "s4"];
    nodes.iter().for_each(|node| network.switch(node));
    for (index, a) in nodes.iter().enumerate() {
        nodes[index + 1..].iter().for_each(|b| network.trunk(a, b));
    }
    for (index, node) in nodes.iter().enumerate() {
        network.host(&format!("h{index}"), node, 2);
    }
    for index in 0..5 {
        let [to, third] = [(index + 1) % 5, (index + 3) % 5];
        let (from_host, to_host) = (format!("h{index}"), format!("h{to}"));
        let trunks = [(index, to), (index, third), (third, to)].map(|(a, b)| {
            let (low, high) = (a.min(b), a.max(b));
            let direction = if a < b { "forward" } else { "backward" };
            (format!("s{low}-s{high}"), direction)
        });
        let [direct, out, on] = trunks.each_ref().map(|(link, way)| (link.as_str(), *way));
        let paths = vec![
            network.path(&from_host, &to_host, 0, &[direct]),
            network.path(&from_host, &to_host, 1, &[out, on]),
        ];
        let id = format!("flow{index}");
        network.description.flow(&id, (&from_host, &to_host), paths);
    }
    network.finish()
}

/// Returns two hosts of two interfaces, and a connection over two switches and over three.
pub fn two_ways() -> Value {
    let mut network = Network::default();
    ["s0", "s1", "s2"]
        .iter()
        .for_each(|node| network.switch(node));
    network.trunk("s0", "s1");
    network.trunk("s0", "s2");
    network.trunk("s2", "s1");
    network.host("a", "s0", 2);
    network.host("b", "s1", 2);
    let paths = vec![
        network.path("a", "b", 0, &[("s0-s1", "forward")]),
        network.path("a", "b", 1, &[("s0-s2", "forward"), ("s2-s1", "forward")]),
    ];
    network.description.flow("bulk", ("a", "b"), paths);
    network.finish()
}

/// Returns [`two_ways`] with a datagram every millisecond on the first path, instead of the
/// connection.
pub fn probed() -> Value {
    let mut resolved = two_ways();
    let flow = &mut resolved["flows"][0];
    flow["transport"] = json!("udp");
    for field in ["cc", "scheduler", "path_manager"] {
        flow[field] = json!([]);
    }
    flow["paths"].as_array_mut().unwrap().truncate(1);
    flow["app"] =
        json!({"kind": "probe", "every_ns": MILLISECOND, "size_bytes": 64, "duration_ns": null});
    resolved
}

/// Returns a hundred switches in a ring with chords, 200 links, and ten hosts, each of which sends
/// to the next.
pub fn hundred() -> Value {
    let mut network = Network::default();
    let name = |index: usize| format!("s{}", index % 100);
    (0..100).for_each(|index| network.switch(&name(index)));
    for index in 0..100 {
        network.trunk(&name(index), &name(index + 1));
    }
    for index in 0..90 {
        network.trunk(&name(index), &name(index + 7));
    }
    for index in 0..10 {
        network.host(&format!("h{index}"), &name(10 * index), 1);
    }
    for index in 0..9 {
        let trunks: Vec<String> = (10 * index..10 * index + 10)
            .map(|at| format!("{}-{}", name(at), name(at + 1)))
            .collect();
        let trunks: Vec<_> = trunks
            .iter()
            .map(|link| (link.as_str(), "forward"))
            .collect();
        let [from, to] = [index, index + 1].map(|host| format!("h{host}"));
        let paths = vec![network.path(&from, &to, 0, &trunks)];
        let id = format!("flow{index}");
        network.description.flow(&id, (&from, &to), paths);
    }
    network.finish()
}
