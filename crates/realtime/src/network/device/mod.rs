//! The device at one end of a link: one side is in the namespace of its host, the other in this
//! program. A device on another machine is at the other end of a tunnel.

mod tun;
mod tunnel;
mod veth;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use experiment::resolved::Layer;
use rustix::io::Errno;

use crate::{LiveError, NetworkNamespace};
use tun::Tun;
pub(crate) use tunnel::{Key, Tunnel};
use veth::Veth;

/// Bytes before every packet: `struct virtio_net_hdr`, which says what remains to be done for a
/// super-packet.
pub(crate) const VIRTIO_HEADER_BYTES: usize = 10;

const ETHERNET_HEADER_BYTES: usize = 14;
/// The types of payload in an Ethernet header.
pub(crate) const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// How devices are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// TUN and TAP devices.
    Tun,
    /// Pairs of virtual Ethernet devices. Packet sockets read their far ends. They carry no
    /// super-packets.
    Veth,
}

impl DeviceKind {
    /// Returns `Tun`, or `Veth` if /dev/net/tun is missing or closed to this user.
    pub fn of_this_machine() -> Self {
        let closed = [
            Errno::NOENT,
            Errno::NODEV,
            Errno::NXIO,
            Errno::ACCESS,
            Errno::PERM,
        ];
        match tun::open().map_err(|error| Errno::from_io_error(&error)) {
            Err(Some(errno)) if closed.contains(&errno) => Self::Veth,
            _ => Self::Tun,
        }
    }

    /// Returns its name in the record of a run.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tun => "tun",
            Self::Veth => "veth",
        }
    }
}

/// A device with its other side in this program. It starts down and without addresses.
#[derive(Debug)]
pub struct Device {
    layer: Layer,
    side: Side,
}

/// This program's side.
#[derive(Debug)]
enum Side {
    Tun(Tun),
    Veth(Veth),
    Tunnel(Arc<Tunnel>),
}

impl Device {
    /// Creates a device in a namespace: a TUN device for layer 3, a TAP device for layer 2.
    ///
    /// # Errors
    /// /dev/net/tun is missing or closed to this user, or the name is taken or too long.
    pub fn tun(namespace: &NetworkNamespace, name: &str, layer: Layer) -> Result<Self, LiveError> {
        namespace.run(|| Self::in_this_thread(DeviceKind::Tun, name, layer))
    }

    /// Creates one end of a virtual Ethernet pair in a namespace. For layer 3 its Ethernet headers
    /// stay hidden, and it needs no neighbours.
    ///
    /// # Errors
    /// The system refuses, or the name is taken or too long.
    pub fn veth(namespace: &NetworkNamespace, name: &str, layer: Layer) -> Result<Self, LiveError> {
        namespace.run(|| Self::in_this_thread(DeviceKind::Veth, name, layer))
    }

    /// Creates a device in the namespace of the calling thread.
    pub(crate) fn in_this_thread(
        kind: DeviceKind,
        name: &str,
        layer: Layer,
    ) -> Result<Self, LiveError> {
        let side = match kind {
            DeviceKind::Tun => Side::Tun(Tun::in_this_thread(name, layer)?),
            DeviceKind::Veth => Side::Veth(Veth::in_this_thread(name, layer)?),
        };
        Ok(Self { layer, side })
    }

    /// Returns the device on another machine to which a tunnel leads.
    pub(crate) fn elsewhere(tunnel: Arc<Tunnel>, layer: Layer) -> Self {
        let side = Side::Tunnel(tunnel);
        Self { layer, side }
    }

    /// Returns whether it is on another machine, and reports nothing of its state.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.side, Side::Tunnel(_))
    }

    /// Returns whether it can take super-packets.
    pub(crate) fn can_take_super_packets(&self) -> bool {
        matches!(self.side, Side::Tun(_))
    }

    /// Returns the layer of its packets.
    pub(crate) fn layer(&self) -> Layer {
        self.layer
    }

    /// Sets whether packets larger than the MTU may be read, to be cut by the sender on a real
    /// link. Returns whether they may be read now, which is only the case for TUN and TAP devices.
    pub(crate) fn set_super_packets(&self, on: bool) -> io::Result<bool> {
        match &self.side {
            Side::Tun(tun) => tun.set_super_packets(on).map(|()| on),
            Side::Veth(_) | Side::Tunnel(_) => Ok(false),
        }
    }

    /// Reads the next packet that the host sent, header first. Returns `WouldBlock` if there is
    /// none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.side {
            Side::Tun(tun) => tun.read(buffer),
            Side::Veth(veth) => veth.read(buffer),
            Side::Tunnel(tunnel) => tunnel.read(buffer),
        }
    }

    /// Delivers a packet to the host, header first. Returns EIO if the device is down.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        match &self.side {
            Side::Tun(tun) => tun.write(packet),
            Side::Veth(veth) => veth.write(packet),
            Side::Tunnel(tunnel) => tunnel.write(packet),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.side {
            Side::Tun(tun) => tun.as_fd(),
            Side::Veth(veth) => veth.as_fd(),
            Side::Tunnel(tunnel) => tunnel.as_fd(),
        }
    }
}
