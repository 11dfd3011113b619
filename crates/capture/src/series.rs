//! Writes a row for every TCP packet to a Parquet file while the capture is read.

use std::path::Path;

use experiment::samples::{Column, ParquetFile, TableError};
use experiment::time::seconds;

use crate::analysis::{Kind, Row, Side};

/// The number of rows written at once.
const ROWS: usize = 1 << 16;

const SIDES: [(Side, &str); 2] = [(Side::Client, "client"), (Side::Server, "server")];

/// The file. It appears whole or not at all.
pub struct SeriesFile {
    file: ParquetFile,
    rows: Vec<Row>,
}

impl SeriesFile {
    /// Creates the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, TableError> {
        let columns = columns_of(&[]).map(|(name, values)| (name, values.kind()));
        Ok(Self {
            file: ParquetFile::create(path, &columns)?,
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
        self.file.finish()
    }

    fn write(&mut self) -> Result<(), TableError> {
        let columns = columns_of(&self.rows).map(|(_, values)| values);
        self.rows.clear();
        self.file.write(&columns)
    }
}

/// Returns names and values of the columns. An unknown value is NaN.
fn columns_of(rows: &[Row]) -> [(&'static str, Column); 13] {
    let integers = |of: fn(&Row) -> u64| {
        let values = rows.iter().map(|row| of(row) as i64);
        Column::Integers(values.collect())
    };
    let floats = |of: fn(&Row) -> Option<f64>| {
        let values = rows.iter().map(|row| of(row).unwrap_or(f64::NAN));
        Column::Floats(values.collect())
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

fn words<T: PartialEq>(rows: &[Row], names: &[(T, &str)], of: impl Fn(&Row) -> T) -> Column {
    let code = |row: &Row| names.iter().position(|(value, _)| *value == of(row));
    let codes = rows.iter().map(|row| code(row).unwrap_or_default() as i32);
    Column::Words {
        codes: codes.collect(),
        words: names.iter().map(|(_, name)| (*name).to_owned()).collect(),
    }
}
