//! Writes the packets of one interface to a pcapng file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::resolved::Layer;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use thiserror::Error;

/// Timestamps are in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// No limit: packets are kept whole, super-packets too.
const SNAP_LENGTH: u32 = 0;
/// Bits of the option epb_flags: the direction (pcapng, section 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The error for a capture file that cannot be written.
#[derive(Debug, Error)]
#[error("{path}: {source}")]
pub struct CaptureError {
    path: PathBuf,
    source: PcapError,
}

/// A pcapng file with one interface, nanosecond timestamps and the direction of each packet.
pub struct CaptureFile {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<File>>,
}

impl CaptureFile {
    /// Creates the capture file of an interface. It holds IP packets (layer 3) or Ethernet frames
    /// (layer 2).
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(path: &Path, interface: &str, layer: Layer) -> Result<Self, CaptureError> {
        let failed = |source| CaptureError {
            path: path.to_owned(),
            source,
        };
        let file = File::create(path).map_err(|error| failed(PcapError::IoError(error)))?;
        let mut writer = PcapNgWriter::new(BufWriter::new(file)).map_err(failed)?;
        let link_type = match layer {
            Layer::Two => DataLink::ETHERNET,
            Layer::Three => DataLink::RAW,
        };
        let mut description = InterfaceDescriptionBlock::new(link_type, SNAP_LENGTH);
        description.options = vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(interface.to_owned())),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        writer.write_pcapng_block(description).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            writer,
        })
    }

    /// Adds a packet that the interface sent or received at `since_1970`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(
        &mut self,
        since_1970: Duration,
        is_sent: bool,
        packet: &[u8],
    ) -> Result<(), CaptureError> {
        let direction = if is_sent { OUTBOUND } else { INBOUND };
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: since_1970,
            original_len: packet.len() as u32,
            data: Cow::Borrowed(packet),
            options: vec![EnhancedPacketOption::Flags(direction)],
        };
        let written = self.writer.write_pcapng_block(block);
        written.map(drop).map_err(|error| self.failed(error))
    }

    /// Writes all buffered packets.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        let flushed = self.writer.get_mut().flush();
        flushed.map_err(|error| self.failed(PcapError::IoError(error)))
    }

    fn failed(&self, source: PcapError) -> CaptureError {
        CaptureError {
            path: self.path.clone(),
            source,
        }
    }
}
