//! The program whose connections are proxied. It has a network and a PID namespace of its own, so
//! that no process outlives the proxy.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};

use crate::applications::programs::process::{Place, start_init};
use crate::{LiveError, NetworkNamespace, sys};

/// A shell adds the number of the signal that ended a program to this exit status.
const SIGNALLED: i32 = 128;

/// A program that was started. The thread that started it must live as long.
pub(super) struct Program {
    child: Child,
    init: Child,
    process: OwnedFd,
}

impl Program {
    /// Starts the program with this process's input, output and terminal.
    ///
    /// # Errors
    /// The program does not exist, or the system refuses.
    pub(super) fn start(
        command: &[String],
        namespace: &NetworkNamespace,
        descriptors: Rlimit,
    ) -> Result<Self, LiveError> {
        let Some((name, arguments)) = command.split_first() else {
            return Err(LiveError::Refused("there is no command to run".to_owned()));
        };
        let doing = || format!("starting {name}");
        sys::unshare_pids_of_children()
            .map_err(LiveError::while_("making a PID namespace for the command"))?;
        let mut init = start_init()?;
        let started = start(name.as_ref(), arguments, namespace, descriptors);
        let child = started.map_err(|error| {
            // Ends the namespace of the program that did not start.
            let _ = init.kill().and_then(|()| init.wait());
            match error.kind() {
                io::ErrorKind::NotFound => {
                    LiveError::Refused(format!("there is no program {name:?}"))
                }
                _ => LiveError::while_(doing())(error),
            }
        })?;
        let process = Pid::from_raw(child.id().cast_signed())
            .ok_or(io::ErrorKind::InvalidInput.into())
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?))
            .map_err(LiveError::while_::<io::Error>(doing()))?;
        Ok(Self {
            child,
            init,
            process,
        })
    }

    /// Returns the exit status in the form of a shell, once the program has ended. Processes that
    /// it left running end with it.
    pub(super) fn end(&mut self) -> Option<i32> {
        let status = self.child.try_wait().ok()??;
        self.kill();
        Some(exit_status(status))
    }

    /// Ends all processes that it has started.
    pub(super) fn kill(&mut self) {
        // The init may have ended by itself, in which case its namespace is already empty.
        let _ = self.init.kill();
        let _ = self.child.kill().and_then(|()| self.child.wait());
        let _ = self.init.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Readable when the program has ended.
impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

fn start(
    name: &OsStr,
    arguments: &[String],
    namespace: &NetworkNamespace,
    descriptors: Rlimit,
) -> io::Result<Child> {
    let place = Place {
        namespace: namespace.as_fd().try_clone_to_owned()?,
        names: None,
    };
    let mut command = Command::new(name);
    command.args(arguments);
    sys::before_exec(&mut command, move || {
        setrlimit(Resource::Nofile, descriptors)?;
        place.enter()
    });
    command.spawn()
}

fn exit_status(status: ExitStatus) -> i32 {
    let by_signal = || status.signal().map(|signal| SIGNALLED + signal);
    status.code().or_else(by_signal).unwrap_or(SIGNALLED)
}

/// Raises this process's limit of descriptors as far as allowed. Returns the previous limit.
pub(super) fn raise_descriptor_limit() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    // With the old limit, fewer connections are possible at a time.
    let _ = setrlimit(Resource::Nofile, most);
    before
}
