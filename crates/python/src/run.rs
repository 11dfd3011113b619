//! Runs: the class `Run`, and the class `Simulation`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use experiment::resolved::Action;
use experiment::run::{self, RunError};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;
use simulator::QueueKind;

use crate::classes::{Classes, registry};
use crate::read_experiment;

/// A run of a resolved experiment.
#[pyclass(module = "mptcplab._core", subclass)]
pub(crate) struct Run {
    /// `None` once finished. Never locked: the mutex only makes it shareable, and Python's borrow
    /// rules prevent conflicts.
    backend: Mutex<Option<Box<dyn run::Run>>>,
}

impl Run {
    pub(crate) fn new(backend: impl run::Run + 'static) -> Self {
        Self {
            backend: Mutex::new(Some(Box::new(backend))),
        }
    }

    fn slot(&mut self) -> &mut Option<Box<dyn run::Run>> {
        self.backend
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn backend(&mut self) -> PyResult<&mut Box<dyn run::Run>> {
        self.slot().as_mut().ok_or_else(finished)
    }
}

/// Drops the back-end without holding the interpreter, because threads of the back-end may wait for
/// the interpreter while the drop waits for them.
impl Drop for Run {
    fn drop(&mut self) {
        let backend = self.slot().take();
        Python::attach(|py| py.detach(|| drop(backend)));
    }
}

/// Converts errors: OSError for files, ValueError for wrong requests, RuntimeError for failures of
/// the machine.
pub(crate) fn run_error(error: RunError) -> PyErr {
    match error {
        RunError::File(why) => PyOSError::new_err(why.to_string()),
        RunError::Refused(why) => PyValueError::new_err(why.to_string()),
        RunError::Machine(why) => PyRuntimeError::new_err(why.to_string()),
    }
}

fn finished() -> PyErr {
    PyValueError::new_err("the run is finished")
}

#[pymethods]
impl Run {
    /// Executes everything before `until_ns`. Returns True when the run has ended.
    fn advance(&mut self, py: Python<'_>, until_ns: u64) -> PyResult<bool> {
        let backend = self.backend()?;
        let ended = py.detach(|| backend.advance(until_ns));
        ended.map_err(run_error)
    }

    /// The current time of the run in nanoseconds.
    #[getter]
    fn now_ns(&mut self) -> PyResult<u64> {
        Ok(self.backend()?.now())
    }

    /// Executes an action (JSON) now. Returns the recorded event (JSON).
    fn inject(&mut self, py: Python<'_>, action: &str) -> PyResult<String> {
        let action: Action = serde_json::from_str(action)
            .map_err(|error| PyValueError::new_err(format!("not an action: {error}")))?;
        let backend = self.backend()?;
        let event = py.detach(|| backend.inject(&action));
        json(&event.map_err(run_error)?)
    }

    /// Returns the values of the last sample, by entity and metric.
    fn latest(&mut self) -> PyResult<BTreeMap<String, BTreeMap<&'static str, f64>>> {
        Ok(self.backend()?.latest())
    }

    /// Returns the events that have happened, in order and without the first `since`, as JSON.
    #[pyo3(signature = (since = 0))]
    fn events(&mut self, since: usize) -> PyResult<String> {
        let happened = self.backend()?.record().schedule.record();
        json(&happened.get(since..).unwrap_or_default())
    }

    /// Ends the run now, writes the Parquet files, removes the streams, and returns the summary
    /// (JSON).
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let backend = self.slot().take().ok_or_else(finished)?;
        let summary = py.detach(|| backend.finish_as_json());
        summary.map_err(run_error)
    }
}

/// Serializes a value to JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A run of the simulator with one seed.
#[pyclass(module = "mptcplab._core", extends = Run)]
pub(crate) struct Simulation;

#[pymethods]
impl Simulation {
    /// Creates a run at time 0. Creates samples.csv and units.csv in `directory`.
    ///
    /// `event_queue` is "calendar" or "heap", or None for the faster one. The result is the same.
    /// `classes` are a user's own algorithms, by field and name.
    ///
    /// Raises ValueError if the simulator cannot run it, OSError if a file cannot be written.
    #[new]
    #[pyo3(signature = (resolved, seed, directory, event_queue = None, classes = Classes::new()))]
    fn new(
        resolved: &str,
        seed: u64,
        directory: PathBuf,
        event_queue: Option<&str>,
        classes: Classes,
    ) -> PyResult<PyClassInitializer<Self>> {
        let experiment = read_experiment(resolved)?;
        let queue = event_queue.map_or(Ok(QueueKind::default()), str::parse);
        let queue = queue.map_err(PyValueError::new_err)?;
        let run =
            simulator::Simulation::new(experiment, seed, &directory, queue, registry(classes)?);
        let run = run.map_err(|error| run_error(error.into()))?;
        Ok(PyClassInitializer::from(Run::new(run)).add_subclass(Self))
    }
}
