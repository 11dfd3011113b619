//! The tables of a run. They are Arrow IPC streams during the run, so that written data survives a
//! kill, and Parquet files at its end.

pub mod metrics;
mod parquet_file;
mod reader;
mod stream;
mod tables;

use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use thiserror::Error;

pub use parquet_file::{Values, write_columns, write_parquet};
pub use reader::{Column, Table, read_table};
pub use tables::{SampleTable, Unit, UnitTable};

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
    /// The Arrow stream cannot be read or written.
    #[error("{path}: {source}")]
    Arrow {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ArrowError,
    },
    /// The Parquet file cannot be read or written.
    #[error("{path}: {source}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ParquetError,
    },
    /// The file is neither an Arrow stream nor Parquet, or it was changed.
    #[error("{path}: the file is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A column has a type that no table of a run has.
    #[error(
        "{path}: column {column}: found {found}, allowed is int64, float64 or a dictionary of strings with int32 keys"
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// Name of the column.
        column: String,
        /// Its type.
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

    fn arrow(path: &Path, source: ArrowError) -> Self {
        match source {
            ArrowError::IoError(_, source) => Self::io(path, source),
            source => Self::Arrow {
                path: path.to_owned(),
                source,
            },
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
