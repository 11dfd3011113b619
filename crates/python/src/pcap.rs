//! Explains captures.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use capture::{ExplainError, Explained, OneWayError, ReadError};
use experiment::samples::TableError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;

/// Converts errors: OSError for failures of the machine, ValueError for names and content of files,
/// because the caller chooses them.
fn explain_error(error: &ExplainError) -> PyErr {
    let is_callers = match error {
        ExplainError::Read(ReadError::NoCapture { .. }) => true,
        ExplainError::Read(ReadError::Io { source, .. })
        | ExplainError::Series(TableError::Io { source, .. }) => matches!(
            source.kind(),
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::IsADirectory
        ),
        ExplainError::Series(_) => false,
    };
    if is_callers {
        PyValueError::new_err(error.to_string())
    } else {
        PyOSError::new_err(error.to_string())
    }
}

/// Captures made at one place, read step by step.
#[pyclass(module = "mptcplab._core")]
pub(crate) struct Captures {
    /// Never locked: the mutex only makes it shareable, and Python's borrow rules prevent
    /// conflicts.
    explained: Mutex<Explained>,
}

impl Captures {
    fn explained(&mut self) -> &mut Explained {
        self.explained
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Captures {
    /// Opens captures. `series` is a Parquet file that receives a row for every TCP packet.
    #[new]
    #[pyo3(signature = (files, series = None))]
    fn new(files: Vec<PathBuf>, series: Option<PathBuf>) -> PyResult<Self> {
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let explained = Explained::open(&files, series.as_deref());
        Ok(Self {
            explained: Mutex::new(explained.map_err(|error| explain_error(&error))?),
        })
    }

    /// Reads up to `frames` frames. Returns False when there are no more.
    fn advance(&mut self, py: Python<'_>, frames: u64) -> PyResult<bool> {
        let explained = self.explained();
        py.detach(|| explained.advance(frames))
            .map_err(|error| explain_error(&error))
    }

    /// Returns packet `number` with its options (JSON). The number must lie ahead. None if there is
    /// no TCP packet with it.
    fn decode(&mut self, py: Python<'_>, number: u64) -> PyResult<Option<String>> {
        let explained = self.explained();
        let decoded = py.detach(|| explained.decode(number));
        let decoded = decoded.map_err(|error| explain_error(&error))?;
        decoded.map(|decoded| as_json(&decoded)).transpose()
    }

    /// Bytes read from the files.
    #[getter]
    fn bytes_read(&mut self) -> u64 {
        self.explained().bytes_read()
    }

    /// Returns the result so far (JSON, mptcplab/pcap/1).
    fn summary(&mut self) -> PyResult<String> {
        as_json(&self.explained().document())
    }

    /// Writes the rest of the series.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let explained = self.explained();
        py.detach(|| explained.finish())
            .map_err(|error| explain_error(&error))
    }
}

/// Compares the captures of one end with the capture of the other (JSON).
#[pyfunction]
pub(crate) fn one_way(py: Python<'_>, here: Vec<PathBuf>, there: PathBuf) -> PyResult<String> {
    let here: Vec<&Path> = here.iter().map(PathBuf::as_path).collect();
    let summary = py.detach(|| capture::one_way(&here, &there));
    let summary = summary.map_err(|error| match error {
        OneWayError::Read(error) => explain_error(&ExplainError::Read(error)),
        error => PyValueError::new_err(error.to_string()),
    });
    as_json(&summary?)
}

fn as_json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
