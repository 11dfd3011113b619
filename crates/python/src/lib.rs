//! `mptcplab._core`: thin Python bindings of the simulator, the real-time back-ends, the capture
//! analysis and the fluid models of the engine.

mod classes;
mod fluid;
#[cfg(target_os = "linux")]
mod live;
mod pcap;
#[cfg(target_os = "linux")]
mod proxy;
mod run;
mod student;
mod tables;

use std::collections::BTreeMap;

use emulation::link::most_payload_bps;
use experiment::algorithms::Registry;
use experiment::algorithms::parameters::Kind;
use experiment::capabilities::{Capability, Missing};
use experiment::features::{BackEnd, Feature};
use experiment::resolved::{
    Access, Algorithm, Behaviour, Experiment, Host, Parameters, ResolvedError, SCHEMA, schema,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::classes::{Classes, registry};

/// The compiled part of mptcplab.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("SCHEMA", SCHEMA)?;
    module.add_class::<pcap::Captures>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<run::Simulation>()?;
    module.add_function(wrap_pyfunction!(features, module)?)?;
    module.add_function(wrap_pyfunction!(capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(algorithms, module)?)?;
    module.add_function(wrap_pyfunction!(behaviours, module)?)?;
    module.add_function(wrap_pyfunction!(usual_host, module)?)?;
    module.add_function(wrap_pyfunction!(resolved_schema, module)?)?;
    module.add_function(wrap_pyfunction!(check_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(most_payload_over_wifi_bps, module)?)?;
    module.add_function(wrap_pyfunction!(fluid::why_no_fluid, module)?)?;
    module.add_function(wrap_pyfunction!(fluid::equilibrium, module)?)?;
    module.add_function(wrap_pyfunction!(pcap::one_way, module)?)?;
    module.add_function(wrap_pyfunction!(student::student_t_above, module)?)?;
    module.add_function(wrap_pyfunction!(student::student_t_quantile, module)?)?;
    module.add_function(wrap_pyfunction!(tables::read_table, module)?)?;
    module.add_function(wrap_pyfunction!(tables::write_columns, module)?)?;
    #[cfg(target_os = "linux")]
    {
        module.add_class::<live::LiveRun>()?;
        module.add_class::<proxy::Proxy>()?;
        module.add_function(wrap_pyfunction!(live::live_capabilities, module)?)?;
        module.add_function(wrap_pyfunction!(live::live_check, module)?)?;
        module.add_function(wrap_pyfunction!(live::enter_user_namespace, module)?)?;
        module.add_function(wrap_pyfunction!(live::live_controls, module)?)?;
        module.add_function(wrap_pyfunction!(live::install_control, module)?)?;
        module.add_function(wrap_pyfunction!(live::remove_control, module)?)?;
    }
    Ok(())
}

/// Returns all features of descriptions, and for each back-end why it lacks the feature:
/// (feature, [(back-end, why)]). A reason is `None` where the back-end has the feature.
#[pyfunction]
fn features() -> Vec<(&'static str, Vec<(&'static str, Why)>)> {
    let reasons = |feature: &Feature| BackEnd::ALL.map(|on| (on.name(), feature.lacking(on)));
    let features = Feature::ALL.iter();
    features
        .map(|feature| (feature.name(), reasons(feature).to_vec()))
        .collect()
}

type Why = Option<&'static str>;

/// Returns the capabilities of the simulator: (feature, whether it is supported, why not).
#[pyfunction]
fn capabilities() -> Vec<(String, bool, String)> {
    as_rows(&simulator::capabilities(&Registry::default()))
}

/// Returns the features of a resolved experiment that the simulator lacks: (feature, why). Empty if
/// it can run it. `classes` are a user's own algorithms, by field and name.
///
/// Raises ValueError if the JSON does not match the schema.
#[pyfunction]
#[pyo3(signature = (resolved, classes = Classes::new()))]
fn check(resolved: &str, classes: Classes) -> PyResult<Vec<(String, String)>> {
    Ok(as_pairs(simulator::check(
        &read_experiment(resolved)?,
        &registry(classes)?,
    )))
}

/// Returns the JSON Schema of the resolved form as JSON.
#[pyfunction]
fn resolved_schema() -> String {
    schema().to_string()
}

/// Returns the largest rate of payload in bit/s in one direction of each station of the Wi-Fi
/// `network` (JSON) while it has the air for itself, by link. Packets have `payload_bytes` behind
/// `header_bytes` of IP and transport.
///
/// Raises ValueError if the network is not of the resolved form.
#[pyfunction]
fn most_payload_over_wifi_bps(
    network: &str,
    payload_bytes: u32,
    header_bytes: u32,
) -> PyResult<BTreeMap<String, u64>> {
    let network: Access =
        serde_json::from_str(network).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let Access::Wifi(wifi) = network else {
        return Err(PyValueError::new_err("the network is not Wi-Fi"));
    };
    let of = |station| most_payload_bps(&wifi, station, payload_bytes, header_bytes);
    let stations = wifi.stations.iter();
    Ok(stations
        .map(|station| (station.link.clone(), of(station)))
        .collect())
}

/// Returns the presets of behaviours as JSON.
#[pyfunction]
fn behaviours() -> String {
    serde_json::to_string(&Behaviour::presets()).expect("serializable")
}

/// Returns the host with the id `name` that experiments mean by leaving out all else, as JSON.
#[pyfunction]
fn usual_host(name: &str) -> String {
    serde_json::to_string(&Host::usual(name)).expect("serializable")
}

/// Returns the engine's algorithms: (field of a flow, name, aliases, summary, source, parameters).
/// A parameter is (name, unit, allowed values, default, meaning).
#[pyfunction]
fn algorithms() -> Vec<AlgorithmRow> {
    let rows = Kind::ALL.into_iter().flat_map(|kind| {
        let algorithms = kind.algorithms().into_iter();
        algorithms.map(move |one| {
            let parameters = one.parameters.into_iter();
            let parameters = parameters
                .map(|it| (it.name, it.unit, it.values, it.default, it.meaning))
                .collect();
            (
                kind.field(),
                one.name,
                one.aliases,
                one.summary,
                one.source,
                parameters,
            )
        })
    });
    rows.collect()
}

type AlgorithmRow = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
    Vec<ParameterRow>,
);
type ParameterRow = (&'static str, &'static str, String, String, &'static str);

/// Checks the parameters (JSON) of an algorithm. Returns (parameter, found, allowed), or None if
/// they are valid.
#[pyfunction]
fn check_parameters(
    kind: &str,
    algorithm: String,
    parameters: &str,
) -> PyResult<Option<(String, String, String)>> {
    let kind = Kind::ALL.into_iter().find(|one| one.field() == kind);
    let kind = kind.ok_or_else(|| PyValueError::new_err("no kind of algorithm"))?;
    let algorithm = Algorithm {
        name: algorithm,
        parameters: parameters_of(parameters)?,
    };
    let refusal = experiment::algorithms::parameters::check(kind, &algorithm).err();
    Ok(refusal.map(|refusal| (refusal.parameter, refusal.found, refusal.allowed)))
}

fn parameters_of(json: &str) -> PyResult<Parameters> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn as_rows(table: &[Capability]) -> Vec<(String, bool, String)> {
    let row = |capability: &Capability| {
        let why = capability.missing_because.as_deref();
        (
            capability.feature.to_string(),
            why.is_none(),
            why.unwrap_or_default().to_owned(),
        )
    };
    table.iter().map(row).collect()
}

fn as_pairs(missing: Vec<Missing>) -> Vec<(String, String)> {
    let missing = missing.into_iter();
    missing
        .map(|missing| (missing.feature, missing.why))
        .collect()
}

fn read_experiment(resolved: &str) -> PyResult<Experiment> {
    Experiment::from_json(resolved).map_err(|error| wrong(&error))
}

fn wrong(error: &ResolvedError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
