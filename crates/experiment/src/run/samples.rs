//! The samples of a run: when they are due, their table, and the latest values.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::samples::metrics::Group;
use crate::samples::{SampleTable, TableError};
use crate::time::Nanos;

/// The latest values, by entity and metric.
pub type Latest = BTreeMap<String, BTreeMap<&'static str, f64>>;

/// The samples of a run. Entities and metrics are indices into the lists of their names.
pub struct Samples {
    table: SampleTable,
    entities: Vec<String>,
    entity_of_name: HashMap<String, usize>,
    /// Names of all metrics, each once.
    metrics: Vec<&'static str>,
    /// The metrics of each group.
    groups: [Vec<usize>; Group::METRICS.len()],
    every: Nanos,
    last_at: Nanos,
    next_at: Nanos,
    /// Entity, metric and value of the last sample.
    rows: Vec<(usize, usize, f64)>,
    /// The last values recorded at a time, by entity and metric.
    notes: BTreeMap<(usize, usize), f64>,
}

impl Samples {
    /// Creates the table in `directory`. Samples are due at multiples of `every`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn create(directory: &Path, every: Nanos) -> Result<Self, TableError> {
        let mut metrics: Vec<&'static str> = Vec::new();
        let groups = Group::METRICS.map(|names| {
            let names = names.iter();
            names.map(|name| place(&mut metrics, name)).collect()
        });
        Ok(Self {
            table: SampleTable::create(directory, &metrics)?,
            entities: Vec::new(),
            entity_of_name: HashMap::new(),
            metrics,
            groups,
            every,
            last_at: 0,
            next_at: 0,
            rows: Vec::new(),
            notes: BTreeMap::new(),
        })
    }

    /// Returns the entity with a name. It is added if it is new.
    pub fn entity(&mut self, name: &str) -> usize {
        if let Some(entity) = self.entity_of_name.get(name) {
            return *entity;
        }
        let entity = self.table.add_entity(name);
        self.entities.push(name.to_owned());
        self.entity_of_name.insert(name.to_owned(), entity);
        entity
    }

    /// Returns when the last sample was taken, and 0 before the first.
    pub fn last_at(&self) -> Nanos {
        self.last_at
    }

    /// Returns when the next regular sample is due.
    pub fn next_at(&self) -> Nanos {
        self.next_at
    }

    /// Begins a sample at `now`.
    pub fn begin(&mut self, now: Nanos) {
        self.last_at = now;
        self.next_at = (now / self.every + 1) * self.every;
        self.rows.clear();
    }

    /// Adds the known values of an entity to the sample. They are the latest until the next sample
    /// begins.
    ///
    /// # Errors
    /// Fails if the table cannot be written.
    pub fn record(
        &mut self,
        entity: usize,
        group: Group,
        values: impl IntoIterator<Item = impl Into<Option<f64>>>,
    ) -> Result<(), TableError> {
        for (metric, value) in known(&self.groups[group as usize], values) {
            self.table.push(self.last_at, entity, metric, value)?;
            self.rows.push((entity, metric, value));
        }
        Ok(())
    }

    /// Adds the known values of an entity at `at`. They are the latest until others are recorded.
    ///
    /// # Errors
    /// Fails if the table cannot be written.
    pub fn record_at(
        &mut self,
        at: Nanos,
        entity: &str,
        group: Group,
        values: impl IntoIterator<Item = impl Into<Option<f64>>>,
    ) -> Result<(), TableError> {
        let entity = self.entity(entity);
        for (metric, value) in known(&self.groups[group as usize], values) {
            self.table.push(at, entity, metric, value)?;
            self.notes.insert((entity, metric), value);
        }
        Ok(())
    }

    pub(super) fn latest(&self) -> Latest {
        let mut latest = Latest::new();
        let notes = self.notes.iter();
        let notes = notes.map(|((entity, metric), value)| (*entity, *metric, *value));
        for (entity, metric, value) in self.rows.iter().copied().chain(notes) {
            let entity = latest.entry(self.entities[entity].clone()).or_default();
            entity.insert(self.metrics[metric], value);
        }
        latest
    }

    pub(super) fn flush(&mut self) -> Result<(), TableError> {
        self.table.flush()
    }

    pub(super) fn finish(self) -> Result<(), TableError> {
        self.table.finish()
    }
}

/// Returns the metrics of a group whose values are known, with these values.
fn known(
    group: &[usize],
    values: impl IntoIterator<Item = impl Into<Option<f64>>>,
) -> impl Iterator<Item = (usize, f64)> {
    let values = group.iter().zip(values);
    values.filter_map(|(metric, value)| Some((*metric, value.into()?)))
}

/// Returns the place of a name in a list. It is added if it is new.
fn place(names: &mut Vec<&'static str>, name: &'static str) -> usize {
    let known = names.iter().position(|other| *other == name);
    known.unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
