//! Classes in Python as algorithms of the engine.
//!
//! Hooks get copies, made of the classes of `mptcplab.hooks`, and what they answer is checked. The first exception, and the
//! first answer that makes no sense, is noted as the fault that ends the run.

mod control;
mod path_manager;
mod scheduler;

use std::collections::BTreeMap;
use std::sync::Arc;

use netlab::fault::Fault;
use netlab::registry::Registry;
use netlab::resolved::Parameters;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde_json::Value;

/// Classes by the field that names them (`cc`, `scheduler`, `path_manager`) and their name there.
pub(crate) type Classes = BTreeMap<String, BTreeMap<String, Py<PyAny>>>;

/// The engine's algorithms and these.
///
/// Raises ValueError for an unknown field or a name that is taken.
pub(crate) fn registry(classes: Classes) -> PyResult<Registry> {
    let mut registry = Registry::default();
    for (field, named) in classes {
        for (name, class) in named {
            let fault = registry.fault().clone();
            let class = Arc::new(Class {
                name: name.clone(),
                class,
                fault,
            });
            let added = match field.as_str() {
                "cc" => registry.add_control(&name, &[], control::maker(class)),
                "scheduler" => registry.add_scheduler(&name, &[], scheduler::maker(class)),
                "path_manager" => registry.add_path_manager(&name, &[], path_manager::maker(class)),
                other => return Err(refused(format!("{other:?} names no algorithms"))),
            };
            added.map_err(|error| refused(error.to_string()))?;
        }
    }
    Ok(registry)
}

/// A class of a user's own.
pub(crate) struct Class {
    name: String,
    class: Py<PyAny>,
    fault: Fault,
}

impl Class {
    /// An algorithm around a new object, made of these arguments and the parameters. Without one every hook answers that
    /// nothing is to be done.
    fn object<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        arguments: PyResult<Vec<Bound<'py, PyAny>>>,
        parameters: &Parameters,
    ) -> Object {
        let made = arguments.and_then(|arguments| self.make(py, arguments, parameters));
        Object {
            class: self.clone(),
            made: made.map_err(|error| self.note(py, "__init__", &error)).ok(),
        }
    }

    fn make(
        &self,
        py: Python<'_>,
        arguments: Vec<Bound<'_, PyAny>>,
        parameters: &Parameters,
    ) -> PyResult<Py<PyAny>> {
        let named = PyDict::new(py);
        for (name, value) in parameters {
            named.set_item(name, from_json(py, value)?)?;
        }
        let class = self.class.bind(py);
        Ok(class
            .call(PyTuple::new(py, arguments)?, Some(&named))?
            .unbind())
    }

    fn note(&self, py: Python<'_>, hook: &str, error: &PyErr) {
        let told = told(py, error).unwrap_or_else(|_| error.to_string());
        self.fault.note(format!("{}, {hook}: {told}", self.name));
    }
}

/// An object of a user's class.
struct Object {
    class: Arc<Class>,
    made: Option<Py<PyAny>>,
}

impl Object {
    /// Calls a hook, and takes what `read` makes of its answer. `None` if something went wrong, now or before.
    fn call<'py, T>(
        &self,
        py: Python<'py>,
        hook: &str,
        arguments: impl FnOnce() -> PyResult<Bound<'py, PyTuple>>,
        read: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.made.as_ref()?;
        if self.class.fault.why().is_some() {
            return None;
        }
        let answer = arguments().and_then(|given| object.bind(py).call_method1(hook, given));
        let answer = answer.and_then(|answer| read(&answer));
        answer
            .map_err(|error| self.class.note(py, hook, &error))
            .ok()
    }

    /// Whether the class has a hook.
    fn has(&self, py: Python<'_>, hook: &str) -> bool {
        let has = self.class.class.bind(py).hasattr(hook);
        has.unwrap_or(false)
    }

    fn note(&self, hook: &str, why: &str) {
        let name = &self.class.name;
        self.class.fault.note(format!("{name}, {hook}: {why}"));
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.class.name)
    }
}

/// An exception as Python tells it; one of ours about an answer has no lines above it.
fn told(py: Python<'_>, error: &PyErr) -> PyResult<String> {
    let value = error.value(py);
    let Some(lines_above) = error.traceback(py) else {
        return Ok(value.to_string());
    };
    let lines = py
        .import("traceback")?
        .call_method1("format_exception", (error.get_type(py), value, lines_above))?;
    let lines: Vec<String> = lines.extract()?;
    Ok(format!("\n{}", lines.concat().trim_end()))
}

fn refused(why: String) -> PyErr {
    PyValueError::new_err(why)
}

/// A class of `mptcplab.hooks`, made of its fields in order.
fn made<'py>(
    py: Python<'py>,
    class: &str,
    fields: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("mptcplab.hooks")?.getattr(class)?;
    class.call1(PyTuple::new(py, fields)?)
}

/// Values as Python has them, for [`made`].
macro_rules! fields {
    ($py:expr, $($value:expr),* $(,)?) => {
        vec![$(pyo3::IntoPyObjectExt::into_bound_py_any($value, $py)?),*]
    };
}
use fields;

/// A number that an answer has, within bounds.
fn bounded(name: &str, value: &Bound<'_, PyAny>, least: f64, most: f64) -> PyResult<f64> {
    let number: Option<f64> = value.extract().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        refused(format!(
            "{name} is {value}, allowed is a number from {least} to {most}"
        ))
    })
}

fn from_json<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?
        .call_method1("loads", (value.to_string(),))
}
