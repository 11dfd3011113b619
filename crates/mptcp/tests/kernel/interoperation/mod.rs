//! The matrix: everything that can happen between the engine and the kernel, in all settings in
//! which it can.
//!
//! `MPTCP_MATRIX=full` runs every cell; otherwise as many as are needed for every two values to
//! meet.

mod acts;
mod pairwise;

use std::env;
use std::iter;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use acts::{ACTS, Act};
use mptcp::connection::Mode;
use pairwise::{Values, pairwise};

use crate::joins::joined;
use crate::judge::{Judge, Opener, Trial};
use crate::path::{End, Family};

const OPENERS: [Opener; 2] = [Opener::Engine, Opener::Kernel];
const SUBFLOWS: [usize; 3] = [1, 2, 8];

/// Bytes of each byte stream when all cells run, and when some run.
const LONG_STREAM_BYTES: u32 = 20_000_000;
const SHORT_STREAM_BYTES: u32 = 4_000_000;

/// Linux 6.18 loses the order of a byte stream in about one of a thousand cells with lost first
/// packets. Two failures in a row would be a sign of an error.
const MOST_TRIES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Families {
    V4,
    V6,
    /// The first path has IPv4 addresses, all others IPv6 addresses.
    Mixed,
}
const FAMILIES: [Families; 3] = [Families::V4, Families::V6, Families::Mixed];

/// The host that requires checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksums {
    Nobody,
    Engine,
    Kernel,
}
const CHECKSUMS: [Checksums; 3] = [Checksums::Nobody, Checksums::Engine, Checksums::Kernel];

/// The hosts and paths of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    opener: Opener,
    families: Families,
    checksums: Checksums,
    /// One on each path.
    pub subflows: usize,
}

impl Setting {
    pub fn we_open(&self) -> bool {
        self.opener == Opener::Engine
    }

    pub fn is_ipv4_only(&self) -> bool {
        self.families == Families::V4
    }

    /// Returns whether the setting is possible. A socket of the kernel that was bound to IPv4 joins
    /// over nothing else.
    fn is_possible(&self) -> bool {
        self.families != Families::Mixed || (self.we_open() && self.subflows > 1)
    }

    fn trial(&self, bytes: u32) -> Trial {
        let mut trial = Trial::new(self.opener);
        trial.paths = self.subflows;
        (trial.upload, trial.download) = (bytes, bytes);
        (trial.family, trial.further_family) = match self.families {
            Families::V4 => (Family::V4, None),
            Families::V6 => (Family::V6, None),
            Families::Mixed => (Family::V4, Some(Family::V6)),
        };
        if self.families != Families::V4 {
            Arc::make_mut(&mut trial.stack.config.subflow).mss_bytes = 1440;
        }
        trial.stack.config.uses_checksums = self.checksums == Checksums::Engine;
        trial.kernel_checksums = self.checksums == Checksums::Kernel;
        trial.manner.rests = self.subflows > 1;
        if !self.we_open() {
            let endpoint = |number| {
                let local = trial.address(number, End::Kernel);
                let id = endpoint_id(number);
                format!("{local} dev path{number} id {id} subflow")
            };
            trial.kernel_endpoints = (2..=self.subflows).map(endpoint).collect();
        }
        trial
    }
}

/// Returns the ID that the kernel gives its address on a path.
fn endpoint_id(path: usize) -> usize {
    path + 10
}

/// The indices of a cell's values: act, opener, families, checksums, subflows.
type Cell = Values<5>;

fn setting_of(cell: &Cell) -> (&'static Act, Setting) {
    let [act, opener, families, checksums, subflows] = *cell;
    let setting = Setting {
        opener: OPENERS[opener],
        families: FAMILIES[families],
        checksums: CHECKSUMS[checksums],
        subflows: SUBFLOWS[subflows],
    };
    (&ACTS[act], setting)
}

/// Returns all possible cells.
fn cells() -> Vec<Cell> {
    let lens = [
        ACTS.len(),
        OPENERS.len(),
        FAMILIES.len(),
        CHECKSUMS.len(),
        SUBFLOWS.len(),
    ];
    let count = lens.iter().product();
    let all = (0..count).map(|number: usize| {
        let mut rest = number;
        lens.map(|len| {
            let value = rest % len;
            rest /= len;
            value
        })
    });
    all.filter(|cell| {
        let (act, setting) = setting_of(cell);
        setting.is_possible() && (act.fits)(&setting)
    })
    .collect()
}

/// Creates both hosts of a cell.
fn judge_of(act: &Act, setting: &Setting, bytes: u32) -> Judge {
    let mut trial = setting.trial(bytes);
    (act.prepare)(&mut trial);
    Judge::new(trial)
}

/// Checks that both byte streams arrive, and that the kernel counts what it should.
fn holds(act: &Act, setting: &Setting, judge: &mut Judge) {
    judge.closes = false;
    (act.interfere)(judge);
    let joins = act.joins.unwrap_or(setting.subflows - 1);
    judge.run_until(|judge| judge.mode() == Some(Mode::Multipath) && joined(judge) == joins);
    (act.happen)(judge);
    judge.closes = true;
    (act.end)(judge);
    let (connections, joined) = match setting.opener {
        Opener::Engine => (["MPCapableSYNRX", "MPCapableACKRX"], "MPJoinAckRx"),
        Opener::Kernel => (["MPCapableSYNTX", "MPCapableSYNACKRX"], "MPJoinSynAckRx"),
    };
    for name in connections {
        assert_eq!(judge.counter(name), 1, "{name}");
    }
    assert!(judge.counter(joined) >= joins as u64, "{joined}");
    for name in act.counted {
        assert!(judge.counter(name) > 0, "{name}");
    }
    judge.assert_no_trouble_but(act.allowed);
}

/// Returns whether a cell holds. If the kernel misplaces data, the cell gets another try, which is
/// printed.
fn has_held(cell: &Cell, bytes: u32) -> bool {
    let (act, setting) = setting_of(cell);
    let name = format!("{}: {setting:?}", act.name);
    for _ in 0..MOST_TRIES {
        let mut judge = judge_of(act, &setting, bytes);
        let result = catch_unwind(AssertUnwindSafe(|| holds(act, &setting, &mut judge)));
        if result.is_ok() {
            return true;
        }
        judge.keep_capture(&name);
        if !judge.kernel_misplaced_data() {
            return false;
        }
        eprintln!("the kernel misplaced data, so once more: {name}");
    }
    false
}

/// Returns whether each cell holds. Cells wait most of the time, so each processor runs two of
/// them.
fn outcomes(cells: &[Cell], bytes: u32) -> Vec<bool> {
    let next = AtomicUsize::new(0);
    let take_cells = || {
        let numbers = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let mine = numbers.map_while(|number| Some((number, cells.get(number)?)));
        let outcome = |(number, cell)| (number, has_held(cell, bytes));
        mine.map(outcome).collect::<Vec<_>>()
    };
    let mut outcomes = vec![false; cells.len()];
    thread::scope(|scope| {
        let count = 2 * available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(take_cells)).collect();
        for (number, has_held) in workers.into_iter().flat_map(|one| one.join().unwrap()) {
            outcomes[number] = has_held;
        }
    });
    outcomes
}

/// By act and by opener: cells that held, and all cells.
type Table = Vec<[[usize; 2]; 2]>;

/// Prints how many cells held, in the form of `docs/results/interoperation.md`.
fn print(table: &Table) {
    println!("| what happens | we open | the kernel opens |\n|---|---|---|");
    for (act, counts) in ACTS.iter().zip(table) {
        let [ours, theirs] = counts.map(|[held, all]| match all {
            0 => String::new(),
            _ => format!("{held} of {all}"),
        });
        println!("| {} | {ours} | {theirs} |", act.name);
    }
}

#[test]
#[ignore = "needs root"]
fn the_kernel_and_we_understand_each_other() {
    let is_full = env::var_os("MPTCP_MATRIX").is_some_and(|value| value == "full");
    let (cells, bytes) = match is_full {
        true => (cells(), LONG_STREAM_BYTES),
        false => (pairwise(&cells()), SHORT_STREAM_BYTES),
    };
    let mut table: Table = vec![[[0; 2]; 2]; ACTS.len()];
    let mut failures = Vec::new();
    for (cell, held_at_first) in cells.iter().zip(outcomes(&cells, bytes)) {
        // A busy machine spoils a few. They get a second try, alone.
        let has_held = held_at_first || has_held(cell, bytes);
        let [held, all] = &mut table[cell[0]][cell[1]];
        *all += 1;
        *held += usize::from(has_held);
        if !has_held {
            let (act, setting) = setting_of(cell);
            failures.push(format!("{}: {setting:?}", act.name));
        }
    }
    print(&table);
    assert!(failures.is_empty(), "{failures:#?}");
}
