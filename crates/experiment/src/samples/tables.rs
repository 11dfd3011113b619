//! The two tables of a run: samples and data units.

use std::mem::take;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::TableError;
use super::columns::{Column, Kind};
use super::stream::{Head, ROWS_PER_BATCH, TableStream};
use crate::time::Nanos;

/// The columns of the tables.
pub(super) const HEADS: [&Head; 2] = [SAMPLES, UNITS];

const SAMPLES: &Head = &[
    ("time_ns", Kind::Integers),
    ("entity", Kind::Words),
    ("metric", Kind::Words),
    ("value", Kind::Floats),
];

const UNITS: &Head = &[
    ("flow", Kind::Words),
    ("unit", Kind::Integers),
    ("bytes", Kind::Integers),
    ("sent_ns", Kind::Integers),
    ("received_ns", Kind::Integers),
    ("delivered_ns", Kind::Integers),
];

/// Table `samples` with the columns time, entity, metric and value. Counters are cumulative.
pub struct SampleTable {
    stream: TableStream,
    entities: Vec<String>,
    metrics: Vec<String>,
    time_ns: Vec<i64>,
    entity: Vec<i32>,
    metric: Vec<i32>,
    value: Vec<f64>,
}

impl SampleTable {
    /// Creates `samples.csv` in `directory`. `metrics` lists all metrics that rows can name.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(directory: &Path, metrics: &[&str]) -> Result<Self, TableError> {
        Ok(Self {
            stream: TableStream::create(&directory.join("samples.csv"), SAMPLES)?,
            entities: Vec::new(),
            metrics: metrics.iter().map(|metric| (*metric).to_owned()).collect(),
            time_ns: Vec::new(),
            entity: Vec::new(),
            metric: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Adds an entity and returns its index.
    pub fn add_entity(&mut self, name: &str) -> usize {
        self.entities.push(name.to_owned());
        self.entities.len() - 1
    }

    /// Adds a row. `entity` is an index returned by [`Self::add_entity`], `metric` one into the list
    /// given to [`Self::create`].
    ///
    /// # Errors
    /// Fails if rows that fill the memory for them cannot be written.
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
        self.stream.append(&columns)
    }

    /// Writes the whole table to `samples.parquet` and removes `samples.csv`.
    ///
    /// # Errors
    /// Fails if a file cannot be written. All rows are then in `samples.csv`, if that can be
    /// written.
    pub fn finish(mut self) -> Result<(), TableError> {
        let columns = self.take_columns();
        self.stream.finish(&columns)
    }

    fn take_columns(&mut self) -> [Column; SAMPLES.len()] {
        [
            Column::Integers(take(&mut self.time_ns)),
            words(&mut self.entity, &self.entities),
            words(&mut self.metric, &self.metrics),
            Column::Floats(take(&mut self.value)),
        ]
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
    flows: Vec<String>,
    flow: Vec<i32>,
    /// The columns unit, bytes, sent, received and delivered.
    integers: [Vec<i64>; 5],
}

impl UnitTable {
    /// Creates `units.csv` in `directory`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(directory: &Path, flows: &[String]) -> Result<Self, TableError> {
        Ok(Self {
            stream: TableStream::create(&directory.join("units.csv"), UNITS)?,
            flows: flows.to_vec(),
            flow: Vec::new(),
            integers: Default::default(),
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Fails if rows that fill the memory for them cannot be written.
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
        let columns = self.take_columns();
        self.stream.append(&columns)
    }

    /// Writes the whole table to `units.parquet` and removes `units.csv`.
    ///
    /// # Errors
    /// Fails if a file cannot be written. All rows are then in `units.csv`, if that can be written.
    pub fn finish(mut self) -> Result<(), TableError> {
        let columns = self.take_columns();
        self.stream.finish(&columns)
    }

    fn take_columns(&mut self) -> Vec<Column> {
        let flows = words(&mut self.flow, &self.flows);
        let integers = self.integers.iter_mut().map(take).map(Column::Integers);
        std::iter::once(flows).chain(integers).collect()
    }
}

fn words(codes: &mut Vec<i32>, words: &[String]) -> Column {
    Column::Words {
        codes: take(codes),
        words: words.to_vec(),
    }
}
