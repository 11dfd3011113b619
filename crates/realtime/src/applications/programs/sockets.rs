//! The connections of programs, for telemetry: duplicates of their sockets, held for one sample
//! only.
//!
//! A duplicate that is kept would keep a connection open that the program has closed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;

use experiment::time::Nanos;
use rustix::fs::fstat;
use rustix::net::{SocketType, getpeername, ipproto, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::applications::traffic::{FlowSocket, StreamEnd};

/// The shortest time between two searches for new sockets.
const SEARCH_EVERY_NS: Nanos = 50_000_000;
/// `IPPROTO_MPTCP`.
const MPTCP: u32 = 262;

/// The role of a program in a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) flow: usize,
    pub(super) end: StreamEnd,
    /// Whether its connections are to be MPTCP. Connections over plain TCP have fallen back then.
    pub(super) wants_mptcp: bool,
    /// Whether its first connection is for control only, as with iperf3.
    pub(super) has_control: bool,
}

/// A program that was started for a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub(super) pid: u32,
    pub(super) role: Role,
}

/// The sockets found so far.
#[derive(Default)]
pub(super) struct ForeignSockets {
    searched_at: Option<Nanos>,
    known: Vec<Known>,
    /// Inodes of sockets that are not connections of the flow.
    ignored: BTreeSet<u64>,
    /// Process ids of programs whose control connection was found.
    controlled: BTreeSet<u32>,
    processes: BTreeMap<u32, OwnedFd>,
}

struct Known {
    pid: u32,
    descriptor: RawFd,
    inode: u64,
    flow: usize,
    end: StreamEnd,
    is_mptcp: bool,
}

impl ForeignSockets {
    /// Returns duplicates of the current connections of the programs.
    pub(super) fn get(&mut self, now: Nanos, roots: &[Root]) -> Vec<FlowSocket> {
        let is_due = |last| now.saturating_sub(last) >= SEARCH_EVERY_NS;
        if self.searched_at.is_none_or(is_due) {
            self.searched_at = Some(now);
            self.search(roots);
        }
        let mut sockets = Vec::with_capacity(self.known.len());
        let processes = &self.processes;
        self.known.retain(|known| {
            let duplicate = duplicate(processes, known.pid, known.descriptor, known.inode);
            let found = duplicate.map(|socket| FlowSocket {
                flow: known.flow,
                end: known.end,
                is_mptcp: known.is_mptcp,
                socket: Arc::new(socket),
            });
            let is_there = found.is_some();
            sockets.extend(found);
            is_there
        });
        sockets
    }

    fn search(&mut self, roots: &[Root]) {
        let mut alive = BTreeSet::new();
        for root in roots {
            let mut family = vec![root.pid];
            while let Some(pid) = family.pop() {
                if alive.insert(pid) {
                    self.search_process(pid, root);
                    family.extend(children(pid));
                }
            }
        }
        self.processes.retain(|pid, _| alive.contains(pid));
    }

    fn search_process(&mut self, pid: u32, root: &Root) {
        for (descriptor, inode) in socket_descriptors(pid) {
            let is_known = self.known.iter().any(|known| known.inode == inode);
            if is_known || self.ignored.contains(&inode) {
                continue;
            }
            if let Some(process) = open_process(pid) {
                self.processes.entry(pid).or_insert(process);
            }
            let Some(socket) = duplicate(&self.processes, pid, descriptor, inode) else {
                continue;
            };
            match kind(&socket) {
                Kind::Other => {
                    self.ignored.insert(inode);
                }
                Kind::Unconnected => {}
                Kind::Connection { .. }
                    if root.role.has_control && self.controlled.insert(root.pid) =>
                {
                    self.ignored.insert(inode);
                }
                Kind::Connection { is_mptcp } => self.known.push(Known {
                    pid,
                    descriptor,
                    inode,
                    flow: root.role.flow,
                    end: root.role.end,
                    is_mptcp: is_mptcp || root.role.wants_mptcp,
                }),
            }
        }
    }
}

enum Kind {
    Other,
    /// It may become a connection.
    Unconnected,
    Connection {
        is_mptcp: bool,
    },
}

fn kind(socket: &OwnedFd) -> Kind {
    let is_stream = sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM);
    let protocol = sockopt::socket_protocol(socket).ok().flatten();
    let is_mptcp = protocol.is_some_and(|protocol| protocol.as_raw().get() == MPTCP);
    let is_listening = sockopt::socket_acceptconn(socket).unwrap_or(false);
    if !is_stream || is_listening || !(is_mptcp || protocol == Some(ipproto::TCP)) {
        Kind::Other
    } else if matches!(getpeername(socket), Ok(Some(_))) {
        Kind::Connection { is_mptcp }
    } else {
        Kind::Unconnected
    }
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Returns a duplicate, if the descriptor is still that socket.
fn duplicate(
    processes: &BTreeMap<u32, OwnedFd>,
    pid: u32,
    descriptor: RawFd,
    inode: u64,
) -> Option<OwnedFd> {
    let process = processes.get(&pid)?;
    let socket = pidfd_getfd(process.as_fd(), descriptor, PidfdGetfdFlags::empty()).ok()?;
    let is_same = fstat(&socket).is_ok_and(|status| status.st_ino == inode);
    is_same.then_some(socket)
}

/// Returns the descriptors of a process that are sockets, in ascending order, with their inodes.
fn socket_descriptors(pid: u32) -> BTreeMap<RawFd, u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let target = target.to_str()?;
            let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
            let descriptor = entry.file_name().to_str()?.parse().ok()?;
            Some((descriptor, inode.parse().ok()?))
        })
        .collect()
}

/// Returns the children of a process that it has not waited for yet.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
            pids.collect::<Vec<u32>>()
        })
        .collect()
}
