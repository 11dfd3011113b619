//! Writes an Arrow IPC stream to a file.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::TableError;

/// Returns a column with a name and a type.
pub(super) fn column(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

/// Returns the type of a column of words. Each distinct word is stored once.
pub(super) fn words_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The words that a column can hold. Words are only added, so that a code means the same word in
/// every batch.
pub(super) struct Words {
    words: Vec<String>,
    /// The array shared by batches. `None` if a word was added since it was built.
    array: Option<ArrayRef>,
}

impl Words {
    pub(super) fn new<T: AsRef<str>>(words: &[T]) -> Self {
        let words = words.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { words, array: None }
    }

    /// Adds a word and returns its code.
    pub(super) fn add(&mut self, word: &str) -> usize {
        self.array = None;
        self.words.push(word.to_owned());
        self.words.len() - 1
    }

    /// Returns a column of codes, which are indices into the list of words.
    pub(super) fn column(&mut self, codes: Vec<i32>) -> Result<ArrayRef, ArrowError> {
        let codes = Int32Array::from(codes);
        let words = self
            .array
            .get_or_insert_with(|| Arc::new(StringArray::from_iter_values(&self.words)));
        let column = DictionaryArray::<Int32Type>::try_new(codes, Arc::clone(words))?;
        Ok(Arc::new(column))
    }
}

/// A file to which whole record batches are appended.
pub(super) struct TableStream {
    path: PathBuf,
    schema: SchemaRef,
    writer: StreamWriter<BufWriter<File>>,
}

impl TableStream {
    /// Creates the file and writes the schema.
    pub(super) fn create(path: &Path, columns: Vec<Field>) -> Result<Self, TableError> {
        let schema = Arc::new(Schema::new(columns));
        let file = File::create(path).map_err(|error| TableError::io(path, error))?;
        let writer = StreamWriter::try_new(BufWriter::new(file), &schema);
        let mut stream = Self {
            path: path.to_owned(),
            schema,
            writer: writer.map_err(|error| TableError::arrow(path, error))?,
        };
        stream.flush()?;
        Ok(stream)
    }

    /// Appends a batch and hands it to the operating system, so that it survives the end of the
    /// process.
    pub(super) fn append(
        &mut self,
        columns: Result<Vec<ArrayRef>, ArrowError>,
    ) -> Result<(), TableError> {
        let written = columns
            .and_then(|columns| RecordBatch::try_new(Arc::clone(&self.schema), columns))
            .and_then(|batch| self.writer.write(&batch));
        written.map_err(|error| TableError::arrow(&self.path, error))?;
        self.flush()
    }

    /// Writes the end of the stream and returns the path of the file.
    pub(super) fn finish(mut self) -> Result<PathBuf, TableError> {
        let finished = self.writer.finish();
        finished.map_err(|error| TableError::arrow(&self.path, error))?;
        Ok(self.path)
    }

    fn flush(&mut self) -> Result<(), TableError> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| TableError::arrow(&self.path, error))
    }
}
