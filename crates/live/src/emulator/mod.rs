//! The link emulator: one thread carries the packets of all links of a run, by the link model of `netlab` in real time.
//!
//! A packet enters its link when it is read. Its departure is computed from that instant and not from when the thread gets around to it, so that
//! lateness never accumulates; how late each delivery was is recorded.

mod captures;
mod fabric;
mod frame;
mod lateness;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use netlab::resolved::{Action, Experiment};
use netlab::time::Nanos;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read, write};
use rustix::thread::set_current_timer_slack;
use rustix::time::Timespec;
use serde::Serialize;

use captures::{Captive, Captures};
use fabric::Fabric;
pub use fabric::{DirectionState, InterfaceState, NetworkState};
pub use lateness::{LATENESS_BOUND_NS, LatenessSummary, STANDSTILL_BOUND_NS};

use crate::{Clock, Device, LiveError, sys};

/// Devices that are looked at in one pass.
const EVENTS_PER_PASS: usize = 64;
/// What the wake-up descriptor is called among the devices.
const WAKE_UP: u64 = u64::MAX;

/// The emulator of a run. Its thread ends with it.
pub struct Emulator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    captives: Vec<Captive>,
    directory: PathBuf,
    link_ids: Vec<String>,
}

struct Shared {
    fabric: Mutex<Fabric>,
    /// Written to when the thread must look at the fabric again.
    wake_up: OwnedFd,
}

/// What the emulator tells at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulatorSummary {
    /// By link direction.
    pub lateness: Vec<LatenessSummary>,
    /// The longest that the emulator stood still, in seconds.
    pub longest_standstill_s: f64,
    /// Why the run is not to be trusted; `None` if it is.
    pub why_invalid: Option<String>,
}

impl Emulator {
    /// Starts carrying packets between `devices`, which are by the index of their interface in the experiment.
    /// Captures of `measure` begin at [`Self::restart`], as files in `directory`.
    ///
    /// # Errors
    /// A direction that the link model refuses, or the system's refusal.
    pub fn start(
        experiment: &Experiment,
        seed: u64,
        devices: Vec<Device>,
        directory: &Path,
        clock: Clock,
    ) -> Result<Self, LiveError> {
        let captives = experiment.interfaces.iter().zip(&devices).enumerate();
        let captives = captives.filter_map(|(index, (interface, device))| {
            let is_captured = experiment.measure.captures.contains(&interface.id);
            is_captured.then(|| Captive {
                interface: index,
                id: interface.id.clone(),
                layer: device.layer(),
            })
        });
        let captives = captives.collect();
        let fabric = Fabric::new(experiment, seed, devices, clock)?;
        let poller = Poller::new(&fabric)?;
        let shared = Arc::new(Shared {
            fabric: Mutex::new(fabric),
            wake_up: poller.wake_up()?,
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || poller.run(&theirs));
        let thread = thread.map_err(LiveError::while_("starting the emulator's thread"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            captives,
            directory: directory.to_owned(),
            link_ids: experiment
                .links
                .iter()
                .map(|link| link.id.clone())
                .collect(),
        })
    }

    /// Back to time 0 of `clock`: links empty and as described, counters at 0, generators at their start, captures from now on.
    ///
    /// # Errors
    /// A capture file that cannot be written.
    pub fn restart(&self, clock: Clock) -> Result<(), LiveError> {
        let captures = match self.captives.as_slice() {
            [] => None,
            captives => Some(Captures::start(&self.directory, captives)?),
        };
        self.fabric()?.restart(clock, captures);
        self.wake()
    }

    /// Carries out an action on a link, now; actions on anything else are not its matter.
    ///
    /// # Errors
    /// A direction that the link model refuses; or the emulator has failed.
    pub fn apply(&self, action: &Action) -> Result<(), LiveError> {
        self.fabric()?.apply(action)?;
        self.wake()
    }

    /// Counters and gauges as of now.
    ///
    /// # Errors
    /// The emulator has failed.
    pub fn state(&self) -> Result<NetworkState, LiveError> {
        Ok(self.fabric()?.state())
    }

    /// Ends the emulation, completes the captures, and says whether it was on time. The devices stay until this is dropped,
    /// so that they can be removed all at once before they are closed one by one.
    ///
    /// # Errors
    /// The emulator had failed; or a capture cannot be written.
    pub fn finish(&mut self) -> Result<EmulatorSummary, LiveError> {
        let (lateness, longest_standstill, captures) = {
            let mut fabric = self.fabric()?;
            let captures = fabric.take_captures();
            (fabric.lateness(), fabric.longest_standstill, captures)
        };
        self.end_thread();
        captures.map_or(Ok(()), Captures::finish)?;
        let why_invalid = self.why_invalid(&lateness, longest_standstill);
        Ok(EmulatorSummary {
            lateness: lateness.into_iter().map(|(summary, _)| summary).collect(),
            longest_standstill_s: longest_standstill as f64 / 1e9,
            why_invalid,
        })
    }

    fn why_invalid(
        &self,
        lateness: &[(LatenessSummary, bool)],
        standstill: Nanos,
    ) -> Option<String> {
        if standstill > STANDSTILL_BOUND_NS {
            let [found, bound] = [standstill, STANDSTILL_BOUND_NS].map(|ns| ns as f64 / 1e6);
            return Some(format!(
                "the emulator stood still for {found:.0} ms, and more than {bound:.0} ms set off timeouts: this machine is too busy"
            ));
        }
        let late = lateness
            .iter()
            .enumerate()
            .find(|(_, (_, is_late))| *is_late);
        late.map(|(direction, (summary, _))| {
            let link = &self.link_ids[direction / 2];
            let (found, bound) = (summary.p99_s * 1e3, LATENESS_BOUND_NS as f64 / 1e6);
            format!(
                "link {link}: 1 packet in 100 was delivered more than {found:.1} ms late, and {bound:.0} ms are allowed: this machine is too busy"
            )
        })
    }

    /// What is behind the lock, while the thread is well.
    fn fabric(&self) -> Result<MutexGuard<'_, Fabric>, LiveError> {
        let fabric = self.shared.lock();
        match &fabric.failure {
            Some(why) => Err(LiveError::Failed(format!("the link emulator ended: {why}"))),
            None => Ok(fabric),
        }
    }

    fn wake(&self) -> Result<(), LiveError> {
        let woken = write(&self.shared.wake_up, &1_u64.to_ne_bytes());
        woken
            .map(drop)
            .map_err(LiveError::while_("waking the emulator"))
    }

    fn end_thread(&mut self) {
        self.shared.lock().is_over = true;
        let _ = self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end_thread();
    }
}

impl Shared {
    /// A panic of the other thread is known by `failure`, which is set before anything else is done.
    fn lock(&self) -> MutexGuard<'_, Fabric> {
        self.fabric.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for devices to have something to read, and for packets to be due.
struct Poller {
    epoll: OwnedFd,
    wake_up: OwnedFd,
}

impl Poller {
    fn new(fabric: &Fabric) -> Result<Self, LiveError> {
        let made = || {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let wake_up = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let named = epoll::EventData::new_u64;
            epoll::add(&epoll, &wake_up, named(WAKE_UP), epoll::EventFlags::IN)?;
            for (port, device) in fabric.devices().enumerate() {
                epoll::add(&epoll, device, named(port as u64), epoll::EventFlags::IN)?;
            }
            Ok(Self { epoll, wake_up })
        };
        made().map_err(LiveError::while_::<Errno>("watching the devices"))
    }

    /// The descriptor to wake it by.
    fn wake_up(&self) -> Result<OwnedFd, LiveError> {
        let copy = self.wake_up.try_clone();
        copy.map_err(LiveError::while_("copying a descriptor"))
    }

    fn run(self, shared: &Shared) {
        // Without the privilege the thread is one among others, which the record of lateness shows.
        let _ = sys::run_before_ordinary_threads();
        let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.carry(shared)));
        let failure = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(errno)) => format!("waiting for packets: {errno}"),
            Err(_) => "its thread panicked".to_owned(),
        };
        let mut fabric = shared.lock();
        fabric.failure.get_or_insert(failure);
    }

    fn carry(&self, shared: &Shared) -> Result<(), Errno> {
        let mut events = Vec::with_capacity(EVENTS_PER_PASS);
        let mut pass_began = None;
        loop {
            let wait = {
                let mut fabric = shared.lock();
                if fabric.is_over {
                    return Ok(());
                }
                fabric.deliver_due();
                let now = fabric.clock.now();
                let stood = now.saturating_sub(pass_began.unwrap_or(now));
                fabric.longest_standstill = fabric.longest_standstill.max(stood);
                fabric.next_due().map(|due| (due, due.saturating_sub(now)))
            };
            events.clear();
            let timeout = wait.map(|(_, wait)| timespec(wait));
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            let mut fabric = shared.lock();
            // Asleep beyond what was due, it stood still from then on.
            let woke = fabric.clock.now();
            pass_began = Some(wait.map_or(woke, |(due, _)| woke.min(due)));
            for event in &events {
                match event.data.u64() {
                    WAKE_UP => self.note_wake_up(&mut pass_began),
                    port => fabric.read_from(port as usize),
                }
            }
        }
    }

    /// A restart sets the clock back: what was measured before does not count.
    fn note_wake_up(&self, pass_began: &mut Option<Nanos>) {
        let _ = read(&self.wake_up, &mut [0; 8]);
        *pass_began = None;
    }
}

fn timespec(ns: Nanos) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}
