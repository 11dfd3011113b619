//! Rights over networks of its own for a process without privileges: a user namespace
//! (user_namespaces(7)).

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{getgid, getuid};
use rustix::thread::{
    CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::LiveError;
use crate::sys;

/// Settings with which distributions forbid user namespaces, the value that does, and the one that
/// allows them.
const SWITCHES: [(&str, &str, &str); 3] = [
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
];

/// Moves this process into a user namespace of its own, for good. It keeps its user and files, and
/// may make network namespaces and devices in them. So may processes that it starts; programs of a
/// description give that up.
///
/// # Errors
/// - The process has several threads, which the kernel refuses (unshare(2)).
/// - The distribution or a container forbids user namespaces.
pub fn enter() -> Result<(), LiveError> {
    let (user, group) = (getuid(), getgid());
    has_one_thread()?;
    sys::unshare_user().map_err(forbidden)?;
    let map = |file: &str, text: String| {
        fs::write(Path::new("/proc/self").join(file), text).map_err(forbidden)
    };
    // A process without privileges may map its group only after this (user_namespaces(7)).
    map("setgroups", "deny".to_owned())?;
    map("uid_map", format!("{user} {user} 1"))?;
    map("gid_map", format!("{group} {group} 1"))?;
    hand_rights_down().map_err(LiveError::while_("handing capabilities down"))
}

/// Makes processes that this one starts have its capabilities (capabilities(7), ambient set), which
/// they would lose because their user is not root.
fn hand_rights_down() -> rustix::io::Result<()> {
    let sets = capabilities(None)?;
    let inheritable = sets.permitted;
    set_capabilities(
        None,
        CapabilitySets {
            inheritable,
            ..sets
        },
    )?;
    let mut each = inheritable.iter();
    each.try_for_each(|one| configure_capability_in_ambient_set(one, true))
}

fn has_one_thread() -> Result<(), LiveError> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads == 1 {
        return Ok(());
    }
    Err(LiveError::Machine {
        what: format!(
            "this process has {threads} threads, and only one with one thread can enter a user namespace"
        ),
        remedy: "start it with `unshare --user --map-root-user`, or use the command line"
            .to_owned(),
    })
}

/// Returns the error for a refusal, with the setting that is its cause.
fn forbidden(error: io::Error) -> LiveError {
    let switch = SWITCHES.iter().find(|(name, forbids, _)| {
        let file = Path::new("/proc/sys").join(name.replace('.', "/"));
        fs::read_to_string(file).is_ok_and(|value| value.trim() == *forbids)
    });
    let (what, remedy) = match switch {
        Some((name, forbids, allows)) => (
            format!("{name} = {forbids} forbids user namespaces"),
            format!("as root: sysctl -w {name}={allows}"),
        ),
        None => (
            format!("user namespaces are forbidden here ({error})"),
            "a container has to allow them (seccomp, AppArmor), or run as root".to_owned(),
        ),
    };
    LiveError::Machine { what, remedy }
}
