//! Turns a simulator with a user's own algorithms into a program for `mptcplab run --on PROGRAM`.
//!
//! - `PROGRAM capabilities` prints the capabilities.
//! - `PROGRAM check` reads a resolved experiment and prints the features it lacks for it.
//! - `PROGRAM run SEED DIRECTORY` reads a resolved experiment on one line and writes its tables
//!   into the directory. Each further line it reads advances the run by one sample interval, and is
//!   answered with a line. At the end of the input it finishes the run and prints the summary.
//!
//! All input and output is JSON.

use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use experiment::algorithms::Registry;
use experiment::capabilities::{Capability, Missing};
use experiment::resolved::{Experiment, ResolvedError};
use experiment::run::{Run, RunError};
use experiment::time::Nanos;
use serde_json::{Value, json};
use thiserror::Error;

use crate::{QueueKind, Simulation, SimulationError, capabilities, check};

const USAGE: &str = "usage: PROGRAM capabilities | check | run SEED DIRECTORY; mptcplab run SPEC --on PROGRAM calls it so";
/// The exit status for wrong input.
const WRONG_INPUT: u8 = 2;
/// The exit status of a run that failed.
const FAILED: u8 = 4;
/// Simulated time between two signs of life, in nanoseconds.
const STEP: Nanos = 1_000_000;
/// Real time for which simulated time may stand still.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
enum ProgramError {
    #[error("{USAGE}")]
    Usage,
    #[error(transparent)]
    Resolved(#[from] ResolvedError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("standard input or output: {0}")]
    Io(#[from] io::Error),
    #[error("the summary: {0}")]
    Json(#[from] serde_json::Error),
}

/// Executes the command line, with the algorithms in `registry`.
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
) -> Result<bool, RunError> {
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

/// Starts a thread that ends the program when a step of the simulation does not end. The returned
/// count grows with every sign of life and is odd during a step.
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
