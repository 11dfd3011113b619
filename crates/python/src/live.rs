//! Runs in real time on Linux.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use experiment::algorithms::Registry;
use pyo3::exceptions::{PyPermissionError, PyValueError};
use pyo3::prelude::*;
use realtime::applications::programs::Caller;
use realtime::kernel::congestion;
use realtime::{Controlling, Kernel, LiveError, LiveRun as Live, MachineConnection, Userspace};

use crate::classes::{Classes, registry};
use crate::run::{Run, run_error};
use crate::{as_pairs, as_rows, read_experiment};

/// User, group, further groups, environment.
type Identity = (u32, u32, Vec<u32>, BTreeMap<String, String>);

/// Name, descriptor of a stream, address, descriptors of sockets.
type Reached = (String, i32, Option<IpAddr>, Vec<i32>);

/// A run in real time on the kernel of this machine.
#[pyclass(module = "mptcplab._core", extends = Run)]
pub(crate) struct LiveRun;

#[pymethods]
impl LiveRun {
    /// Builds the hosts and their network, verifies them, and starts at time 0. Creates
    /// samples.csv and units.csv. `classes` are a user's own algorithms for the userspace
    /// stack, by field and name. Programs run as `caller`: user, group, further groups and
    /// environment. Without one they run as this process. `controller` is the program that controls
    /// switches; an experiment can name another one. `machines` are the machines of its hosts: name,
    /// the descriptor of a stream of lines to an agent, the address, and, if that is `None`, the
    /// descriptors of sockets that carry the frames of its network devices. This run duplicates the
    /// descriptors.
    ///
    /// Raises ValueError if the JSON does not match the schema, OSError if a file cannot be
    /// written, RuntimeError otherwise.
    #[new]
    #[pyo3(signature = (resolved, seed, directory, classes = Classes::new(), *, caller = None, controller = Vec::new(), machines = Vec::new()))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        resolved: &str,
        seed: u64,
        directory: PathBuf,
        classes: Classes,
        caller: Option<Identity>,
        controller: Vec<String>,
        machines: Vec<Reached>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let machines = machines.into_iter().map(|(id, stream, address, devices)| {
            MachineConnection::duplicate(id, stream, address, &devices)
        });
        let machines = machines.collect::<Result<Vec<_>, _>>();
        let machines = machines.map_err(|error| run_error(error.into()))?;
        let caller = caller.map(|(uid, gid, groups, environment)| {
            Caller::new(uid, gid, &groups, environment.into_iter().collect())
        });
        let caller = caller.transpose().map_err(PyValueError::new_err)?;
        let experiment = read_experiment(resolved)?;
        let registry = registry(classes)?;
        let controlling = Controlling {
            resolved,
            controller: &controller,
        };
        let run = py.detach(|| {
            Live::start(
                experiment,
                seed,
                &directory,
                &registry,
                caller,
                controlling,
                machines,
            )
        });
        let run = run.map_err(|error| run_error(error.into()))?;
        Ok(PyClassInitializer::from(Run::new(run)).add_subclass(Self))
    }
}

/// Returns the capabilities: (feature, whether it is supported, why not). They are those of this
/// machine, or of any machine with a current mainline kernel. With `own_stack`, hosts may run the
/// userspace stack.
#[pyfunction]
#[pyo3(signature = (*, on_any_machine = false, own_stack = false))]
pub(crate) fn live_capabilities(
    on_any_machine: bool,
    own_stack: bool,
) -> Vec<(String, bool, String)> {
    as_rows(&match (on_any_machine, own_stack) {
        (true, true) => Userspace(Kernel::of_mainline()).capabilities(&Registry::default()),
        (true, false) => Kernel::of_mainline().capabilities(),
        (false, _) => realtime::capabilities(own_stack.then_some(&Registry::default())),
    })
}

/// Returns the features of a resolved experiment that are not supported: (feature, why). Empty if
/// all are. The check is for this machine, or for any machine with a current mainline kernel. With
/// `own_stack`, hosts may run the userspace stack with a user's own `classes`.
///
/// Raises ValueError if the JSON does not match the schema.
#[pyfunction]
#[pyo3(signature = (resolved, *, on_any_machine = false, own_stack = false, classes = Classes::new()))]
pub(crate) fn live_check(
    resolved: &str,
    on_any_machine: bool,
    own_stack: bool,
    classes: Classes,
) -> PyResult<Vec<(String, String)>> {
    let (experiment, registry) = (read_experiment(resolved)?, registry(classes)?);
    Ok(as_pairs(match (on_any_machine, own_stack) {
        (true, true) => Userspace(Kernel::of_mainline()).check(&experiment, &registry),
        (true, false) => Kernel::of_mainline().check(&experiment),
        (false, _) => realtime::check(&experiment, own_stack.then_some(&registry)),
    }))
}

/// Gives this process, which must have one thread, rights over networks of its own, in a user
/// namespace, for good.
///
/// Raises PermissionError with what forbids it and how to allow it.
#[pyfunction]
pub(crate) fn enter_user_namespace() -> PyResult<()> {
    realtime::enter_user_namespace().map_err(machine_error)
}

/// Returns the congestion controls that the kernel has or could be given: (name, state).
#[pyfunction]
pub(crate) fn live_controls() -> Vec<(String, &'static str)> {
    let all = congestion::list().into_iter();
    all.map(|control| (control.name, control.state.name()))
        .collect()
}

/// Registers one of the shipped congestion controls under its plain name, until it is removed.
///
/// Raises ValueError if the name is unknown or taken, PermissionError if rights are missing,
/// RuntimeError if the machine refuses.
#[pyfunction]
pub(crate) fn install_control(name: &str) -> PyResult<()> {
    congestion::install(name).map_err(machine_error)
}

/// Removes an installed congestion control. Raises as `install_control`.
#[pyfunction]
pub(crate) fn remove_control(name: &str) -> PyResult<()> {
    congestion::remove(name).map_err(machine_error)
}

/// Converts errors as [`run_error`], and to PermissionError if this machine or user cannot do it.
pub(crate) fn machine_error(error: LiveError) -> PyErr {
    match error {
        LiveError::Machine { .. } => PyPermissionError::new_err(error.to_string()),
        error => run_error(error.into()),
    }
}
