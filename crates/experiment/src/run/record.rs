//! The record of a run: how far it is, its events, and its tables.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{RunError, Samples};
use crate::resolved::{Action, Experiment};
use crate::samples::{TableError, UnitTable};
use crate::schedule::{EventRecord, Schedule};
use crate::time::Nanos;

/// The longest real time that rows wait in memory during a run. Real time affects only when rows
/// are written.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// The part of a run that does not depend on its back-end.
pub struct RunRecord {
    /// The experiment.
    pub experiment: Experiment,
    /// The events.
    pub schedule: Schedule,
    /// The samples.
    pub samples: Samples,
    /// The delivered data units.
    pub units: UnitTable,
    /// The current time of the run.
    pub now: Nanos,
    /// Whether the run has ended.
    pub has_ended: bool,
    last_flush: Instant,
}

impl RunRecord {
    /// Creates the record of a run at time 0. Its tables are `samples.csv` and `units.csv` in
    /// `directory`.
    ///
    /// # Errors
    /// Fails if a table cannot be written.
    pub fn create(directory: &Path, experiment: Experiment, seed: u64) -> Result<Self, TableError> {
        let flows = experiment.flows.iter().map(|flow| flow.id.clone());
        let flows: Vec<_> = flows.collect();
        Ok(Self {
            schedule: Schedule::new(&experiment, seed),
            samples: Samples::create(directory, experiment.measure.every_ns)?,
            units: UnitTable::create(directory, &flows)?,
            experiment,
            now: 0,
            has_ended: false,
            last_flush: Instant::now(),
        })
    }

    /// Returns whether the duration of the experiment has passed.
    pub fn is_complete(&self) -> bool {
        self.now >= self.experiment.duration_ns
    }

    /// Advances to `now` and returns the event of an action that is injected then. `check` is the
    /// check of the back-end. Carry the event out and then pass it to
    /// [`Schedule::record_injected`].
    ///
    /// # Errors
    /// Fails if the run has ended, if the action is invalid or changes nothing, or if `check`
    /// fails. Then nothing has changed.
    pub fn admit(
        &mut self,
        now: Nanos,
        action: &Action,
        check: impl FnOnce(&Experiment) -> Result<(), RunError>,
    ) -> Result<EventRecord, RunError> {
        if self.has_ended || now >= self.experiment.duration_ns {
            let ended = format!(
                "the run has ended at {} ns: nothing can be injected any more",
                self.now
            );
            return Err(RunError::Refused(ended.into()));
        }
        let valid = action.validate(&self.experiment);
        valid.map_err(|error| RunError::Refused(error.into()))?;
        check(&self.experiment)?;
        let event = self.schedule.injection(now, action);
        let event = event.map_err(|error| RunError::Refused(error.into()))?;
        self.now = now;
        Ok(event)
    }

    /// Writes the rows of both tables if they have waited long enough.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn flush_if_due(&mut self) -> Result<(), TableError> {
        if self.last_flush.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        self.last_flush = Instant::now();
        self.samples.flush()?;
        self.units.flush()
    }

    /// Converts both tables to Parquet.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn finish(self) -> Result<(), TableError> {
        self.samples.finish()?;
        self.units.finish()
    }
}
