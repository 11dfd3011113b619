//! Resolved experiments as JSON, made of small parts, and their runs.

use std::path::Path;

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use experiment::run::Run as _;
use experiment::samples::{Column, read_table};
use serde_json::{Value, json};
use simulator::{QueueKind, Simulation, Summary};

use crate::complete;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// Returns an empty experiment of 1 s.
pub fn empty() -> Value {
    let subnet = json!({"id": 0, "ipv4": "10.1.1.0/24", "ipv6": "fd00:1:1::/64"});
    complete::whole(json!({"duration_ns": SECOND, "subnets": [subnet]}))
}

/// 12 Mbit/s without overhead: 1500 bytes take 1 ms.
pub fn direction() -> Value {
    let stated = json!({"rate_bps": 12_000_000, "overhead_bytes": 0, "delay_ns": 10 * MS, "loss_at": "egress"});
    complete::direction(stated)
}

/// Returns the control of switches with entries installed from the start, and without recovery.
pub fn control() -> Value {
    json!({
        "install": "proactive", "command": null, "discover": false, "statistics_ns": 500 * MS, "costs": [], "srlg": [],
        "recovery": {"strategy": "none", "parameters": {}, "detect_ns": null},
    })
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().expect("a list").push(item);
}

/// Adds a host.
pub fn add_host(experiment: &mut Value, id: &str) {
    let behaviour = json!({"name": "mainline", "subflow_order": "newest_first", "timers": "exact"});
    let host = json!({"id": id, "host_jitter": {"kind": "none"}, "behaviour": [behaviour]});
    push(&mut experiment["hosts"], complete::host(host));
}

/// Sets the quantiles of the times that all hosts take.
pub fn set_jitter(experiment: &mut Value, [p50, p90, p99, max]: [u64; 4]) {
    for host in experiment["hosts"].as_array_mut().expect("hosts") {
        host["host_jitter"] = json!({"kind": "quantiles", "p50_ns": p50, "p90_ns": p90, "p99_ns": p99, "max_ns": max});
    }
}

/// Adds a router, switch, ap or openflow switch.
pub fn add_node(experiment: &mut Value, id: &str, kind: &str) {
    let node = complete::node(json!({"id": id, "kind": kind}));
    push(&mut experiment["nodes"], node);
}

/// Adds a link between two nodes, and its interfaces `<node>.<link>` with addresses of a network of
/// their own.
pub fn add_link(experiment: &mut Value, id: &str, a: &str, b: &str) {
    let network = experiment["links"].as_array().expect("links").len() + 1;
    for (node, end) in [(a, 1), (b, 2)] {
        let ipv4 = format!("10.{}.{}.{end}/24", 1 + network / 256, network % 256);
        let interface = json!({"id": format!("{node}.{id}"), "link": id, "ipv4": ipv4});
        push(
            &mut experiment["interfaces"],
            complete::interface(interface),
        );
    }
    let link = json!({
        "id": id, "a": format!("{a}.{id}"), "b": format!("{b}.{id}"), "forward": direction(), "backward": direction(),
    });
    push(&mut experiment["links"], complete::link(link));
}

/// Adds a UDP flow that goes forward over `links`.
pub fn add_flow(experiment: &mut Value, id: &str, links: &[&str], app: Value) {
    let end = |link: &str, end: &str| {
        let links = experiment["links"].as_array().expect("links");
        let link = links
            .iter()
            .find(|candidate| candidate["id"] == link)
            .expect("a link");
        link[end].as_str().expect("an interface").to_owned()
    };
    let node_of = |interface: &str| interface.split('.').next().expect("a node").to_owned();
    let (local, remote) = (end(links[0], "a"), end(links[links.len() - 1], "b"));
    let hops: Vec<_> = links
        .iter()
        .map(|link| json!({"link": link, "direction": "forward"}))
        .collect();
    let flow = json!({
        "id": id, "from": node_of(&local), "to": node_of(&remote), "app": app,
        "paths": [{"local": local, "remote": remote, "hops": hops, "rtt_ns": 20 * MS}],
    });
    push(&mut experiment["flows"], complete::flow(flow));
}

/// Returns the path over one link from client to server.
pub fn path_over(link: &str) -> Value {
    complete::path(json!({
        "local": format!("client.{link}"), "remote": format!("server.{link}"),
        "hops": [{"link": link, "direction": "forward"}], "rtt_ns": 20 * MS,
    }))
}

/// Adds a flow over the path of each link from client to server. Plain TCP takes the first path.
pub fn add_stream(experiment: &mut Value, transport: &str, links: &[&str], app: Value) {
    add_flow(experiment, "bulk", &links[..1], app);
    let paths: Vec<_> = links.iter().map(|link| path_over(link)).collect();
    let flow = experiment["flows"]
        .as_array_mut()
        .expect("flows")
        .last_mut()
        .expect("a flow");
    flow["transport"] = json!(transport);
    flow["paths"] = json!(paths);
    flow["cc"] = json!(["reno"]);
    if transport == "mptcp" {
        flow["scheduler"] = json!(["min_rtt"]);
        flow["path_manager"] = json!([{"name": "full_mesh"}]);
    }
}

/// Returns a client and a server with these links, and the flow `bulk` over all of them.
pub fn parallel(transport: &str, links: &[&str], app: Value) -> Value {
    let mut experiment = empty();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    for link in links {
        add_link(&mut experiment, link, "client", "server");
    }
    add_stream(&mut experiment, transport, links, app);
    experiment["duration_ns"] = json!(60 * SECOND);
    experiment
}

/// Adds an event.
pub fn add_event(experiment: &mut Value, at_ns: u64, action: Value) {
    let id = format!(
        "e{}",
        experiment["events"].as_array().expect("events").len()
    );
    push(
        &mut experiment["events"],
        json!({"id": id, "parent": null, "at_ns": at_ns, "action": action}),
    );
}

/// Returns `packets` datagrams of 1500 bytes with headers, one each `every_ns`.
pub fn cbr(every_ns: u64, packets: u64) -> Value {
    let rate_bps = 1472 * 8 * SECOND / every_ns;
    json!({"kind": "cbr", "rate_bps": rate_bps, "size_bytes": 1472, "duration_ns": every_ns * packets})
}

/// Returns two hosts, one link `wire`, one flow `bulk`.
pub fn pair(app: Value) -> Value {
    let mut experiment = empty();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    add_link(&mut experiment, "wire", "client", "server");
    add_flow(&mut experiment, "bulk", &["wire"], app);
    experiment
}

/// Returns client - middle - server with links `first` and `second`, and the flow `bulk`.
pub fn with_node_between(kind: &str, app: Value) -> Value {
    let mut experiment = empty();
    add_host(&mut experiment, "client");
    add_host(&mut experiment, "server");
    add_node(&mut experiment, "middle", kind);
    add_link(&mut experiment, "first", "client", "middle");
    add_link(&mut experiment, "second", "middle", "server");
    add_flow(&mut experiment, "bulk", &["first", "second"], app);
    experiment
}

/// Starts a run in `directory`.
pub fn start(experiment: &Value, seed: u64, directory: &Path, queue: QueueKind) -> Simulation {
    let experiment = Experiment::from_json(&experiment.to_string()).expect("a valid experiment");
    Simulation::new(experiment, seed, directory, queue, Registry::default()).expect("a run")
}

/// A finished run and its tables.
pub struct Run {
    pub summary: Summary,
    samples: Vec<(u64, String, String, f64)>,
    pub units: Vec<Vec<i64>>,
}

/// Runs with seed 1 to the end.
pub fn run(experiment: &Value) -> Run {
    run_with(experiment, 1, QueueKind::default())
}

/// Runs to the end.
pub fn run_with(experiment: &Value, seed: u64, queue: QueueKind) -> Run {
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(experiment, seed, directory.path(), queue);
    assert!(simulation.advance(u64::MAX).expect("a run"));
    finish(simulation, directory.path())
}

/// Finishes a run and reads its tables.
pub fn finish(simulation: Simulation, directory: &Path) -> Run {
    let summary = simulation.finish().expect("a result");
    Run {
        summary,
        samples: samples(directory),
        units: units(directory),
    }
}

fn samples(directory: &Path) -> Vec<(u64, String, String, f64)> {
    let table = read_table(&directory.join("samples.parquet")).expect("samples");
    let [
        (_, Column::Integers(times)),
        (_, entities),
        (_, metrics),
        (_, Column::Floats(values)),
    ] = table.as_slice()
    else {
        panic!("columns of samples: {table:?}");
    };
    let words = entities_of(entities).into_iter().zip(entities_of(metrics));
    let rows = times.iter().zip(words).zip(values);
    rows.map(|((time, (entity, metric)), value)| (*time as u64, entity, metric, *value))
        .collect()
}

fn entities_of(column: &Column) -> Vec<String> {
    let Column::Words { codes, words } = column else {
        panic!("no words: {column:?}")
    };
    codes
        .iter()
        .map(|code| words[*code as usize].clone())
        .collect()
}

/// Returns the rows of units without the flow.
fn units(directory: &Path) -> Vec<Vec<i64>> {
    let table = read_table(&directory.join("units.parquet")).expect("units");
    let columns = table.iter().filter_map(|(_, column)| match column {
        Column::Integers(values) => Some(values.clone()),
        _ => None,
    });
    let columns: Vec<_> = columns.collect();
    (0..columns[0].len())
        .map(|row| columns.iter().map(|column| column[row]).collect())
        .collect()
}

impl Run {
    /// Returns all samples of a metric: time and value.
    pub fn series(&self, entity: &str, metric: &str) -> Vec<(u64, f64)> {
        let rows = self
            .samples
            .iter()
            .filter(|(_, e, m, _)| e == entity && m == metric);
        rows.map(|(time, _, _, value)| (*time, *value)).collect()
    }

    /// Returns the last sample of a metric.
    pub fn last(&self, entity: &str, metric: &str) -> f64 {
        self.series(entity, metric)
            .last()
            .unwrap_or_else(|| panic!("no {metric} of {entity}"))
            .1
    }

    /// Returns the sum of the last samples of all metrics with this prefix, over all entities.
    pub fn total(&self, metric_prefix: &str) -> f64 {
        let last = self.summary.end_ns;
        let rows = self
            .samples
            .iter()
            .filter(|(time, _, m, _)| *time == last && m.starts_with(metric_prefix));
        rows.map(|(_, _, _, value)| *value).sum()
    }
}
