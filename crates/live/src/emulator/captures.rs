//! Captures of a run, written by a thread of their own so that a slow disk delays no packet.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use netlab::resolved::Layer;
use netlab::time::Nanos;
use netlab::trace::{CaptureError, CaptureFile};

use crate::LiveError;

/// A packet on its way to its file.
struct Captured {
    interface: usize,
    at: Nanos,
    is_sent: bool,
    packet: Vec<u8>,
}

/// The capture files of the interfaces that are captured.
pub(super) struct Captures {
    sender: Sender<Captured>,
    writer: JoinHandle<Result<(), CaptureError>>,
}

/// An interface to be captured.
pub(super) struct Captive {
    pub(super) interface: usize,
    pub(super) id: String,
    pub(super) layer: Layer,
}

impl Captures {
    /// Creates the files `ID.pcapng` in `directory`; time 0 is now.
    pub(super) fn start(directory: &Path, captives: &[Captive]) -> Result<Self, LiveError> {
        let doing = format!("making {}", directory.display());
        fs::create_dir_all(directory).map_err(LiveError::while_(doing))?;
        let mut files = BTreeMap::new();
        for captive in captives {
            let path = directory.join(format!("{}.pcapng", captive.id));
            let file = CaptureFile::create(&path, &captive.id, captive.layer)?;
            files.insert(captive.interface, file);
        }
        let zero = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let (sender, receiver) = channel::<Captured>();
        let writer = thread::spawn(move || {
            for captured in receiver {
                let since_1970 = zero + Duration::from_nanos(captured.at);
                if let Some(file) = files.get_mut(&captured.interface) {
                    file.write(since_1970, captured.is_sent, &captured.packet)?;
                }
            }
            files.into_values().try_for_each(CaptureFile::finish)
        });
        Ok(Self { sender, writer })
    }

    /// Adds a packet that an interface sent or received.
    pub(super) fn add(&self, interface: usize, at: Nanos, is_sent: bool, packet: &[u8]) {
        // The writer ends early only by an error, which `finish` tells.
        let _ = self.sender.send(Captured {
            interface,
            at,
            is_sent,
            packet: packet.to_vec(),
        });
    }

    /// Waits until all is written.
    pub(super) fn finish(self) -> Result<(), LiveError> {
        drop(self.sender);
        let written = self.writer.join();
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(())
    }
}
