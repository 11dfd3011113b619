//! The controller of a run: a program in the namespace of the switches. Ours reports in lines of
//! JSON, and takes commands in the same form; one of the user is only started.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use experiment::resolved::Hop;
use experiment::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::applications::programs::launcher::Launcher;
use crate::applications::programs::process::Order;
use crate::{Clock, LiveError};

/// Bytes of its standard error that are kept.
const MOST_KEPT_BYTES: usize = 64 * 1024;

/// A command to our controller.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Command {
    /// To send the packets of a path over other links.
    Reroute {
        /// Id of the event.
        id: String,
        flow: String,
        path: u32,
        there: Vec<Hop>,
        back: Vec<Hop>,
    },
    /// To let another strategy recover the network.
    SetRecovery {
        /// Id of the event.
        id: String,
        strategy: String,
    },
    /// That a link has failed.
    Failed { link: String },
    /// That a link is repaired.
    Repaired { link: String },
}

/// What our controller says. Times are those of the monotonic clock.
#[derive(Debug, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
enum Said {
    Ready {
        #[serde(default)]
        entries: u64,
    },
    Reaction {
        cause: Option<String>,
        detected_ns: u64,
        installed_ns: u64,
        #[serde(default)]
        flows: Vec<serde_json::Value>,
    },
    Statistics {
        at_ns: u64,
        switches: std::collections::BTreeMap<String, Exchanged>,
    },
    Problem {
        text: String,
    },
    #[serde(other)]
    Other,
}

/// Packets that a switch has handed to the controller and got from it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Exchanged {
    #[serde(default)]
    pub(super) packet_ins: u64,
    #[serde(default)]
    pub(super) packet_outs: u64,
}

/// What the controller did after a failure, a repair or a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reaction {
    /// Id of the link or event that caused it.
    pub cause: Option<String>,
    /// When the controller knew of it.
    pub detected_ns: Nanos,
    /// When the switches had answered the barriers after the last entry.
    pub installed_ns: Nanos,
    /// The paths that changed, as the controller names them.
    pub flows: Vec<serde_json::Value>,
}

/// A problem that the controller reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// When it was read.
    pub at_ns: Nanos,
    /// Its text.
    pub text: String,
}

/// What became of the controller.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerSummary {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The entries that it had installed when it was ready; `None` if it does not say.
    pub entries: Option<u64>,
    /// When it ended; `None` if it ran until the end.
    pub ended_ns: Option<Nanos>,
    /// Its exit status, if it ended by itself.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it did after failures, repairs and commands.
    pub reactions: Vec<Reaction>,
    /// Problems that it reported.
    pub problems: Vec<Problem>,
    /// The end of its standard error.
    pub stderr: String,
}

/// The running controller.
pub(super) struct Controller {
    child: Child,
    /// `None` for a controller of the user.
    input: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
    stderr: Arc<Mutex<Vec<u8>>>,
    end: Option<(Nanos, ExitStatus)>,
    summary: ControllerSummary,
}

impl Controller {
    /// Starts the controller. With `takes_input` it takes commands.
    ///
    /// # Errors
    /// The program is missing, or the system refuses.
    pub(super) fn start(launcher: &Launcher, order: Order) -> Result<Self, LiveError> {
        let argv = order.argv.clone();
        let mut child = launcher.spawn(order)?;
        let input = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            read_in_thread(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send((Instant::now(), line)).is_err() {
                        return;
                    }
                }
            })?;
        }
        let stderr: Arc<Mutex<Vec<u8>>> = Arc::default();
        if let Some(output) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            read_in_thread(move || keep_end(output, &kept))?;
        }
        Ok(Self {
            child,
            input,
            lines,
            stderr,
            end: None,
            summary: ControllerSummary {
                argv,
                entries: None,
                ended_ns: None,
                exit_status: None,
                signal: None,
                reactions: Vec::new(),
                problems: Vec::new(),
                stderr: String::new(),
            },
        })
    }

    /// Waits until the controller says that all entries are installed.
    ///
    /// # Errors
    /// It ends, or is not ready at `until`.
    pub(super) fn await_ready(&mut self, until: Instant) -> Result<(), LiveError> {
        loop {
            self.check_alive()?;
            let patience = until.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(patience.min(Duration::from_millis(20)));
            match line {
                Ok((_, line)) => match serde_json::from_str(&line) {
                    Ok(Said::Ready { entries }) => {
                        self.summary.entries = Some(entries);
                        return Ok(());
                    }
                    Ok(Said::Problem { text }) => self.add_problem(0, text),
                    _ => {}
                },
                Err(RecvTimeoutError::Timeout) if patience.is_zero() => {
                    return Err(self.failure("was not ready in time"));
                }
                Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(1)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() > until {
                return Err(self.failure("was not ready in time"));
            }
        }
    }

    /// # Errors
    /// It has ended.
    pub(super) fn check_alive(&mut self) -> Result<(), LiveError> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(self.failure(&format!("ended with {status}"))),
            _ => Ok(()),
        }
    }

    pub(super) fn failure(&self, what: &str) -> LiveError {
        let problems = self
            .summary
            .problems
            .iter()
            .map(|problem| problem.text.clone());
        let said = self.stderr_text();
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let why: Vec<String> = problems.chain(last.map(str::to_owned)).collect();
        let why = match why.is_empty() {
            true => String::new(),
            false => format!(": {}", why.join("; ")),
        };
        LiveError::Failed(format!(
            "the controller {} {what}{why}",
            self.summary.argv.join(" ")
        ))
    }

    /// Sends a command. One that has ended, or takes none, gets nothing.
    pub(super) fn tell(&mut self, command: &Command) {
        let line = serde_json::to_string(command).expect("it has only strings and numbers");
        let Some(input) = &mut self.input else { return };
        if input.write_all(format!("{line}\n").as_bytes()).is_err() {
            self.input = None;
        }
    }

    /// Takes what the controller said, and notices its end. Returns the packets that switches have
    /// exchanged with it, by time and switch.
    pub(super) fn listen(&mut self, clock: Clock) -> Vec<(Nanos, String, Exchanged)> {
        let mut exchanged = Vec::new();
        while let Ok((_, line)) = self.lines.try_recv() {
            match serde_json::from_str(&line) {
                Ok(Said::Reaction {
                    cause,
                    detected_ns,
                    installed_ns,
                    flows,
                }) => self.summary.reactions.push(Reaction {
                    cause,
                    detected_ns: clock.at_monotonic(detected_ns),
                    installed_ns: clock.at_monotonic(installed_ns),
                    flows,
                }),
                Ok(Said::Statistics { at_ns, switches }) => {
                    let at_ns = clock.at_monotonic(at_ns);
                    let rows = switches.into_iter();
                    exchanged.extend(rows.map(|(switch, counted)| (at_ns, switch, counted)));
                }
                Ok(Said::Problem { text }) => self.add_problem(clock.now(), text),
                Ok(Said::Ready { .. } | Said::Other) | Err(_) => {}
            }
        }
        if self.end.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.end = Some((clock.now(), status));
        }
        exchanged
    }

    fn add_problem(&mut self, at_ns: Nanos, text: String) {
        self.summary.problems.push(Problem { at_ns, text });
    }

    fn stderr_text(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Ends it, and returns what became of it.
    pub(super) fn stop(&mut self) -> ControllerSummary {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut summary = self.summary.clone();
        if let Some((at_ns, status)) = self.end {
            summary.ended_ns = Some(at_ns);
            summary.exit_status = status.code();
            summary.signal = status.signal();
        }
        summary.stderr = self.stderr_text();
        summary
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_in_thread(read: impl FnOnce() + Send + 'static) -> Result<(), LiveError> {
    let thread = thread::Builder::new()
        .name("controller".to_owned())
        .spawn(read);
    thread
        .map(drop)
        .map_err(LiveError::while_("starting a thread for the controller"))
}

/// Reads to the end, and keeps the last bytes.
fn keep_end(mut output: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = output.read(&mut piece) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&piece[..length]);
        let too_many = kept.len().saturating_sub(MOST_KEPT_BYTES);
        kept.drain(..too_many);
    }
}
