//! Measures how long it takes to build the hosts of an experiment with addresses, routes and
//! settings, to verify them, and to remove everything.
//!
//! Needs root. Prints `NAME-STEP SECONDS`, medians of several runs; `verified` counts from the
//! start. With a name as argument, only that one runs.

mod description;

use std::time::{Duration, Instant};

use experiment::resolved::Experiment;
use realtime::{Clock, Emulator, Hosts};
use serde_json::{Value, json};

use description::{Description, direction, parallel_links, path};

const RUNS: usize = 7;

const STEPS: [&str; 3] = ["up", "verified", "down"];

/// Names, number of runs, and descriptions.
fn topologies() -> [(&'static str, usize, Value); 3] {
    [
        ("setup-8links", RUNS, parallel_links(8, &slow())),
        ("setup-star100", RUNS, star(100)),
        ("setup-1000interfaces", 3, parallel_links(500, &slow())),
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

fn slow() -> Value {
    direction(Some(10_000_000), 1_000_000, 100)
}

/// Returns `n` hosts on a switch, each with a flow to the next.
fn star(n: usize) -> Value {
    let mut description = Description::default();
    description
        .nodes
        .push(json!({"id": "hub", "kind": "switch", "next_hop": null}));
    for index in 0..n {
        let [host, link] = [format!("h{index}"), format!("link{index}")];
        let [a, b] = [format!("{host}.eth0"), format!("hub.p{index}")];
        description.host(&host);
        description.interface(&a, &link, Some((0, index + 1)));
        description.interface(&b, &link, None);
        description.link(&link, &a, &b, 2, &slow());
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
