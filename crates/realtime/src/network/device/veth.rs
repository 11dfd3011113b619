//! Pairs of virtual Ethernet devices. The near end is the host's. The far end has a namespace of
//! its own, in which only a packet socket (packet(7)) reads and writes it.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use experiment::resolved::Layer;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::{ETHERNET_HEADER_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, VIRTIO_HEADER_BYTES};
use crate::network::netlink::{Connection, Link, Mac, NearEnd, add_veth};
use crate::{LiveError, NetworkNamespace, sys};

/// The address of all near ends on layer 3. No host sees it, because the kernel addresses frames of
/// a device without ARP to itself.
const NEAR_MAC: Mac = [0x02, 0x02, 0, 0, 0, 1];
const FAR_MAC: Mac = [0x02, 0x02, 0, 0, 0, 2];

const FAR_NAME: &str = "far";
/// As large as possible, so that the far end takes every packet of the near end.
const FAR_MTU_BYTES: u32 = 65_535;
/// Room for as many full packets as the queue of a TUN device has.
const SOCKET_BUFFER_BYTES: i32 = 1 << 25;

/// This program's side of a pair.
#[derive(Debug)]
pub(super) struct Veth {
    /// Bound to the far end.
    socket: File,
    layer: Layer,
    /// A socket in the host's namespace, for requests about the near end.
    host: OwnedFd,
    near_name: String,
}

impl Veth {
    /// Creates a pair with its near end in the namespace of the calling thread.
    pub(super) fn in_this_thread(name: &str, layer: Layer) -> Result<Self, LiveError> {
        let doing = format!("making device {name}");
        let made = || {
            let namespace = NetworkNamespace::of_this_thread()?;
            let flags = SocketFlags::CLOEXEC;
            let host = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
            Ok::<_, io::Error>((namespace, host))
        };
        let (namespace, host) = made().map_err(LiveError::while_(doing.clone()))?;
        let far = NetworkNamespace::new()?;
        let socket = far.run(|| make_pair(name, layer, namespace.as_fd()))?;
        sys::turn_offloads_off(host.as_fd(), name).map_err(LiveError::while_(doing))?;
        Ok(Self {
            socket: File::from(socket),
            layer,
            host,
            near_name: name.to_owned(),
        })
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (before, packet) = buffer.split_at_mut(VIRTIO_HEADER_BYTES);
        before.fill(0);
        let bytes = match self.layer {
            Layer::Two => (&self.socket).read(packet)?,
            Layer::Three => self.read_ip(packet)?,
        };
        Ok(VIRTIO_HEADER_BYTES + bytes)
    }

    /// Reads the next IP packet and skips all other frames.
    fn read_ip(&self, packet: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut header = [0; ETHERNET_HEADER_BYTES];
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(packet)];
            let bytes = (&self.socket).read_vectored(&mut parts)?;
            if [ETHERTYPE_IPV4, ETHERTYPE_IPV6].contains(&[header[12], header[13]]) {
                return Ok(bytes.saturating_sub(ETHERNET_HEADER_BYTES));
            }
        }
    }

    pub(super) fn write(&self, packet: &[u8]) -> io::Result<()> {
        // The far end would take the packet of a device that is down, and the packet would seem to
        // have arrived.
        if !sys::is_device_up(self.host.as_fd(), &self.near_name)? {
            return Err(Errno::IO.into());
        }
        let packet = &packet[VIRTIO_HEADER_BYTES..];
        match self.layer {
            Layer::Two => (&self.socket).write(packet).map(drop),
            Layer::Three => {
                let header = ethernet_header(packet);
                let parts = [IoSlice::new(&header), IoSlice::new(packet)];
                (&self.socket).write_vectored(&parts).map(drop)
            }
        }
    }
}

impl AsFd for Veth {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn ethernet_header(ip: &[u8]) -> [u8; ETHERNET_HEADER_BYTES] {
    let ethertype = match ip.first().map(|byte| byte >> 4) {
        Some(6) => ETHERTYPE_IPV6,
        _ => ETHERTYPE_IPV4,
    };
    let mut header = [0; ETHERNET_HEADER_BYTES];
    header[..6].copy_from_slice(&NEAR_MAC);
    header[6..12].copy_from_slice(&FAR_MAC);
    header[12..].copy_from_slice(&ethertype);
    header
}

/// Creates the pair in the namespace of the far end. Returns the socket bound to the far end.
fn make_pair(name: &str, layer: Layer, host: BorrowedFd<'_>) -> Result<OwnedFd, LiveError> {
    let doing = || format!("making device {name}");
    // The far end must not send packets of its own.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
        .map_err(LiveError::while_(doing()))?;
    let mut connection = Connection::open(name)?;
    let near = NearEnd {
        name,
        namespace: host,
        mac: (layer == Layer::Three).then_some(NEAR_MAC),
        asks_for_neighbours: layer == Layer::Two,
    };
    connection.commit(&[add_veth(FAR_NAME, &near)])?;
    let far = connection.index_of(FAR_NAME)?;
    let up = Link::new(far).mtu_bytes(FAR_MTU_BYTES).up(true);
    connection.commit(&[up.request()])?;
    // No packet is missed, because the near end is still down.
    packet_socket(far).map_err(LiveError::while_(doing()))
}

/// Returns a socket for all frames of a device.
pub(super) fn packet_socket(device: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    sys::set_buffers(socket.as_fd(), SOCKET_BUFFER_BYTES)?;
    let on = 1_i32.to_ne_bytes();
    sys::set_socket_option(
        socket.as_fd(),
        libc::SOL_PACKET,
        PACKET_IGNORE_OUTGOING,
        &on,
    )?;
    sys::bind_to_device(socket.as_fd(), device)?;
    Ok(socket)
}

/// From <linux/if_packet.h>: the socket does not receive the packets that this program sends.
const PACKET_IGNORE_OUTGOING: i32 = 23;
