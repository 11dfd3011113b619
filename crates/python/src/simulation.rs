//! The class `Simulation`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use netlab::resolved::Action;
use netlab::sim::{self, QueueKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{read_experiment, simulation_error};

/// A run of a resolved experiment with one seed.
#[pyclass(module = "mptcplab._core")]
pub(crate) struct Simulation {
    /// `None` once it is finished. Never locked: the mutex makes it shareable, and Python's borrow rules do the rest.
    run: Mutex<Option<sim::Simulation>>,
}

impl Simulation {
    fn slot(&mut self) -> &mut Option<sim::Simulation> {
        self.run.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&mut self) -> PyResult<&mut sim::Simulation> {
        self.slot().as_mut().ok_or_else(finished)
    }
}

fn finished() -> PyErr {
    PyValueError::new_err("the simulation is finished")
}

#[pymethods]
impl Simulation {
    /// A run at time 0. Creates samples.arrows and units.arrows in `directory`.
    ///
    /// `event_queue` is "calendar" or "heap", None the faster one; the result is the same.
    /// Raises ValueError if the simulator cannot run it, OSError if a file cannot be written.
    #[new]
    #[pyo3(signature = (resolved, seed, directory, event_queue = None))]
    fn new(
        resolved: &str,
        seed: u64,
        directory: PathBuf,
        event_queue: Option<&str>,
    ) -> PyResult<Self> {
        let experiment = read_experiment(resolved)?;
        let queue = event_queue.map_or(Ok(QueueKind::default()), str::parse);
        let queue = queue.map_err(PyValueError::new_err)?;
        let run = sim::Simulation::new(experiment, seed, &directory, queue);
        let run = run.map_err(|error| simulation_error(&error))?;
        Ok(Self {
            run: Mutex::new(Some(run)),
        })
    }

    /// Carries out everything before `until_ns`; True when the run has ended.
    fn advance(&mut self, py: Python<'_>, until_ns: u64) -> PyResult<bool> {
        let run = self.run()?;
        py.detach(|| run.advance(until_ns))
            .map_err(|error| simulation_error(&error))
    }

    /// The present instant of the run.
    #[getter]
    fn now_ns(&mut self) -> PyResult<u64> {
        Ok(self.run()?.now())
    }

    /// Carries out an action (JSON) now; returns the event as recorded.
    fn inject<'py>(&mut self, py: Python<'py>, action: &str) -> PyResult<Bound<'py, PyDict>> {
        let action: Action = serde_json::from_str(action)
            .map_err(|error| PyValueError::new_err(format!("not an action: {error}")))?;
        let record = self
            .run()?
            .inject(&action)
            .map_err(|error| simulation_error(&error))?;
        let event = PyDict::new(py);
        event.set_item("id", record.id)?;
        event.set_item("parent", record.parent)?;
        event.set_item("asked_ns", record.asked_ns)?;
        event.set_item("actual_ns", record.actual_ns)?;
        event.set_item("injected", record.injected)?;
        Ok(event)
    }

    /// Entity to metric to value, as of the last sample.
    fn latest(&mut self) -> PyResult<BTreeMap<String, BTreeMap<&'static str, f64>>> {
        Ok(self.run()?.latest())
    }

    /// Ends the run where it is, writes the Parquet files, removes the streams, and returns the summary (JSON).
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let run = self.slot().take().ok_or_else(finished)?;
        let summary = py
            .detach(|| run.finish())
            .map_err(|error| simulation_error(&error))?;
        serde_json::to_string(&summary).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
