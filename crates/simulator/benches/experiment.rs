//! Prints CPU time and memory of whole runs of a resolved experiment, in the lines `cpu-ns`, `hops`
//! and `memory-bytes` (Linux).
//!
//! `cargo bench -p simulator --bench experiment -- FILE.json [SEED ..]` makes one run for each seed,
//! one after the other. Hops are the packets that links sent. CPU time is that of the runs, from the
//! first event to the last, files included.

use std::fs;

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use experiment::run::Run as _;
use simulator::{QueueKind, Simulation};

fn main() {
    // Cargo adds this argument.
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let file = arguments.next().expect("the file of a resolved experiment");
    let seeds: Vec<u64> = arguments
        .map(|seed| seed.parse().expect("a seed"))
        .collect();
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let experiment = Experiment::from_json(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (mut cpu_ns, mut hops) = (0, 0);
    for seed in if seeds.is_empty() { vec![1] } else { seeds } {
        let (time, packets) = run(&experiment, seed);
        cpu_ns += time;
        hops += packets;
    }
    println!("cpu-ns {cpu_ns}");
    println!("hops {hops}");
    println!("memory-bytes {}", peak_memory_bytes());
}

fn run(experiment: &Experiment, seed: u64) -> (u64, u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let (copy, registry) = (experiment.clone(), Registry::default());
    let run = Simulation::new(copy, seed, directory.path(), QueueKind::default(), registry);
    let mut run = run.expect("a run");
    let begun = cpu_time_ns();
    run.advance(u64::MAX).expect("a run");
    let cpu_ns = cpu_time_ns() - begun;
    let links = run.finish().expect("a result").links;
    let sent = links.iter().map(|link| link.wire_packets);
    (cpu_ns, sent.sum())
}

/// The time that this thread had a processor.
fn cpu_time_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split_whitespace().next();
    first.and_then(|time| time.parse().ok()).expect("a time")
}

fn peak_memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a size") * 1024
}
