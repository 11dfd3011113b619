//! Fluid models of congestion controls.

use experiment::algorithms::parameters::{self, Kind};
use experiment::resolved::Algorithm;
use mptcp::cc::Parameters;
use mptcp::cc::fluid::{self, LossyPath};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::parameters_of;

/// Returns why a congestion control with these parameters (JSON) has no fluid model, or None if it
/// has one.
///
/// Raises ValueError if it does not accept the parameters.
#[pyfunction]
#[pyo3(signature = (control, parameters = "{}"))]
pub(crate) fn why_no_fluid(control: String, parameters: &str) -> PyResult<Option<String>> {
    let given = given(&control, parameters)?;
    Ok(fluid::of(&control, &given).err().map(|why| why.to_string()))
}

/// Returns the windows in packets at which the fluid model of a congestion control settles, one for
/// each path. A path is (loss rate, round-trip time in seconds). `parameters` (JSON) are those that
/// a description can set.
///
/// Raises ValueError if it has no fluid model, if it does not accept the parameters, or if a path
/// has no loss.
#[pyfunction]
#[pyo3(signature = (control, paths, parameters = "{}"))]
pub(crate) fn equilibrium(
    control: String,
    paths: Vec<(f64, f64)>,
    parameters: &str,
) -> PyResult<Vec<f64>> {
    let given = given(&control, parameters)?;
    let paths: Vec<_> = paths
        .into_iter()
        .map(|(p, rtt_s)| LossyPath { p, rtt_s })
        .collect();
    fluid::equilibrium(&control, &given, &paths).map_err(|error| wrong(&error))
}

/// Converts the parameters of a control to those of the engine.
fn given(control: &str, parameters: &str) -> PyResult<Parameters> {
    let algorithm = Algorithm {
        name: control.to_owned(),
        parameters: parameters_of(parameters)?,
    };
    parameters::check(Kind::Control, &algorithm).map_err(|refusal| wrong(&refusal))?;
    // The seed matters only to controls with randomness, which have no fluid model.
    Ok(parameters::control(&algorithm, 0))
}

fn wrong(error: &impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}
