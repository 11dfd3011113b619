//! Path managers. Of interfaces and routers the description has names, and path managers addresses.

use std::net::{IpAddr, Ipv4Addr};

use mptcp::pm::{Endpoint, EndpointFlags, Gateways, Parameters, Recreation, Waits};
use serde_json::Value;

use super::value::{integer, list, word};
use super::{Parameter, Values, apply};
use crate::flows::{PathPairs, addresses_at};
use crate::resolved::{self, Algorithm, Behaviour, Experiment, Host};

/// The most that the kernel takes.
const MOST_FURTHER_SUBFLOWS: u32 = 8;

/// The parameters of path managers. Those with names in them are taken over by [`path_manager`].
pub const PATH_MANAGER: &[Parameter<Parameters>] = &[
    Parameter {
        algorithms: &["n_diff_ports"],
        name: "subflows",
        unit: "subflows",
        values: Values::Integer { least: 1, most: 64 },
        default: "2",
        meaning: "subflows between the initial pair of addresses, the first included",
        set: |to, value| to.subflows = Some(integer(value)),
    },
    Parameter {
        algorithms: &["binder"],
        name: "gateways",
        unit: "",
        values: Values::Gateways,
        default: "none, and so no further subflow",
        meaning: "the routers that the packets of each further subflow pass, in order",
        set: |_, _| (),
    },
    Parameter {
        algorithms: &["kernel_endpoints"],
        name: "endpoints",
        unit: "",
        values: Values::Endpoints,
        default: "the interfaces of the flow's further paths: subflow on the side that opens, signal on the other",
        meaning: "what `ip mptcp endpoint` has at the host of each interface, in order",
        set: |_, _| (),
    },
    Parameter {
        algorithms: &["kernel_endpoints"],
        name: "subflows",
        unit: "subflows",
        values: Values::Integer {
            least: 0,
            most: MOST_FURTHER_SUBFLOWS,
        },
        default: "8",
        meaning: "limit of further subflows, as of `ip mptcp limits`",
        set: |to, value| to.limits.subflows = integer(value) as usize,
    },
    Parameter {
        algorithms: &["kernel_endpoints"],
        name: "add_addr_accepted",
        unit: "addresses",
        values: Values::Integer {
            least: 0,
            most: MOST_FURTHER_SUBFLOWS,
        },
        default: "8",
        meaning: "limit of announced addresses that are connected to, as of `ip mptcp limits`",
        set: |to, value| to.limits.add_addr_accepted = integer(value) as usize,
    },
];

/// What a path manager is given at one of the flow's hosts, whose connections use these pairs.
pub fn path_manager(
    algorithm: &Algorithm,
    experiment: &Experiment,
    host: &str,
    pairs: &PathPairs,
) -> Parameters {
    let mut hosts = experiment.hosts.iter();
    let described = hosts.find(|one| one.id == host).map(Host::behaviour);
    let mut parameters = Parameters {
        recreation: described.map_or_else(Recreation::default, recreation),
        ..Parameters::default()
    };
    let given = &algorithm.parameters;
    apply(PATH_MANAGER, &algorithm.name, given, &mut parameters);
    if !algorithm.is_users() {
        parameters.gateways = given
            .get("gateways")
            .map_or_else(Gateways::default, |lists| gateways(lists, experiment));
        let endpoints = given.get("endpoints");
        parameters.endpoints = endpoints.map(|all| endpoints_at(all, experiment, host, pairs));
    }
    parameters
}

/// When a host opens a subflow again that failed.
pub(crate) fn recreation(behaviour: &Behaviour) -> Recreation {
    match behaviour.recreation {
        resolved::Recreation::Never => Recreation::Never,
        resolved::Recreation::Backoff => Recreation::Backoff(Waits {
            first: behaviour.recreation_first_ns,
            longest: behaviour.recreation_longest_ns,
        }),
    }
}

/// Every name of an interface, and every one of a router, in what a path manager is given.
pub(crate) fn names_in(algorithm: &Algorithm) -> (Vec<&str>, Vec<&str>) {
    let endpoints = listed(algorithm, "endpoints").iter();
    let interfaces = endpoints.map(|one| word(&one["interface"]));
    let gateways = listed(algorithm, "gateways").iter();
    (
        interfaces.collect(),
        gateways.flat_map(list).map(word).collect(),
    )
}

/// The ports of its endpoints.
pub(crate) fn ports_in(algorithm: &Algorithm) -> impl Iterator<Item = u16> {
    let endpoints = listed(algorithm, "endpoints").iter();
    endpoints.filter_map(port_of)
}

/// A list that one of our path managers is given; a user's own has none that we know.
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

/// The first IPv4 address of a router.
pub(crate) fn router_address(experiment: &Experiment, router: &str) -> Option<Ipv4Addr> {
    let mut own = experiment
        .interfaces
        .iter()
        .filter(|one| one.node == router);
    own.find_map(|one| {
        addresses_at(one)
            .into_iter()
            .find_map(|address| match address {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            })
    })
}

/// Those of one host, with the address of each interface that the flow uses, or else its first.
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
        let addresses = addresses_at(interface);
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
