//! Runs any TCP program over the userspace stack.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use realtime::proxy::{Choice, Proxy as Live, Settings};

use crate::live::machine_error;
use crate::run::json;

/// A proxy or gateway on its own thread. It works until its command has ended or it is stopped.
#[pyclass(module = "mptcplab._core", frozen)]
pub(crate) struct Proxy(Mutex<Live>);

#[pymethods]
impl Proxy {
    /// Runs a command whose TCP connections use these interfaces, to their destinations or all to a
    /// gateway. Without a command, runs a gateway at a port.
    ///
    /// Raises ValueError for wrong requests, PermissionError if rights are missing, RuntimeError if
    /// the machine refuses.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "Python gives them by name")]
    #[pyo3(signature = (interfaces, *, cc, scheduler, path_manager, give_up_after_s, command = Vec::new(), to = None, gateway_port = None))]
    fn new(
        interfaces: Vec<String>,
        cc: String,
        scheduler: String,
        path_manager: String,
        give_up_after_s: u32,
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
            give_up_after_s,
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
        let proxy = started.map_err(machine_error)?;
        Ok(Self(Mutex::new(proxy)))
    }

    /// Waits for its end, at most `seconds`. Returns its report (JSON), or None if it is still
    /// working.
    ///
    /// Raises as the constructor.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        let timeout = Duration::try_from_secs_f64(seconds);
        let timeout = timeout.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let ended = py.detach(|| self.locked().wait(timeout));
        let report = ended.transpose().map_err(machine_error)?;
        report.map(|report| json(&report)).transpose()
    }

    /// Stops it: kills the processes it started and resets its connections.
    fn stop(&self) {
        self.locked().stop();
    }
}

impl Proxy {
    fn locked(&self) -> std::sync::MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
