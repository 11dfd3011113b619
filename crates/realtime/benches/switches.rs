//! Measures controlled switches: how long it takes until all paths are verified, and how exactly
//! rules that drop make an outage, seen by a datagram each millisecond, and what two disjoint paths
//! carry.
//!
//! An outage counts for the accuracy if no processor was [paused](pauses) when it began and when it
//! ended. The accuracy of all outages is printed beside it.
//!
//! Needs root and Open vSwitch. Prints `NAME VALUE`. With a name as argument, only that one runs.

mod description;
#[path = "../tests/switches/networks.rs"]
mod networks;
mod pauses;

use std::time::{Duration, Instant};

use experiment::run::Run;
use experiment::samples::{Column, read_table};
use experiment::time::Nanos;
use realtime::RuleChange;
use serde_json::{Value, json};

use pauses::{Pause, Watch};

const MILLISECOND: u64 = 1_000_000;
/// Between two outages.
const PAUSE_NS: u64 = 200 * MILLISECOND;
/// How many outages count.
const OUTAGES: usize = 100;
/// How many are made, because those that a pause touches do not count.
const ATTEMPTS: u64 = 140;
/// A pause this long before or after a change of rules delays the packets around the change.
const NEAR: Duration = Duration::from_millis(5);

fn main() {
    let wanted = std::env::args()
        .nth(1)
        .filter(|word| !word.starts_with('-'));
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    for (name, runs, resolved) in [
        ("sdn-setup-mesh5", 7, networks::geant5()),
        ("sdn-setup-100", 3, networks::hundred()),
    ] {
        if is_wanted(name) {
            set_up(name, runs, resolved);
        }
    }
    if is_wanted("sdn-two-paths") {
        two_paths("sdn-two-paths");
    }
    for milliseconds in [50, 100, 1000] {
        let name = format!("sdn-outage-{milliseconds}ms");
        if is_wanted(&name) {
            outages(&name, milliseconds * MILLISECOND);
        }
    }
}

/// Measures what a connection carries over two disjoint paths of 100 Mbit/s each, as a share of what
/// TCP could.
fn two_paths(name: &str) {
    const SECONDS: u64 = 10;
    const TCP_ON_EACH_BPS: f64 = 95.6e6;
    let mut resolved = networks::two_ways();
    resolved["duration_ns"] = json!(SECONDS * 1000 * MILLISECOND);
    let directory = tempfile::tempdir().expect("a directory");
    let mut run = networks::start(&resolved, directory.path()).expect("root");
    while !run.advance(Nanos::MAX).expect("it runs") {}
    let flow = run.finish().expect("it ends").flows.swap_remove(0);
    let goodput_bps = 8.0 * flow.bytes as f64 / SECONDS as f64;
    println!("{name}-share {:.3}", goodput_bps / (2.0 * TCP_ON_EACH_BPS));
    println!("{name}-subflows {}", flow.subflows.len());
}

fn set_up(name: &str, runs: usize, resolved: Value) {
    let mut times: Vec<[f64; 2]> = (0..runs)
        .map(|_| {
            let directory = tempfile::tempdir().expect("a directory");
            let begun = Instant::now();
            let run = networks::start(&resolved, directory.path()).expect("root");
            let verified = begun.elapsed().as_secs_f64();
            let begun = Instant::now();
            drop(run);
            [verified, begun.elapsed().as_secs_f64()]
        })
        .collect();
    for (step, word) in ["verified", "down"].into_iter().enumerate() {
        times.sort_by(|one, other| one[step].total_cmp(&other[step]));
        println!("{name}-{word} {:.3}", times[runs / 2][step]);
        println!("{name}-{word}-largest {:.3}", times[runs - 1][step]);
    }
}

fn outages(name: &str, for_ns: u64) {
    let mut resolved = networks::probed();
    // One way only, because an outage takes out both directions at different times of a round trip.
    resolved["flows"][0]["app"] =
        json!({"kind": "cbr", "rate_bps": 512_000, "size_bytes": 64, "duration_ns": null});
    let period = for_ns + PAUSE_NS;
    let events = (0..ATTEMPTS).flat_map(|index| {
        let at_ns = PAUSE_NS + index * period;
        let event = |kind: &str, at_ns: u64| {
            let action = json!({"kind": kind, "link": "s0-s1", "by": "drop_rule"});
            json!({"id": format!("{kind}{index}"), "parent": null, "at_ns": at_ns, "action": action})
        };
        [event("link_down", at_ns), event("link_up", at_ns + for_ns)]
    });
    resolved["events"] = events.collect();
    resolved["duration_ns"] = json!(PAUSE_NS + ATTEMPTS * period);
    let directory = tempfile::tempdir().expect("a directory");
    let mut run = networks::start(&resolved, directory.path()).expect("root");
    let watch = Watch::start();
    run.advance(1).expect("it runs");
    let zero = Instant::now() - Duration::from_nanos(run.record().now);
    while !run.advance(Nanos::MAX).expect("it runs") {}
    let pauses = watch.end();
    let summary = run.finish().expect("it ends");
    let arrived = arrived(directory.path());
    let rules = summary.control.expect("switches").rules;
    let all: Vec<Outage> = rules
        .chunks_exact(2)
        .map(|pair| Outage::of(pair, &arrived, for_ns, &pauses, zero))
        .collect();
    let counted: Vec<&Outage> = all.iter().filter(|outage| !outage.is_paused).collect();
    let counted = &counted[..counted.len().min(OUTAGES)];
    println!("{name}-counted {}", counted.len());
    println!(
        "{name}-paused {}",
        all.iter().filter(|one| one.is_paused).count()
    );
    let print = |what: &str, of: &[&Outage], error_ms: fn(&Outage) -> f64| {
        let mut errors: Vec<f64> = of.iter().map(|outage| error_ms(outage)).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize];
        for (word, share) in [("p50", 0.5), ("p95", 0.95), ("max", 1.0)] {
            println!("{name}-{what}-{word} {:.3}", at(share));
        }
    };
    print("probe", counted, |one| one.by_probe_ms);
    print("barrier", counted, |one| one.by_barrier_ms);
    print("between", counted, |one| one.between_ms);
    print("probe-all", &all.iter().collect::<Vec<_>>(), |one| {
        one.by_probe_ms
    });
}

/// How exactly an outage lasted as long as was asked.
struct Outage {
    by_probe_ms: f64,
    by_barrier_ms: f64,
    between_ms: f64,
    /// Whether a processor was paused near its begin or its end.
    is_paused: bool,
}

impl Outage {
    fn of(
        rules: &[RuleChange],
        arrived: &[f64],
        for_ns: u64,
        pauses: &[Pause],
        zero: Instant,
    ) -> Self {
        let middle = |rule: &RuleChange| (rule.sent_ns + rule.answered_ns) as f64 / 2.0;
        let barrier = middle(&rules[1]) - middle(&rules[0]);
        let probe = silence(arrived, middle(&rules[0])) - MILLISECOND as f64;
        Self {
            by_probe_ms: (probe - for_ns as f64).abs() / 1e6,
            by_barrier_ms: (barrier - for_ns as f64).abs() / 1e6,
            between_ms: (barrier - probe).abs() / 1e6,
            is_paused: rules.iter().any(|rule| {
                let from = zero + Duration::from_nanos(rule.sent_ns);
                let until = zero + Duration::from_nanos(rule.answered_ns);
                pauses
                    .iter()
                    .any(|pause| pause.overlaps(from - NEAR, until + NEAR))
            }),
        }
    }
}

/// Returns when the datagrams that arrived had been sent.
fn arrived(directory: &std::path::Path) -> Vec<f64> {
    let table = read_table(&directory.join("units.parquet")).expect("units");
    let sent = table.iter().find(|(name, _)| name == "sent_ns");
    let Some((_, Column::Integers(sent))) = sent else {
        panic!("other columns");
    };
    let mut sent: Vec<f64> = sent.iter().map(|time| *time as f64).collect();
    sent.sort_by(f64::total_cmp);
    sent
}

/// Returns the longest time between two datagrams that arrived, near `from`.
fn silence(arrived: &[f64], from: f64) -> f64 {
    let pause = PAUSE_NS as f64;
    let near = |pair: &&[f64]| pair[0] > from - pause / 2.0 && pair[0] < from + pause / 4.0;
    let gaps = arrived
        .windows(2)
        .filter(near)
        .map(|pair| pair[1] - pair[0]);
    gaps.fold(0.0, f64::max)
}
