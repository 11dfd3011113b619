//! Merges the frames of several files, such as of several interfaces of one host, in order of time.

use std::path::Path;

use experiment::time::Nanos;
use pcap_file::DataLink;

use crate::reader::{CaptureReader, Frame, ReadError};

/// Files that are read side by side. Frames are numbered from 1 over all files. For a single file
/// these are Wireshark's numbers.
pub struct MergedCaptures {
    sources: Vec<Source>,
    number: u64,
}

struct Source {
    reader: CaptureReader,
    /// The next frame of this file, if there are other files.
    next: Option<Kept>,
}

struct Kept {
    at: Nanos,
    link: DataLink,
    bytes: Vec<u8>,
}

impl MergedCaptures {
    /// Opens files.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is not a capture.
    pub fn open(paths: &[&Path]) -> Result<Self, ReadError> {
        let readers: Result<Vec<_>, _> =
            paths.iter().map(|path| CaptureReader::open(path)).collect();
        let source = |reader| Source { reader, next: None };
        let mut merged = Self {
            sources: readers?.into_iter().map(source).collect(),
            number: 0,
        };
        if merged.sources.len() > 1 {
            merged.sources.iter_mut().try_for_each(Source::keep_next)?;
        }
        Ok(merged)
    }

    /// Returns the readers of the files.
    pub fn readers(&self) -> impl Iterator<Item = &CaptureReader> {
        self.sources.iter().map(|source| &source.reader)
    }

    /// Passes the next frame to `show`. Returns `None` at the end of all files.
    ///
    /// # Errors
    /// Fails if the operating system returns an error.
    pub fn read<R>(&mut self, show: impl FnOnce(Frame<'_>) -> R) -> Result<Option<R>, ReadError> {
        if let [source] = &mut self.sources[..] {
            return source.reader.read(show);
        }
        let earliest =
            |source: &&mut Source| source.next.as_ref().map_or(Nanos::MAX, |next| next.at);
        let Some(source) = self.sources.iter_mut().min_by_key(earliest) else {
            return Ok(None);
        };
        let Some(kept) = source.next.take() else {
            return Ok(None);
        };
        self.number += 1;
        let shown = show(Frame {
            number: self.number,
            at: kept.at,
            link: kept.link,
            bytes: &kept.bytes,
        });
        source.keep_next()?;
        Ok(Some(shown))
    }
}

impl Source {
    fn keep_next(&mut self) -> Result<(), ReadError> {
        self.next = self.reader.read(|frame| Kept {
            at: frame.at,
            link: frame.link,
            bytes: frame.bytes.to_vec(),
        })?;
        Ok(())
    }
}
