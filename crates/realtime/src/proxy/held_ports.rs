//! Ports that the kernel leaves to the proxy: it neither assigns them to other programs nor answers
//! packets to them.
//!
//! Each port has a listening socket of the kernel with a filter that admits nothing. A packet for
//! the port finds this socket and is dropped before TCP handles it. The sockets end with the
//! process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use getrandom::SysRng;
use rand_core::{Rng, UnwrapErr};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt,
};
use rustix::process::{Resource, getrlimit};

use super::outlets::Outlet;
use super::packet_filter::{self, Block};
use crate::{LiveError, sys};

/// Ports that are taken at a time. A filter needs one comparison for a block.
const BLOCK_PORTS: u16 = 64;
/// The first port for clients (RFC 6335, section 6).
const FIRST_PORT: u16 = 49152;
const BLOCKS: u16 = (u16::MAX - FIRST_PORT) / BLOCK_PORTS + 1;
/// More descriptors than the proxy needs for everything else.
const OTHER_DESCRIPTORS: u64 = 128;

/// The held ports, and the outlets that receive their packets.
#[derive(Debug)]
pub(super) struct HeldPorts {
    outlets: Arc<[Outlet]>,
    blocks: Vec<Block>,
    sockets: Vec<OwnedFd>,
    /// Blocks that were not tried yet. Blocks and their ports are tried in a random order (RFC
    /// 6056, section 3.3.1), so that a proxy started soon after another does not meet the remains
    /// of its connections.
    untried: Vec<Block>,
    rng: UnwrapErr<SysRng>,
    hold: Hold,
}

/// Creates a socket that keeps a port from all other programs.
type Hold = fn(u16) -> io::Result<OwnedFd>;

impl HeldPorts {
    /// Starts without ports.
    pub(super) fn new(outlets: Arc<[Outlet]>) -> Self {
        Self::held_by(deaf_listener, outlets)
    }

    fn held_by(hold: Hold, outlets: Arc<[Outlet]>) -> Self {
        let block = |place| Block {
            first: FIRST_PORT + place * BLOCK_PORTS,
            count: BLOCK_PORTS,
        };
        let mut rng = UnwrapErr(SysRng);
        let mut untried: Vec<_> = (0..BLOCKS).map(block).collect();
        shuffle(&mut untried, &mut rng);
        Self {
            outlets,
            blocks: Vec::new(),
            sockets: Vec::new(),
            untried,
            rng,
            hold,
        }
    }

    /// Returns the first port and the largest number of ports that it can hold. The kernel needs a
    /// descriptor for each.
    pub(super) fn most() -> (u16, u16) {
        let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let blocks = descriptors.saturating_sub(OTHER_DESCRIPTORS) / u64::from(BLOCK_PORTS);
        let blocks = blocks.clamp(1, BLOCKS.into()) as u16;
        (FIRST_PORT, blocks * BLOCK_PORTS)
    }

    /// Holds one port.
    ///
    /// # Errors
    /// Another program has it.
    pub(super) fn hold_one(&mut self, port: u16) -> Result<(), LiveError> {
        let block = Block {
            first: port,
            count: 1,
        };
        let taken = self.hold_block(block);
        taken.map_err(LiveError::while_(format!("taking TCP port {port}")))
    }

    /// Holds the next block of which all ports are free. Returns its ports; none if there is no
    /// such block.
    pub(super) fn hold_more(&mut self) -> Vec<u16> {
        while let Some(block) = self.untried.pop() {
            match self.hold_block(block) {
                Ok(()) => {
                    let mut ports: Vec<_> = block.ports().collect();
                    shuffle(&mut ports, &mut self.rng);
                    return ports;
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {}
                // No descriptors are left now. There may be some at the next try.
                Err(_) => {
                    self.untried.push(block);
                    return Vec::new();
                }
            }
        }
        Vec::new()
    }

    fn hold_block(&mut self, block: Block) -> io::Result<()> {
        let sockets: Vec<_> = block.ports().map(self.hold).collect::<io::Result<_>>()?;
        self.blocks.push(block);
        let mut outlets = self.outlets.iter();
        let filtered = outlets.try_for_each(|outlet| outlet.receive_only(&self.blocks));
        match filtered {
            Ok(()) => self.sockets.extend(sockets),
            Err(_) => drop(self.blocks.pop()),
        }
        filtered
    }
}

/// Puts elements in a random order (Fisher and Yates).
fn shuffle<T>(things: &mut [T], rng: &mut impl Rng) {
    for last in (1..things.len()).rev() {
        things.swap(last, rng.next_u64() as usize % (last + 1));
    }
}

/// Returns a socket that listens at a port of all addresses and receives nothing.
fn deaf_listener(port: u16) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let made = |family| socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP));
    let (socket, any) = match made(AddressFamily::INET6) {
        Ok(socket) => {
            sockopt::set_ipv6_v6only(&socket, false)?;
            (socket, IpAddr::V6(Ipv6Addr::UNSPECIFIED))
        }
        // The kernel has no IPv6.
        Err(Errno::AFNOSUPPORT) => {
            let socket = made(AddressFamily::INET)?;
            (socket, IpAddr::V4(Ipv4Addr::UNSPECIFIED))
        }
        Err(error) => return Err(error.into()),
    };
    sys::attach_filter(socket.as_fd(), &packet_filter::nothing())?;
    bind(&socket, &SocketAddr::new(any, port))?;
    listen(&socket, 1)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static DESCRIPTORS: Cell<u32> = const { Cell::new(0) };
    }

    /// Returns a socket as long as descriptors are left.
    fn hold(_: u16) -> io::Result<OwnedFd> {
        match DESCRIPTORS.get() {
            0 => Err(Errno::MFILE.into()),
            left => {
                DESCRIPTORS.set(left - 1);
                Ok(std::fs::File::open("/dev/null")?.into())
            }
        }
    }

    #[test]
    fn ports_that_could_not_be_held_for_want_of_descriptors_are_held_later() {
        let mut ports = HeldPorts::held_by(hold, Arc::from([]));
        for _ in 0..2 * BLOCKS {
            DESCRIPTORS.set(u32::from(BLOCK_PORTS) - 1);
            assert!(ports.hold_more().is_empty());
        }
        DESCRIPTORS.set(u32::from(BLOCK_PORTS) * 2);
        let mut taken: Vec<_> = (0..3).flat_map(|_| ports.hold_more()).collect();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 2 * usize::from(BLOCK_PORTS));
        assert_eq!(ports.sockets.len(), taken.len());
    }
}
