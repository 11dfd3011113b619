//! Network namespaces without names. A namespace ends with the last descriptor, socket or process
//! in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::LiveError;
use crate::sys;

/// A network namespace, held by a descriptor.
#[derive(Debug)]
pub struct NetworkNamespace {
    file: File,
}

/// The namespace of the calling thread; `/proc/self` would be that of the process's first thread.
const OF_THIS_THREAD: &str = "/proc/thread-self/ns/net";

impl NetworkNamespace {
    /// Creates an empty namespace.
    ///
    /// # Errors
    /// The system refuses, because privileges or memory are missing.
    pub fn new() -> Result<Self, LiveError> {
        thread::scope(|scope| {
            let maker = scope.spawn(Self::new_around_this_thread);
            maker.join().expect("it does not panic")
        })
    }

    /// Creates an empty namespace and moves the calling thread into it. One thread can set up many
    /// namespaces this way.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn new_around_this_thread() -> Result<Self, LiveError> {
        let made = sys::unshare_network().and_then(|()| Self::of_this_thread());
        made.map_err(LiveError::while_("making a network namespace"))
    }

    /// Returns the namespace of the calling thread.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        let file = File::open(OF_THIS_THREAD)?;
        Ok(Self { file })
    }

    /// Moves the calling thread into the namespace for good. For threads that belong to one host.
    ///
    /// # Errors
    /// The system refuses.
    pub fn enter(&self) -> Result<(), LiveError> {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(LiveError::while_("entering a network namespace"))
    }

    /// Runs `action` in the namespace, in a thread of its own, and returns its result. Sockets and
    /// devices created there stay there.
    ///
    /// # Errors
    /// The system refuses the thread, or `action` fails.
    pub fn run<T, F>(&self, action: F) -> Result<T, LiveError>
    where
        T: Send,
        F: FnOnce() -> Result<T, LiveError> + Send,
    {
        thread::scope(|scope| {
            let visitor = scope.spawn(|| {
                self.enter()?;
                action()
            });
            visitor
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
