//! A simulator with algorithms of a user's own, as a program that `mptcplab run --on PROGRAM` starts.
//!
//! `PROGRAM capabilities` prints what it can do; `PROGRAM check` reads a resolved experiment and prints what it lacks of it;
//! `PROGRAM run SEED DIRECTORY` reads one, on a line of its own, and writes its tables into the directory. Every further line
//! that it reads lets it go on for an interval of the samples, and it answers each with a line; at the end of its input it
//! finishes and prints the summary. All of it is JSON.

use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thiserror::Error;

use crate::capabilities::{Capability, Missing};
use crate::registry::Registry;
use crate::resolved::{Experiment, ResolvedError};
use crate::sim::{QueueKind, Simulation, SimulationError, capabilities, check};
use crate::time::Nanos;

const USAGE: &str = "usage: PROGRAM capabilities | check | run SEED DIRECTORY; mptcplab run SPEC --on PROGRAM calls it so";
/// The exit status for what was asked wrongly.
const WRONG_INPUT: u8 = 2;
/// The exit status of a run that failed.
const FAILED: u8 = 4;
/// How far a run goes between two signs of life.
const STEP: Nanos = 1_000_000;
/// For how long of real time simulated time may stand still.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
enum ProgramError {
    #[error("{USAGE}")]
    Usage,
    #[error(transparent)]
    Resolved(#[from] ResolvedError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error("standard input or output: {0}")]
    Io(#[from] io::Error),
    #[error("the summary: {0}")]
    Json(#[from] serde_json::Error),
}

/// Does what the command line says, with the engine's algorithms and those that were added.
pub fn main(registry: Registry) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["capabilities"] => print(&capabilities_of(&registry)),
        ["check"] => check_input(&registry),
        ["run", seed, directory] => match seed.parse() {
            Ok(seed) => run(registry, seed, Path::new(directory)),
            Err(_) => Err(ProgramError::Usage),
        },
        _ => Err(ProgramError::Usage),
    };
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{error}");
    ExitCode::from(match error {
        ProgramError::Usage | ProgramError::Resolved(_) => WRONG_INPUT,
        _ => FAILED,
    })
}

fn capabilities_of(registry: &Registry) -> Value {
    let row = |one: Capability| {
        let why = one.missing_because;
        json!([one.feature, why.is_none(), why.unwrap_or_default()])
    };
    capabilities(registry).into_iter().map(row).collect()
}

fn check_input(registry: &Registry) -> Result<(), ProgramError> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let missing = check(&Experiment::from_json(&text)?, registry).into_iter();
    let row = |one: Missing| json!([one.feature, one.why]);
    print(&missing.map(row).collect())
}

fn run(registry: Registry, seed: u64, directory: &Path) -> Result<(), ProgramError> {
    let mut input = io::stdin().lock().lines();
    let text = input.next().transpose()?.ok_or(ProgramError::Usage)?;
    let experiment = Experiment::from_json(&text)?;
    let interval = experiment.measure.every_ns;
    let queue = QueueKind::default();
    let mut simulation = Simulation::new(experiment, seed, directory, queue, registry)?;
    let life = watch();
    for line in input {
        line?;
        let ended = advance(&mut simulation, interval, &life)?;
        print(&json!({"now_ns": simulation.now(), "ended": ended, "latest": simulation.latest()}))?;
    }
    print(&serde_json::to_value(simulation.finish()?)?)
}

fn advance(
    simulation: &mut Simulation,
    interval: Nanos,
    life: &AtomicU64,
) -> Result<bool, SimulationError> {
    let until = simulation.now().saturating_add(interval);
    let mut ended = false;
    life.fetch_add(1, Ordering::Relaxed);
    while simulation.now() < until && !ended {
        ended = simulation.advance(until.min(simulation.now() + STEP))?;
        life.fetch_add(2, Ordering::Relaxed);
    }
    life.fetch_add(1, Ordering::Relaxed);
    Ok(ended)
}

/// Ends the program when a step of the simulation does not end. The count that it gives grows with every sign of life, and is
/// odd while a step is under way.
fn watch() -> Arc<AtomicU64> {
    let life = Arc::new(AtomicU64::new(0));
    let seen = life.clone();
    thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            thread::sleep(PATIENCE / 10);
            let now = seen.load(Ordering::Relaxed);
            if now != last || now.is_multiple_of(2) {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                eprintln!(
                    "simulated time has stood still for {} s of real time",
                    PATIENCE.as_secs()
                );
                exit(FAILED.into());
            }
        }
    });
    life
}

fn print(value: &Value) -> Result<(), ProgramError> {
    let mut output = io::stdout().lock();
    writeln!(output, "{value}")?;
    Ok(output.flush()?)
}
