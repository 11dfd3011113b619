//! The tables of a run. They are CSV during the run, so that written rows survive a kill. At its end
//! they are Parquet.

mod columns;
pub mod metrics;
mod parquet_file;
mod stream;
mod tables;

use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use thiserror::Error;

pub use columns::{Column, Kind, Table};
pub use parquet_file::{ParquetFile, Values, write_columns};
pub use tables::{SampleTable, Unit, UnitTable};

/// Reads a whole table of a run: a `.parquet` file, or the CSV file of a run that has not ended, of
/// which all whole rows are read.
///
/// # Errors
/// Fails if the file cannot be read, is damaged, or is not a table of a run.
pub fn read_table(path: &Path) -> Result<Table, TableError> {
    if path
        .extension()
        .is_some_and(|extension| extension == "parquet")
    {
        return parquet_file::read_parquet(path);
    }
    stream::read_stream(path)
}

/// Why a table could not be written or read.
#[derive(Debug, Error)]
pub enum TableError {
    /// The operating system returned an error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The first line of the CSV file does not name the columns of a table of a run.
    #[error("{path}: not a table of a run")]
    NoTable {
        /// The file.
        path: PathBuf,
    },
    /// A line of the CSV file has more or fewer fields than there are columns.
    #[error("{path}:{line}: found {found} fields, allowed are {allowed}")]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Number of fields.
        found: u64,
        /// Number of columns.
        allowed: u64,
    },
    /// A field of the CSV file is not of the kind of its column.
    #[error("{path}:{line}: {column}: found {found:?}, allowed is a number")]
    Field {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Name of the column.
        column: &'static str,
        /// The field.
        found: String,
    },
    /// The Parquet file cannot be read or written.
    #[error("{path}: {source}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ParquetError,
    },
    /// The file is not Parquet, or it was changed.
    #[error("{path}: the file is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A column has a type that no table of a run has.
    #[error(
        "{path}: column {column}: found {found}, allowed are integers of 64 bits, floats of 64 bits and text, without nulls"
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// Name of the column.
        column: String,
        /// What it contains.
        found: String,
    },
}

impl TableError {
    /// Returns the error for an operation on the file at `path` that failed.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    fn csv(path: &Path, source: csv::Error) -> Self {
        match source.into_kind() {
            csv::ErrorKind::Io(source) => Self::io(path, source),
            csv::ErrorKind::UnequalLengths {
                pos,
                expected_len,
                len,
            } => Self::Row {
                path: path.to_owned(),
                line: pos.map_or(0, |position| position.line()),
                found: len,
                allowed: expected_len,
            },
            _ => Self::NoTable {
                path: path.to_owned(),
            },
        }
    }

    fn damaged(path: &Path) -> Self {
        Self::Damaged {
            path: path.to_owned(),
        }
    }

    /// Returns the error for Parquet at `path` that could not be read or written.
    pub fn parquet(path: &Path, source: ParquetError) -> Self {
        match source {
            ParquetError::External(source) => match source.downcast::<std::io::Error>() {
                Ok(source) => Self::io(path, *source),
                Err(source) => Self::parquet_format(path, ParquetError::External(source)),
            },
            source => Self::parquet_format(path, source),
        }
    }

    fn parquet_format(path: &Path, source: ParquetError) -> Self {
        Self::Parquet {
            path: path.to_owned(),
            source,
        }
    }
}
