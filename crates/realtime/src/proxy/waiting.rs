//! Waits for the descriptors of a proxy, each under a name, or for a time.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

use experiment::time::{NANOS_PER_SECOND, Nanos};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::LiveError;

/// Events read in one wait. Further events are read in the next.
const EVENTS_AT_A_TIME: usize = 256;

/// A descriptor to wait for.
pub(super) enum Source<Own> {
    /// Readable when the proxy is to end.
    Stop,
    /// Reports changes of addresses.
    Addresses,
    /// Receives the packets of the interface with this index.
    Outlet(usize),
    /// A descriptor that only the client or only the gateway has.
    Own(Own),
}

const FIRST_OUTLET: u64 = 2;
const FIRST_OWN: u64 = 1 << 32;

impl<Own: Into<u64> + From<u64>> Source<Own> {
    fn number(self) -> u64 {
        match self {
            Self::Stop => 0,
            Self::Addresses => 1,
            Self::Outlet(index) => FIRST_OUTLET + index as u64,
            Self::Own(own) => FIRST_OWN + Into::<u64>::into(own),
        }
    }

    fn numbered(number: u64) -> Self {
        match number {
            0 => Self::Stop,
            1 => Self::Addresses,
            FIRST_OWN.. => Self::Own(Own::from(number - FIRST_OWN)),
            _ => Self::Outlet((number - FIRST_OUTLET) as usize),
        }
    }
}

/// The descriptors to wait for.
pub(super) struct Waiting<Own> {
    epoll: OwnedFd,
    names: PhantomData<Own>,
}

impl<Own: Into<u64> + From<u64>> Waiting<Own> {
    /// Creates an empty set.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(super) fn new() -> Result<Self, LiveError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        Ok(Self {
            epoll: epoll.map_err(LiveError::while_("making an epoll descriptor"))?,
            names: PhantomData,
        })
    }

    /// Adds a descriptor that is reported while it is readable.
    pub(super) fn for_input(&self, descriptor: impl AsFd, source: Source<Own>) -> io::Result<()> {
        self.add(descriptor, source, epoll::EventFlags::IN)
    }

    /// Adds a descriptor that is reported each time it becomes readable or writable.
    pub(super) fn for_changes(&self, descriptor: impl AsFd, source: Source<Own>) -> io::Result<()> {
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        self.add(descriptor, source, both | epoll::EventFlags::ET)
    }

    fn add(
        &self,
        descriptor: impl AsFd,
        source: Source<Own>,
        events: epoll::EventFlags,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.number());
        Ok(epoll::add(&self.epoll, descriptor, data, events)?)
    }

    /// Waits for at most `timeout`. Returns the descriptors that are ready.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn wait(&self, timeout: Option<Nanos>) -> Result<Vec<Source<Own>>, LiveError> {
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
        Ok(events
            .map(|event| Source::numbered(event.data.u64()))
            .collect())
    }
}
