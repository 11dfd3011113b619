//! The network of a program whose connections are proxied: a namespace with one TUN device, by
//! which everything except loopback leaves.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

use experiment::resolved::Layer;

use super::held_ports::HeldPorts;
use crate::network::device::{DeviceKind, VIRTIO_HEADER_BYTES};
use crate::network::netlink::{
    Connection, Destination, Link, NextHop, Route, add_address, family_of,
};
use crate::{Device, LiveError, NetworkNamespace};

const DEVICE: &str = "mptcp";
/// The largest MTU of IP, for fewer and larger segments, as on loopback.
pub(super) const MTU_BYTES: u32 = 65_535;
/// Long, because the receive windows limit a program's connections and not this queue.
const QUEUE_PACKETS: u32 = 10_000;
/// Numbers of routing tables, from <linux/rtnetlink.h>.
const MAIN_TABLE: u32 = 254;
const LOCAL_TABLE: u32 = 255;

/// The namespace and its device.
#[derive(Debug)]
pub(super) struct ProgramNamespace {
    pub(super) namespace: NetworkNamespace,
    device: Device,
}

impl ProgramNamespace {
    /// Creates a network in which the program has these addresses, the first of each family as its
    /// source. `nameservers` at loopback addresses are reached by the device too.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn new(addresses: &[IpAddr], nameservers: &[Ipv4Addr]) -> Result<Self, LiveError> {
        let namespace = NetworkNamespace::new()?;
        let device = namespace.run(|| set_up(addresses, nameservers))?;
        Ok(Self { namespace, device })
    }

    /// Reads the next packet of the program and returns its part of the buffer; `None` if there is
    /// none.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let count = self.device.read(buffer).ok()?;
        buffer.get(VIRTIO_HEADER_BYTES..count)
    }

    /// Sends the program a packet, which `fill` writes.
    pub(super) fn send(&self, buffer: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
        buffer.clear();
        buffer.resize(VIRTIO_HEADER_BYTES, 0);
        fill(buffer);
        // A packet that the device does not take is lost, as on any device.
        let _ = self.device.write(buffer);
    }
}

impl AsFd for ProgramNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Sets up the network. Runs in the new namespace.
fn set_up(addresses: &[IpAddr], nameservers: &[Ipv4Addr]) -> Result<Device, LiveError> {
    let kind = DeviceKind::of_this_machine();
    let device = Device::in_this_thread(kind, DEVICE, Layer::Three)?;
    let mut connection = Connection::open("the program's network")?;
    let loopback = connection.index_of("lo")?;
    let index = connection.index_of(DEVICE)?;
    let link = Link::new(index)
        .mtu_bytes(MTU_BYTES)
        .queue_packets(QUEUE_PACKETS);
    let mut requests = vec![
        Link::new(loopback).up(true).request(),
        link.up(true).request(),
    ];
    for &address in addresses {
        requests.push(add_address(
            index,
            address,
            if address.is_ipv4() { 32 } else { 128 },
        ));
    }
    let by_device = |destination, table, source| {
        let next_hop = NextHop {
            device: index,
            gateway: None,
        };
        let route = Route {
            destination,
            table,
            next_hop: Some(next_hop),
            source: Some(source),
            initial_window_segments: None,
        };
        route.request()
    };
    let first_v4 = addresses.iter().find(|address| address.is_ipv4());
    let first_v6 = addresses.iter().find(|address| address.is_ipv6());
    for &source in first_v4.into_iter().chain(first_v6) {
        let everything = Destination::AnyElse(family_of(source));
        requests.push(by_device(everything, MAIN_TABLE, source));
    }
    if let Some(&source) = first_v4 {
        // More specific than the route of loopback, which is in this table.
        for &nameserver in nameservers {
            let destination = Destination::Address(nameserver.into());
            requests.push(by_device(destination, LOCAL_TABLE, source));
        }
    }
    connection.commit(&requests)?;
    let (first, count) = HeldPorts::most();
    let ports = format!("{first} {}", first + (count - 1));
    let settings = [
        // Otherwise answers from loopback addresses are dropped.
        (format!("conf/{DEVICE}/route_localnet"), "1"),
        // As many ports as the proxy has towards one destination. When they run out, the program's
        // kernel returns the same error as any kernel.
        ("ip_local_port_range".to_owned(), ports.as_str()),
        // No segment is late on the path to the proxy.
        ("tcp_tw_reuse".to_owned(), "1"),
    ];
    for (name, value) in settings {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let doing = || LiveError::while_(format!("setting {path}"));
        std::fs::write(&path, value).map_err(|error| doing()(error))?;
    }
    Ok(device)
}
