//! Writes Parquet files from the stream of a run that has ended or was killed, and from columns in
//! memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::TableError;
use super::reader::Batches;

/// The values of a column to be written. `None` is a missing value.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// int64.
    Integers(Vec<Option<i64>>),
    /// float64.
    Floats(Vec<Option<f64>>),
    /// UTF-8.
    Texts(Vec<Option<String>>),
}

/// Writes all complete batches of an Arrow stream to a `.parquet` file beside it, and returns the
/// path of that file.
///
/// The file appears whole or not at all. The stream is kept.
///
/// # Errors
/// Fails if the stream cannot be read or the file cannot be written.
pub fn write_parquet(arrows: &Path) -> Result<PathBuf, TableError> {
    let parquet = arrows.with_extension("parquet");
    let batches = Batches::open_stream(arrows)?;
    write_whole(&parquet, batches.schema(), batches)?;
    Ok(parquet)
}

/// Writes named columns of equal length to a Parquet file. The file appears whole or not at all.
///
/// # Errors
/// Fails if the columns differ in length or the file cannot be written.
pub fn write_columns(parquet: &Path, columns: Vec<(String, Values)>) -> Result<(), TableError> {
    let arrays = columns
        .into_iter()
        .map(|(name, values)| (name, values.into_array(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(arrays)
        .map_err(|error| TableError::arrow(parquet, error))?;
    write_whole(parquet, batch.schema(), [Ok(batch)])
}

impl Values {
    fn into_array(self) -> ArrayRef {
        match self {
            Self::Integers(values) => Arc::new(Int64Array::from(values)),
            Self::Floats(values) => Arc::new(Float64Array::from(values)),
            Self::Texts(values) => Arc::new(StringArray::from(values)),
        }
    }
}

fn write_whole(
    parquet: &Path,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, TableError>>,
) -> Result<(), TableError> {
    let unfinished = parquet.with_extension("parquet.unfinished");
    write(&unfinished, schema, batches)?;
    std::fs::rename(&unfinished, parquet).map_err(|error| TableError::io(parquet, error))
}

fn write(
    path: &Path,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, TableError>>,
) -> Result<(), TableError> {
    let file = File::create(path).map_err(|error| TableError::io(path, error))?;
    // Most sampled values differ. A dictionary of them would take a third of the time and save 3 %
    // of the file.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_column_dictionary_enabled(ColumnPath::from("value"), false);
    let failed = |error| TableError::parquet(path, error);
    let mut writer =
        ArrowWriter::try_new(file, schema, Some(properties.build())).map_err(failed)?;
    for batch in batches {
        writer.write(&batch?).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(())
}
