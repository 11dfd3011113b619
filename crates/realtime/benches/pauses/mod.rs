//! Watches when the machine takes a processor away from everything that runs on it. The host of a
//! virtual machine does that, and nothing in the machine is on time then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How often a watcher looks at the clock.
const PERIOD: Duration = Duration::from_micros(500);
/// A watcher that wakes up later than this was paused.
const ON_TIME: Duration = Duration::from_millis(1);
/// Above the priority of the emulator and of Open vSwitch.
const PRIORITY: i32 = 50;

/// The time in which a processor ran nothing.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub from: Instant,
    pub until: Instant,
}

impl Pause {
    /// Returns whether a part of the pause lies between two times.
    pub fn overlaps(&self, from: Instant, until: Instant) -> bool {
        self.from < until && self.until > from
    }
}

/// Threads that run before all others, one on each processor, and notice when they wake up late.
pub struct Watch {
    has_ended: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<Vec<Pause>>>,
}

impl Watch {
    /// Starts the threads.
    pub fn start() -> Self {
        let processors = sched_getaffinity(None).expect("the processors of this process");
        let has_ended = Arc::new(AtomicBool::new(false));
        let watchers = (0..CpuSet::MAX_CPU)
            .filter(|&number| processors.is_set(number))
            .map(|number| {
                let has_ended = Arc::clone(&has_ended);
                thread::spawn(move || watch(number, &has_ended))
            })
            .collect();
        Self {
            has_ended,
            watchers,
        }
    }

    /// Ends the threads, and returns the pauses of all processors.
    pub fn end(self) -> Vec<Pause> {
        self.has_ended.store(true, Ordering::Relaxed);
        let pauses = self.watchers.into_iter().map(|watcher| watcher.join());
        pauses
            .flat_map(|of_one| of_one.expect("a watcher"))
            .collect()
    }
}

fn watch(processor: usize, has_ended: &AtomicBool) -> Vec<Pause> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).expect("a processor of this process");
    run_before_all_others();
    let mut pauses = Vec::new();
    while !has_ended.load(Ordering::Relaxed) {
        let due = Instant::now() + PERIOD;
        thread::sleep(PERIOD);
        let until = Instant::now();
        if until > due + ON_TIME {
            pauses.push(Pause { from: due, until });
        }
    }
    pauses
}

#[allow(unsafe_code)]
fn run_before_all_others() {
    let parameters = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: the pointer is to a live value of the right type.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    assert_eq!(result, 0, "root");
}
