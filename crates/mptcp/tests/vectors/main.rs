//! Runs the test vectors: compares published formulas, and the integers of kernels, with the
//! functions that the engine itself calls.
//!
//! The file is that of `MPTCPLAB_VECTORS`, or else `tests/vectors.json`. Each vector has an id. Its
//! first parts name a family, and each file here has a table of families. `make vectors` adds the
//! vectors of metrics and paths, which are written in Python, and those of the simulator's routers.

mod comparison;
mod congestion;
mod failure;
mod family;
mod loss_recovery;
mod path_management;
mod scheduling;
#[path = "../views/mod.rs"]
mod views;

use std::panic::catch_unwind;
use std::process::ExitCode;

use comparison::differences;
use family::{Family, Vector, longest_prefix};

/// The tables of all files.
const TABLES: &[&[Family]] = &[
    congestion::FAMILIES,
    scheduling::FAMILIES,
    path_management::FAMILIES,
    failure::FAMILIES,
    loss_recovery::FAMILIES,
];

/// Families whose vectors cannot be run yet, and why.
const PENDING: &[(&str, &str)] = &[];

/// Families that are not part of the engine: `tests/vectors.py` runs those of metrics and paths,
/// `crates/experiment/tests` those of routers.
const ELSEWHERE: &[&str] = &["metric", "paths", "ecmp"];

/// The result of a vector.
enum Outcome {
    Passed,
    Failed(String),
    Pending(&'static str),
}

fn outcome(vector: &Vector) -> Outcome {
    let families = TABLES.iter().copied().flatten();
    if let Some((_, compute)) = longest_prefix(&vector.id, families, |(name, _)| name) {
        let computed = catch_unwind(|| compute(&vector.inputs)).unwrap_or(Err("panicked".into()));
        return match computed.and_then(|found| differences(vector, &found)) {
            Ok(()) => Outcome::Passed,
            Err(why) => Outcome::Failed(why),
        };
    }
    match longest_prefix(&vector.id, PENDING.iter(), |(name, _)| name) {
        Some((name, _)) => Outcome::Pending(name),
        None => Outcome::Failed("no family of vectors has such an id".to_owned()),
    }
}

fn main() -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    let mut pending = Vec::new();
    let vectors = family::load();
    let is_elsewhere = |id: &str| longest_prefix(id, ELSEWHERE.iter(), |name| name).is_some();
    for vector in vectors.iter().filter(|vector| !is_elsewhere(&vector.id)) {
        match outcome(vector) {
            Outcome::Passed => passed += 1,
            Outcome::Failed(why) => {
                failed += 1;
                println!("failed {}: {why}", vector.id);
            }
            Outcome::Pending(family) => pending.push(family),
        }
    }
    for (family, why) in PENDING {
        let count = pending.iter().filter(|name| *name == family).count();
        if count > 0 {
            println!("pending {family}.* ({count}): {why}");
        }
    }
    let pending = pending.len();
    println!("vectors: {passed} passed, {failed} failed, {pending} pending");
    ExitCode::from(u8::from(failed > 0))
}
