//! The two tables of a run: samples and data units.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use arrow_schema::{ArrowError, DataType};
use serde::{Deserialize, Serialize};

use super::TableError;
use super::parquet_file::write_parquet;
use super::stream::{TableStream, Words, column, words_type};
use crate::time::Nanos;

/// Number of rows after which a batch is written even if it is not yet due.
const ROWS_PER_BATCH: usize = 1 << 16;

/// Table `samples` with the columns time, entity, metric and value. Counters are cumulative.
pub struct SampleTable {
    stream: TableStream,
    entities: Words,
    metrics: Words,
    time_ns: Vec<i64>,
    entity: Vec<i32>,
    metric: Vec<i32>,
    value: Vec<f64>,
}

impl SampleTable {
    /// Creates `samples.arrows` in `directory`. `metrics` lists all metrics that rows can name.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(directory: &Path, metrics: &[&str]) -> Result<Self, TableError> {
        let columns = vec![
            column("time_ns", DataType::Int64),
            column("entity", words_type()),
            column("metric", words_type()),
            column("value", DataType::Float64),
        ];
        Ok(Self {
            stream: TableStream::create(&directory.join("samples.arrows"), columns)?,
            entities: Words::new::<&str>(&[]),
            metrics: Words::new(metrics),
            time_ns: Vec::new(),
            entity: Vec::new(),
            metric: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Adds an entity and returns its index.
    pub fn add_entity(&mut self, name: &str) -> usize {
        self.entities.add(name)
    }

    /// Adds a row. `entity` is an index returned by [`Self::add_entity`], `metric` one into the list
    /// given to [`Self::create`].
    ///
    /// # Errors
    /// Fails if a full batch cannot be written.
    pub fn push(
        &mut self,
        time: Nanos,
        entity: usize,
        metric: usize,
        value: f64,
    ) -> Result<(), TableError> {
        self.time_ns.push(time as i64);
        self.entity.push(entity as i32);
        self.metric.push(metric as i32);
        self.value.push(value);
        if self.value.len() < ROWS_PER_BATCH {
            return Ok(());
        }
        self.flush()
    }

    /// Writes the rows that are not yet written.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn flush(&mut self) -> Result<(), TableError> {
        if self.value.is_empty() {
            return Ok(());
        }
        let columns = self.take_columns();
        self.stream.append(columns)
    }

    /// Writes the remaining rows, converts the table to `samples.parquet` and removes
    /// `samples.arrows`.
    ///
    /// # Errors
    /// Fails if a file cannot be written. The other file is then left as it is.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.flush()?;
        finish(self.stream)
    }

    fn take_columns(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            integers(&mut self.time_ns),
            self.entities.column(std::mem::take(&mut self.entity))?,
            self.metrics.column(std::mem::take(&mut self.metric))?,
            Arc::new(Float64Array::from(std::mem::take(&mut self.value))),
        ])
    }
}

/// A delivered data unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Index of its flow.
    pub flow: usize,
    /// Its number in the flow, from 0.
    pub unit: u64,
    /// Its payload in bytes.
    pub bytes: u64,
    /// When its first byte was handed to the transport.
    pub sent_ns: Nanos,
    /// When its last byte arrived.
    pub received_ns: Nanos,
    /// When its last byte was delivered in order.
    pub delivered_ns: Nanos,
}

/// Table `units`: one row for each delivered data unit.
pub struct UnitTable {
    stream: TableStream,
    flows: Words,
    flow: Vec<i32>,
    /// The columns unit, bytes, sent, received and delivered.
    integers: [Vec<i64>; 5],
}

impl UnitTable {
    /// Creates `units.arrows` in `directory`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(directory: &Path, flows: &[String]) -> Result<Self, TableError> {
        let names = ["unit", "bytes", "sent_ns", "received_ns", "delivered_ns"];
        let numbers = names.map(|name| column(name, DataType::Int64));
        let columns = std::iter::once(column("flow", words_type())).chain(numbers);
        Ok(Self {
            stream: TableStream::create(&directory.join("units.arrows"), columns.collect())?,
            flows: Words::new(flows),
            flow: Vec::new(),
            integers: Default::default(),
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Fails if a full batch cannot be written.
    pub fn push(&mut self, unit: Unit) -> Result<(), TableError> {
        let values = [
            unit.unit,
            unit.bytes,
            unit.sent_ns,
            unit.received_ns,
            unit.delivered_ns,
        ];
        for (column, value) in self.integers.iter_mut().zip(values) {
            column.push(value as i64);
        }
        self.flow.push(unit.flow as i32);
        if self.flow.len() < ROWS_PER_BATCH {
            return Ok(());
        }
        self.flush()
    }

    /// Writes the rows that are not yet written.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn flush(&mut self) -> Result<(), TableError> {
        if self.flow.is_empty() {
            return Ok(());
        }
        let flows = self.flows.column(std::mem::take(&mut self.flow));
        let numbers = self.integers.iter_mut().map(integers);
        self.stream
            .append(flows.map(|flows| std::iter::once(flows).chain(numbers).collect()))
    }

    /// Writes the remaining rows, converts the table to `units.parquet` and removes `units.arrows`.
    ///
    /// # Errors
    /// Fails if a file cannot be written. The other file is then left as it is.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.flush()?;
        finish(self.stream)
    }
}

fn integers(values: &mut Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(std::mem::take(values)))
}

fn finish(stream: TableStream) -> Result<(), TableError> {
    let path = stream.finish()?;
    write_parquet(&path)?;
    std::fs::remove_file(&path).map_err(|error| TableError::io(&path, error))
}
