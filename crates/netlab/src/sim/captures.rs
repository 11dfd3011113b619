//! Captures: what an interface sends and receives, as bytes in a pcapng file whose clock begins in 1970 with the run.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mptcp::payload::Payload;
use mptcp::wire::{Ecn, UdpPacket};
use thiserror::Error;

use super::datagrams;
use super::packet::{Content, Datagram, Packet, Segments, datagram_headers_bytes};
use crate::resolved::{Experiment, Layer};
use crate::time::Nanos;
use crate::trace::{CaptureError, CaptureFile};

/// Where captures go, in the directory of the run.
const DIRECTORY: &str = "captures";

/// Captures that cannot be written.
#[derive(Debug, Error)]
pub enum CapturesError {
    /// Their directory cannot be made.
    #[error("{path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] CaptureError),
}

/// The capture files of a run.
#[derive(Default)]
pub(super) struct Captures {
    /// By interface.
    files: BTreeMap<usize, CaptureFile>,
    bytes: Vec<u8>,
    /// The first that could not be written; nothing is written after it.
    error: Option<CaptureError>,
}

impl Captures {
    /// Creates the files `ID.pcapng` of the interfaces that an experiment names.
    ///
    /// # Errors
    /// The directory or a file cannot be written.
    pub(super) fn create(directory: &Path, experiment: &Experiment) -> Result<Self, CapturesError> {
        let mut captures = Self::default();
        if experiment.measure.captures.is_empty() {
            return Ok(captures);
        }
        let directory = directory.join(DIRECTORY);
        fs::create_dir_all(&directory).map_err(|source| CapturesError::Directory {
            path: directory.clone(),
            source,
        })?;
        for (index, interface) in experiment.interfaces.iter().enumerate() {
            if experiment.measure.captures.contains(&interface.id) {
                let path = directory.join(format!("{}.pcapng", interface.id));
                // Hosts of the simulator know no layer below IP.
                let file = CaptureFile::create(&path, &interface.id, Layer::Three)?;
                captures.files.insert(index, file);
            }
        }
        Ok(captures)
    }

    /// Whether no interface is captured.
    pub(super) fn are_none(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether an interface is captured.
    pub(super) fn has(&self, interface: usize) -> bool {
        self.files.contains_key(&interface)
    }

    /// Adds a packet that an interface sends or receives; a datagram goes from the first of `ends` to the second.
    pub(super) fn add(
        &mut self,
        now: Nanos,
        interface: usize,
        is_sent: bool,
        packet: &Packet,
        segments: &Segments,
        ends: [IpAddr; 2],
    ) {
        let Some(file) = self.files.get_mut(&interface) else {
            return;
        };
        self.bytes.clear();
        match packet.content {
            Content::Segment(segment) => segments.get(segment.id).emit(&mut self.bytes),
            Content::Datagram(datagram) => {
                udp_packet(packet, datagram, ends).emit(&mut self.bytes);
            }
        }
        let written = file.write(Duration::from_nanos(now), is_sent, &self.bytes);
        self.error = self.error.take().or(written.err());
        if self.error.is_some() {
            self.files.clear();
        }
    }

    /// Writes what is not yet written.
    ///
    /// # Errors
    /// It, or anything before, could not be written.
    pub(super) fn finish(&mut self) -> Result<(), CapturesError> {
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        for file in std::mem::take(&mut self.files).into_values() {
            file.finish()?;
        }
        Ok(())
    }
}

fn udp_packet(
    packet: &Packet,
    datagram: Datagram,
    [source, destination]: [IpAddr; 2],
) -> UdpPacket {
    let [sending, listening] = datagrams::ports(datagram.application as usize);
    let (source_port, destination_port) = match packet.is_answer() {
        true => (listening, sending),
        false => (sending, listening),
    };
    let payload_bytes = packet.ip_bytes - datagram_headers_bytes(source);
    UdpPacket {
        source,
        destination,
        ecn: Ecn::NotCapable,
        source_port,
        destination_port,
        // Of anything else, protocol analysers guess what it may be: RTCP, say, and malformed.
        payload: Payload::literal(vec![0; payload_bytes as usize]),
    }
}
