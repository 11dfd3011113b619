//! A back-end as a program of its own: what `mptcplab --on` asks of it over its standard input.
//!
//! The program is called as `PROGRAM serve`. A request is a line of JSON, and so is its answer.
//!
//! | request | answer |
//! |---|---|
//! | `"capabilities"` | `[[FEATURE, IS_THERE, WHY_NOT], ..]` |
//! | `{"check": EXPERIMENT}` | `[[FEATURE, WHY_NOT], ..]`: what the back-end lacks for it |
//! | `{"start": {"seed": N, "directory": PATH, "experiment": EXPERIMENT}}` | the first tick |
//! | `{"advance": UNTIL_NS}` | a tick: `{"now_ns": N, "ended": BOOL, "latest": VALUES, "events": EVENTS}` |
//! | `{"inject": ACTION}` | the recorded event |
//! | `"finish"` | `{"summary": SUMMARY, "files": FILES, "machine": MACHINE}` |
//! | `"machine"` | what the program knows of its machine, or `null` |
//! | an empty line | none: the caller is alive |
//!
//! The events of a tick are those that happened since the last one.
//!
//! A request that fails is answered with `{"error": {"kind": KIND, "text": TEXT}}`, in which KIND is
//! `refused`, `file` or `machine` as in [`RunError`]. The end of the input ends the program, and a
//! run in progress with it.
//!
//! Without a directory, the tables of a run are in a [`Scratch`] directory. `files` is then
//! `[[NAME, BYTES, SHA256], ..]`, and the contents follow the line in that order. Empty lines of the
//! program mean that it is alive.

mod scratch;

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::capabilities::{Capability, Missing};
use crate::resolved::{Action, Experiment};
use crate::run::{Run, RunError};
use crate::time::Nanos;

use scratch::RunFile;
pub use scratch::Scratch;

/// The exit status of a program for a wrong command line.
pub const WRONG_USAGE: u8 = 2;
/// The exit status of a program that failed.
pub const FAILED: u8 = 4;
/// The time in which a program ends by itself once its input has ended.
const GRACE: Duration = Duration::from_secs(2);
/// The time by which a run advances between two looks for a request.
const SLICE: Nanos = 5_000_000;

/// A back-end that a program offers.
pub trait BackEnd {
    /// Whether its runs advance by themselves, as time does.
    const IN_REAL_TIME: bool;

    /// Returns its capabilities on this machine.
    fn capabilities(&self) -> Vec<Capability>;

    /// Returns the features of an experiment that it lacks.
    fn check(&self, experiment: &Experiment) -> Vec<Missing>;

    /// Starts a run that writes its tables into `directory`. `resolved` is the experiment as JSON.
    ///
    /// # Errors
    /// The back-end refuses the experiment, or the machine does.
    fn start(
        &self,
        experiment: Experiment,
        resolved: &str,
        seed: u64,
        directory: &Path,
    ) -> Result<Box<dyn Run>, RunError>;

    /// Returns the description of its machine, during a run with the load since its start.
    fn machine(&self) -> Value {
        Value::Null
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Capabilities,
    Check(Box<RawValue>),
    Start(Start),
    Advance(Nanos),
    Inject(Action),
    Machine,
    Finish,
}

#[derive(Deserialize)]
struct Start {
    seed: u64,
    directory: Option<PathBuf>,
    experiment: Box<RawValue>,
}

/// A run in progress, and where its tables are.
struct Started {
    run: Box<dyn Run>,
    scratch: Option<Scratch>,
    has_ended: bool,
    /// The number of events that were in ticks.
    events: usize,
}

/// Answers the requests on the standard input until it ends. `on_line` is called for each line that
/// arrives, also while a request is answered.
///
/// # Errors
/// Standard input or output fails.
pub fn serve(back_end: &impl BackEnd, on_line: impl Fn() + Send + 'static) -> io::Result<()> {
    let requests = requests(on_line);
    let mut started = None;
    while let Some(request) = next(back_end, &requests, &mut started) {
        match serde_json::from_str(&request) {
            Ok(Request::Finish) => finish(back_end, started.take())?,
            Ok(request) => say(&answer(back_end, request, &mut started))?,
            Err(error) => say(&refused(&error))?,
        }
    }
    Ok(())
}

/// Starts the thread that reads the lines of the standard input, and returns those that are requests.
/// `on_line` is called for each line. It ends the program
/// some time after the end of the input, because a request may take long that no caller waits for.
pub fn requests(on_line: impl Fn() + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            on_line();
            if !line.is_empty() && sender.send(line).is_err() {
                break;
            }
        }
        drop(sender);
        thread::sleep(GRACE);
        Scratch::remove_all();
        exit(FAILED.into());
    });
    receiver
}

/// Waits for the next request. A run in real time advances meanwhile.
fn next<B: BackEnd>(
    _: &B,
    requests: &Receiver<String>,
    started: &mut Option<Started>,
) -> Option<String> {
    loop {
        let Some(started) = started
            .as_mut()
            .filter(|one| B::IN_REAL_TIME && !one.has_ended)
        else {
            return requests.recv().ok();
        };
        match requests.try_recv() {
            Ok(request) => return Some(request),
            Err(TryRecvError::Disconnected) => return None,
            // What fails now fails again when the caller asks.
            Err(TryRecvError::Empty) => {
                let until = started.run.now().saturating_add(SLICE);
                started.has_ended = started.run.advance(until).unwrap_or(true);
            }
        }
    }
}

fn answer(back_end: &impl BackEnd, request: Request, started: &mut Option<Started>) -> Value {
    let done = match request {
        Request::Capabilities => Ok(rows(back_end.capabilities())),
        Request::Check(text) => check(back_end, text.get()),
        Request::Start(request) => start(back_end, request).map(|run| tick(started.insert(run))),
        Request::Advance(until) => in_progress(started).and_then(|started| {
            started.has_ended = started.run.advance(until)?;
            Ok(tick(started))
        }),
        Request::Inject(action) => in_progress(started)
            .and_then(|started| Ok(serde_json::to_value(started.run.inject(&action)?)?)),
        Request::Machine => Ok(back_end.machine()),
        Request::Finish => Err(RunError::Refused("finish is answered elsewhere".into())),
    };
    done.unwrap_or_else(|error| failure(&error))
}

fn rows(capabilities: Vec<Capability>) -> Value {
    let row = |one: Capability| {
        let why = one.missing_because;
        json!([one.feature, why.is_none(), why.unwrap_or_default()])
    };
    capabilities.into_iter().map(row).collect()
}

fn check(back_end: &impl BackEnd, text: &str) -> Result<Value, RunError> {
    let missing = back_end.check(&read(text)?).into_iter();
    Ok(missing
        .map(|one: Missing| json!([one.feature, one.why]))
        .collect())
}

fn start(back_end: &impl BackEnd, request: Start) -> Result<Started, RunError> {
    let text = request.experiment.get();
    let scratch = match request.directory {
        Some(_) => None,
        None => Some(Scratch::create().map_err(|error| RunError::File(error.into()))?),
    };
    let given = request.directory.as_deref();
    let directory = given.or(scratch.as_ref().map(Scratch::path));
    let directory = directory.unwrap_or(Path::new("."));
    Ok(Started {
        run: back_end.start(read(text)?, text, request.seed, directory)?,
        scratch,
        has_ended: false,
        events: 0,
    })
}

fn read(text: &str) -> Result<Experiment, RunError> {
    Experiment::from_json(text).map_err(|error| RunError::Refused(error.into()))
}

fn in_progress(started: &mut Option<Started>) -> Result<&mut Started, RunError> {
    let none = || RunError::Refused("no run is in progress".into());
    started.as_mut().ok_or_else(none)
}

fn tick(started: &mut Started) -> Value {
    let run = &started.run;
    let happened = run.record().schedule.record();
    let events = &happened[started.events..];
    started.events = happened.len();
    json!({
        "now_ns": run.now(), "ended": started.has_ended, "latest": run.latest(), "events": events,
    })
}

/// Ends the run, and prints its summary and its files.
fn finish(back_end: &impl BackEnd, started: Option<Started>) -> io::Result<()> {
    let Some(Started { run, scratch, .. }) = started else {
        return say(&refused(&"no run is in progress"));
    };
    // First of all, because traffic goes on until then.
    let summary = match run.finish_as_json() {
        Ok(summary) => summary,
        Err(error) => return say(&failure(&error)),
    };
    let machine = back_end.machine();
    let files = match scratch.as_ref().map_or(Ok(Vec::new()), Scratch::files) {
        Ok(files) => files,
        Err(error) => return say(&failure(&RunError::File(error.into()))),
    };
    let rows: Value = files.iter().map(RunFile::as_row).collect();
    // Not parsed and written again, because that may change the last digit of a number.
    let mut output = io::stdout().lock();
    writeln!(
        output,
        r#"{{"summary":{summary},"files":{rows},"machine":{machine}}}"#
    )?;
    for file in &files {
        io::copy(&mut file.open()?, &mut output)?;
    }
    output.flush()
}

fn failure(error: &RunError) -> Value {
    let kind = match error {
        RunError::Refused(_) => "refused",
        RunError::File(_) => "file",
        RunError::Machine(_) => "machine",
    };
    json!({"error": {"kind": kind, "text": error.to_string()}})
}

fn refused(why: &impl ToString) -> Value {
    json!({"error": {"kind": "refused", "text": why.to_string()}})
}

fn say(value: &Value) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{value}")?;
    output.flush()
}
