//! Reads the frames of a capture file: pcap or pcapng, compressed or not, complete or truncated,
//! from a disk or a pipe.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use experiment::time::{NANOS_PER_SECOND, Nanos};
use flate2::bufread::MultiGzDecoder;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use thiserror::Error;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Block types (pcapng, section 11.1).
const SECTION_HEADER_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION_BLOCK: u32 = 1;
const SIMPLE_PACKET_BLOCK: u32 = 3;
const ENHANCED_PACKET_BLOCK: u32 = 6;
/// The most interfaces of a section. Real files describe fewer.
const MOST_INTERFACES: usize = 4096;
/// Bytes of an enhanced packet block before the packet (pcapng, section 4.3): interface, time in
/// two halves, two lengths.
const ENHANCED_HEADER_LEN: usize = 20;
/// Bytes of a simple packet block before the packet (pcapng, section 4.4): the original length.
const SIMPLE_HEADER_LEN: usize = 4;

/// Why a capture file cannot be read, in whole or from some packet on.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The operating system returned an error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file does not begin like a capture.
    #[error(
        "{path}: not a capture file: {why}; allowed are pcap and pcapng, also compressed with gzip"
    )]
    NoCapture {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Number of the frame in this file, from 1, as in Wireshark.
    pub number: u64,
    /// Time since 1970.
    pub at: Nanos,
    /// The link type.
    pub link: DataLink,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// Why there are no more frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The file ends after a complete frame.
    Whole,
    /// The file ends within a frame or cannot be parsed further. Holds the reason.
    Broken(String),
}

/// Reads the frames of a capture one by one.
pub struct CaptureReader {
    path: PathBuf,
    format: Format,
    number: u64,
    bytes_read: Arc<AtomicU64>,
    end: Option<End>,
}

type Input = Box<dyn Read + Send>;

enum Format {
    Pcap(PcapReader<Input>),
    PcapNg {
        reader: PcapNgReader<Input>,
        interfaces: Vec<Interface>,
    },
}

/// The properties of a pcapng interface that its packets need.
#[derive(Clone, Copy)]
struct Interface {
    link: DataLink,
    units_per_second: u64,
    snap_length: usize,
}

impl CaptureReader {
    /// Opens a file.
    ///
    /// # Errors
    /// Fails if it cannot be read or is not a capture.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| io_error(path, source))?;
        Self::of(path, file)
    }

    /// Reads from `input`, such as a pipe. Errors name it `path`.
    ///
    /// # Errors
    /// Fails if it cannot be read or is not a capture.
    pub fn of(path: &Path, input: impl Read + Send + 'static) -> Result<Self, ReadError> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            input,
            bytes: Arc::clone(&bytes_read),
        };
        let failed = |source| io_error(path, source);
        let mut input = BufReader::new(counted);
        let is_compressed = input.fill_buf().map_err(failed)?.starts_with(&GZIP);
        let format = if is_compressed {
            Format::of(BufReader::new(MultiGzDecoder::new(input)))
        } else {
            Format::of(input)
        };
        let format = format.map_err(|error| match error {
            PcapError::IoError(source) if source.kind() != ErrorKind::UnexpectedEof => {
                failed(source)
            }
            error => ReadError::NoCapture {
                path: path.to_owned(),
                why: header_fault(&error),
            },
        })?;
        Ok(Self {
            path: path.to_owned(),
            format,
            number: 0,
            bytes_read,
            end: None,
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of frames read so far.
    pub fn frames(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes read from the file, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Returns why there are no more frames, once there are none.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Passes the next frame to `show`. Returns `None` at the [`end`](Self::end).
    ///
    /// # Errors
    /// Fails if the operating system returns an error.
    pub fn read<R>(&mut self, show: impl FnOnce(Frame<'_>) -> R) -> Result<Option<R>, ReadError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let number = self.number + 1;
        let shown = match &mut self.format {
            Format::Pcap(reader) => next_of_pcap(reader, number, show),
            Format::PcapNg { reader, interfaces } => {
                next_of_pcapng(reader, interfaces, number, show)
            }
        };
        match shown {
            Ok(Some(shown)) => {
                self.number = number;
                return Ok(Some(shown));
            }
            Ok(None) => self.end = Some(End::Whole),
            Err(PcapError::IoError(source)) if source.kind() != ErrorKind::UnexpectedEof => {
                return Err(io_error(&self.path, source));
            }
            Err(error) => self.end = Some(End::Broken(said(&error))),
        }
        Ok(None)
    }
}

impl Format {
    fn of(mut input: impl BufRead + Send + 'static) -> Result<Self, PcapError> {
        let begin = input.fill_buf().map_err(PcapError::IoError)?;
        let is_pcapng = begin.starts_with(&PCAPNG);
        let input: Input = Box::new(input);
        if !is_pcapng {
            return PcapReader::new(input).map(Self::Pcap);
        }
        Ok(Self::PcapNg {
            reader: PcapNgReader::new(input)?,
            interfaces: Vec::new(),
        })
    }
}

fn next_of_pcap<R>(
    reader: &mut PcapReader<Input>,
    number: u64,
    show: impl FnOnce(Frame<'_>) -> R,
) -> Result<Option<R>, PcapError> {
    let header = reader.header();
    let nanos = match header.ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    // Real files contain packets longer than their snap length, so the whole packet is read.
    let Some(packet) = reader.next_raw_packet().transpose()? else {
        return Ok(None);
    };
    Ok(Some(show(Frame {
        number,
        at: Nanos::from(packet.ts_sec) * NANOS_PER_SECOND + Nanos::from(packet.ts_frac) * nanos,
        link: header.datalink,
        bytes: &packet.data,
    })))
}

fn next_of_pcapng<R>(
    reader: &mut PcapNgReader<Input>,
    interfaces: &mut Vec<Interface>,
    number: u64,
    show: impl FnOnce(Frame<'_>) -> R,
) -> Result<Option<R>, PcapError> {
    loop {
        let is_big = reader.section().endianness == Endianness::Big;
        let Some(block) = reader.next_raw_block().transpose()? else {
            return Ok(None);
        };
        let body = Body {
            bytes: &block.body,
            is_big,
        };
        match block.type_ {
            ENHANCED_PACKET_BLOCK => {
                return enhanced_packet(body, interfaces, number).map(|frame| Some(show(frame)));
            }
            SIMPLE_PACKET_BLOCK => {
                return simple_packet(body, interfaces, number).map(|frame| Some(show(frame)));
            }
            SECTION_HEADER_BLOCK => interfaces.clear(),
            INTERFACE_DESCRIPTION_BLOCK if interfaces.len() == MOST_INTERFACES => {
                return Err(PcapError::InvalidField("more than 4096 interfaces"));
            }
            INTERFACE_DESCRIPTION_BLOCK => {
                interfaces.extend(reader.interfaces().last().map(Interface::of));
            }
            _ => {}
        }
    }
}

/// A pcapng block in the byte order of its section.
#[derive(Clone, Copy)]
struct Body<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl<'a> Body<'a> {
    fn u32_at(self, at: usize) -> Result<u32, PcapError> {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        let bytes = bytes.ok_or(PcapError::InvalidField(
            "a packet block shorter than its header",
        ))?;
        Ok(if self.is_big {
            u32::from_be_bytes(*bytes)
        } else {
            u32::from_le_bytes(*bytes)
        })
    }

    fn packet(self, at: usize, len: usize) -> Result<&'a [u8], PcapError> {
        let packet = self.bytes.get(at..).and_then(|rest| rest.get(..len));
        packet.ok_or(PcapError::InvalidField("a packet longer than its block"))
    }
}

fn enhanced_packet<'a>(
    body: Body<'a>,
    interfaces: &[Interface],
    number: u64,
) -> Result<Frame<'a>, PcapError> {
    let interface = interface(interfaces, body.u32_at(0)? as usize)?;
    let units = u64::from(body.u32_at(4)?) << 32 | u64::from(body.u32_at(8)?);
    let captured_len = body.u32_at(12)? as usize;
    Ok(Frame {
        number,
        at: interface.since_1970(units),
        link: interface.link,
        bytes: body.packet(ENHANCED_HEADER_LEN, captured_len)?,
    })
}

/// Parses a packet of the first interface, which has no timestamp.
fn simple_packet<'a>(
    body: Body<'a>,
    interfaces: &[Interface],
    number: u64,
) -> Result<Frame<'a>, PcapError> {
    let interface = interface(interfaces, 0)?;
    let captured_len = (body.u32_at(0)? as usize).min(interface.snap_length);
    Ok(Frame {
        number,
        at: 0,
        link: interface.link,
        bytes: body.packet(SIMPLE_HEADER_LEN, captured_len)?,
    })
}

fn interface(interfaces: &[Interface], index: usize) -> Result<&Interface, PcapError> {
    let found = interfaces.get(index);
    found.ok_or(PcapError::InvalidField(
        "a packet of an interface that is not described",
    ))
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut units_per_second = 1_000_000;
        for option in &block.options {
            if let InterfaceDescriptionOption::IfTsResol(resolution) = option {
                units_per_second = units_of(*resolution);
            }
        }
        let snap_length = match block.snaplen {
            0 => usize::MAX,
            snap_length => snap_length as usize,
        };
        Self {
            link: block.linktype,
            units_per_second,
            snap_length,
        }
    }

    fn since_1970(&self, units: u64) -> Nanos {
        let nanos = u128::from(units) * u128::from(NANOS_PER_SECOND);
        (nanos / u128::from(self.units_per_second)) as Nanos
    }
}

/// Returns the units per second given by if_tsresol (pcapng, section 4.2): a power of 10, or of 2
/// if the first bit is set. A resolution beyond 64 bits counts as the finest that fits.
fn units_of(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).unwrap_or(u64::MAX)
}

fn io_error(path: &Path, source: io::Error) -> ReadError {
    ReadError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Returns why a file does not begin like a capture.
fn header_fault(error: &PcapError) -> String {
    match error {
        PcapError::IoError(_) | PcapError::IncompleteBuffer => {
            "it ends within its header".to_owned()
        }
        PcapError::InvalidField(_) => {
            "its header is damaged, or that of another kind of file".to_owned()
        }
        error => error.to_string(),
    }
}

fn said(error: &PcapError) -> String {
    match error {
        PcapError::IoError(_) | PcapError::IncompleteBuffer => "it ends within a packet".to_owned(),
        error => error.to_string(),
    }
}

/// A reader that counts the bytes read.
struct Counted<R> {
    input: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    self.bytes
                        .fetch_add(*read.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
                    return read;
                }
            }
        }
    }
}
