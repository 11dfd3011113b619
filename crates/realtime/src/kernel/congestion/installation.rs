//! Congestion controls that stay in the kernel under their plain names, for other programs and for
//! users without privileges.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FsWord, statfs};
use rustix::mount::{MountFlags, mount};

use super::loader::{self, Refusal, register};
use super::{available, object_of, shipped, why_not_registered};
use crate::LiveError;

/// Where the kernel keeps objects that outlive a process (bpffs), and the folder of mptcplab in it.
const PINS: &str = "/sys/fs/bpf";
const OURS: &str = "/sys/fs/bpf/mptcplab";
/// The longest wait for a removal. Kernels that remove a control only through its file do so after
/// a grace period, which takes seconds on a busy machine.
const LONGEST_REMOVAL: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const BPF_FS_MAGIC: FsWord = 0xcafe_4a11;

/// Where a congestion control comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Part of the kernel, or registered by another program.
    InKernel,
    /// Installed by `mptcplab cc install`.
    Installed,
    /// Part of mptcplab and not installed.
    NotInstalled,
}

impl State {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::InKernel => "in_kernel",
            Self::Installed => "installed",
            Self::NotInstalled => "not_installed",
        }
    }
}

/// A congestion control and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The name that sockets use.
    pub name: String,
    /// Its state.
    pub state: State,
}

/// Lists the controls that the kernel has now and those that can be installed.
pub fn list() -> Vec<Installation> {
    let there = available();
    let ours = shipped().map(|name| Installation {
        name: name.to_owned(),
        state: match (pin_of(name), there.iter().any(|one| one == name)) {
            (pin, true) if pin.exists() => State::Installed,
            (_, true) => State::InKernel,
            (_, false) => State::NotInstalled,
        },
    });
    let others = there.iter().filter(|name| object_of(name).is_none());
    let others = others.map(|name| Installation {
        name: name.clone(),
        state: State::InKernel,
    });
    others.chain(ours).collect()
}

/// Registers a control under its plain name, for all users and namespaces, until [`remove`] or the
/// next boot. Replaces one that was installed before.
///
/// # Errors
/// - mptcplab has no control of that name.
/// - The kernel has one that mptcplab did not install.
/// - The kernel or missing privileges do not allow it.
pub fn install(name: &str) -> Result<(), LiveError> {
    let object = known(name)?;
    may_change()?;
    mount_pins()?;
    unpin(name)?;
    let registration = register(object, name).map_err(|refusal| match refusal {
        Refusal::NameTaken => LiveError::Refused(format!(
            "{name}: the kernel has a congestion control of that name which mptcplab did not install"
        )),
        Refusal::Because(why) => LiveError::Failed(format!("{name}: {why}")),
    })?;
    let pin = pin_of(name);
    let pinned = registration.pin(&pin);
    pinned.map_err(|why| LiveError::Failed(format!("{}: {why}", pin.display())))
}

/// Removes an installed control. Connections that use it keep it to their end.
///
/// # Errors
/// The control is not installed, or privileges are missing.
pub fn remove(name: &str) -> Result<(), LiveError> {
    known(name)?;
    may_change()?;
    if !unpin(name)? {
        return Err(LiveError::Refused(format!("{name} is not installed")));
    }
    // Fails while the folder holds other controls.
    let _ = fs::remove_dir(OURS);
    Ok(())
}

fn known(name: &str) -> Result<&'static [u8], LiveError> {
    object_of(name).ok_or_else(|| {
        let allowed: Vec<_> = shipped().collect();
        LiveError::Refused(format!(
            "no congestion control {name:?} comes with mptcplab; allowed: {}",
            allowed.join(", ")
        ))
    })
}

fn may_change() -> Result<(), LiveError> {
    why_not_registered().map_or(Ok(()), |why| {
        Err(LiveError::Machine {
            what: "congestion controls of this machine cannot be changed".to_owned(),
            remedy: why.to_owned(),
        })
    })
}

fn pin_of(name: &str) -> PathBuf {
    Path::new(OURS).join(name)
}

/// Removes the control. Returns whether it was installed.
fn unpin(name: &str) -> Result<bool, LiveError> {
    let pin = pin_of(name);
    loader::detach(&pin);
    match fs::remove_file(&pin) {
        Ok(()) => wait_until_gone(name).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(LiveError::while_(format!("removing {}", pin.display()))(
            error,
        )),
    }
}

fn wait_until_gone(name: &str) -> Result<(), LiveError> {
    let start = Instant::now();
    while available().iter().any(|there| there == name) {
        if start.elapsed() > LONGEST_REMOVAL {
            let waited_s = LONGEST_REMOVAL.as_secs();
            return Err(LiveError::Failed(format!(
                "{name}: the kernel still has it {waited_s} s after it was removed, as long as another program holds it"
            )));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Mounts bpffs at the usual place, unless it is mounted.
fn mount_pins() -> Result<(), LiveError> {
    let doing = || format!("mounting {PINS}");
    let is_mounted = statfs(PINS).is_ok_and(|found| found.f_type == BPF_FS_MAGIC);
    if !is_mounted {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("bpf", PINS, "bpf", flags, None).map_err(LiveError::while_(doing()))?;
    }
    fs::create_dir_all(OURS).map_err(LiveError::while_(format!("making {OURS}")))
}
