//! Captures the packets of an interface in a pcapng file. Its clock starts in 1970 together with
//! the run.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capture::{CaptureError, CaptureFile};
use experiment::resolved::{Experiment, Layer};
use experiment::time::Nanos;
use mptcp::payload::Payload;
use mptcp::wire::{Ecn, UdpPacket};
use thiserror::Error;

use crate::datagrams;
use crate::packet::{Content, Datagram, Packet, Segments, datagram_headers_bytes};

/// The directory of captures within the directory of the run.
const DIRECTORY: &str = "captures";

/// Why captures cannot be written.
#[derive(Debug, Error)]
pub enum CapturesError {
    /// The directory cannot be created.
    #[error("{path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] CaptureError),
}

/// The capture files of a run.
#[derive(Default)]
pub(super) struct Captures {
    /// Files by interface.
    files: BTreeMap<usize, CaptureFile>,
    bytes: Vec<u8>,
    /// The first error. Nothing is written after it.
    error: Option<CaptureError>,
}

impl Captures {
    /// Creates a file `ID.pcapng` for each interface that the experiment captures.
    ///
    /// # Errors
    /// Fails if the directory or a file cannot be written.
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
                // Hosts of the simulator have no layer below IP.
                let file = CaptureFile::create(&path, &interface.id, Layer::Three)?;
                captures.files.insert(index, file);
            }
        }
        Ok(captures)
    }

    /// Returns whether no interface is captured.
    pub(super) fn are_none(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns whether an interface is captured.
    pub(super) fn has(&self, interface: usize) -> bool {
        self.files.contains_key(&interface)
    }

    /// Adds a packet that an interface sends or receives. A datagram goes from the first of `ends`
    /// to the second.
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

    /// Writes all buffered packets.
    ///
    /// # Errors
    /// Fails if they, or any earlier packets, could not be written.
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
        // Protocol analyzers would misread any other payload, for example as malformed RTCP.
        payload: Payload::literal(vec![0; payload_bytes as usize]),
    }
}
