//! Student's t distribution, for intervals of means.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Returns the probability that Student's t with `df` degrees of freedom is above `value`.
///
/// Raises ValueError unless `df` is above 0.
#[pyfunction]
pub(crate) fn student_t_above(value: f64, df: f64) -> PyResult<f64> {
    Ok(student(df)?.sf(value))
}

/// Returns the value above which Student's t with `df` degrees of freedom lies with a probability.
///
/// Raises ValueError unless `df` is above 0 and the probability is between 0 and 1.
#[pyfunction]
pub(crate) fn student_t_quantile(above: f64, df: f64) -> PyResult<f64> {
    if !(0.0..=1.0).contains(&above) {
        return Err(PyValueError::new_err(format!(
            "{above} is not a probability"
        )));
    }
    Ok(-student(df)?.inverse_cdf(above))
}

fn student(df: f64) -> PyResult<StudentsT> {
    StudentsT::new(0.0, 1.0, df).map_err(|error| PyValueError::new_err(error.to_string()))
}
