//! Reads and analyzes captures step by step.

use std::path::Path;

use experiment::samples::TableError;
use experiment::time::seconds;
use serde::Serialize;
use thiserror::Error;

use crate::analysis::{Analysis, Row, Summary};
use crate::decode::{self, DecodedPacket, Place};
use crate::merged::MergedCaptures;
use crate::reader::{CaptureReader, End, Frame, ReadError};
use crate::series::SeriesFile;
use crate::tcp_packet::TcpPacket;

/// Why captures could not be read, or their series not written.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// A capture cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The series cannot be written.
    #[error(transparent)]
    Series(#[from] TableError),
}

/// Captures made at one place: one file, or one for each of several interfaces of a host.
pub struct Explained {
    captures: MergedCaptures,
    analysis: Analysis,
    series: Option<SeriesFile>,
}

/// The result of an analysis.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The schema of this document.
    pub schema: &'static str,
    /// The files read.
    pub files: Vec<FileSummary>,
    /// The summary of their packets.
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
    /// Why the rest could not be read, if so.
    pub broken: Option<String>,
}

impl Explained {
    /// Opens captures. A row for every TCP packet is written to `series`.
    ///
    /// # Errors
    /// Fails if a file is not a readable capture, or if the series cannot be written.
    pub fn open(captures: &[&Path], series: Option<&Path>) -> Result<Self, ExplainError> {
        Ok(Self {
            captures: MergedCaptures::open(captures)?,
            analysis: Analysis::new(),
            series: series.map(SeriesFile::create).transpose()?,
        })
    }

    /// Reads and analyzes up to `frames` frames. Returns false when there are no more.
    ///
    /// # Errors
    /// Fails if the operating system returns an error.
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

    /// Returns packet `number` with its options. Skips all packets before it, so `number` must lie
    /// ahead. `None` if there is no such frame or it is not TCP.
    ///
    /// # Errors
    /// Fails if the operating system returns an error.
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

    /// Returns the number of bytes read from all files.
    pub fn bytes_read(&self) -> u64 {
        self.captures.readers().map(CaptureReader::bytes_read).sum()
    }

    /// Returns the result for all packets so far.
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
    /// Fails if it cannot be written.
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
