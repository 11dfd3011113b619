//! `mptcplab._core`: thin bindings of `netlab` for Python.

mod simulation;
mod tables;

use netlab::resolved::{Experiment, ResolvedError};
use netlab::sim::SimulationError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// The compiled part of mptcplab.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<simulation::Simulation>()?;
    module.add_function(wrap_pyfunction!(capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(tables::read_table, module)?)?;
    module.add_function(wrap_pyfunction!(tables::write_parquet, module)?)
}

/// All that a description can ask for: (feature, whether the simulator has it, why not).
#[pyfunction]
fn capabilities() -> Vec<(&'static str, bool, &'static str)> {
    let all = netlab::sim::capabilities().iter();
    all.map(|capability| {
        let why = capability.missing_because;
        (capability.feature, why.is_none(), why.unwrap_or_default())
    })
    .collect()
}

/// What the simulator cannot do of a resolved experiment: (feature, why), empty if it can run it.
///
/// Raises ValueError if the JSON is not of the schema.
#[pyfunction]
fn check(resolved: &str) -> PyResult<Vec<(String, String)>> {
    let experiment = read_experiment(resolved)?;
    let missing = netlab::sim::check(&experiment).into_iter();
    Ok(missing
        .map(|missing| (missing.feature, missing.why))
        .collect())
}

fn read_experiment(resolved: &str) -> PyResult<Experiment> {
    Experiment::from_json(resolved).map_err(|error| wrong(&error))
}

fn wrong(error: &ResolvedError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Files are the machine's matter (OSError), all else is the caller's (ValueError).
fn simulation_error(error: &SimulationError) -> PyErr {
    match error {
        SimulationError::Table(error) => PyOSError::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}
