//! Changes packets of the corpus at random and gives them to the parser: for machines without nightly Rust.
//!
//! The same seed gives the same packets. What makes the parser panic is written to `artifacts/`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Executions between two looks at the clock.
const BATCH: u64 = 10_000;
/// An input is changed in at most so many places.
const MAX_CHANGES: u64 = 6;
/// Longest input in bytes.
const MAX_LEN: usize = 512;

/// What was asked for on the command line.
struct Wanted {
    time: Duration,
    seed: u64,
}

impl Wanted {
    fn from_arguments() -> Result<Self, String> {
        let mut wanted = Self {
            time: Duration::from_secs(60),
            seed: 1,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().and_then(|value| value.parse().ok());
            let value = value.ok_or_else(|| format!("{name}: expected a whole number"))?;
            match name.as_str() {
                "--seconds" => wanted.time = Duration::from_secs(value),
                "--seed" => wanted.seed = value,
                _ => return Err(format!("{name}: expected --seconds or --seed")),
            }
        }
        Ok(wanted)
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn main() -> ExitCode {
    match Wanted::from_arguments().and_then(|wanted| run(&wanted)) {
        Ok(executions) => {
            println!("{executions} executions, no failure");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// How many inputs the parser survived.
fn run(wanted: &Wanted) -> Result<u64, String> {
    let corpus = corpus()?;
    let mut generator = Generator(wanted.seed);
    let mut input = Vec::with_capacity(2 * MAX_LEN);
    let start = Instant::now();
    let mut executions = 0;
    while start.elapsed() < wanted.time {
        for _ in 0..BATCH {
            change(&corpus, &mut generator, &mut input);
            execute(&input)?;
        }
        executions += BATCH;
    }
    Ok(executions)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The packets to start from, in the order of their names.
fn corpus() -> Result<Vec<Vec<u8>>, String> {
    let folder = folder("corpus/parse");
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

fn execute(input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| mptcp_fuzz::parse(input))).map_err(|_| {
        let path = folder("artifacts/parse/panic");
        let kept =
            fs::create_dir_all(folder("artifacts/parse")).and_then(|()| fs::write(&path, input));
        match kept {
            Ok(()) => format!("the input is in {}", path.display()),
            Err(why) => format!("{}: {why}; the input was {input:?}", path.display()),
        }
    })
}

/// Makes the next input from a packet of the corpus.
fn change(corpus: &[Vec<u8>], generator: &mut Generator, input: &mut Vec<u8>) {
    input.clear();
    input.extend_from_slice(&corpus[generator.below(corpus.len())]);
    for _ in 0..=generator.next() % MAX_CHANGES {
        change_once(corpus, generator, input);
    }
    input.truncate(MAX_LEN);
}

fn change_once(corpus: &[Vec<u8>], generator: &mut Generator, input: &mut Vec<u8>) {
    let at = generator.below(input.len());
    let random = generator.next() as u8;
    match (generator.below(8), input.get_mut(at)) {
        (0..=2, Some(byte)) => *byte ^= 1 << (random % 8),
        (3, Some(byte)) => *byte = random,
        (4, Some(byte)) => *byte = [0, 1, 4, 30, 40, 127, 255][usize::from(random % 7)],
        (5, Some(_)) => input.truncate(at),
        (6, Some(_)) => drop(input.splice(at..at, [random; 4])),
        _ => splice(&corpus[generator.below(corpus.len())], generator, input),
    }
}

/// Writes a part of another packet over this one, from the same place on.
fn splice(other: &[u8], generator: &mut Generator, input: &mut Vec<u8>) {
    let from = generator.below(other.len().min(input.len()) + 1);
    let until = from + generator.below(other.len() - from + 1);
    let end = until.min(input.len());
    input.splice(from..end, other[from..until].iter().copied());
}
