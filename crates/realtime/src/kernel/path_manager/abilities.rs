//! What the path manager of this kernel takes, found by trying: limits are set and read back,
//! endpoints and their flags are added and listed.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use mptcp::pm::EndpointFlags;
use serde::Serialize;

use super::messages::Request;
use super::netlink::PmSocket;
use crate::LiveError;
use crate::kernel::congestion::has_types;
use crate::network::namespace::NetworkNamespace;

/// More endpoints and subflows than any kernel is known to take.
const MANY: u32 = 255;

/// The limits of a kernel's path manager, and the flags of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Abilities {
    /// The most endpoints of a namespace.
    pub endpoints: usize,
    /// The most further subflows that the limit can allow.
    pub subflows: u32,
    /// The most announced addresses that the limit can allow.
    pub add_addr_accepted: u32,
    /// The limits of a new namespace: further subflows, announced addresses.
    pub usual_limits: (u32, u32),
    /// The flags that an endpoint still has when it is listed.
    pub flags: Vec<&'static str>,
}

/// It changes only with the kernel, so it is tried once.
static HERE: LazyLock<Option<Abilities>> = LazyLock::new(|| Abilities::probe().ok());

impl Abilities {
    /// Returns what the running kernel takes; `None` if it has no Multipath TCP, or without the
    /// rights to try it.
    pub fn here() -> Option<&'static Self> {
        HERE.as_ref()
    }

    /// Tries what the running kernel takes, in a namespace of its own.
    ///
    /// # Errors
    /// The kernel has no Multipath TCP, or rights are missing.
    fn probe() -> Result<Self, LiveError> {
        let trial = || {
            let mut socket = PmSocket::open()?;
            let doing = LiveError::while_("trying limits and endpoints of the path manager");
            Self::of(&mut socket).map_err(doing)
        };
        let flags = |flag| NetworkNamespace::new()?.run(move || keeps(flag));
        let mut found = NetworkNamespace::new()?.run(trial)?;
        for (flag, name) in EndpointFlags::named() {
            if is_known(flag) && flags(flag)? {
                found.flags.push(name);
            }
        }
        Ok(found)
    }

    fn of(socket: &mut PmSocket) -> io::Result<Self> {
        let usual_limits = socket.limits()?;
        let (subflows, announced) = usual_limits;
        let subflows = largest(|count| {
            socket.is_taken(&Request::SetLimits {
                subflows: count,
                announced,
            })
        })
        .max(subflows);
        let add_addr_accepted = largest(|count| {
            socket.is_taken(&Request::SetLimits {
                subflows,
                announced: count,
            })
        });
        let (subflows, add_addr_accepted) = {
            // Read back, because a kernel may take a value and keep another.
            socket.is_taken(&Request::SetLimits {
                subflows,
                announced: add_addr_accepted,
            });
            socket.limits()?
        };
        for number in 1..=MANY {
            let address = Ipv4Addr::from_bits(0x0a00_0000 + number);
            let added = socket.is_taken(&Request::AddEndpoint {
                address: IpAddr::V4(address),
                port: None,
                flags: EndpointFlags::SUBFLOW.bits(),
            });
            if !added {
                break;
            }
        }
        Ok(Self {
            endpoints: socket.endpoints()?.len(),
            subflows,
            add_addr_accepted,
            usual_limits,
            flags: Vec::new(),
        })
    }
}

/// Returns whether the kernel can know this flag. Linux 6.16 and 6.17 list an endpoint with all the
/// flags that it was given, known or not.
fn is_known(flag: EndpointFlags) -> bool {
    flag != EndpointFlags::LAMINAR || has_types(&["mptcpi_endp_laminar_max"])
}

/// Returns whether an endpoint with this flag has it when it is listed.
fn keeps(flag: EndpointFlags) -> Result<bool, LiveError> {
    let mut socket = PmSocket::open()?;
    // Most flags say something about subflows from the endpoint.
    let flags = match flag {
        EndpointFlags::SIGNAL | EndpointFlags::SUBFLOW => flag.bits(),
        _ => flag.bits() | EndpointFlags::SUBFLOW.bits(),
    };
    let added = socket.is_taken(&Request::AddEndpoint {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        port: None,
        flags,
    });
    let listed = socket.endpoints();
    let listed = listed.map_err(LiveError::while_("listing endpoints"))?;
    Ok(added && listed.iter().any(|found| found & flag.bits() != 0))
}

/// Returns the largest number up to [`MANY`] that is taken; 0 if none is. A number is taken if a
/// larger one is.
fn largest(mut is_taken: impl FnMut(u32) -> bool) -> u32 {
    let (mut taken, mut refused) = (0, MANY + 1);
    while refused - taken > 1 {
        let middle = taken.midpoint(refused);
        if is_taken(middle) {
            taken = middle;
        } else {
            refused = middle;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_is_found() {
        for limit in [0, 1, 8, 64, 254, MANY] {
            assert_eq!(largest(|count| count <= limit), limit);
        }
    }
}
