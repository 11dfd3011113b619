//! Any TCP program over our stack.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use live::proxy::{Choice, Proxy as Live, Settings};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::live::machine_error;
use crate::run::json;

/// A proxy that works in a thread of its own, until its command has ended or it is stopped.
#[pyclass(module = "mptcplab._core", frozen)]
pub(crate) struct Proxy(Mutex<Live>);

#[pymethods]
impl Proxy {
    /// Runs a command whose TCP goes over these interfaces, to its destinations or all of it to a gateway; or, without a command, is
    /// a gateway at a port.
    ///
    /// Raises ValueError for what is asked wrongly, PermissionError if rights are missing, RuntimeError if the machine refuses.
    #[new]
    #[pyo3(signature = (interfaces, *, cc, scheduler, path_manager, command = Vec::new(), to = None, gateway_port = None))]
    fn new(
        interfaces: Vec<String>,
        cc: String,
        scheduler: String,
        path_manager: String,
        command: Vec<String>,
        to: Option<&str>,
        gateway_port: Option<u16>,
    ) -> PyResult<Self> {
        let settings = Settings {
            interfaces,
            choice: Choice {
                congestion_control: cc,
                scheduler,
                path_manager,
            },
        };
        let wrong = |_| PyValueError::new_err("a gateway is an address and a port");
        let to = to
            .map(str::parse::<SocketAddr>)
            .transpose()
            .map_err(wrong)?;
        let started = match gateway_port {
            Some(port) => Live::gateway(&settings, port),
            None => Live::of_command(&settings, to, command),
        };
        let proxy = started.map_err(|error| machine_error(&error))?;
        Ok(Self(Mutex::new(proxy)))
    }

    /// Waits for its end, at most so many seconds: what it has done (JSON), None if it goes on.
    ///
    /// Raises as the constructor.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        let timeout = Duration::try_from_secs_f64(seconds);
        let timeout = timeout.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let ended = py.detach(|| self.locked().wait(timeout));
        let report = ended.transpose().map_err(|error| machine_error(&error))?;
        report.map(|report| json(&report)).transpose()
    }

    /// Ends it: what it has started is killed, its connections are reset.
    fn stop(&self) {
        self.locked().stop();
    }
}

impl Proxy {
    fn locked(&self) -> std::sync::MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
