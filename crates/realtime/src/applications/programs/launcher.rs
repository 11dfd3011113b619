//! The thread that starts the programs of a run, reads their output and waits for their end.
//!
//! It is a thread of its own for two reasons: a thread that has unshared the PID namespace of its
//! children cannot start threads, and the init ends with it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use experiment::time::Nanos;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::output::Output;
use super::plan::FlowPrograms;
use super::process::{Order, start_init};
use super::sockets::Role;
use crate::{Clock, LiveError, sys};

/// How long programs have to end by themselves at the end of the run.
const TIME_TO_END: Duration = Duration::from_secs(1);

/// Pieces read from one program before the others get their turn.
const PIECES_IN_A_ROW: usize = 16;

/// Why a program was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To serve the flow of that index, before it starts.
    Server(usize),
    /// To carry the flow of that index.
    Flow(usize),
    /// For the event of that id.
    Event(String),
}

/// A program that was started.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) purpose: Purpose,
    pub(super) role: Option<Role>,
    pub(super) host: String,
    pub(super) argv: Vec<String>,
    pub(super) pid: u32,
    pub(super) started_ns: Nanos,
    pub(super) end: Option<End>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) at_ns: Nanos,
    pub(super) status: ExitStatus,
    /// Whether it ended because of the end of the run.
    pub(super) was_asked: bool,
}

/// What the thread reports to the others.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(super) records: Vec<Record>,
    /// Flows whose program could not be started, and why.
    pub(super) failures: Vec<(usize, String)>,
    /// An error of the thread itself.
    pub(super) trouble: Option<String>,
}

/// The journal, shared by all threads.
pub(crate) type SharedJournal = Arc<Mutex<Journal>>;

/// Locks the journal, even after a panic in another thread.
pub(super) fn locked(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Request {
    Start {
        order: Order,
        purpose: Purpose,
        role: Option<Role>,
        answer: mpsc::Sender<Result<usize, LiveError>>,
    },
    Spawn {
        order: Order,
        answer: mpsc::Sender<Result<Child, LiveError>>,
    },
    Begin(Clock, Vec<FlowPrograms>),
    Stop,
}

/// The handle of the thread. Dropping it ends all programs.
pub(crate) struct Launcher {
    requests: mpsc::Sender<Request>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Launcher {
    /// Creates the PID namespace. Long outputs go to `directory`.
    pub(crate) fn start(directory: PathBuf, journal: SharedJournal) -> Result<Self, LiveError> {
        let (requests, incoming) = mpsc::channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(LiveError::while_("making an eventfd"))?;
        let wake = Arc::new(wake);
        let (started, is_started) = mpsc::channel();
        let woken = Arc::clone(&wake);
        let run = move || {
            let init = sys::unshare_pids_of_children()
                .map_err(LiveError::while_("making a PID namespace for programs"))
                .and_then(|()| start_init());
            let init = match init {
                Ok(init) => init,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let _ = started.send(Ok(()));
            let mut keeper = Keeper {
                requests: incoming,
                wake: woken,
                journal,
                directory,
                clock: None,
                scheduled: Vec::new(),
                running: Vec::new(),
                stops_at: None,
            };
            keeper.keep();
            keeper.end(init);
        };
        let thread = thread::Builder::new()
            .name("programs".to_owned())
            .spawn(run)
            .map_err(LiveError::while_("starting the thread for programs"))?;
        let dead = || LiveError::Failed("the thread for programs has ended".to_owned());
        is_started.recv().map_err(|_| dead())??;
        Ok(Self {
            requests,
            wake,
            thread: Some(thread),
        })
    }

    fn send(&self, request: Request) {
        // If the thread has ended, callers that wait for an answer get an error.
        let _ = self.requests.send(request);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Starts a program now. Returns its index in the journal.
    pub(super) fn execute(
        &self,
        order: Order,
        purpose: Purpose,
        role: Option<Role>,
    ) -> Result<usize, LiveError> {
        let (answer, answered) = mpsc::channel();
        self.send(Request::Start {
            order,
            purpose,
            role,
            answer,
        });
        let dead = |_| LiveError::Failed("the thread for programs has ended".to_owned());
        answered.recv().map_err(dead)?
    }

    /// Starts a program now and returns it with its pipes. It is not in the journal, and its end is
    /// for the caller to notice. It ends with the launcher at the latest.
    pub(crate) fn spawn(&self, order: Order) -> Result<Child, LiveError> {
        let (answer, answered) = mpsc::channel();
        self.send(Request::Spawn { order, answer });
        let dead = |_| LiveError::Failed("the thread for programs has ended".to_owned());
        answered.recv().map_err(dead)?
    }

    /// Lets flows start when they are due.
    pub(super) fn begin(&self, clock: Clock, flows: Vec<FlowPrograms>) {
        self.send(Request::Begin(clock, flows));
    }

    /// Ends all programs and waits until none is left.
    pub(crate) fn stop(&mut self) -> Result<(), LiveError> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        self.send(Request::Stop);
        thread
            .join()
            .map_err(|_| LiveError::Failed("the thread for programs panicked".to_owned()))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

struct Keeper {
    requests: mpsc::Receiver<Request>,
    wake: Arc<OwnedFd>,
    journal: SharedJournal,
    directory: PathBuf,
    clock: Option<Clock>,
    scheduled: Vec<FlowPrograms>,
    running: Vec<Running>,
    /// Set at the end of the run: the time until which programs may end by themselves.
    stops_at: Option<Instant>,
}

/// A program that is still running or has output to read.
struct Running {
    record: usize,
    child: Child,
    /// Readable when the program has ended.
    process: OwnedFd,
    has_ended: bool,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Keeper {
    fn keep(&mut self) {
        loop {
            self.wait();
            self.listen();
            while let Ok(request) = self.requests.try_recv() {
                self.serve(request);
            }
            self.start_due();
            if let Some(until) = self.stops_at {
                let all_ended = self.running.iter().all(|running| running.has_ended);
                if all_ended || Instant::now() >= until {
                    return;
                }
            }
        }
    }

    fn now(&self) -> Nanos {
        self.clock.map_or(0, |clock| clock.now())
    }

    /// Waits until something happens or is due.
    fn wait(&self) {
        let due = self.scheduled.iter().map(|flow| flow.start_ns).min();
        let due = due.zip(self.clock).map(|(at, clock)| clock.until(at));
        let stop = self.stops_at;
        let stop = stop.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = [due, stop].into_iter().flatten().min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut awaited = vec![PollFd::new(&self.wake, PollFlags::IN)];
        for running in &self.running {
            let pipes = running.stdout.iter().map(AsFd::as_fd);
            let pipes = pipes.chain(running.stderr.iter().map(AsFd::as_fd));
            awaited.extend(pipes.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
            if !running.has_ended {
                awaited.push(PollFd::new(&running.process, PollFlags::IN));
            }
        }
        // The loop waits again after an interrupted wait.
        let _ = poll(&mut awaited, timeout.as_ref());
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count);
    }

    /// Reads the output of programs, and records which have ended.
    fn listen(&mut self) {
        let now = self.now();
        let was_asked = self.stops_at.is_some();
        let mut journal = locked(&self.journal);
        for running in &mut self.running {
            let record = &mut journal.records[running.record];
            let outcome = drain(&mut running.stdout, &mut record.stdout)
                .and_then(|()| drain(&mut running.stderr, &mut record.stderr));
            if !running.has_ended
                && let Ok(Some(status)) = running.child.try_wait()
            {
                running.has_ended = true;
                record.end = Some(End {
                    at_ns: now,
                    status,
                    was_asked,
                });
            }
            if let Err(error) = outcome {
                let what = format!("{}: keeping its output: {error}", record.argv.join(" "));
                journal.trouble.get_or_insert(what);
            }
        }
        drop(journal);
        self.running.retain(|running| {
            !running.has_ended || running.stdout.is_some() || running.stderr.is_some()
        });
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::Start {
                order,
                purpose,
                role,
                answer,
            } => {
                let started = self.start(&order, purpose, role);
                let _ = answer.send(started);
            }
            Request::Spawn { order, answer } => {
                let _ = answer.send(order.start());
            }
            Request::Begin(clock, flows) => {
                self.clock = Some(clock);
                self.scheduled = flows;
            }
            Request::Stop => {
                self.scheduled.clear();
                self.ask_to_end();
                self.stops_at = Some(Instant::now() + TIME_TO_END);
            }
        }
    }

    fn start_due(&mut self) {
        let now = self.now();
        if self.clock.is_none() {
            return;
        }
        let (due, later) = std::mem::take(&mut self.scheduled)
            .into_iter()
            .partition(|flow| flow.start_ns <= now);
        self.scheduled = later;
        for FlowPrograms { flow, client, .. } in due {
            let (order, role) = client;
            if let Err(error) = self.start(&order, Purpose::Flow(flow), Some(role)) {
                locked(&self.journal)
                    .failures
                    .push((flow, error.to_string()));
            }
        }
    }

    fn start(
        &mut self,
        order: &Order,
        purpose: Purpose,
        role: Option<Role>,
    ) -> Result<usize, LiveError> {
        let started_ns = self.now();
        let mut child = order.start()?;
        let pid = child.id();
        let process = Pid::from_raw(pid.cast_signed())
            .ok_or(io::ErrorKind::InvalidInput.into())
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?))
            .map_err(LiveError::while_::<io::Error>("watching a program"))?;
        let mut journal = locked(&self.journal);
        let record = journal.records.len();
        let output = |which: &str| Output::new(self.directory.join(format!("{record}.{which}")));
        let new = Record {
            purpose,
            role,
            host: order.host.clone(),
            argv: order.argv.clone(),
            pid,
            started_ns,
            end: None,
            stdout: output("stdout"),
            stderr: output("stderr"),
        };
        journal.records.push(new);
        self.running.push(Running {
            record,
            process,
            has_ended: false,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
        });
        Ok(record)
    }

    /// Asks programs to end. iperf3 writes its results when it is interrupted, and its server when
    /// the client has ended.
    fn ask_to_end(&self) {
        let journal = locked(&self.journal);
        for running in self.running.iter().filter(|running| !running.has_ended) {
            let signal = match (
                &journal.records[running.record].purpose,
                running.role_has_control(&journal),
            ) {
                (Purpose::Server(_), _) => continue,
                (_, true) => Signal::INT,
                (_, false) => Signal::TERM,
            };
            if let Some(group) = Pid::from_raw(running.child.id().cast_signed()) {
                // The program may just have ended.
                let _ = kill_process_group(group, signal);
            }
        }
    }

    /// Kills the remaining programs and collects their status.
    fn end(&mut self, mut init: Child) {
        // The init may have ended by itself, in which case its namespace is already empty.
        let _ = init.kill();
        for running in &mut self.running {
            if !running.has_ended {
                let _ = running.child.kill();
                let status = running.child.wait();
                let mut journal = locked(&self.journal);
                journal.records[running.record].end = Some(End {
                    at_ns: self.clock.map_or(0, |clock| clock.now()),
                    status: status.unwrap_or_else(|_| ExitStatus::from_raw(Signal::KILL.as_raw())),
                    was_asked: true,
                });
                running.has_ended = true;
            }
        }
        // The init ends only after all other processes.
        let _ = init.wait();
        while !self.running.is_empty() {
            self.listen();
        }
    }
}

impl Running {
    fn role_has_control(&self, journal: &Journal) -> bool {
        journal.records[self.record]
            .role
            .is_some_and(|role| role.has_control)
    }
}

/// Reads the available output without blocking. Stops after some pieces, because a program may
/// write without end.
fn drain<P: io::Read + AsFd>(pipe: &mut Option<P>, output: &mut Output) -> io::Result<()> {
    for _ in 0..PIECES_IN_A_ROW {
        let Some(open) = pipe else { break };
        let mut ready = [PollFd::new(open, PollFlags::IN)];
        let at_once = Timespec::default();
        if poll(&mut ready, Some(&at_once)).is_ok_and(|count| count == 0) {
            return Ok(());
        }
        if !output.read_from(open)? {
            *pipe = None;
        }
    }
    Ok(())
}
