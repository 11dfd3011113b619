//! Parameters of path managers. A description names interfaces and routers; a path manager has
//! their addresses.

use std::net::{IpAddr, Ipv4Addr};

use mptcp::pm::{Endpoint, EndpointFlags, Gateways, PATH_MANAGERS, Parameters, Recreation};
use serde_json::Value;

use super::apply;
use super::value::{integer, list, word};
use crate::addressing::PathPairs;
use crate::resolved::{Algorithm, Behaviour, Experiment, Host};

/// Returns the parameters of a path manager on one of the flow's hosts, whose connections use
/// `pairs`.
pub fn path_manager(
    algorithm: &Algorithm,
    experiment: &Experiment,
    host: &str,
    pairs: &PathPairs,
) -> Parameters {
    let mut hosts = experiment.hosts.iter();
    let described = hosts.find(|one| one.id == host).map(Host::behaviour);
    let mut parameters = Parameters {
        recreation: described.map_or_else(Recreation::default, Behaviour::recreation),
        ..Parameters::default()
    };
    let given = &algorithm.parameters;
    apply(
        PATH_MANAGERS.iter().map(|entry| &entry.description),
        algorithm,
        &mut parameters,
    );
    if !algorithm.is_users() {
        parameters.gateways = given
            .get("gateways")
            .map_or_else(Gateways::default, |lists| gateways(lists, experiment));
        let endpoints = given.get("endpoints");
        parameters.endpoints = endpoints.map(|all| endpoints_at(all, experiment, host, pairs));
    }
    parameters
}

/// Returns the names of all interfaces and of all routers in the parameters of a path manager.
pub(crate) fn names_in(algorithm: &Algorithm) -> (Vec<&str>, Vec<&str>) {
    let endpoints = listed(algorithm, "endpoints").iter();
    let interfaces = endpoints.map(|one| word(&one["interface"]));
    let gateways = listed(algorithm, "gateways").iter();
    (
        interfaces.collect(),
        gateways.flat_map(list).map(word).collect(),
    )
}

/// Returns the ports of the endpoints.
pub(crate) fn ports_in(algorithm: &Algorithm) -> impl Iterator<Item = u16> {
    let endpoints = listed(algorithm, "endpoints").iter();
    endpoints.filter_map(port_of)
}

/// Returns a list among the parameters of one of the engine's path managers; empty for a user's
/// own.
fn listed<'a>(algorithm: &'a Algorithm, name: &str) -> &'a [Value] {
    let given = algorithm.parameters.get(name);
    given
        .filter(|_| !algorithm.is_users())
        .map_or(&[], |all| list(all))
}

fn port_of(endpoint: &Value) -> Option<u16> {
    endpoint.get("port").map(|port| integer(port) as u16)
}

fn gateways(lists: &Value, experiment: &Experiment) -> Gateways {
    let hops = |hops: &Value| {
        let addresses = list(hops).iter().map(|router| {
            let address = router_address(experiment, word(router));
            address
                .expect("validated: a router with an IPv4 address")
                .to_string()
        });
        addresses.collect::<Vec<_>>().join(",")
    };
    let text: Vec<_> = list(lists).iter().map(hops).collect();
    text.join("-")
        .parse()
        .expect("checked: few enough lists of few enough hops")
}

/// Returns the first IPv4 address of a router.
pub(crate) fn router_address(experiment: &Experiment, router: &str) -> Option<Ipv4Addr> {
    let mut own = experiment
        .interfaces
        .iter()
        .filter(|one| one.node == router);
    own.find_map(|one| {
        one.addresses()
            .into_iter()
            .find_map(|address| match address {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            })
    })
}

/// Returns the endpoints of one host. Each has the address of its interface that the flow uses, or
/// otherwise the first one.
fn endpoints_at(
    all: &Value,
    experiment: &Experiment,
    host: &str,
    pairs: &PathPairs,
) -> Vec<Endpoint> {
    let used = pairs.of_connection(pairs.initial().local);
    let is_used = |address: &IpAddr| used.iter().any(|pair| pair.local == *address);
    let here = list(all).iter().filter_map(|one| {
        let mut interfaces = experiment.interfaces.iter();
        let interface = interfaces.find(|interface| interface.id == word(&one["interface"]))?;
        let addresses = interface.addresses();
        let address = *addresses
            .iter()
            .find(|one| is_used(one))
            .or(addresses.first())?;
        (interface.node == host).then(|| Endpoint {
            address,
            port: port_of(one),
            flags: flags_of(&one["flags"]),
        })
    });
    here.collect()
}

fn flags_of(names: &Value) -> EndpointFlags {
    let flags = list(names).iter().map(|name| match word(name) {
        "signal" => EndpointFlags::SIGNAL,
        "subflow" => EndpointFlags::SUBFLOW,
        "backup" => EndpointFlags::BACKUP,
        "fullmesh" => EndpointFlags::FULLMESH,
        _ => EndpointFlags::LAMINAR,
    });
    flags.fold(EndpointFlags::default(), |all, flag| all | flag)
}
