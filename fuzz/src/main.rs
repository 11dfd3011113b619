//! Runs the targets on random inputs made from the corpora, for machines without nightly Rust.
//!
//! The same seed gives the same inputs. An input on which a target panics or does not return is
//! written to `artifacts/`.

mod artifacts;
mod watchdog;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mptcp_fuzz::{Generator, TARGETS, Target};
use watchdog::Watchdog;

/// Executions between two checks of the time.
const BATCH: u64 = 1_000;
/// The most places in which an input is changed.
const MAX_CHANGES: u64 = 6;

/// The options of the command line.
struct Wanted {
    time: Duration,
    seed: u64,
    target: Option<String>,
    /// An input that the target runs on once.
    replay: Option<PathBuf>,
}

impl Wanted {
    fn from_arguments() -> Result<Self, String> {
        let mut wanted = Self {
            time: Duration::from_secs(60),
            seed: 1,
            target: None,
            replay: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name}: expected a value after it"))?;
            match name.as_str() {
                "--seconds" => wanted.time = Duration::from_secs(whole_number(&name, &value)?),
                "--seed" => wanted.seed = whole_number(&name, &value)?,
                "--target" => wanted.target = Some(value),
                "--replay" => wanted.replay = Some(value.into()),
                _ => {
                    return Err(format!(
                        "{name}: expected --seconds, --seed, --target or --replay"
                    ));
                }
            }
        }
        Ok(wanted)
    }

    fn targets(&self) -> Result<Vec<&'static Target>, String> {
        let is_wanted = |target: &&Target| {
            self.target
                .as_deref()
                .is_none_or(|name| name == target.name)
        };
        let targets: Vec<_> = TARGETS.iter().filter(is_wanted).collect();
        match targets.is_empty() {
            false => Ok(targets),
            true => {
                let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                Err(format!("--target: expected one of {}", names.join(", ")))
            }
        }
    }
}

fn whole_number(name: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("{name}: expected a whole number, found {value}"))
}

fn main() -> ExitCode {
    match Wanted::from_arguments().and_then(|wanted| run(&wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Replays an input, or runs all targets, which share the time.
fn run(wanted: &Wanted) -> Result<(), String> {
    let targets = wanted.targets()?;
    if let Some(path) = &wanted.replay {
        let input = fs::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
        targets.iter().for_each(|target| (target.run)(&input));
        return Ok(());
    }
    let share = wanted.time / targets.len() as u32;
    for target in targets {
        let executions = run_target(target, wanted.seed, share)?;
        println!("{}: {executions} executions, no failure", target.name);
    }
    Ok(())
}

/// Runs a target for `time`. Returns how many inputs it survived.
fn run_target(target: &'static Target, seed: u64, time: Duration) -> Result<u64, String> {
    let corpus = corpus(target)?;
    let watchdog = Watchdog::start(target);
    for input in &corpus {
        watchdog.note(input);
        execute(target, input)?;
    }
    let mut generator = Generator(seed);
    let mut input = Vec::with_capacity(2 * target.longest);
    let start = Instant::now();
    let mut executions = 0;
    while start.elapsed() < time {
        for _ in 0..BATCH {
            make(target, &corpus, &mut generator, &mut input);
            watchdog.note(&input);
            execute(target, &input)?;
        }
        executions += BATCH;
    }
    Ok(executions)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the inputs of the corpus, in order of their names.
fn corpus(target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let folder = folder("corpus").join(target.name);
    let failed = |why| format!("{}: {why}", folder.display());
    let entries = fs::read_dir(&folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).map_err(failed))
        .collect()
}

fn execute(target: &Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input)))
        .map_err(|_| artifacts::report(target, "panic", input))
}

/// Makes the next input: a changed one from the corpus, or at times one from nothing.
fn make(target: &Target, corpus: &[Vec<u8>], generator: &mut Generator, input: &mut Vec<u8>) {
    input.clear();
    if generator.below(8) == 0 {
        let len = generator.below(target.longest / 2);
        input.extend((0..len).map(|_| generator.word() as u8));
        return;
    }
    input.extend_from_slice(&corpus[generator.below(corpus.len())]);
    for _ in 0..=generator.word() % MAX_CHANGES {
        change_once(corpus, generator, input);
    }
    input.truncate(target.longest);
}

fn change_once(corpus: &[Vec<u8>], generator: &mut Generator, input: &mut Vec<u8>) {
    let at = generator.below(input.len());
    let random = generator.word() as u8;
    match (generator.below(8), input.get_mut(at)) {
        (0..=2, Some(byte)) => *byte ^= 1 << (random % 8),
        (3, Some(byte)) => *byte = random,
        (4, Some(byte)) => *byte = [0, 1, 4, 30, 40, 127, 255][usize::from(random % 7)],
        (5, Some(_)) => input.truncate(at),
        (6, Some(_)) => drop(input.splice(at..at, [random; 4])),
        _ => splice(&corpus[generator.below(corpus.len())], generator, input),
    }
}

/// Writes a part of another input over `input`, from the same position on.
fn splice(other: &[u8], generator: &mut Generator, input: &mut Vec<u8>) {
    let from = generator.below(other.len().min(input.len()) + 1);
    let until = from + generator.below(other.len() - from + 1);
    let end = until.min(input.len());
    input.splice(from..end, other[from..until].iter().copied());
}
