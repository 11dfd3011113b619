//! The device at one end of a link: a TUN (layer 3) or TAP (layer 2) device in the namespace of its host.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use netlab::resolved::Layer;

use crate::{LiveError, NetworkNamespace, sys};

/// Bytes that stand before every packet: struct virtio_net_hdr, which says what is left to be done for a super-packet.
pub(crate) const VIRTIO_HEADER_BYTES: usize = 10;

/// What the reader of a device takes over from the kernel: checksums and segmentation of TCP (with ECN too) and UDP.
const SUPER_PACKETS: u32 = libc::TUN_F_CSUM
    | libc::TUN_F_TSO4
    | libc::TUN_F_TSO6
    | libc::TUN_F_TSO_ECN
    | TUN_F_USO4
    | TUN_F_USO6;
const TUN_F_USO4: u32 = 0x20;
const TUN_F_USO6: u32 = 0x40;

/// A device whose other side is this program. It is made down and without addresses.
#[derive(Debug)]
pub struct Device {
    file: File,
    layer: Layer,
}

impl Device {
    /// Makes one in a namespace, a TUN device for layer 3, a TAP device for layer 2.
    ///
    /// # Errors
    /// There is no /dev/net/tun, or it is closed to this user; the name is taken or too long.
    pub fn tun(namespace: &NetworkNamespace, name: &str, layer: Layer) -> Result<Self, LiveError> {
        namespace.run(|| Self::tun_in_this_thread(name, layer))
    }

    /// Makes one in the namespace of the calling thread.
    pub(crate) fn tun_in_this_thread(name: &str, layer: Layer) -> Result<Self, LiveError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|error| LiveError::Machine {
                what: format!("/dev/net/tun cannot be opened ({error})"),
                remedy: "load the module (`modprobe tun`) and run as root".to_owned(),
            })?;
        let kind = match layer {
            Layer::Two => libc::IFF_TAP,
            Layer::Three => libc::IFF_TUN,
        };
        let flags = kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        sys::attach_tun(file.as_fd(), name, flags as u16)
            .map_err(LiveError::while_(format!("making device {name}")))?;
        Ok(Self { file, layer })
    }

    /// What its packets are.
    pub(crate) fn layer(&self) -> Layer {
        self.layer
    }

    /// Whether packets may be read that are larger than the MTU, to be cut by whoever sends them over real wires.
    pub(crate) fn set_super_packets(&self, on: bool) -> io::Result<()> {
        sys::set_tun_offload(self.file.as_fd(), if on { SUPER_PACKETS } else { 0 })
    }

    /// Takes the next packet that the host sends, header first. `WouldBlock` if there is none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Gives a packet to the host, header first.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
