//! Parquet files: of a run that has ended, of a capture, and of columns of numbers and texts.

use std::fs::File;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

use super::TableError;
use super::columns::{Column, Growing, Kind, Table};
use super::stream::ROWS_PER_BATCH;

/// A Parquet file that is being written. It appears whole or not at all.
pub struct ParquetFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl ParquetFile {
    /// Creates the file with the names and kinds of its columns, none of whose values can be
    /// missing.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(path: &Path, columns: &[(&str, Kind)]) -> Result<Self, TableError> {
        let columns = columns.iter().copied();
        Self::with_columns(
            path,
            columns.map(|(name, kind)| field(name, kind, Repetition::REQUIRED)),
        )
    }

    fn with_columns(
        path: &Path,
        columns: impl Iterator<Item = Result<Type, ParquetError>>,
    ) -> Result<Self, TableError> {
        let unfinished = path.with_extension("parquet.unfinished");
        let file = File::create(&unfinished).map_err(|error| TableError::io(path, error))?;
        // Most sampled values differ. A dictionary of them would take a third of the time and save
        // 3 % of the file.
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_column_dictionary_enabled(ColumnPath::from("value"), false);
        let writer = columns
            .map(|column| column.map(Arc::new))
            .collect::<Result<_, _>>()
            .and_then(|columns| {
                Type::group_type_builder("schema")
                    .with_fields(columns)
                    .build()
            })
            .and_then(|schema| {
                SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
            });
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            writer: writer.map_err(|error| TableError::parquet(path, error))?,
        })
    }

    /// Writes rows. The columns are of the kinds of the file and of equal length.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&mut self, columns: &[Column]) -> Result<(), TableError> {
        if columns.iter().all(|column| column.rows() == 0) {
            return Ok(());
        }
        self.write_group(|group| columns.iter().try_for_each(|column| write(group, column)))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn finish(self) -> Result<(), TableError> {
        let closed = self.writer.close();
        closed.map_err(|error| TableError::parquet(&self.path, error))?;
        std::fs::rename(&self.unfinished, &self.path)
            .map_err(|error| TableError::io(&self.path, error))
    }

    fn write_group(
        &mut self,
        columns: impl FnOnce(&mut SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError>,
    ) -> Result<(), TableError> {
        let written = || {
            let mut group = self.writer.next_row_group()?;
            columns(&mut group)?;
            group.close().map(drop)
        };
        written().map_err(|error| TableError::parquet(&self.path, error))
    }
}

fn field(name: &str, kind: Kind, repetition: Repetition) -> Result<Type, ParquetError> {
    let of = |physical| Type::primitive_type_builder(name, physical).with_repetition(repetition);
    match kind {
        Kind::Integers => of(Physical::INT64).build(),
        Kind::Floats => of(Physical::DOUBLE).build(),
        Kind::Words => of(Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String))
            .with_converted_type(ConvertedType::UTF8)
            .build(),
    }
}

fn write(
    group: &mut SerializedRowGroupWriter<'_, File>,
    column: &Column,
) -> Result<(), ParquetError> {
    match column {
        Column::Integers(values) => write_values::<Int64Type>(group, values, None),
        Column::Floats(values) => write_values::<DoubleType>(group, values, None),
        Column::Words { codes, words } => {
            let words: Vec<_> = words
                .iter()
                .map(|word| ByteArray::from(word.as_str()))
                .collect();
            let values = codes.iter().map(|code| words[*code as usize].clone());
            write_values::<ByteArrayType>(group, &values.collect::<Vec<_>>(), None)
        }
    }
}

/// Writes the next column. Where values can be missing, `levels` has 1 for a row with a value and 0
/// for one without.
fn write_values<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("too many columns".into()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

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

/// Writes named columns to a Parquet file. The file appears whole or not at all.
///
/// # Errors
/// Fails if the columns differ in length or the file cannot be written.
pub fn write_columns(path: &Path, columns: &[(String, Values)]) -> Result<(), TableError> {
    let mut lengths = columns.iter().map(|(_, values)| values.len());
    let rows = lengths.next();
    if lengths.any(|length| Some(length) != rows) {
        let error = ParquetError::General("columns of different lengths".into());
        return Err(TableError::parquet(path, error));
    }
    let fields = columns
        .iter()
        .map(|(name, values)| field(name, values.kind(), Repetition::OPTIONAL));
    let mut file = ParquetFile::with_columns(path, fields)?;
    file.write_group(|group| {
        let mut columns = columns.iter();
        columns.try_for_each(|(_, values)| values.write(group))
    })?;
    file.finish()
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Integers(_) => Kind::Integers,
            Self::Floats(_) => Kind::Floats,
            Self::Texts(_) => Kind::Words,
        }
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        match self {
            Self::Integers(values) => {
                let (levels, values) = present(values, |value| *value);
                write_values::<Int64Type>(group, &values, Some(&levels))
            }
            Self::Floats(values) => {
                let (levels, values) = present(values, |value| *value);
                write_values::<DoubleType>(group, &values, Some(&levels))
            }
            Self::Texts(values) => {
                let (levels, values) = present(values, |text| ByteArray::from(text.as_str()));
                write_values::<ByteArrayType>(group, &values, Some(&levels))
            }
        }
    }
}

/// Returns which values are present, as levels of [`write_values`], and those that are.
fn present<T, V>(values: &[Option<T>], convert: impl Fn(&T) -> V) -> (Vec<i16>, Vec<V>) {
    let levels = values.iter().map(|value| i16::from(value.is_some()));
    (
        levels.collect(),
        values.iter().flatten().map(convert).collect(),
    )
}

/// Reads a whole file.
pub(super) fn read_parquet(path: &Path) -> Result<Table, TableError> {
    // The reader panics on some damaged files instead of returning an error.
    panic::catch_unwind(|| read_groups(path)).unwrap_or_else(|_| Err(TableError::damaged(path)))
}

fn read_groups(path: &Path) -> Result<Table, TableError> {
    let file = File::open(path).map_err(|error| TableError::io(path, error))?;
    let failed = |error| TableError::parquet(path, error);
    let file = SerializedFileReader::new(file).map_err(failed)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let mut columns = Vec::new();
    for column in schema.columns() {
        columns.push((
            column.name().to_owned(),
            Growing::new(kind_of(path, column)?),
        ));
    }
    for index in 0..file.num_row_groups() {
        let group = file.get_row_group(index).map_err(failed)?;
        for (place, (name, column)) in columns.iter_mut().enumerate() {
            append(path, group.as_ref(), place, name, column)?;
        }
    }
    let columns = columns.into_iter();
    let table: Table = columns
        .map(|(name, column)| (name, column.finish()))
        .collect();
    let mut rows = table.iter().map(|(_, column)| column.rows());
    let first = rows.next();
    if rows.any(|rows| Some(rows) != first) {
        return Err(TableError::damaged(path));
    }
    Ok(table)
}

fn kind_of(path: &Path, column: &ColumnDescriptor) -> Result<Kind, TableError> {
    match (column.physical_type(), column.converted_type()) {
        _ if column.max_rep_level() > 0 => Err(other_column(path, column, "lists")),
        (Physical::INT64, _) => Ok(Kind::Integers),
        (Physical::DOUBLE, _) => Ok(Kind::Floats),
        (Physical::BYTE_ARRAY, ConvertedType::UTF8) => Ok(Kind::Words),
        (physical, _) => Err(other_column(path, column, &physical.to_string())),
    }
}

fn other_column(path: &Path, column: &ColumnDescriptor, found: &str) -> TableError {
    TableError::Column {
        path: path.to_owned(),
        column: column.name().to_owned(),
        found: found.to_owned(),
    }
}

/// Appends the rows of a group to a column. The place is that of the column in the schema.
fn append(
    path: &Path,
    group: &dyn RowGroupReader,
    place: usize,
    name: &str,
    column: &mut Growing,
) -> Result<(), TableError> {
    let read = group
        .get_column_reader(place)
        .and_then(|reader| read_column(reader, column));
    let is_whole = read.map_err(|error| TableError::parquet(path, error))?;
    is_whole.then_some(()).ok_or_else(|| TableError::Column {
        path: path.to_owned(),
        column: name.to_owned(),
        found: "nulls".into(),
    })
}

/// Appends the values of a group to a column, and returns whether every row has one.
fn read_column(reader: ColumnReader, column: &mut Growing) -> Result<bool, ParquetError> {
    match (reader, column) {
        (ColumnReader::Int64ColumnReader(reader), Growing::Integers(values)) => {
            read_values(reader, values)
        }
        (ColumnReader::DoubleColumnReader(reader), Growing::Floats(values)) => {
            read_values(reader, values)
        }
        (ColumnReader::ByteArrayColumnReader(reader), Growing::Words(words)) => {
            let mut texts = Vec::new();
            let is_whole = read_values(reader, &mut texts)?;
            for text in &texts {
                words.push(text.as_utf8()?);
            }
            Ok(is_whole)
        }
        _ => Err(ParquetError::General("a group of other columns".into())),
    }
}

fn read_values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
) -> Result<bool, ParquetError> {
    let mut levels = Vec::new();
    loop {
        levels.clear();
        let read = reader.read_records(ROWS_PER_BATCH, Some(&mut levels), None, values)?;
        let (rows, with_value, _) = read;
        if with_value < rows || rows == 0 {
            return Ok(rows == 0);
        }
    }
}
