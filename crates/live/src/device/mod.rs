//! A stand-in until the emulator's device is there.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use netlab::resolved::Layer;

use crate::{LiveError, NetworkNamespace, sys};

/// A TUN or TAP device, down and without addresses.
#[derive(Debug)]
pub struct Device {
    file: File,
}

impl Device {
    /// Makes one in a namespace.
    ///
    /// # Errors
    /// The system refuses.
    pub fn tun(namespace: &NetworkNamespace, name: &str, layer: Layer) -> Result<Self, LiveError> {
        let kind = match layer {
            Layer::Two => libc::IFF_TAP,
            Layer::Three => libc::IFF_TUN,
        };
        let doing = format!("making device {name}");
        let file = namespace.run(|| {
            let made = || {
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .custom_flags(libc::O_NONBLOCK)
                    .open("/dev/net/tun")?;
                sys::attach_tun(file.as_fd(), name, (kind | libc::IFF_NO_PI) as u16)?;
                Ok(file)
            };
            made().map_err(LiveError::while_::<std::io::Error>(doing))
        })?;
        Ok(Self { file })
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
