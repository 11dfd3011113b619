//! The sample table of a run in real time, whose subflows appear during the run.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use experiment::resolved::Experiment;
use experiment::samples::{SampleTable, TableError};
use experiment::time::Nanos;

/// The values of the last samples: entity, metric, value.
pub type Latest = BTreeMap<String, BTreeMap<&'static str, f64>>;

/// Writes the sample table and keeps the last values.
pub(crate) struct Sampler {
    table: SampleTable,
    place_of_entity: HashMap<String, usize>,
    place_of_metric: HashMap<&'static str, usize>,
    every: Nanos,
    last: Option<Nanos>,
    latest: Latest,
}

impl Sampler {
    /// Creates the table. `metrics` are all that will be recorded.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(
        directory: &Path,
        experiment: &Experiment,
        metrics: &[&'static str],
    ) -> Result<Self, TableError> {
        let places = metrics.iter().enumerate();
        Ok(Self {
            table: SampleTable::create(directory, &[], metrics)?,
            place_of_entity: HashMap::new(),
            place_of_metric: places.map(|(place, metric)| (*metric, place)).collect(),
            every: experiment.measure.every_ns,
            last: None,
            latest: Latest::new(),
        })
    }

    /// Returns when the next regular sample is due.
    pub(crate) fn next_tick(&self) -> Nanos {
        self.last
            .map_or(0, |last| (last / self.every + 1) * self.every)
    }

    /// Starts a regular sample; values recorded from now on belong to it.
    pub(crate) fn begin_tick(&mut self, now: Nanos) {
        self.last = Some(now);
    }

    /// Adds the values of an entity.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(crate) fn record(
        &mut self,
        at: Nanos,
        entity: &str,
        values: &[(&'static str, f64)],
    ) -> Result<(), TableError> {
        let place = match self.place_of_entity.get(entity) {
            Some(place) => *place,
            None => {
                let place = self.table.add_entity(entity);
                self.place_of_entity.insert(entity.to_owned(), place);
                place
            }
        };
        for (metric, value) in values {
            self.table
                .push(at, place, self.place_of_metric[metric], *value)?;
        }
        let latest = self.latest.entry(entity.to_owned()).or_default();
        latest.extend(values.iter().copied());
        Ok(())
    }

    /// Returns the values of the last samples.
    pub(crate) fn latest(&self) -> &Latest {
        &self.latest
    }

    pub(crate) fn flush(&mut self) -> Result<(), TableError> {
        self.table.flush()
    }

    pub(crate) fn finish(self) -> Result<(), TableError> {
        self.table.finish()
    }
}
