//! Tables as numpy arrays.

use std::path::PathBuf;

use experiment::samples::{self, Column, TableError, Values};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};

/// Converts errors: OSError for access to files, because the machine causes them, and ValueError
/// for their content.
fn table_error(error: &TableError) -> PyErr {
    match error {
        TableError::Io { .. } => PyOSError::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// Reads a table from .parquet, or from the .csv of a run that has not ended, of which all whole
/// rows are read.
///
/// Numeric columns become numpy arrays (int64, float64). Columns of words become (codes as an int32
/// array, list of words).
#[pyfunction]
pub(crate) fn read_table<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let table = py
        .detach(|| samples::read_table(&path))
        .map_err(|error| table_error(&error))?;
    let columns = PyDict::new(py);
    for (name, column) in table {
        match column {
            Column::Integers(values) => {
                columns.set_item(name, array(py, &values, i64::to_ne_bytes, "int64")?)?
            }
            Column::Floats(values) => {
                columns.set_item(name, array(py, &values, f64::to_ne_bytes, "float64")?)?
            }
            Column::Words { codes, words } => {
                let codes = array(py, &codes, i32::to_ne_bytes, "int32")?;
                columns.set_item(name, (codes, words))?;
            }
        }
    }
    Ok(columns)
}

/// Returns a writable array of values of `BYTES` bytes.
fn array<'py, T: Copy, const BYTES: usize>(
    py: Python<'py>,
    values: &[T],
    to_bytes: fn(T) -> [u8; BYTES],
    dtype: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    if values.is_empty() {
        return numpy.call_method1("empty", (0, dtype));
    }
    let bytes = PyByteArray::new_with(py, values.len() * BYTES, |bytes| {
        for (place, value) in bytes.chunks_exact_mut(BYTES).zip(values) {
            place.copy_from_slice(&to_bytes(*value));
        }
        Ok(())
    })?;
    numpy.call_method1("frombuffer", (bytes, dtype))
}

/// Writes columns as a Parquet file. A column is (name, "int64", "float64" or "text", values or
/// None).
#[pyfunction]
pub(crate) fn write_columns(
    py: Python<'_>,
    path: PathBuf,
    columns: Vec<(String, String, Bound<'_, PyAny>)>,
) -> PyResult<()> {
    let columns = columns
        .into_iter()
        .map(|(name, kind, values)| Ok((name, values_of(&kind, &values)?)))
        .collect::<PyResult<Vec<_>>>()?;
    py.detach(|| samples::write_columns(&path, &columns))
        .map_err(|error| table_error(&error))
}

fn values_of(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<Values> {
    Ok(match kind {
        "int64" => Values::Integers(values.extract()?),
        "float64" => Values::Floats(values.extract()?),
        "text" => Values::Texts(values.extract()?),
        other => {
            return Err(PyValueError::new_err(format!(
                "a column of {other}; allowed: int64, float64, text"
            )));
        }
    })
}
