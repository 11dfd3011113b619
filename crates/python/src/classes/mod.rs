//! Runs Python classes as algorithms of the engine.
//!
//! The adapters in `mptcplab.backends.adapters` stand between the two. They build the views passed
//! to Python and check its answers. The first exception becomes the fault that ends the run; an
//! invalid answer raises one too.

mod control;
mod path_manager;
mod scheduler;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use experiment::algorithms::{Fault, Registry};
use experiment::resolved::Parameters;
use pyo3::call::PyCallArgs;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Constructors of adapters, by the field that names the class (`cc`, `scheduler`, `path_manager`)
/// and by its name there.
pub type Classes = BTreeMap<String, BTreeMap<String, Py<PyAny>>>;

/// Returns a registry with the algorithms of the engine and `classes`.
///
/// # Errors
/// Raises ValueError for an unknown field or a name that is already taken.
pub fn registry(classes: Classes) -> PyResult<Registry> {
    let mut registry = Registry::default();
    for (field, named) in classes {
        for (name, make) in named {
            let fault = registry.fault().clone();
            let class = Arc::new(Class { name, make, fault });
            let name = class.name.clone();
            let added = match field.as_str() {
                "cc" => registry.add_control(&name, &[], control::maker(class)),
                "scheduler" => registry.add_scheduler(&name, &[], scheduler::maker(class)),
                "path_manager" => registry.add_path_manager(&name, &[], path_manager::maker(class)),
                other => return Err(PyValueError::new_err(format!("no algorithms: {other:?}"))),
            };
            added.map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
    }
    Ok(registry)
}

struct Class {
    name: String,
    make: Py<PyAny>,
    fault: Fault,
}

/// An adapter around an object of a user's class.
struct Object {
    class: Arc<Class>,
    /// `None` if it could not be constructed.
    adapter: Option<Py<PyAny>>,
}

impl Object {
    fn new(
        class: &Arc<Class>,
        given: &Parameters,
        seen: impl for<'py> IntoPyObject<'py, Error: Into<PyErr>>,
    ) -> Self {
        let given = serde_json::to_string(given).expect("a map of JSON is JSON");
        let adapter = Python::attach(|py| {
            let made = class.make.call1(py, (given, seen));
            made.map_err(|error| class.record(py, "__init__", &error))
                .ok()
        });
        let class = class.clone();
        Self { class, adapter }
    }

    /// Calls a method of the adapter for a hook. Returns `None` after any failure, now or before.
    fn call<T>(&self, method: &str, hook: &str, given: impl for<'py> PyCallArgs<'py>) -> Option<T>
    where
        T: for<'py> FromPyObjectOwned<'py>,
    {
        let adapter = self.adapter.as_ref()?;
        if self.class.fault.why().is_some() {
            return None;
        }
        Python::attach(|py| {
            let answer = adapter.bind(py).call_method1(method, given);
            let answer = answer.and_then(|answer| answer.extract().map_err(Into::into));
            answer
                .map_err(|error| self.class.record(py, hook, &error))
                .ok()
        })
    }

    /// Returns the hooks that the class implements.
    fn hooks(&self) -> Vec<String> {
        self.call("hooks", "__init__", ()).unwrap_or_default()
    }
}

impl Class {
    fn record(&self, py: Python<'_>, hook: &str, error: &PyErr) {
        let told = py
            .import("mptcplab.backends.adapters")
            .and_then(|adapters| {
                let told = adapters.call_method1("told", (error.value(py), error.traceback(py)));
                told?.extract::<String>()
            });
        let told = told.unwrap_or_else(|_| error.to_string());
        self.fault.record(format!("{}, {hook}: {told}", self.name));
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.class.name)
    }
}
