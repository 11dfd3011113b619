//! Captures of a run. A separate thread writes them, so that a slow disk delays no packet.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};
use std::{fs, mem};

use capture::{CaptureError, CaptureFile};
use experiment::resolved::Layer;
use experiment::time::Nanos;

use crate::LiveError;

/// Size of a batch for the writer, in bytes. Batches are large because waking the writer takes
/// longer than copying a packet.
const BATCH_BYTES: usize = 1 << 18;

/// A captured packet: the next `bytes` bytes of its batch.
struct Captured {
    interface: usize,
    at: Nanos,
    is_sent: bool,
    bytes: usize,
}

/// Packets on their way to the capture files.
#[derive(Default)]
struct Batch {
    packets: Vec<Captured>,
    bytes: Vec<u8>,
}

/// The capture files of a run.
pub(super) struct Captures {
    batch: Batch,
    sender: Sender<Batch>,
    /// Written batches, to be used again.
    written: Receiver<Batch>,
    writer: JoinHandle<Result<(), CaptureError>>,
}

/// An interface to be captured.
pub(super) struct Captive {
    pub(super) interface: usize,
    pub(super) id: String,
    pub(super) layer: Layer,
}

impl Captures {
    /// Creates the files `ID.pcapng` in `directory`. Time 0 is now.
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
        let (sender, batches) = channel();
        let (done, written) = channel();
        let writer = thread::spawn(move || {
            for batch in batches {
                batch_to_files(&batch, zero, &mut files)?;
                // The emulator takes no batches back after the run.
                let _ = done.send(batch);
            }
            files.into_values().try_for_each(CaptureFile::finish)
        });
        Ok(Self {
            batch: Batch::default(),
            sender,
            written,
            writer,
        })
    }

    /// Adds a packet that an interface sent or received.
    pub(super) fn add(&mut self, interface: usize, at: Nanos, is_sent: bool, packet: &[u8]) {
        self.batch.packets.push(Captured {
            interface,
            at,
            is_sent,
            bytes: packet.len(),
        });
        self.batch.bytes.extend_from_slice(packet);
        if self.batch.bytes.len() >= BATCH_BYTES {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let mut next = self.written.try_recv().unwrap_or_default();
        next.packets.clear();
        next.bytes.clear();
        // The writer ends early only by an error, which `finish` returns.
        let _ = self.sender.send(mem::replace(&mut self.batch, next));
    }

    /// Waits until everything is written.
    pub(super) fn finish(mut self) -> Result<(), LiveError> {
        self.pass_on();
        drop(self.sender);
        let written = self.writer.join();
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(())
    }
}

fn batch_to_files(
    batch: &Batch,
    zero: Duration,
    files: &mut BTreeMap<usize, CaptureFile>,
) -> Result<(), CaptureError> {
    let mut rest = batch.bytes.as_slice();
    for captured in &batch.packets {
        let (packet, later) = rest.split_at(captured.bytes);
        rest = later;
        if let Some(file) = files.get_mut(&captured.interface) {
            let since_1970 = zero + Duration::from_nanos(captured.at);
            file.write(since_1970, captured.is_sent, packet)?;
        }
    }
    Ok(())
}
