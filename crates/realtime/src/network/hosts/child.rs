//! Interfaces at real links: children of devices that the machine has.
//!
//! A child is created directly in the namespace of its host. The addresses, routes and rules of the
//! machine stay as they are, and the kernel removes the child together with the namespace.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use experiment::resolved::{ChildKind, ParentDevice};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use rustix::io::Errno;

use crate::LiveError;
use crate::network::netlink::{Connection, NewChild, add_child, get_link};

/// What a parent has to be, for errors.
const ALLOWED: &str = "an Ethernet or wireless device of the machine that is up";

/// The errors for a name that no device has. A name that is too long is out of range.
const UNKNOWN: [Errno; 2] = [Errno::NODEV, Errno::RANGE];

/// A device as its machine describes it.
#[derive(Debug)]
struct Parent {
    index: u32,
    is_up: bool,
    is_connected: bool,
    is_ethernet: bool,
    /// Whether it is itself a child of a device.
    is_child: bool,
    is_port: bool,
    mtu_bytes: u32,
}

/// Adds a child of a device, with this name, in the namespace of a host. The calling thread is in
/// the namespace of the machine. Returns the kind of the child. `place` is the field of the
/// description, for errors.
///
/// # Errors
/// The device is missing or unsuitable, or the system refuses.
pub(super) fn add(
    place: &str,
    described: &ParentDevice,
    mtu_bytes: u32,
    name: &str,
    namespace: BorrowedFd<'_>,
) -> Result<ChildKind, LiveError> {
    let mut connection = Connection::open(place)?;
    let parent = find(&mut connection, place, &described.name)?;
    if let Some(problem) = parent.problem(mtu_bytes) {
        return Err(refusal(place, &described.name, &problem));
    }
    let kind = described
        .child
        .unwrap_or_else(|| usual_kind(&described.name));
    let child = NewChild {
        name,
        kind,
        parent: parent.index,
        namespace,
    };
    let added = connection.ask_one(&add_child(&child))?;
    let Err(refused) = added else {
        return Ok(kind);
    };
    let why = match refused.errno {
        Errno::OPNOTSUPP => format!("the kernel lacks {0}: try `modprobe {0}`", kind.name()),
        Errno::BUSY => format!("something else uses it, so it takes no {}", kind.name()),
        _ => format!("the kernel refuses a child of it: {}", refused.error),
    };
    Err(LiveError::Failed(format!(
        "{place}: {}: {why}",
        described.name
    )))
}

fn find(connection: &mut Connection, place: &str, name: &str) -> Result<Parent, LiveError> {
    match connection.ask_one(&get_link(name))? {
        Ok(Some(RouteNetlinkMessage::NewLink(link))) => Ok(Parent::new(&link)),
        Err(refused) if UNKNOWN.contains(&refused.errno) => {
            let problem = match of_machine(name).exists() {
                true => "which only root can use",
                false => "which does not exist",
            };
            Err(refusal(place, name, problem))
        }
        Err(refused) => Err(LiveError::while_(format!(
            "{place}: looking for device {name}"
        ))(refused.error)),
        Ok(other) => Err(LiveError::Failed(format!(
            "{place}: the kernel answered {other:?}"
        ))),
    }
}

fn refusal(place: &str, name: &str, problem: &str) -> LiveError {
    LiveError::Failed(format!(
        "{place}: found {name}, {problem}; allowed: {ALLOWED}"
    ))
}

/// Returns ipvlan for a wireless device, because an access point accepts only its link-layer
/// address, and macvlan for all others.
fn usual_kind(device: &str) -> ChildKind {
    match of_machine(device).join("phy80211").exists() {
        true => ChildKind::Ipvlan,
        false => ChildKind::Macvlan,
    }
}

/// Returns the folder of a device in sysfs, which shows the devices of the machine also to a process
/// in a user namespace.
fn of_machine(device: &str) -> PathBuf {
    Path::new("/sys/class/net").join(device)
}

impl Parent {
    fn new(link: &LinkMessage) -> Self {
        let attributes = || link.attributes.iter();
        let kind = attributes().find_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
                LinkInfo::Kind(kind) => Some(kind.clone()),
                _ => None,
            }),
            _ => None,
        });
        let mtu_bytes = attributes().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(bytes) => Some(*bytes),
            _ => None,
        });
        let flags = link.header.flags;
        Self {
            index: link.header.index,
            is_up: flags.contains(LinkFlags::Up),
            is_connected: flags.contains(LinkFlags::LowerUp),
            is_ethernet: link.header.link_layer_type == LinkLayerType::Ether,
            is_child: matches!(
                kind,
                Some(InfoKind::MacVlan | InfoKind::MacVtap | InfoKind::IpVlan | InfoKind::IpVtap)
            ),
            is_port: attributes().any(|one| matches!(one, LinkAttribute::Controller(_))),
            mtu_bytes: mtu_bytes.unwrap_or(0),
        }
    }

    /// Returns why it cannot have a child with this MTU; `None` if it can.
    fn problem(&self, mtu_bytes: u32) -> Option<String> {
        let problem = if !self.is_ethernet {
            "which is no Ethernet device"
        } else if self.is_child {
            "which is itself a child of a device"
        } else if self.is_port {
            "which is a port of a bridge or bond"
        } else if !self.is_up {
            "which is down"
        } else if !self.is_connected {
            "which has no carrier"
        } else if self.mtu_bytes < mtu_bytes {
            return Some(format!(
                "whose MTU of {} bytes is less than the {mtu_bytes} of the link",
                self.mtu_bytes
            ));
        } else {
            return None;
        };
        Some(problem.to_owned())
    }
}
