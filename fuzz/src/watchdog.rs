//! Detects an input from which a target does not return.

use std::process::exit;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use mptcp_fuzz::Target;

use crate::artifacts;

/// The longest time of an execution.
const LIMIT: Duration = Duration::from_secs(10);

/// The current execution.
#[derive(Default)]
struct Current {
    executions: u64,
    input: Vec<u8>,
}

/// Stores the input of an execution that takes too long and ends the program.
#[derive(Clone, Default)]
pub struct Watchdog(Arc<Mutex<Current>>);

impl Watchdog {
    /// Starts to watch the executions of a target.
    pub fn start(target: &'static Target) -> Self {
        let watchdog = Self::default();
        let watched = Arc::clone(&watchdog.0);
        thread::spawn(move || watch(target, &watched));
        watchdog
    }

    /// Records that the next execution begins.
    pub fn note(&self, input: &[u8]) {
        let mut current = self.0.lock().expect("nobody panics with it");
        current.executions += 1;
        current.input.clear();
        current.input.extend_from_slice(input);
    }
}

fn watch(target: &Target, watched: &Arc<Mutex<Current>>) {
    let mut before = 0;
    // The thread ends after the target's last execution, when it holds the only reference.
    while Arc::strong_count(watched) > 1 {
        thread::sleep(LIMIT);
        let current = watched.lock().expect("nobody panics with it");
        if current.executions == before && Arc::strong_count(watched) > 1 {
            eprintln!("{}", artifacts::report(target, "hang", &current.input));
            exit(1);
        }
        before = current.executions;
    }
}
