//! Waits for descriptors, each under a name, or for a time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use experiment::time::{NANOS_PER_SECOND, Nanos};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::LiveError;

/// Events read in one wait. Further events are read in the next.
const EVENTS_AT_A_TIME: usize = 256;

/// The descriptors to wait for.
pub(super) struct Waiting<Name> {
    epoll: OwnedFd,
    named: fn(u64) -> Name,
}

impl<Name: Into<u64>> Waiting<Name> {
    /// Creates an empty set. `named` converts numbers to names.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(super) fn new(named: fn(u64) -> Name) -> Result<Self, LiveError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        Ok(Self {
            epoll: epoll.map_err(LiveError::while_("making an epoll descriptor"))?,
            named,
        })
    }

    /// Adds a descriptor that is reported while it is readable.
    pub(super) fn for_input(&self, source: impl AsFd, name: Name) -> io::Result<()> {
        self.add(source, name, epoll::EventFlags::IN)
    }

    /// Adds a descriptor that is reported each time it becomes readable or writable.
    pub(super) fn for_changes(&self, source: impl AsFd, name: Name) -> io::Result<()> {
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        self.add(source, name, both | epoll::EventFlags::ET)
    }

    fn add(&self, source: impl AsFd, name: Name, events: epoll::EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(name.into());
        Ok(epoll::add(&self.epoll, source, data, events)?)
    }

    /// Waits for at most `timeout`. Returns the names of the descriptors that are ready.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn wait(&self, timeout: Option<Nanos>) -> Result<Vec<Name>, LiveError> {
        let timeout = timeout.map(|ns| Timespec {
            tv_sec: (ns / NANOS_PER_SECOND) as i64,
            tv_nsec: (ns % NANOS_PER_SECOND) as i64,
        });
        let mut events = Vec::with_capacity(EVENTS_AT_A_TIME);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(LiveError::while_("waiting for packets")(error)),
        }
        let events = events.iter();
        Ok(events.map(|event| (self.named)(event.data.u64())).collect())
    }
}
