//! From the stream of a run that has ended, or was killed, to its Parquet file.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::TableError;
use super::reader::Batches;

/// Writes the batches of an Arrow stream, all that are complete, to a `.parquet` file beside it, and returns its path.
///
/// The file appears whole or not at all; the stream stays.
///
/// # Errors
/// The stream cannot be read, or the file not be written.
pub fn write_parquet(arrows: &Path) -> Result<PathBuf, TableError> {
    let unfinished = arrows.with_extension("parquet.unfinished");
    let parquet = arrows.with_extension("parquet");
    copy(arrows, &unfinished)?;
    std::fs::rename(&unfinished, &parquet).map_err(|error| TableError::io(&parquet, error))?;
    Ok(parquet)
}

fn copy(arrows: &Path, parquet: &Path) -> Result<(), TableError> {
    let batches = Batches::open_stream(arrows)?;
    let file = File::create(parquet).map_err(|error| TableError::io(parquet, error))?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let failed = |error| TableError::parquet(parquet, error);
    let mut writer =
        ArrowWriter::try_new(file, batches.schema(), Some(properties.build())).map_err(failed)?;
    for batch in batches {
        writer.write(&batch?).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(())
}
