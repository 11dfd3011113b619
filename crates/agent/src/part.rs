//! The hosts of an experiment that another machine runs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use experiment::program::requests;

use crate::life::Life;
use crate::machine::{Load, machine};

/// Answers the requests for one part of a run on the standard input until it ends.
///
/// # Errors
/// Standard output fails.
pub fn serve(load: &Arc<Mutex<Load>>, life: Life) -> io::Result<()> {
    let load = || load.lock().unwrap_or_else(PoisonError::into_inner);
    let requests = requests(move || life.note());
    let begun = || *load() = Load::begin();
    realtime::serve_part(&requests, say, begun, || machine(&load()))
}

fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
