//! The link emulator: one thread carries the packets of all links of a run, by the link model of
//! `emulation` in real time.
//!
//! A packet enters its link when it is read. Its departure is computed from that time, not from
//! when the thread carries it out, so lateness does not accumulate. The lateness of each delivery
//! is recorded.

mod captures;
mod fabric;
mod frame;
mod host_queues;
mod lateness;
pub(crate) mod mailbox;
mod middleboxes;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use emulation::middlebox::MiddleboxSummary;
use experiment::resolved::{Action, Experiment};
use experiment::time::Nanos;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use rustix::time::Timespec;
use serde::Serialize;

use captures::{Captive, Captures};
use fabric::Fabric;
pub use fabric::{DirectionState, InterfaceState, NetworkState};
use lateness::Excess;
pub(crate) use lateness::Lateness;
pub use lateness::{
    LATENESS_BOUND_NS, LatenessSummary, STANDSTILL_BOUND_NS, TRANSMISSIONS_PER_MISS,
};

use crate::emulator::mailbox::Mailbox;
use crate::userspace::Mailboxes;
use crate::{Clock, Device, LiveError, sys};

/// Devices that are handled in one pass.
const EVENTS_PER_PASS: usize = 64;
/// Identifies the descriptor of the jobs among those of the devices.
const JOBS: u64 = u64::MAX;
/// Identifies the descriptor of the packets from hosts with the userspace stack.
const STACKS: u64 = u64::MAX - 1;

/// The longest wait for an answer of the thread. A pass takes it milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// A task for the thread, to be done between two packets. The thread owns the links, so it never
/// waits for a lock.
type Job = Box<dyn FnOnce(&mut Fabric) + Send>;

/// The emulator of a run. Its thread ends when it is dropped.
pub struct Emulator {
    jobs: Arc<Mailbox<Job>>,
    thread: Option<JoinHandle<Option<Fabric>>>,
    /// The state of the thread after its end; holds the devices.
    ended: Option<Fabric>,
    /// Why the thread ended by itself.
    failure: Arc<OnceLock<String>>,
    mailboxes: Mailboxes,
    captives: Vec<Captive>,
    directory: PathBuf,
    link_ids: Vec<String>,
}

/// The emulator's results at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulatorSummary {
    /// By link direction.
    pub lateness: Vec<LatenessSummary>,
    /// In the order of the description.
    pub middleboxes: Vec<MiddleboxSummary>,
    /// The longest standstill of the emulator, in seconds.
    pub longest_standstill_s: f64,
    /// Why the run is invalid; `None` if it is valid.
    pub why_invalid: Option<String>,
}

impl Emulator {
    /// Starts carrying packets between `devices`, which are by the indices of their interfaces in
    /// the experiment. Interfaces at real links have none. Captures of `measure` begin at
    /// [`Self::restart`], as files in `directory`.
    ///
    /// # Errors
    /// The link model refuses a direction, or the system refuses.
    pub fn start(
        experiment: &Experiment,
        seed: u64,
        devices: BTreeMap<usize, Device>,
        directory: &Path,
        clock: Clock,
    ) -> Result<Self, LiveError> {
        let captives = devices.iter().filter_map(|(&index, device)| {
            let interface = &experiment.interfaces[index];
            let is_captured = experiment.measure.captures.contains(&interface.id);
            is_captured.then(|| Captive {
                interface: index,
                id: interface.id.clone(),
                layer: device.layer(),
            })
        });
        let captives = captives.collect();
        let mailboxes = Mailboxes::new(experiment);
        let mailboxes = mailboxes.map_err(LiveError::while_("making an event descriptor"))?;
        let fabric = Fabric::new(experiment, seed, devices, &mailboxes, clock)?;
        let poller = Poller::new(&fabric)?;
        let jobs = Arc::clone(&poller.jobs);
        let failure = Arc::new(OnceLock::new());
        let theirs = Arc::clone(&failure);
        let thread = thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || poller.run(fabric, &theirs));
        let thread = thread.map_err(LiveError::while_("starting the emulator's thread"))?;
        Ok(Self {
            jobs,
            thread: Some(thread),
            ended: None,
            failure,
            mailboxes,
            captives,
            directory: directory.to_owned(),
            link_ids: experiment
                .links
                .iter()
                .map(|link| link.id.clone())
                .collect(),
        })
    }

    /// Returns the mailboxes between the emulator and the hosts with the userspace stack.
    pub(crate) fn mailboxes(&self) -> &Mailboxes {
        &self.mailboxes
    }

    /// Returns to time 0 of `clock`: links empty and as described, counters at 0, generators at
    /// their start. Captures begin.
    ///
    /// # Errors
    /// A capture file cannot be written.
    pub fn restart(&self, clock: Clock) -> Result<(), LiveError> {
        let captures = match self.captives.as_slice() {
            [] => None,
            captives => Some(Captures::start(&self.directory, captives)?),
        };
        self.ask(move |fabric| fabric.restart(clock, captures))
    }

    /// Carries out an action on a link now. Other actions are ignored.
    ///
    /// # Errors
    /// The link model refuses a direction, or the emulator has failed.
    pub fn apply(&self, action: &Action) -> Result<(), LiveError> {
        let action = action.clone();
        self.ask(move |fabric| fabric.apply(&action))?
    }

    /// Returns counters and gauges as of now.
    ///
    /// # Errors
    /// The emulator has failed.
    pub fn state(&self) -> Result<NetworkState, LiveError> {
        self.ask(Fabric::state)
    }

    /// Ends the emulation, completes the captures, and returns the summary. The devices stay until
    /// this is dropped, so that they can be removed all at once before they are closed one by one.
    ///
    /// # Errors
    /// The emulator had failed, or a capture cannot be written.
    pub fn finish(&mut self) -> Result<EmulatorSummary, LiveError> {
        let (lateness, middleboxes, longest_standstill, overflows, captures) =
            self.ask(|fabric| {
                let (standstill, overflows) = (fabric.longest_standstill, fabric.overflows);
                (
                    fabric.lateness(),
                    fabric.middleboxes(),
                    standstill,
                    overflows,
                    fabric.take_captures(),
                )
            })?;
        self.end_thread();
        captures.map_or(Ok(()), Captures::finish)?;
        let why_invalid = self.why_invalid(&lateness, longest_standstill, overflows);
        Ok(EmulatorSummary {
            lateness: lateness.into_iter().map(|(summary, _)| summary).collect(),
            middleboxes,
            longest_standstill_s: longest_standstill as f64 / 1e9,
            why_invalid,
        })
    }

    fn why_invalid(
        &self,
        lateness: &[(LatenessSummary, Option<Excess>)],
        standstill: Nanos,
        overflows: u64,
    ) -> Option<String> {
        if overflows > 0 {
            return Some(format!(
                "{overflows} packets found no room before a host with our own stack: this machine is too busy"
            ));
        }
        if standstill > STANDSTILL_BOUND_NS {
            let [found, bound] = [standstill, STANDSTILL_BOUND_NS].map(|ns| ns as f64 / 1e6);
            return Some(format!(
                "the emulator stood still for {found:.0} ms, and more than {bound:.0} ms set off timeouts: this machine is too busy"
            ));
        }
        let mut directions = lateness.iter().enumerate();
        directions.find_map(|(direction, (summary, excess))| {
            let link = &self.link_ids[direction / 2];
            Some(match (*excess)? {
                Excess::Lateness => {
                    let (found, bound) = (summary.p99_s * 1e3, LATENESS_BOUND_NS as f64 / 1e6);
                    format!(
                        "link {link}: 1 packet in 100 was delivered more than {found:.1} ms late, and {bound:.0} ms are allowed: this machine is too busy"
                    )
                }
                Excess::Missed { of } => {
                    let found = summary.missed_transmissions;
                    format!(
                        "link {link}: packets were read too late for {found} of {of} transmissions, and 1 in {TRANSMISSIONS_PER_MISS} is allowed: this machine is too busy"
                    )
                }
            })
        })
    }

    /// Runs a closure in the thread and returns its answer.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Fabric) -> T + Send + 'static,
    ) -> Result<T, LiveError> {
        let answer = self.answer(question, PATIENCE);
        answer.map_err(|error| LiveError::Failed(self.why_no_answer(error)))
    }

    fn answer<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Fabric) -> T + Send + 'static,
        patience: Duration,
    ) -> Result<T, RecvTimeoutError> {
        let (answer, answered) = channel();
        let job: Job = Box::new(move |fabric| drop(answer.send(question(fabric))));
        // A thread that has ended drops the job, and the answer with it.
        self.jobs.put_always(job);
        answered.recv_timeout(patience)
    }

    fn why_no_answer(&self, error: RecvTimeoutError) -> String {
        match (error, self.failure.get()) {
            (RecvTimeoutError::Timeout, _) => {
                let seconds = PATIENCE.as_secs();
                format!("the link emulator is stuck: it has not answered for {seconds} s")
            }
            (RecvTimeoutError::Disconnected, why) => {
                let why = why.map_or("it was finished", String::as_str);
                format!("the link emulator ended: {why}")
            }
        }
    }

    /// Ends the thread. A thread that does not answer is left behind and ends with the process.
    fn end_thread(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let told = self.answer(|fabric| fabric.is_over = true, PATIENCE);
        if told != Err(RecvTimeoutError::Timeout) {
            self.ended = thread.join().ok().flatten();
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end_thread();
    }
}

/// Waits until a device has something to read or a packet is due.
struct Poller {
    epoll: OwnedFd,
    jobs: Arc<Mailbox<Job>>,
}

impl Poller {
    fn new(fabric: &Fabric) -> Result<Self, LiveError> {
        let made = || {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let jobs = Mailbox::new(0)?;
            let named = epoll::EventData::new_u64;
            epoll::add(&epoll, &jobs, named(JOBS), epoll::EventFlags::IN)?;
            let stacks = fabric.from_stacks.as_ref();
            epoll::add(&epoll, stacks, named(STACKS), epoll::EventFlags::IN)?;
            for (port, device) in fabric.devices() {
                epoll::add(&epoll, device, named(port as u64), epoll::EventFlags::IN)?;
            }
            let jobs = Arc::new(jobs);
            Ok(Self { epoll, jobs })
        };
        made().map_err(LiveError::while_::<io::Error>("watching the devices"))
    }

    /// Carries packets until it is stopped. Returns the fabric unless it panicked.
    fn run(self, mut fabric: Fabric, why: &OnceLock<String>) -> Option<Fabric> {
        // Without the privilege the thread has ordinary priority, which the record of lateness
        // shows.
        let _ = sys::run_before_ordinary_threads();
        let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
        let work = std::panic::AssertUnwindSafe(|| {
            let outcome = self.carry(&mut fabric);
            let waiting = outcome
                .err()
                .map(|errno| format!("waiting for packets: {errno}"));
            (fabric.failure.take().or(waiting), fabric)
        });
        // The failure is set before the jobs are dropped, because their senders then read it.
        let fabric = match std::panic::catch_unwind(work) {
            Ok((failure, fabric)) => {
                failure.map(|failure| why.set(failure));
                Some(fabric)
            }
            Err(_) => {
                let _ = why.set("its thread panicked".to_owned());
                None
            }
        };
        self.jobs.close();
        fabric
    }

    fn carry(&self, fabric: &mut Fabric) -> Result<(), Errno> {
        let mut jobs = VecDeque::new();
        let mut events = Vec::with_capacity(EVENTS_PER_PASS);
        while !fabric.is_over {
            fabric.deliver_due();
            let wait = fabric.end_pass();
            events.clear();
            let timeout = wait.map(timespec);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            fabric.begin_pass();
            for event in &events {
                match event.data.u64() {
                    JOBS => {
                        self.jobs.take_into(&mut jobs);
                        jobs.drain(..).for_each(|job| job(fabric));
                    }
                    STACKS => {
                        fabric.handle_stacks();
                        fabric.deliver_due();
                    }
                    port => {
                        fabric.read_from(port as usize);
                        // Due packets do not wait for all other devices.
                        fabric.deliver_due();
                    }
                }
            }
        }
        Ok(())
    }
}

fn timespec(ns: Nanos) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGHT_LINKS: &str = include_str!("../../tests/experiments/eight-links.json");

    #[test]
    fn a_thread_that_is_stuck_is_not_waited_for_without_end() {
        let mut described = crate::complete::experiment(EIGHT_LINKS);
        for group in ["links", "interfaces", "subnets", "flows", "events"] {
            described[group] = serde_json::json!([]);
        }
        let experiment = Experiment::from_json(&described.to_string()).expect("two hosts");
        let clock = Clock::start();
        let emulator = Emulator::start(&experiment, 1, BTreeMap::new(), Path::new("."), clock);
        let emulator = emulator.expect("an emulator without links");
        let (release, released) = channel::<()>();
        let stuck: Job = Box::new(move |_| {
            let _ = released.recv();
        });
        emulator.jobs.put_always(stuck);
        let answer = emulator.answer(|_| (), Duration::from_millis(10));
        assert_eq!(answer, Err(RecvTimeoutError::Timeout));
        let why = emulator.why_no_answer(RecvTimeoutError::Timeout);
        assert!(why.starts_with("the link emulator is stuck"), "{why}");
        drop(release);
        assert_eq!(emulator.answer(|_| (), PATIENCE), Ok(()));
    }
}
