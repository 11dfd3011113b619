//! TUN and TAP devices (Documentation/networking/tuntap.rst of the kernel).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use experiment::resolved::Layer;

use crate::{LiveError, sys};

/// What the kernel leaves to the reader of a device: checksums and segmentation of TCP (also with
/// ECN) and UDP.
const SUPER_PACKETS: u32 = libc::TUN_F_CSUM
    | libc::TUN_F_TSO4
    | libc::TUN_F_TSO6
    | libc::TUN_F_TSO_ECN
    | TUN_F_USO4
    | TUN_F_USO6;
const TUN_F_USO4: u32 = 0x20;
const TUN_F_USO6: u32 = 0x40;

/// This program's side of a TUN or TAP device.
#[derive(Debug)]
pub(super) struct Tun {
    file: File,
}

/// Opens /dev/net/tun. Fails where it is missing or closed to this user.
pub(super) fn open() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
}

impl Tun {
    /// Creates a device in the namespace of the calling thread.
    pub(super) fn in_this_thread(name: &str, layer: Layer) -> Result<Self, LiveError> {
        let file = open().map_err(|error| LiveError::Machine {
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
        Ok(Self { file })
    }

    pub(super) fn set_super_packets(&self, on: bool) -> io::Result<()> {
        let tun = self.file.as_fd();
        match sys::set_tun_offload(tun, if on { SUPER_PACKETS } else { 0 }) {
            // Kernels before Linux 6.2 do not segment UDP.
            Err(error) if on && error.raw_os_error() == Some(libc::EINVAL) => {
                sys::set_tun_offload(tun, SUPER_PACKETS & !(TUN_F_USO4 | TUN_F_USO6))
            }
            result => result,
        }
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    pub(super) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
