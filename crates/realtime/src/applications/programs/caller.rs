//! Whose rights programs have. A description may be somebody else's: what it runs is to have the
//! rights of whoever called sudo, and none that those could gain (capabilities(7), prctl(2) of
//! `PR_SET_NO_NEW_PRIVS`).

use std::fs;
use std::io;

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// Whoever programs run as.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    groups: Vec<Gid>,
    /// What is otherwise in a program's environment: that of root is not theirs.
    pub(super) environment: Vec<(String, String)>,
}

impl Caller {
    /// A user who is not root, with a first and further groups.
    ///
    /// # Errors
    /// It is root, or no number of a user or group.
    pub fn new(
        uid: u32,
        gid: u32,
        groups: &[u32],
        environment: Vec<(String, String)>,
    ) -> Result<Self, String> {
        let is_number = |id: &u32| *id != u32::MAX;
        if uid == 0 || ![uid, gid].iter().chain(groups).all(is_number) {
            return Err(format!("programs cannot run as user {uid}, group {gid}"));
        }
        Ok(Self {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups: groups.iter().copied().map(Gid::from_raw).collect(),
            environment,
        })
    }

    /// Makes the calling thread theirs for good, with these capabilities and no others. Only system
    /// calls, for the time between fork and exec.
    pub(super) fn take_over(&self, kept: CapabilitySet) -> io::Result<()> {
        set_no_new_privs(true)?;
        drop_bounding_set(kept)?;
        clear_ambient_capability_set()?;
        set_keep_capabilities(!kept.is_empty())?;
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_res_uid(self.uid, self.uid, self.uid)?;
        let sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: kept,
        };
        set_capabilities(None, sets)?;
        each_of(kept).try_for_each(|one| Ok(configure_capability_in_ambient_set(one, true)?))
    }
}

/// Makes the calling thread, whose user is not root, start programs with these capabilities and no
/// others. Only system calls, for the time between fork and exec.
pub(super) fn hand_down_only(kept: CapabilitySet) -> io::Result<()> {
    clear_ambient_capability_set()?;
    each_of(kept).try_for_each(|one| Ok(configure_capability_in_ambient_set(one, true)?))
}

/// All capabilities of a set, one by one, also those that this library has no name for.
fn each_of(set: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    let bits = (0..u64::BITS).map(|place| CapabilitySet::from_bits_retain(1 << place));
    bits.filter(move |one| set.bits() & one.bits() != 0)
}

fn drop_bounding_set(kept: CapabilitySet) -> io::Result<()> {
    let others = CapabilitySet::from_bits_retain(!kept.bits());
    for one in each_of(others) {
        // Beyond the last that the kernel knows there are none.
        if capability_is_in_bounding_set(one) == Ok(true) {
            remove_capability_from_bounding_set(one)?;
        }
    }
    Ok(())
}

/// What a program needs to choose that congestion control: the kernel lets only who may configure
/// the network have one that it does not allow to all (tcp(7), `tcp_allowed_congestion_control`).
pub(super) fn needed_for_control(name: &str) -> CapabilitySet {
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let is_allowed = allowed.is_ok_and(|all| all.split_whitespace().any(|one| one == name));
    match is_allowed {
        true => CapabilitySet::empty(),
        false => CapabilitySet::NET_ADMIN,
    }
}
