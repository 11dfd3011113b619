//! Blocking calls. packetdrill makes them on a separate thread, while its first thread runs the
//! script and lets time pass.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use mptcp::time::{Nanos, SECOND};

use crate::host::{Errno, Host, Waiting};

/// The longest real time that the script waits for the thread of a call that has just returned to
/// read the clock.
const PATIENCE: Duration = Duration::from_millis(100);

/// The real time without script activity after which a waiting call advances the clock itself.
/// packetdrill waits one second for the last call at its end.
const SCRIPT_SILENCE: Duration = Duration::from_millis(300);

/// The longest wait for a packet in virtual time, equal to the longest RTO.
const LONGEST_SILENCE: Nanos = 120 * SECOND;

/// The advance of the clock at each reading, because a clock that stands still would hang a script
/// that polls it.
const TICK: Nanos = 1000;

/// The host, shared by the script and blocking calls.
pub struct Turns {
    state: Mutex<State>,
    /// Signalled when something happened to the host.
    changed: Condvar,
    /// Signalled when a waiting thread has examined the host.
    looked: Condvar,
    script: ThreadId,
}

struct State {
    host: Host,
    /// Number of waiting calls. `to_look` counts those that have not examined the host since
    /// something happened.
    waiting: u32,
    to_look: u32,
    /// Whether a call has returned whose thread has not yet read the clock.
    has_returned: bool,
}

impl Turns {
    /// Returns the turns of a host. The calling thread must be the one that runs the script.
    pub fn new(host: Host) -> Self {
        Self {
            state: Mutex::new(State {
                host,
                waiting: 0,
                to_look: 0,
                has_returned: false,
            }),
            changed: Condvar::new(),
            looked: Condvar::new(),
            script: thread::current().id(),
        }
    }

    /// Makes a call that does not block.
    pub fn call<T>(&self, call: impl FnOnce(&mut Host) -> T) -> T {
        let mut state = self.lock();
        let answer = call(&mut state.host);
        self.announce(&mut state);
        answer
    }

    /// Repeats a call on a socket until it returns something other than EAGAIN. Returns EAGAIN if
    /// the socket does not block or its timeout expires. On the thread of the script the call
    /// advances the clock itself, because no other thread does.
    pub fn wait<T>(
        &self,
        socket: i32,
        waiting: Waiting,
        mut call: impl FnMut(&mut Host) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let patience = self.lock().host.patience(socket, waiting);
        self.block(patience, |host| {
            let answer = call(host);
            match matches!(answer, Err(libc::EAGAIN)) && host.blocks(socket) {
                true => Err(answer),
                false => Ok(answer),
            }
        })
    }

    /// Repeats `ask` until it returns more than 0 or `duration` has passed. `None` is forever.
    pub fn poll(&self, duration: Option<Nanos>, mut ask: impl FnMut(&mut Host) -> i32) -> i32 {
        self.block(duration, |host| match ask(host) {
            0 => Err(0),
            found => Ok(found),
        })
    }

    /// Repeats `attempt` until it succeeds, `duration` has passed, or nothing more can happen. Then
    /// returns the last result.
    fn block<T>(
        &self,
        duration: Option<Nanos>,
        mut attempt: impl FnMut(&mut Host) -> Result<T, T>,
    ) -> T {
        let mut state = self.lock();
        let deadline = duration.map(|duration| state.host.now() + duration);
        let is_script = thread::current().id() == self.script;
        let mut has_waited = false;
        let answer = loop {
            let unfinished = match attempt(&mut state.host) {
                Ok(answer) => break answer,
                Err(answer) => answer,
            };
            if deadline.is_some_and(|at| at <= state.host.now()) {
                break unfinished;
            }
            if is_script {
                let next = state.host.next_timer().into_iter().chain(deadline).min();
                let Some(at) = next else { break unfinished };
                state.host.advance_to(at);
                continue;
            }
            if !has_waited {
                state.waiting += 1;
                has_waited = true;
            }
            let is_silent;
            (state, is_silent) = self.await_change(state);
            if is_silent {
                let next = state.host.next_timer().into_iter().chain(deadline).min();
                if let Some(at) = next {
                    state.host.advance_to(at);
                    self.announce(&mut state);
                }
            }
        };
        if has_waited {
            state.waiting -= 1;
            state.has_returned = true;
            self.looked.notify_all();
        }
        self.announce(&mut state);
        answer
    }

    /// Waits for a change. Also returns whether the script was silent for `SCRIPT_SILENCE`.
    fn await_change<'a>(&self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        state.to_look = state.to_look.saturating_sub(1);
        self.looked.notify_all();
        let waited = self.changed.wait_timeout(state, SCRIPT_SILENCE);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, timeout.timed_out())
    }

    /// Returns the time in nanoseconds. It advances slightly at each call.
    pub fn now(&self) -> Nanos {
        let mut state = self.lock();
        state.has_returned = false;
        self.looked.notify_all();
        let at = state.host.now() + TICK;
        state.host.advance_to(at);
        self.announce(&mut state);
        at
    }

    /// Lets `duration` pass. A call that completes meanwhile completes at its own time.
    pub fn sleep(&self, duration: Nanos) {
        let mut state = self.lock();
        let until = state.host.now() + duration;
        loop {
            state = self.let_others_look(state);
            let next = state.host.next_timer().filter(|at| *at < until);
            state.host.advance_to(next.unwrap_or(until));
            self.announce(&mut state);
            if next.is_none() {
                break;
            }
        }
        drop(self.let_others_look(state));
    }

    /// Waits until waiting calls have examined the host and returned calls may have read the clock,
    /// before time changes.
    fn let_others_look<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let is_busy = |state: &mut State| state.to_look > 0 || state.has_returned;
        let waited = self.looked.wait_timeout_while(state, PATIENCE, is_busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.has_returned = false;
        state
    }

    /// Returns the next packet that the host sends, with its time. `None` if it sends none within
    /// `LONGEST_SILENCE`.
    pub fn next_packet(&self) -> Option<(Nanos, Vec<u8>)> {
        let mut state = self.lock();
        let deadline = state.host.now() + LONGEST_SILENCE;
        loop {
            if let Some(sent) = state.host.take_sent() {
                return Some(sent);
            }
            state.host.next_timer().filter(|at| *at <= deadline)?;
            state.host.advance_to_next();
            self.announce(&mut state);
        }
    }

    fn announce(&self, state: &mut State) {
        state.to_look = state.waiting;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
