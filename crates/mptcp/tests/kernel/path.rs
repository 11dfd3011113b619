//! A TUN device between the engine and the kernel, and its losses.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::namespace::Namespace;

/// Room for the longest packet of the device.
const MTU_BYTES: u16 = 1500;

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// An end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Kernel = 1,
    Engine = 2,
}

/// The host number of a router, at which a path ends if the kernel is behind it.
pub const ROUTER: u8 = 3;

/// Returns the address of an end of a path. Paths are numbered from 1.
pub fn address(family: Family, number: usize, end: End) -> IpAddr {
    host_address(family, number, end as u8)
}

fn host_address(family: Family, number: usize, host: u8) -> IpAddr {
    let number = number as u8;
    match family {
        Family::V4 => IpAddr::from([10, 9, number, host]),
        Family::V6 => IpAddr::from([0xfd09, u16::from(number), 0, 0, 0, 0, 0, u16::from(host)]),
    }
}

/// Returns the number of the path with that address.
pub fn number_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(address) => usize::from(address.octets()[2]),
        IpAddr::V6(address) => usize::from(address.segments()[1]),
    }
}

/// A path: a packet that enters at one end leaves at the other at once, unless it is lost.
pub struct Path {
    device: SyncDevice,
    rng: Xoshiro256PlusPlus,
    /// Whether packets get through.
    pub is_up: bool,
    /// Probability that a packet is lost, in both directions.
    pub loss: f64,
}

impl Path {
    /// Creates the device in the namespace, with the addresses of that host.
    pub fn new(namespace: &Namespace, number: usize, host: u8) -> Self {
        let name = format!("path{number}");
        let builder = DeviceBuilder::new()
            .name(&name)
            .mtu(MTU_BYTES)
            .tx_queue_len(10_000)
            .enable(false);
        let device = namespace.inside(|| builder.build_sync()).unwrap();
        device.set_nonblocking(true).unwrap();
        for (family, prefix) in [(Family::V4, 24), (Family::V6, 64)] {
            let address = host_address(family, number, host);
            namespace.ip(&format!("address add {address}/{prefix} dev {name} nodad"));
        }
        namespace.ip(&format!("link set {name} up"));
        // Without a route IPv6 would not join from here to the first address.
        namespace.ip(&format!(
            "-6 route add fd09::/16 dev {name} metric {number}"
        ));
        Self {
            device,
            rng: Xoshiro256PlusPlus::seed_from_u64(number as u64),
            is_up: true,
            loss: 0.0,
        }
    }

    /// Returns the next packet that the kernel sent, if there is one.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut packet = vec![0; usize::from(MTU_BYTES)];
        match self.device.recv(&mut packet) {
            Ok(len) => packet.truncate(len),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => panic!("reading from a TUN device: {error}"),
        }
        Some(packet)
    }

    /// Sends a packet to the kernel.
    pub fn send(&self, packet: &[u8]) {
        let sent = self
            .device
            .send(packet)
            .expect("a TUN device takes packets");
        assert_eq!(sent, packet.len());
    }

    /// Returns whether the next packet arrives.
    pub fn delivers(&mut self) -> bool {
        let chance = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        self.is_up && chance >= self.loss
    }
}

impl AsFd for Path {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
