//! Threads that run tasks in a host. They block in one wait only, which a stop ends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use experiment::time::{NANOS_PER_SECOND, Nanos};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::{Clock, LiveError, NetworkNamespace, sys};

/// Enough for calls a few frames deep, because buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// What a task waits for, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Events of its socket; `None`: the socket is not polled.
    pub(crate) events: Option<PollFlags>,
    pub(crate) until: Option<Nanos>,
}

impl Wait {
    pub(super) const fn readable() -> Self {
        Self::on(PollFlags::IN)
    }

    pub(super) const fn writable() -> Self {
        Self::on(PollFlags::OUT)
    }

    pub(super) const fn on(events: PollFlags) -> Self {
        Self {
            events: Some(events),
            until: None,
        }
    }

    pub(super) const fn until(at: Nanos) -> Self {
        Self {
            events: None,
            until: Some(at),
        }
    }

    /// Returns the same wait, ending at `at` at the latest.
    pub(super) const fn or_until(self, at: Option<Nanos>) -> Self {
        Self {
            events: self.events,
            until: at,
        }
    }
}

/// What a task gets when it advances.
pub(super) struct Turn {
    pub(super) clock: Clock,
    /// Tasks for this thread to run from now on.
    pub(super) spawned: Vec<Box<dyn Task>>,
}

/// Does what it can without blocking, and then returns what it waits for.
pub(super) trait Task: Send {
    /// Goes on with its work, in bounded steps so that other tasks of the thread get their turn.
    /// Returns `None` when it has ended.
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait>;

    /// Returns the socket of its waits; `None` if it waits for time only.
    fn socket(&self) -> Option<BorrowedFd<'_>>;
}

/// Creates the tasks of a thread. Runs in the thread, after it has entered its host.
pub(super) type MakeTasks =
    Box<dyn FnOnce() -> Result<Vec<Box<dyn Task>>, LiveError> + Send + 'static>;

/// The tasks of one thread.
pub(super) struct Group {
    /// The namespace in which it runs.
    pub(super) namespace: Arc<NetworkNamespace>,
    /// Whether it measures times and needs little of the processor. Such a thread runs before
    /// ordinary threads where permitted.
    pub(super) takes_times: bool,
    pub(super) make: MakeTasks,
}

/// The tasks that a thread had not finished. They are kept until all threads have stopped, because
/// closing their sockets would look like failures to other threads.
type Left = Vec<Box<dyn Task>>;

/// All threads of a run's traffic.
pub(super) struct Workers {
    threads: Vec<JoinHandle<Left>>,
    begin: Vec<mpsc::Sender<Clock>>,
    stop: Arc<OwnedFd>,
}

impl Workers {
    /// Starts a thread for each group of tasks, and waits until all have created their tasks.
    ///
    /// # Errors
    /// Returns the error of the first thread that failed; all others end.
    pub(super) fn prepare(groups: Vec<Group>) -> Result<Self, LiveError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(LiveError::while_("making an event descriptor"))?;
        let mut workers = Self {
            threads: Vec::new(),
            begin: Vec::new(),
            stop: Arc::new(stop),
        };
        let (ready, answers) = mpsc::channel();
        for group in groups {
            workers.spawn(group, ready.clone())?;
        }
        drop(ready);
        for answer in answers {
            answer?;
        }
        Ok(workers)
    }

    fn spawn(
        &mut self,
        group: Group,
        ready: mpsc::Sender<Result<(), LiveError>>,
    ) -> Result<(), LiveError> {
        let (begin, clock) = mpsc::channel();
        let stop = Arc::clone(&self.stop);
        let builder = thread::Builder::new()
            .name("traffic".to_owned())
            .stack_size(STACK_BYTES);
        let thread = builder.spawn(move || {
            let made = group.namespace.enter().and_then(|()| (group.make)());
            let (tasks, answer) = match made {
                Ok(tasks) => (tasks, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            be_punctual(group.takes_times);
            let is_reported = ready.send(answer).is_ok();
            drop(ready);
            // A closed channel means that the run never began.
            match (is_reported, clock.recv()) {
                (true, Ok(clock)) => run(tasks, clock, stop.as_fd()),
                _ => tasks,
            }
        });
        let thread = thread.map_err(LiveError::while_("starting a thread for traffic"))?;
        self.threads.push(thread);
        self.begin.push(begin);
        Ok(())
    }

    /// Starts all tasks. `clock` shows the time of the run.
    pub(super) fn begin(&mut self, clock: Clock) {
        for begin in self.begin.drain(..) {
            // `stop` reports a thread that has panicked.
            let _ = begin.send(clock);
        }
    }

    /// Ends all threads, including those that wait for a peer.
    ///
    /// # Errors
    /// A thread had panicked.
    pub(super) fn stop(&mut self) -> Result<(), LiveError> {
        self.begin.clear();
        // The counter stays above 0, so that every thread sees it.
        rustix::io::write(&self.stop, &1_u64.to_ne_bytes())
            .map_err(LiveError::while_("stopping the traffic"))?;
        let left: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        match left.iter().filter(|left| left.is_err()).count() {
            0 => Ok(()),
            count => Err(LiveError::Failed(format!(
                "{count} threads of the traffic panicked"
            ))),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // There is no caller left to tell of an error.
        let _ = self.stop();
    }
}

struct Waiting {
    task: Box<dyn Task>,
    wait: Wait,
}

impl Waiting {
    fn descriptor(&self) -> Option<PollFd<'_>> {
        let socket = self.task.socket()?;
        Some(PollFd::from_borrowed_fd(socket, self.wait.events?))
    }
}

/// Makes the calling thread wake up on time. Without the privilege only accuracy suffers.
fn be_punctual(takes_times: bool) {
    // Otherwise the kernel may deliver timeouts 50 microseconds late to save wake-ups.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if takes_times {
        let _ = sys::run_before_ordinary_threads();
    }
}

/// Runs tasks until it is stopped. Returns the unfinished ones.
fn run(tasks: Vec<Box<dyn Task>>, clock: Clock, stop: BorrowedFd<'_>) -> Left {
    let at_once = |task| Waiting {
        task,
        wait: Wait::until(0),
    };
    let mut waiting: Vec<_> = tasks.into_iter().map(at_once).collect();
    let mut turn = Turn {
        clock,
        spawned: Vec::new(),
    };
    while let Some(ready) = wait_for_any(&waiting, clock, stop) {
        let mut ready = ready.into_iter();
        waiting.retain_mut(|waiting| {
            if ready.next() != Some(true) {
                return true;
            }
            match waiting.task.advance(&mut turn) {
                Some(wait) => waiting.wait = wait,
                None => return false,
            }
            true
        });
        waiting.extend(turn.spawned.drain(..).map(at_once));
    }
    waiting.into_iter().map(|waiting| waiting.task).collect()
}

/// Returns which tasks can go on; `None` if all are to stop.
fn wait_for_any(waiting: &[Waiting], clock: Clock, stop: BorrowedFd<'_>) -> Option<Vec<bool>> {
    let mut descriptors = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    descriptors.extend(waiting.iter().filter_map(Waiting::descriptor));
    let first = waiting
        .iter()
        .filter_map(|waiting| waiting.wait.until)
        .min();
    let timeout = first.map(|at| {
        let left = clock.until(at).as_nanos() as u64;
        Timespec {
            tv_sec: (left / NANOS_PER_SECOND) as i64,
            tv_nsec: (left % NANOS_PER_SECOND) as _,
        }
    });
    // After an interrupted wait no event is pending.
    let count = poll(&mut descriptors, timeout.as_ref()).unwrap_or(0);
    let mut happened = descriptors
        .iter()
        .map(|descriptor| count > 0 && !descriptor.revents().is_empty());
    if happened.next() == Some(true) {
        return None;
    }
    let now = clock.now();
    let is_ready = |waiting: &Waiting| {
        let has_event = waiting.descriptor().is_some() && happened.next() == Some(true);
        has_event || waiting.wait.until.is_some_and(|at| at <= now)
    };
    Some(waiting.iter().map(is_ready).collect())
}
