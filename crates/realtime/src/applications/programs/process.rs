//! Starts a program in its host's network, in the run's PID namespace, with mounts of its own.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::getuid;
use rustix::thread::{CapabilitySet, LinkNameSpaceType, move_into_link_name_space};

use super::caller::{Caller, hand_down_only};
use crate::{LiveError, NetworkNamespace, sys};

const HOSTS_FILE: &CStr = c"/etc/hosts";
/// Where the file is before it is bound to its place; the next mount hides it.
const HOSTS_FILE_AT_FIRST: &CStr = c"/proc/hosts";

/// The init of a PID namespace: it waits for orphaned processes. It ends with its input, which the
/// run holds open.
const INIT: &str = "exec 3<&0; cat <&3 >/dev/null & wait $!";

/// Starts the first process of a PID namespace. The calling thread must have unshared the namespace
/// of its children, and must live as long as the init.
pub(crate) fn start_init() -> Result<Child, LiveError> {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", INIT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    sys::before_exec(&mut command, sys::die_with_parent);
    command.spawn().map_err(LiveError::while_(
        "starting the init of the programs' PID namespace",
    ))
}

/// A program to start, and its place.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) host: String,
    pub(crate) argv: Vec<String>,
    pub(crate) namespace: Arc<NetworkNamespace>,
    /// The content of /etc/hosts.
    pub(crate) names: Arc<String>,
    /// Variables in addition to those of this process and of the caller.
    pub(crate) environment: Vec<(String, String)>,
    /// Whether its standard input is a pipe; otherwise it is empty.
    pub(crate) takes_input: bool,
    /// Whether it runs before ordinary threads, as the emulator does.
    pub(crate) runs_first: bool,
    /// Whose rights it has; none means those of this process.
    pub(crate) caller: Option<Arc<Caller>>,
    /// Capabilities that it needs nevertheless.
    pub(crate) kept: CapabilitySet,
}

impl Order {
    /// Starts the program, with its output as pipes.
    pub(super) fn start(&self) -> Result<Child, LiveError> {
        let Some((program, arguments)) = self.argv.split_first() else {
            return Err(LiveError::Refused(format!(
                "{}: there is no program to run in an empty list",
                self.host
            )));
        };
        let doing = || format!("starting {program} on {}", self.host);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(match self.takes_input {
                true => Stdio::piped(),
                false => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // An interrupt at the terminal is for the run, which ends its programs itself.
            .process_group(0);
        let namespace = self.namespace.as_fd().try_clone_to_owned();
        let place = Place {
            namespace: namespace.map_err(LiveError::while_(doing()))?,
            names: has_hosts_file().then(|| Arc::clone(&self.names)),
        };
        let caller = self.caller.clone();
        if let Some(caller) = &caller {
            let variables = caller.environment.iter();
            command.envs(variables.map(|(name, value)| (name, value)));
        }
        let variables = self.environment.iter();
        command.envs(variables.map(|(name, value)| (name, value)));
        let (kept, is_root) = (self.kept, getuid().is_root());
        let runs_first = self.runs_first;
        sys::before_exec(&mut command, move || {
            place.enter()?;
            if runs_first {
                // Without the privilege it has ordinary priority.
                let _ = sys::run_before_ordinary_threads();
            }
            match &caller {
                Some(caller) => caller.take_over(kept),
                None if is_root => Ok(()),
                None => hand_down_only(kept),
            }
        });
        command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => super::missing(&self.host, program),
            _ => LiveError::while_(doing())(error),
        })
    }
}

fn has_hosts_file() -> bool {
    let path = CString::from(HOSTS_FILE);
    path.to_str()
        .is_ok_and(|path| std::fs::exists(path).unwrap_or(false))
}

/// The place that a child enters between fork and exec.
pub(crate) struct Place {
    pub(crate) namespace: OwnedFd,
    /// The content of /etc/hosts; `None` keeps the machine's file.
    pub(crate) names: Option<Arc<String>>,
}

impl Place {
    /// Moves the child to its place. Makes only system calls, because no other thread of the child
    /// could release a lock.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(self.namespace.as_fd(), network)?;
        sys::unshare_mounts()?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change(c"/", private)?;
        if let Some(names) = &self.names {
            mount_special(c"tmpfs", c"/proc")?;
            write_file(HOSTS_FILE_AT_FIRST, names.as_bytes())?;
            mount_bind(HOSTS_FILE_AT_FIRST, HOSTS_FILE)?;
        }
        mount_special(c"proc", c"/proc")?;
        mount_special(c"sysfs", c"/sys")
    }
}

fn mount_special(kind: &CStr, at: &CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(kind, at, kind, flags, None)?)
}

fn write_file(path: &CStr, mut bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o644))?;
    while !bytes.is_empty() {
        let written = rustix::io::write(&file, bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}
