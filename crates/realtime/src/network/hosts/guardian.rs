//! Removes the children of devices even if this process is killed.
//!
//! The kernel removes them with their namespaces, but a connection that waits for its peer keeps its
//! namespace for a minute or longer after its program has ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, setsid, waitpid};

use super::place::{GROUP, Place};
use crate::network::netlink::{Prepared, remove_group};
use crate::{LiveError, sys};

/// A process that waits for the end of this one, or of this value, and then removes the devices of
/// hosts.
#[derive(Debug)]
pub(super) struct Guardian {
    process: Pid,
    /// The process ends when this is closed.
    alive: Option<OwnedFd>,
}

impl Guardian {
    /// Starts the process, for those hosts that have children of devices. Returns `None` if there
    /// are none.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn start<'a>(
        places: impl Iterator<Item = &'a Place>,
    ) -> Result<Option<Self>, LiveError> {
        let with_children = places.filter(|place| place.has_child());
        let removals = with_children.map(|place| {
            place
                .namespace
                .run(|| Prepared::new(&place.id, &remove_group(GROUP)))
        });
        let removals = removals.collect::<Result<Vec<_>, _>>()?;
        if removals.is_empty() {
            return Ok(None);
        }
        let started = Self::fork(&removals);
        started.map(Some).map_err(LiveError::while_(
            "starting the process that removes devices",
        ))
    }

    fn fork(removals: &[Prepared]) -> io::Result<Self> {
        let (ended, alive) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut kept: Vec<_> = removals.iter().map(|one| one.as_fd().as_raw_fd()).collect();
        kept.push(ended.as_raw_fd());
        kept.sort_unstable();
        let process = sys::fork(|| {
            // Signals to the group of this process do not concern it.
            let _ = setsid();
            sys::close_all_but(&kept);
            while rustix::io::read(&ended, &mut [0]) == Err(Errno::INTR) {}
            removals.iter().for_each(Prepared::send);
        })?;
        Ok(Self {
            process,
            alive: Some(alive),
        })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.alive = None;
        let wait = || waitpid(Some(self.process), WaitOptions::empty());
        while wait().err() == Some(Errno::INTR) {}
    }
}
