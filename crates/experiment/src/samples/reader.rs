//! Reads tables from a stream or from Parquet.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};
use std::panic;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchReader};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::root_as_message;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::TableError;

/// A table: the names and values of its columns, in order.
pub type Table = Vec<(String, Column)>;

/// All values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// int64.
    Integers(Int64Array),
    /// float64.
    Floats(Float64Array),
    /// Words, each stored once.
    Words {
        /// One index into `words` for each row.
        codes: Int32Array,
        /// In the order of first use.
        words: Vec<String>,
    },
}

/// Reads a whole table from a `.parquet` file or an Arrow stream. All complete batches of a
/// truncated stream are read.
///
/// # Errors
/// Fails if the file cannot be read, is damaged, or is not a table of a run.
pub fn read_table(path: &Path) -> Result<Table, TableError> {
    // The readers of Arrow and Parquet panic on some damaged files instead of returning an error.
    panic::catch_unwind(|| read_batches(path)).unwrap_or_else(|_| {
        Err(TableError::Damaged {
            path: path.to_owned(),
        })
    })
}

fn read_batches(path: &Path) -> Result<Table, TableError> {
    let batches = if path
        .extension()
        .is_some_and(|extension| extension == "parquet")
    {
        Batches::open_parquet(path)?
    } else {
        Batches::open_stream(path)?
    };
    let mut columns = new_columns(path, &batches.schema())?;
    for batch in batches {
        let batch = batch?;
        for ((name, column), array) in columns.iter_mut().zip(batch.columns()) {
            if array.null_count() > 0 {
                return Err(TableError::Column {
                    path: path.to_owned(),
                    column: name.clone(),
                    found: format!("{} with nulls", array.data_type()),
                });
            }
            column.append(array);
        }
    }
    Ok(columns
        .into_iter()
        .map(|(name, column)| (name, column.finish()))
        .collect())
}

/// The record batches of a file.
pub(super) struct Batches {
    path: PathBuf,
    source: Source,
}

enum Source {
    Stream(Box<StreamReader<Take<BufReader<File>>>>),
    Parquet(Box<ParquetRecordBatchReader>),
}

impl Batches {
    pub(super) fn open_stream(path: &Path) -> Result<Self, TableError> {
        let mut file = BufReader::new(open(path)?);
        let whole_bytes = whole_bytes(&mut file).map_err(|error| TableError::io(path, error))?;
        let reader = StreamReader::try_new(file.take(whole_bytes), None);
        let reader = reader.map_err(|error| TableError::arrow(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            source: Source::Stream(Box::new(reader)),
        })
    }

    fn open_parquet(path: &Path) -> Result<Self, TableError> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(open(path)?)
            .and_then(|builder| builder.build());
        let reader = reader.map_err(|error| TableError::parquet(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            source: Source::Parquet(Box::new(reader)),
        })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match &self.source {
            Source::Stream(reader) => reader.schema(),
            Source::Parquet(reader) => reader.schema(),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match &mut self.source {
            Source::Stream(reader) => match reader.next()? {
                // The writer was killed in the middle of this batch, so the stream ends with the
                // batch before.
                Err(ArrowError::IoError(_, error))
                    if error.kind() == std::io::ErrorKind::UnexpectedEof =>
                {
                    return None;
                }
                batch => batch,
            },
            Source::Parquet(reader) => reader.next()?,
        };
        Some(batch.map_err(|error| TableError::arrow(&self.path, error)))
    }
}

/// How much of an Arrow stream there is, in whole messages: of what a message says of its length,
/// room is made before it is read. Leaves the stream at its start.
fn whole_bytes(stream: &mut (impl Read + Seek)) -> io::Result<u64> {
    let end = stream.seek(SeekFrom::End(0))?;
    let mut at = stream.seek(SeekFrom::Start(0))?;
    while let Some(next) = end_of_message(stream, at, end)? {
        at = next;
        stream.seek(SeekFrom::Start(at))?;
    }
    stream.seek(SeekFrom::Start(0))?;
    Ok(at)
}

/// Where the message from here on ends, if that is not behind the end of the stream.
fn end_of_message(stream: &mut impl Read, at: u64, end: u64) -> io::Result<Option<u64>> {
    const CONTINUATION: u32 = u32::MAX;
    let mut prefix_bytes = 0;
    let mut length = CONTINUATION;
    while length == CONTINUATION && prefix_bytes < 8 {
        let mut word = [0; 4];
        if at + prefix_bytes + 4 > end {
            return Ok(None);
        }
        stream.read_exact(&mut word)?;
        length = u32::from_le_bytes(word);
        prefix_bytes += 4;
    }
    let body_at = at + prefix_bytes + u64::from(length);
    if length == 0 || body_at > end {
        return Ok((length == 0).then_some(body_at));
    }
    let mut metadata = vec![0; length as usize];
    stream.read_exact(&mut metadata)?;
    let body_bytes = root_as_message(&metadata).map(|message| message.bodyLength());
    let body_bytes = body_bytes.ok().and_then(|bytes| u64::try_from(bytes).ok());
    let next = body_bytes.and_then(|bytes| body_at.checked_add(bytes));
    Ok(next.filter(|next| *next <= end))
}

fn open(path: &Path) -> Result<File, TableError> {
    File::open(path).map_err(|error| TableError::io(path, error))
}

/// A column that is being read.
enum Growing {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Words {
        codes: Vec<i32>,
        words: Vec<String>,
        code_of: HashMap<String, i32>,
    },
}

fn new_columns(path: &Path, schema: &SchemaRef) -> Result<Vec<(String, Growing)>, TableError> {
    let new = |field: &arrow_schema::FieldRef| {
        let column = Growing::new(field.data_type()).ok_or_else(|| TableError::Column {
            path: path.to_owned(),
            column: field.name().clone(),
            found: field.data_type().to_string(),
        })?;
        Ok((field.name().clone(), column))
    };
    schema.fields().iter().map(new).collect()
}

impl Growing {
    fn new(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Int64 => Some(Self::Integers(Vec::new())),
            DataType::Float64 => Some(Self::Floats(Vec::new())),
            DataType::Dictionary(key, value)
                if (key.as_ref(), value.as_ref()) == (&DataType::Int32, &DataType::Utf8) =>
            {
                Some(Self::Words {
                    codes: Vec::new(),
                    words: Vec::new(),
                    code_of: HashMap::new(),
                })
            }
            _ => None,
        }
    }

    /// Appends the rows of a batch. The type of `array` must be that of the schema.
    fn append(&mut self, array: &dyn Array) {
        match self {
            Self::Integers(values) => {
                values.extend_from_slice(array.as_primitive::<Int64Type>().values())
            }
            Self::Floats(values) => {
                values.extend_from_slice(array.as_primitive::<Float64Type>().values())
            }
            Self::Words {
                codes,
                words,
                code_of,
            } => {
                let array = array.as_dictionary::<Int32Type>();
                let batch_words = array.values().as_string::<i32>();
                let mut translated = vec![None; batch_words.len()];
                // Each batch has its own dictionary.
                codes.extend(array.keys().values().iter().map(|key| {
                    let place = *key as usize;
                    *translated[place]
                        .get_or_insert_with(|| intern(batch_words.value(place), words, code_of))
                }));
            }
        }
    }

    fn finish(self) -> Column {
        match self {
            Self::Integers(values) => Column::Integers(values.into()),
            Self::Floats(values) => Column::Floats(values.into()),
            Self::Words { codes, words, .. } => Column::Words {
                codes: codes.into(),
                words,
            },
        }
    }
}

fn intern(word: &str, words: &mut Vec<String>, code_of: &mut HashMap<String, i32>) -> i32 {
    if let Some(code) = code_of.get(word) {
        return *code;
    }
    let code = words.len() as i32;
    words.push(word.to_owned());
    code_of.insert(word.to_owned(), code);
    code
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn no_room_is_made_for_what_is_not_there() {
        let claims_two_gigabytes = [0xfb, 0xff, 0xff, 0x7f, 0, 0, 0];
        let whole = |bytes: &[u8]| whole_bytes(&mut Cursor::new(bytes)).unwrap();
        assert_eq!(whole(&claims_two_gigabytes), 0);
        assert_eq!(whole(&[]), 0);
        // The mark of the end, and nothing of what follows.
        let end = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(whole(&end), 8);
        assert_eq!(whole(&[end.as_slice(), &claims_two_gigabytes].concat()), 8);
        assert_eq!(whole(&end[..6]), 0);
    }
}
