//! Writes a row for every TCP packet to a Parquet file while the capture is read.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{Field, Schema, SchemaRef};
use experiment::samples::TableError;
use experiment::time::seconds;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::analysis::{Kind, Row, Side};

/// The number of rows written at once.
const ROWS: usize = 1 << 16;

const SIDES: [(Side, &str); 2] = [(Side::Client, "client"), (Side::Server, "server")];

/// The file. It appears whole or not at all.
pub struct SeriesFile {
    path: PathBuf,
    unfinished: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    rows: Vec<Row>,
}

impl SeriesFile {
    /// Creates the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, TableError> {
        let unfinished = path.with_extension("parquet.unfinished");
        let file = File::create(&unfinished).map_err(|error| TableError::io(path, error))?;
        let columns = columns_of(&[]);
        let fields = columns
            .iter()
            .map(|(name, values)| Field::new(*name, values.data_type().clone(), false));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties.build()));
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            schema,
            writer: writer.map_err(|error| TableError::parquet(path, error))?,
            rows: Vec::with_capacity(ROWS),
        })
    }

    /// Adds a row for a packet.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn add(&mut self, row: Row) -> Result<(), TableError> {
        self.rows.push(row);
        if self.rows.len() == ROWS {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the remaining rows and completes the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.write()?;
        let closed = self.writer.close();
        closed.map_err(|error| TableError::parquet(&self.path, error))?;
        std::fs::rename(&self.unfinished, &self.path)
            .map_err(|error| TableError::io(&self.path, error))
    }

    fn write(&mut self) -> Result<(), TableError> {
        let columns = columns_of(&self.rows).map(|(_, values)| values);
        self.rows.clear();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns.to_vec());
        let written = batch
            .map_err(ParquetError::from)
            .and_then(|batch| self.writer.write(&batch));
        written.map_err(|error| TableError::parquet(&self.path, error))
    }
}

/// Returns names and values of the columns. An unknown value is NaN.
fn columns_of(rows: &[Row]) -> [(&'static str, ArrayRef); 13] {
    let integers = |of: fn(&Row) -> u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            rows.iter().map(|row| of(row) as i64),
        ))
    };
    let floats = |of: fn(&Row) -> Option<f64>| -> ArrayRef {
        let values = rows.iter().map(|row| of(row).unwrap_or(f64::NAN));
        Arc::new(Float64Array::from_iter_values(values))
    };
    [
        ("packet", integers(|row| row.packet)),
        ("time_s", floats(|row| Some(seconds(row.at)))),
        ("connection", integers(|row| row.connection as u64)),
        ("subflow", integers(|row| row.subflow as u64)),
        ("from", words(rows, &SIDES, |row| row.from)),
        (
            "kind",
            words(rows, &Kind::ALL.map(|kind| (kind, kind.name())), |row| {
                row.kind
            }),
        ),
        ("payload_bytes", integers(|row| u64::from(row.len))),
        ("data", floats(|row| row.data.map(|data| data as f64))),
        (
            "data_ack",
            floats(|row| row.data_ack.map(|data| data as f64)),
        ),
        ("rtt_s", floats(|row| row.rtt.map(seconds))),
        ("data_rtt_s", floats(|row| row.data_rtt.map(seconds))),
        ("unacknowledged_bytes", integers(|row| row.unacknowledged)),
        (
            "window_bytes",
            floats(|row| row.window.map(|window| window as f64)),
        ),
    ]
}

fn words<T: PartialEq>(rows: &[Row], names: &[(T, &str)], of: impl Fn(&Row) -> T) -> ArrayRef {
    let code = |row: &Row| names.iter().position(|(value, _)| *value == of(row));
    let codes = rows.iter().map(|row| code(row).unwrap_or_default() as i32);
    let codes = Int32Array::from_iter_values(codes);
    let values = StringArray::from_iter_values(names.iter().map(|(_, name)| name));
    let column = DictionaryArray::<Int32Type>::try_new(codes, Arc::new(values));
    Arc::new(column.expect("codes are places in the list of names"))
}
