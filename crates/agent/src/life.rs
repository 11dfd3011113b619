//! Ends the process when its caller is silent, and tells the caller that the process lives.

use std::io::{self, Write};
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use experiment::program::{FAILED, Scratch};

use crate::machine::Load;

/// The time without a line from the caller after which the process ends. The caller sends a line
/// each second.
pub const SILENCE: Duration = Duration::from_secs(10);
/// The interval of the empty lines to the caller, and of the samples of the load.
const BEAT: Duration = Duration::from_secs(1);

/// When the last line arrived, in milliseconds after the start.
#[derive(Clone)]
pub struct Life {
    start: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Life {
    /// Notes that a line has arrived.
    pub fn note(&self) {
        let now_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now_ms, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }
}

/// Starts two threads: one sends the lines, and may have to wait until the caller reads them; the
/// other samples the load, and ends the process after this `silence`, if any.
pub fn watch(load: Arc<Mutex<Load>>, silence: Option<Duration>) -> Life {
    let life = Life {
        start: Instant::now(),
        last_ms: Arc::default(),
    };
    let watched = life.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(BEAT);
            load.lock().unwrap_or_else(PoisonError::into_inner).sample();
            if silence.is_some_and(|longest| watched.silence() > longest) {
                Scratch::remove_all();
                exit(FAILED.into());
            }
        }
    });
    thread::spawn(|| {
        loop {
            thread::sleep(BEAT);
            let mut output = io::stdout().lock();
            if writeln!(output).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
    });
    life
}
