//! Captures as they are read and understood, step by step.

use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use super::analysis::{Analysis, Row, Summary};
use super::decode::{self, DecodedPacket, Place};
use super::merged::MergedCaptures;
use super::reader::{CaptureReader, End, Frame, ReadError};
use super::series::SeriesFile;
use super::tcp_packet::TcpPacket;
use crate::samples::TableError;
use crate::time::seconds;

/// Captures that cannot be read, or what they say not be written.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// A capture.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The series.
    #[error(transparent)]
    Series(#[from] TableError),
}

/// Captures that were made at one place: a file, or several of the interfaces of a host.
pub struct Explained {
    captures: MergedCaptures,
    analysis: Analysis,
    series: Option<SeriesFile>,
}

/// What the captures say.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The form of this document.
    pub schema: &'static str,
    /// The files.
    pub files: Vec<FileSummary>,
    /// What is in them.
    #[serde(flatten)]
    pub summary: Summary,
}

/// A file.
#[derive(Clone, Debug, Serialize)]
pub struct FileSummary {
    /// Its path.
    pub path: String,
    /// Frames read from it.
    pub frames: u64,
    /// Why the rest could not be read, if there is one.
    pub broken: Option<String>,
}

impl Explained {
    /// Opens captures; `series` gets a row for every TCP packet.
    ///
    /// # Errors
    /// A capture cannot be read or is none, or the series cannot be written.
    pub fn open(captures: &[&Path], series: Option<&Path>) -> Result<Self, ExplainError> {
        Ok(Self {
            captures: MergedCaptures::open(captures)?,
            analysis: Analysis::new(),
            series: series.map(SeriesFile::create).transpose()?,
        })
    }

    /// Reads and understands so many frames; `false` when there are no more.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn advance(&mut self, frames: u64) -> Result<bool, ExplainError> {
        let analysis = &mut self.analysis;
        for _ in 0..frames {
            let row = self
                .captures
                .read(|frame| analysis.frame(frame.number, &frame))?;
            match (row, &mut self.series) {
                (None, _) => return Ok(false),
                (Some(Some(row)), Some(series)) => series.add(row)?,
                _ => {}
            }
        }
        Ok(true)
    }

    /// The packet with that number, which lies ahead, with its options; `None` if there is no such frame, or none of TCP.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn decode(&mut self, number: u64) -> Result<Option<DecodedPacket>, ExplainError> {
        let analysis = &mut self.analysis;
        loop {
            let decoded = self.captures.read(|frame| {
                let row = analysis.frame(frame.number, &frame);
                let is_wanted = frame.number == number;
                is_wanted.then(|| row.and_then(|row| decoded(analysis, &row, &frame)))
            })?;
            match decoded {
                None => return Ok(None),
                Some(Some(decoded)) => return Ok(decoded),
                Some(None) => {}
            }
        }
    }

    /// Bytes read of all files.
    pub fn bytes_read(&self) -> u64 {
        self.captures.readers().map(CaptureReader::bytes_read).sum()
    }

    /// What is known by now.
    pub fn document(&self) -> Document {
        let file = |reader: &CaptureReader| FileSummary {
            path: reader.path().display().to_string(),
            frames: reader.frames(),
            broken: match reader.end() {
                Some(End::Broken(why)) => Some(why.clone()),
                _ => None,
            },
        };
        Document {
            schema: "mptcplab/pcap/1",
            files: self.captures.readers().map(file).collect(),
            summary: self.analysis.summary(),
        }
    }

    /// Writes the rest of the series.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&mut self) -> Result<(), ExplainError> {
        Ok(self.series.take().map_or(Ok(()), SeriesFile::finish)?)
    }
}

fn decoded(analysis: &Analysis, row: &Row, frame: &Frame<'_>) -> Option<DecodedPacket> {
    let packet = TcpPacket::of(frame.link, frame.bytes).ok()?;
    let place = Place {
        packet: row.packet,
        at_s: seconds(row.at),
        connection: row.connection,
        subflow: row.subflow,
        from: row.from,
        version: analysis.version_of(row.connection),
    };
    Some(decode::packet(place, &packet))
}
