//! `mptcplab._core`: thin bindings of `netlab` for Python.

use pyo3::prelude::*;

/// The compiled part of mptcplab.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
