//! Runs on any back-end: what their callers can ask of them, and the record that each keeps.

mod record;
mod samples;

use thiserror::Error;

use crate::resolved::Action;
use crate::samples::TableError;
use crate::schedule::EventRecord;
use crate::time::Nanos;

pub use record::RunRecord;
pub use samples::{Latest, Samples};

/// Executes an experiment, in virtual or real time.
pub trait Run: Send {
    /// Returns the record of the run.
    fn record(&self) -> &RunRecord;

    /// Executes everything before `until`. Returns whether the run has ended.
    ///
    /// # Errors
    /// Fails if a part of the run failed, or if a table cannot be written.
    fn advance(&mut self, until: Nanos) -> Result<bool, RunError>;

    /// Executes an action that is not part of the description, before all other events of the
    /// current time.
    ///
    /// # Errors
    /// Fails if the action is invalid or changes nothing, if the back-end cannot execute it, or if
    /// the run has ended. Then nothing has changed.
    fn inject(&mut self, action: &Action) -> Result<EventRecord, RunError>;

    /// Ends the run now, converts its tables to Parquet, and returns its summary as JSON.
    ///
    /// # Errors
    /// Fails if a part of the run failed, or if a file cannot be written.
    fn finish_as_json(self: Box<Self>) -> Result<String, RunError>;

    /// Returns the current time of the run.
    fn now(&self) -> Nanos {
        self.record().now
    }

    /// Returns the latest values of all entities.
    fn latest(&self) -> Latest {
        self.record().samples.latest()
    }
}

/// The error of a back-end.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a run cannot start or continue, by what would have to be different.
#[derive(Debug, Error)]
pub enum RunError {
    /// The request: it is wrong, or the back-end cannot execute it.
    #[error(transparent)]
    Refused(Cause),
    /// A file: it cannot be written.
    #[error(transparent)]
    File(Cause),
    /// The machine: it lacks or refuses something, or a part of the run failed.
    #[error(transparent)]
    Machine(Cause),
}

impl From<TableError> for RunError {
    fn from(error: TableError) -> Self {
        Self::File(error.into())
    }
}

impl From<serde_json::Error> for RunError {
    fn from(error: serde_json::Error) -> Self {
        Self::Refused(error.into())
    }
}
