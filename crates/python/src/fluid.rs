//! The fluids of congestion controls.

use mptcp::cc::Parameters;
use mptcp::cc::fluid::{self, LossyPath};
use netlab::parameters::{self, Kind};
use netlab::resolved::Algorithm;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::parameters_of;

/// Why a congestion control with these parameters (JSON) has no fluid, None if it has one.
///
/// Raises ValueError if it does not take the parameters.
#[pyfunction]
#[pyo3(signature = (control, parameters = "{}"))]
pub(crate) fn why_no_fluid(control: String, parameters: &str) -> PyResult<Option<String>> {
    let given = given(&control, parameters)?;
    Ok(fluid::of(&control, &given).err().map(|why| why.to_string()))
}

/// The windows in packets at which a congestion control settles as a fluid, one for each path: (loss rate, round-trip time in
/// seconds). `parameters` (JSON) are those that a description can give it.
///
/// Raises ValueError if it has no fluid or does not take the parameters, and for a path without loss.
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

/// What the engine makes of the parameters of a control.
fn given(control: &str, parameters: &str) -> PyResult<Parameters> {
    let algorithm = Algorithm {
        name: control.to_owned(),
        parameters: parameters_of(parameters)?,
    };
    parameters::check(Kind::Control, &algorithm).map_err(|refusal| wrong(&refusal))?;
    // The seed is for controls that draw, which have no fluid.
    Ok(parameters::control(&algorithm, 0))
}

fn wrong(error: &impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}
