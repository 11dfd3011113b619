//! The interfaces for MPTCP: a raw socket (raw(7)) for each of their addresses, and one for ICMP
//! errors about packets from there.
//!
//! A raw socket receives what the machine's firewall has admitted, and sends by the machine's
//! routes. The kernel handles the same packets too; [`HeldPorts`](super::held_ports::HeldPorts)
//! keeps it from answering them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mptcp::wire::{ICMPV6_PROTOCOL, IcmpError, TCP_PROTOCOL};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, ipproto,
    recvfrom, sendto, socket_with, sockopt,
};

use super::packet_filter;
use crate::network::netlink::{AddressWatch, Connection};
use crate::{LiveError, sys};

/// Room for packets that arrive while the proxy is not scheduled.
const RECEIVE_BUFFER_BYTES: usize = 1 << 25;
/// Bytes that may wait for a device.
const SEND_BUFFER_BYTES: usize = 1 << 22;
const IPV6_HEADER_BYTES: usize = 40;
/// From <linux/in6.h>: packets are written with their headers.
const IPV6_HDRINCL: i32 = 36;

/// The routes by which packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routes {
    /// Routes of the device that has the source address, even if others are better. For openers,
    /// which use every interface.
    OfDevices,
    /// Routes that the machine selects for the source address. For acceptors, which answer by the
    /// path back.
    OfMachine,
}

/// One address of one interface.
#[derive(Debug)]
pub(super) struct Outlet {
    /// Index of the interface in the settings.
    pub(super) interface: usize,
    pub(super) address: IpAddr,
    socket: OwnedFd,
    /// Receives ICMP errors.
    errors: OwnedFd,
}

impl Outlet {
    fn open(interface: usize, device: Option<&str>, address: IpAddr) -> io::Result<Self> {
        let (level, with_header) = match address {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_HDRINCL),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, IPV6_HDRINCL),
        };
        let socket = raw_socket(device, address, ipproto::TCP)?;
        sys::set_socket_option(socket.as_fd(), level, with_header, &1_i32.to_ne_bytes())?;
        sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES)?;
        let bytes = (SEND_BUFFER_BYTES as i32).to_ne_bytes();
        sys::set_socket_option(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            &bytes,
        )?;
        bind(&socket, &SocketAddr::new(address, 0))?;
        Ok(Self {
            interface,
            address,
            socket,
            errors: errors_socket(device, address)?,
        })
    }

    /// Receives, from now on, only TCP packets for those ports.
    pub(super) fn receive_only(&self, ports: &[packet_filter::Block]) -> io::Result<()> {
        let filter = match self.address {
            IpAddr::V4(_) => packet_filter::of_ipv4_packets(ports),
            // A raw socket of IPv6 receives the bytes after the header.
            IpAddr::V6(_) => packet_filter::of_tcp_segments(ports),
        };
        sys::attach_filter(self.socket.as_fd(), &filter)
    }

    /// Sends a packet with its header.
    ///
    /// # Errors
    /// It cannot be sent now, because there is no route or no room.
    pub(super) fn send(&self, packet: &[u8], destination: IpAddr) -> io::Result<()> {
        let to = SocketAddr::new(destination, 0);
        sendto(&self.socket, packet, SendFlags::DONTWAIT, &to)?;
        Ok(())
    }

    /// Reads the next packet with its header. Returns its length, which may exceed the MTU because
    /// the kernel merges segments.
    ///
    /// # Errors
    /// No packet is there, or the device is gone.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_at(&self.socket, TCP_PROTOCOL, buffer)
    }

    /// Reads the next ICMP error about a TCP packet, if there is one.
    pub(super) fn receive_error(&self, buffer: &mut [u8]) -> Option<IcmpError> {
        loop {
            let count = self
                .receive_at(&self.errors, ICMPV6_PROTOCOL, buffer)
                .ok()?;
            if let Ok(error) = IcmpError::parse(&buffer[..count]) {
                return Some(error);
            }
        }
    }

    /// Reads a packet. A raw socket of IPv6 returns no header, so one with the known fields is put
    /// in front.
    fn receive_at(
        &self,
        socket: &OwnedFd,
        ipv6_protocol: u8,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let behind = match self.address {
            IpAddr::V4(_) => 0,
            IpAddr::V6(_) => IPV6_HEADER_BYTES,
        };
        let (count, _, source) = recvfrom(socket, &mut buffer[behind..], RecvFlags::DONTWAIT)?;
        let source = source.and_then(|source| SocketAddr::try_from(source).ok());
        if let (IpAddr::V6(to), Some(SocketAddr::V6(from))) = (self.address, source) {
            let header = &mut buffer[..IPV6_HEADER_BYTES];
            header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
            header[4..6].copy_from_slice(&(count as u16).to_be_bytes());
            header[6..8].copy_from_slice(&[ipv6_protocol, 64]);
            header[8..24].copy_from_slice(&from.ip().octets());
            header[24..].copy_from_slice(&to.octets());
        }
        Ok(behind + count)
    }

    /// Returns the descriptors that are readable when something has arrived.
    pub(super) fn inputs(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.errors.as_fd()]
    }
}

/// Returns a raw socket that receives nothing yet, because the proxy's ports are not known.
fn raw_socket(device: Option<&str>, address: IpAddr, protocol: Protocol) -> io::Result<OwnedFd> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::RAW, flags, Some(protocol))?;
    sys::attach_filter(socket.as_fd(), &packet_filter::nothing())?;
    let name = device.unwrap_or_default().as_bytes();
    sys::set_socket_option(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_BINDTODEVICE,
        name,
    )?;
    Ok(socket)
}

/// Returns a raw socket for ICMP messages that report errors.
fn errors_socket(device: Option<&str>, address: IpAddr) -> io::Result<OwnedFd> {
    let (protocol, filter) = match address {
        IpAddr::V4(_) => (ipproto::ICMP, packet_filter::of_icmp_errors()),
        IpAddr::V6(_) => (ipproto::ICMPV6, packet_filter::of_icmpv6_errors()),
    };
    let socket = raw_socket(device, address, protocol)?;
    bind(&socket, &SocketAddr::new(address, 0))?;
    sys::attach_filter(socket.as_fd(), &filter)?;
    Ok(socket)
}

/// Opens one outlet for each usable address of these interfaces, in their order. Also returns the
/// smallest of their MTUs in bytes.
///
/// # Errors
/// An interface does not exist or has no address, or privileges are missing.
pub(super) fn open(
    interfaces: &[String],
    routes: Routes,
    watch: &AddressWatch,
) -> Result<(Vec<Outlet>, u32), LiveError> {
    let mut connection = Connection::open("proxy")?;
    let mut outlets = Vec::new();
    let mut least_mtu = u32::MAX;
    for (place, name) in interfaces.iter().enumerate() {
        let index = connection.index_of(name).map_err(|_| {
            LiveError::Refused(format!(
                "there is no interface {name:?} in this network namespace; `ip -br link` lists them"
            ))
        })?;
        let addresses: Vec<_> = watch.addresses_of(index).filter(is_routed).collect();
        if addresses.is_empty() {
            return Err(LiveError::Refused(format!(
                "interface {name:?} is down or has no address that other networks can answer to; `ip -br addr` shows it"
            )));
        }
        for address in addresses {
            let device = (routes == Routes::OfDevices).then_some(name.as_str());
            let outlet = Outlet::open(place, device, address);
            let doing = format!("opening a raw socket at {address} of {name}");
            outlets.push(outlet.map_err(LiveError::while_(doing))?);
        }
        let asked = outlets.last().map(|outlet| outlet.socket.as_fd());
        let mtu = asked.map(|socket| sys::mtu_bytes(socket, name));
        let doing = format!("asking for the MTU of {name}");
        let mtu = mtu.transpose().map_err(LiveError::while_(doing))?;
        least_mtu = least_mtu.min(mtu.unwrap_or(least_mtu));
    }
    Ok((outlets, least_mtu))
}

/// Returns whether an address is valid beyond one link; others are of no use for paths.
fn is_routed(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    }
}
