//! The tables of a run while it lasts: CSV, to which whole rows are appended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};
use std::str;

use csv::{ByteRecord, Reader, Writer};

use super::TableError;
use super::columns::{Column, Growing, Kind, Table};
use super::parquet_file::ParquetFile;

/// The name and the kind of each column.
pub(super) type Head = [(&'static str, Kind)];

/// Number of rows that are in memory at once.
pub(super) const ROWS_PER_BATCH: usize = 1 << 16;

/// A CSV file to which rows are appended.
pub(super) struct TableStream {
    path: PathBuf,
    head: &'static Head,
    writer: Writer<File>,
}

impl TableStream {
    /// Creates the file and writes the names of the columns.
    pub(super) fn create(path: &Path, head: &'static Head) -> Result<Self, TableError> {
        let file = File::create(path).map_err(|error| TableError::io(path, error))?;
        let mut stream = Self {
            path: path.to_owned(),
            head,
            writer: Writer::from_writer(file),
        };
        let written = stream
            .writer
            .write_record(head.iter().map(|(name, _)| name));
        written.map_err(|error| TableError::csv(path, error))?;
        stream.flush()?;
        Ok(stream)
    }

    /// Appends rows and hands them to the operating system, so that they survive the end of the
    /// process.
    pub(super) fn append(&mut self, columns: &[Column]) -> Result<(), TableError> {
        let rows = columns.first().map_or(0, Column::rows);
        let written = (0..rows).try_for_each(|row| self.append_row(columns, row));
        written.map_err(|error| TableError::csv(&self.path, error))?;
        self.flush()
    }

    /// Writes the rows of the file and then `last` to a Parquet file beside it, and removes it.
    ///
    /// The Parquet file appears whole or not at all. If it does not, this file has all rows.
    pub(super) fn finish(mut self, last: &[Column]) -> Result<(), TableError> {
        if let Err(error) = self.convert(last) {
            // What stands in the way of the Parquet file may also stand in the way of this one. The
            // first error is the one to report.
            let _ = self.append(last);
            return Err(error);
        }
        std::fs::remove_file(&self.path).map_err(|error| TableError::io(&self.path, error))
    }

    fn append_row(&mut self, columns: &[Column], row: usize) -> Result<(), csv::Error> {
        for column in columns {
            match column {
                Column::Integers(values) => self.writer.write_field(values[row].to_string())?,
                // Debug has the fewest digits from which the same number is read again, and an
                // exponent where they are many.
                Column::Floats(values) => self.writer.write_field(format!("{:?}", values[row]))?,
                Column::Words { codes, words } => {
                    self.writer.write_field(&words[codes[row] as usize])?
                }
            }
        }
        self.writer.write_record(None::<&[u8]>)
    }

    fn convert(&self, last: &[Column]) -> Result<(), TableError> {
        let mut parquet = ParquetFile::create(&self.path.with_extension("parquet"), self.head)?;
        let mut rows = StreamedRows::open(&self.path)?;
        loop {
            let columns = rows.next_columns(ROWS_PER_BATCH)?;
            if columns.iter().all(|column| column.rows() == 0) {
                break;
            }
            parquet.write(&columns)?;
        }
        parquet.write(last)?;
        parquet.finish()
    }

    fn flush(&mut self) -> Result<(), TableError> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| TableError::io(&self.path, error))
    }
}

/// Reads all whole rows of a stream.
pub(super) fn read_stream(path: &Path) -> Result<Table, TableError> {
    let mut rows = StreamedRows::open(path)?;
    let columns = rows.next_columns(usize::MAX)?;
    let names = rows.head.iter().map(|(name, _)| (*name).to_owned());
    Ok(names.zip(columns).collect())
}

/// The whole rows of a stream. The row that was being written when the process was killed is not
/// one of them.
struct StreamedRows {
    path: PathBuf,
    head: &'static Head,
    reader: Reader<Take<File>>,
}

impl StreamedRows {
    fn open(path: &Path) -> Result<Self, TableError> {
        let file = File::open(path).and_then(whole_lines);
        let mut reader = Reader::from_reader(file.map_err(|error| TableError::io(path, error))?);
        let names = reader.byte_headers();
        let names = names.map_err(|error| TableError::csv(path, error))?;
        let mut heads = super::tables::HEADS.into_iter();
        let head = heads.find(|head| head.iter().map(|(name, _)| name.as_bytes()).eq(names));
        let head = head.ok_or_else(|| TableError::NoTable {
            path: path.to_owned(),
        })?;
        Ok(Self {
            path: path.to_owned(),
            head,
            reader,
        })
    }

    /// Reads the next rows, `at_most` of them. At the end there are none.
    fn next_columns(&mut self, at_most: usize) -> Result<Vec<Column>, TableError> {
        let columns = self.head.iter().map(|(_, kind)| Growing::new(*kind));
        let mut columns: Vec<_> = columns.collect();
        let mut row = ByteRecord::new();
        let mut rows = 0;
        while rows < at_most && self.read_row(&mut row)? {
            for ((field, column), (name, _)) in row.iter().zip(&mut columns).zip(self.head) {
                push(column, field).ok_or_else(|| self.wrong_field(name, field, &row))?;
            }
            rows += 1;
        }
        Ok(columns.into_iter().map(Growing::finish).collect())
    }

    fn read_row(&mut self, row: &mut ByteRecord) -> Result<bool, TableError> {
        let read = self.reader.read_byte_record(row);
        read.map_err(|error| TableError::csv(&self.path, error))
    }

    fn wrong_field(&self, column: &'static str, field: &[u8], row: &ByteRecord) -> TableError {
        TableError::Field {
            path: self.path.clone(),
            line: row.position().map_or(0, csv::Position::line),
            column,
            found: String::from_utf8_lossy(field).into_owned(),
        }
    }
}

/// Appends a field to its column, if it is of its kind.
fn push(column: &mut Growing, field: &[u8]) -> Option<()> {
    let field = str::from_utf8(field).ok()?;
    match column {
        Growing::Integers(values) => values.push(field.parse().ok()?),
        Growing::Floats(values) => values.push(field.parse().ok()?),
        Growing::Words(words) => words.push(field),
    }
    Some(())
}

/// Returns the part of a file that ends with its last line break.
fn whole_lines(mut file: File) -> io::Result<Take<File>> {
    const BLOCK: u64 = 4096;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        (&file).take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(file.take(end))
}
