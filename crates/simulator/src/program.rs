//! Turns a simulator with a user's own algorithms into a program for `mptcplab run --on PROGRAM`.
//! [`experiment::program`] describes the requests that it answers.

use std::path::Path;
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use experiment::algorithms::Registry;
use experiment::capabilities::{Capability, Missing};
use experiment::program::{BackEnd, FAILED, WRONG_USAGE, serve};
use experiment::resolved::{Action, Experiment};
use experiment::run::{Run, RunError, RunRecord};
use experiment::schedule::EventRecord;
use experiment::time::Nanos;

use crate::{QueueKind, Simulation, capabilities, check};

const USAGE: &str = "usage: PROGRAM serve; mptcplab run SPEC --on PROGRAM calls it so";
/// Simulated time between two signs of life, in nanoseconds.
const STEP: Nanos = 1_000_000;
/// Real time for which simulated time may stand still.
const PATIENCE: Duration = Duration::from_secs(10);

/// Executes the command line, with the algorithms in `registry`.
pub fn main(registry: Registry) -> ExitCode {
    if std::env::args().skip(1).ne(["serve"]) {
        eprintln!("{USAGE}");
        return ExitCode::from(WRONG_USAGE);
    }
    let simulator = Simulator {
        registry,
        life: watch(),
    };
    match serve(&simulator, || ()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("standard input or output: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// The simulator as a back-end of a program.
struct Simulator {
    registry: Registry,
    life: Arc<AtomicU64>,
}

impl BackEnd for Simulator {
    const IN_REAL_TIME: bool = false;

    fn capabilities(&self) -> Vec<Capability> {
        capabilities(&self.registry)
    }

    fn check(&self, experiment: &Experiment) -> Vec<Missing> {
        check(experiment, &self.registry)
    }

    fn start(
        &self,
        experiment: Experiment,
        _: &str,
        seed: u64,
        directory: &Path,
    ) -> Result<Box<dyn Run>, RunError> {
        let (queue, registry) = (QueueKind::default(), self.registry.clone());
        let simulation = Simulation::new(experiment, seed, directory, queue, registry)?;
        let life = self.life.clone();
        Ok(Box::new(Watched { simulation, life }))
    }
}

/// A simulation that gives signs of life, because an algorithm of the user may never return.
struct Watched {
    simulation: Simulation,
    life: Arc<AtomicU64>,
}

impl Run for Watched {
    fn record(&self) -> &RunRecord {
        self.simulation.record()
    }

    fn advance(&mut self, until: Nanos) -> Result<bool, RunError> {
        let mut ended = false;
        self.life.fetch_add(1, Ordering::Relaxed);
        while self.now() < until && !ended {
            ended = self.simulation.advance(until.min(self.now() + STEP))?;
            self.life.fetch_add(2, Ordering::Relaxed);
        }
        self.life.fetch_add(1, Ordering::Relaxed);
        Ok(ended)
    }

    fn inject(&mut self, action: &Action) -> Result<EventRecord, RunError> {
        self.simulation.inject(action)
    }

    fn finish_as_json(self: Box<Self>) -> Result<String, RunError> {
        Box::new(self.simulation).finish_as_json()
    }
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
