//! Cost of one packet over one hop in the whole simulator, with either event queue.
//!
//! `parallel_8`: 8 pairs of hosts with a link each. `chains_1000`: 1000 links in 100 chains of 10, so that each packet takes ten hops.
//! Every link carries 10 000 packets of 1500 bytes a second at 97 % load, over 20 ms of propagation delay.

#[path = "../../experiment/tests/complete/mod.rs"]
mod complete;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use experiment::run::Run;
use serde_json::{Value, json};
use simulator::{QueueKind, Simulation};

const MS: u64 = 1_000_000;
const PACKETS_PER_SECOND: u64 = 10_000;
const QUEUES: [(&str, QueueKind); 2] =
    [("calendar", QueueKind::Calendar), ("heap", QueueKind::Heap)];

fn host(id: &str) -> Value {
    json!({"id": id, "host_jitter": {"kind": "none"}})
}

fn interface(node: &str, link: &str) -> Value {
    json!({"id": format!("{node}.{link}"), "link": link, "ipv4": "10.1.1.1/24"})
}

fn link(id: &str, from: &str, to: &str) -> Value {
    let rate_bps = PACKETS_PER_SECOND * 1514 * 8 * 100 / 97;
    let direction = json!({"rate_bps": rate_bps, "delay_ns": 20 * MS, "loss_at": "egress"});
    json!({
        "id": id, "a": format!("{from}.{id}"), "b": format!("{to}.{id}"), "forward": direction, "backward": direction,
    })
}

/// A flow over links with these ids, from the first of the nodes to the last.
fn flow(nodes: &[String], links: &[String], start_ns: u64) -> Value {
    let [from, to] = [&nodes[0], &nodes[nodes.len() - 1]];
    let hops = links.iter();
    let hops = hops.map(|link| json!({"link": link, "direction": "forward"}));
    json!({
        "id": from, "from": from, "to": to, "start_ns": start_ns,
        "app": {"kind": "cbr", "rate_bps": PACKETS_PER_SECOND * 1472 * 8, "size_bytes": 1472, "duration_ns": null},
        "paths": [{
            "local": format!("{from}.{}", links[0]), "remote": format!("{to}.{}", links[links.len() - 1]),
            "hops": hops.collect::<Vec<_>>(),
        }],
    })
}

/// `count` chains of `length` links from a host over routers to a host, with a flow over each.
fn chains(count: usize, length: usize, duration_ns: u64) -> Experiment {
    let [mut hosts, mut nodes, mut interfaces, mut links, mut flows] =
        [const { Vec::<Value>::new() }; 5];
    for chain in 0..count {
        let names: Vec<_> = (0..=length)
            .map(|place| format!("n{chain}-{place}"))
            .collect();
        let ids: Vec<_> = (0..length)
            .map(|place| format!("l{chain}-{place}"))
            .collect();
        hosts.extend([host(&names[0]), host(&names[length])]);
        nodes.extend(
            names[1..length]
                .iter()
                .map(|id| json!({"id": id, "kind": "router"})),
        );
        for (id, ends) in ids.iter().zip(names.windows(2)) {
            links.push(link(id, &ends[0], &ends[1]));
            interfaces.extend([interface(&ends[0], id), interface(&ends[1], id)]);
        }
        // Not all at the same instants.
        flows.push(flow(&names, &ids, chain as u64 * 977));
    }
    let experiment = complete::whole(json!({
        "name": "bench", "duration_ns": duration_ns, "vary": {"rtt_ppm": 10_000}, "hosts": hosts, "nodes": nodes,
        "interfaces": interfaces, "subnets": [{"id": 0, "ipv4": "10.1.1.0/24", "ipv6": "fd00:1:1::/64"}], "links": links,
        "flows": flows,
    }));
    Experiment::from_json(&experiment.to_string()).expect("a valid experiment")
}

/// Packets that links delivered in a whole run.
fn hops(experiment: &Experiment) -> u64 {
    let directory = tempfile::tempdir().expect("a directory");
    let run = Simulation::new(
        experiment.clone(),
        1,
        directory.path(),
        QueueKind::Heap,
        Registry::default(),
    );
    let mut run = run.expect("a run");
    run.advance(u64::MAX).expect("a run");
    let summary = run.finish().expect("a result");
    summary
        .links
        .iter()
        .map(|link| link.delivered_packets)
        .sum()
}

fn per_hop(criterion: &mut Criterion) {
    let cases = [
        ("parallel_8", chains(8, 1, 2_000 * MS)),
        ("chains_1000", chains(100, 10, 500 * MS)),
    ];
    for (name, experiment) in cases {
        let mut group = criterion.benchmark_group(format!("simulator/{name}"));
        group.sample_size(10);
        group.throughput(Throughput::Elements(hops(&experiment)));
        for (queue, kind) in QUEUES {
            group.bench_function(BenchmarkId::from_parameter(queue), |bencher| {
                bencher.iter_batched(
                    || {
                        let directory = tempfile::tempdir().expect("a directory");
                        let run = Simulation::new(
                            experiment.clone(),
                            1,
                            directory.path(),
                            kind,
                            Registry::default(),
                        );
                        (directory, run.expect("a run"))
                    },
                    |(directory, mut run)| {
                        run.advance(u64::MAX).expect("a run");
                        (directory, run)
                    },
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

criterion_group!(benches, per_hop);
criterion_main!(benches);
