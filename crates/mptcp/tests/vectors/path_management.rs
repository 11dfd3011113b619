//! Path managers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mptcp::pm::{
    AddressPair, Command, Connection, Endpoint, EndpointFlags, Event, FourTuple, Gateways, Limits,
    Parameters, PathManager, Role, by_name, source_route_len,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::family::{Family, Inputs};

pub const FAMILIES: &[Family] = &[
    ("pm.fullmesh", full_mesh),
    ("pm.ndiffports", n_diff_ports),
    ("pm.binder", binder),
    ("pm.mainline", mainline),
    ("pm.flags", flags),
];

const PORT: u16 = 5001;

/// Returns an address by name: `c1`, `c2`, .. are those of the client, `s1`, .. those of the
/// server.
fn address(name: &str) -> Result<IpAddr, String> {
    let (side, number) = name.split_at(1);
    let number: u8 = number.parse().map_err(|_| format!("address {name}"))?;
    match side {
        "c" => Ok(Ipv4Addr::new(10, 0, 1, number).into()),
        "s" => Ok(Ipv4Addr::new(10, 0, 2, number).into()),
        _ => Err(format!("address {name}")),
    }
}

fn name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, 0, 1, number] => format!("c{number}"),
            [10, 0, 2, number] => format!("s{number}"),
            other => panic!("found {other:?}"),
        },
        IpAddr::V6(_) => panic!("found {address}"),
    }
}

/// A client's connection from `c1` to `s1`, as its path manager sees it.
fn connection(pairs: Vec<AddressPair>) -> Connection {
    let end = |name, port| SocketAddr::new(address(name).expect("it is one"), port);
    Connection {
        role: Role::Opener,
        initial: FourTuple {
            local: end("c1", 40_000),
            remote: end("s1", PORT),
        },
        pairs: pairs.into(),
        down: BTreeSet::new(),
        backup: BTreeSet::new(),
    }
}

fn policy(name: &str, connection: &Connection, parameters: &Parameters) -> Box<dyn PathManager> {
    by_name(name).expect("it is registered")(connection, parameters)
}

fn handle(policy: &mut dyn PathManager, event: &Event) -> Vec<Command> {
    let mut commands = Vec::new();
    policy.handle(0, event, &mut commands);
    commands
}

/// Returns the local and remote addresses of the subflows that are opened.
fn opened(commands: &[Command]) -> Vec<[String; 2]> {
    let opened = commands.iter().filter_map(|command| match command {
        Command::OpenSubflow { local, remote, .. } => Some([name(*local), name(remote.ip())]),
        _ => None,
    });
    opened.collect()
}

fn full_mesh(inputs: &Inputs) -> Result<Value, String> {
    let addresses = |side: &str| -> Result<Vec<IpAddr>, String> {
        let names: Vec<String> = inputs.get(side)?;
        names.iter().map(|name| address(name)).collect()
    };
    let (locals, remotes) = (addresses("client_addrs")?, addresses("server_addrs")?);
    let initial: [String; 2] = inputs.get("initial")?;
    if inputs.get::<u32>("num_subflows")? != 1 {
        return Err("full_mesh has one subflow on each pair".to_owned());
    }
    let pairs = locals.iter().flat_map(|&local| {
        let remotes = remotes.iter();
        remotes.map(move |&remote| AddressPair { local, remote })
    });
    let mut connection = connection(pairs.collect());
    connection.initial.local.set_ip(address(&initial[0])?);
    connection.initial.remote.set_ip(address(&initial[1])?);
    let mut policy = policy("full_mesh", &connection, &Parameters::default());
    let extra = opened(&handle(&mut *policy, &Event::Established));
    Ok(json!({"total_subflows": 1 + extra.len(), "extra": extra}))
}

fn n_diff_ports(inputs: &Inputs) -> Result<Value, String> {
    let parameters = Parameters {
        subflows: Some(inputs.get("num_subflows")?),
        ..Parameters::default()
    };
    let mut policy = policy("n_diff_ports", &connection(Vec::new()), &parameters);
    let extra = handle(&mut *policy, &Event::Established).len();
    Ok(json!({"extra": extra, "total_subflows": 1 + extra}))
}

fn binder(inputs: &Inputs) -> Result<Value, String> {
    let gateways: String = inputs.get("gateways")?;
    let gateways: Gateways = gateways.parse().map_err(|error| format!("{error}"))?;
    let parameters = Parameters {
        gateways,
        ..Parameters::default()
    };
    let mut policy = policy("binder", &connection(Vec::new()), &parameters);
    let commands = handle(&mut *policy, &Event::Established);
    let lists = commands.iter().filter_map(|command| match command {
        Command::OpenSubflow { via, .. } => Some(via.clone()),
        _ => None,
    });
    let lists: Vec<_> = lists.collect();
    let lengths: Vec<_> = lists
        .iter()
        .map(|via| source_route_len(via.len()))
        .collect();
    Ok(json!({"subflows": 1 + lists.len(), "lists": lists, "lsrr_option_len": lengths}))
}

#[derive(Deserialize)]
struct NamedEndpoint {
    addr: String,
    flags: Vec<String>,
}

impl NamedEndpoint {
    fn endpoint(&self) -> Result<Endpoint, String> {
        let bits = (0..32).map(|bit| 1 << bit).filter(|&bit| {
            let mut names = EndpointFlags::names_of(bit);
            names.any(|name| self.flags.iter().any(|flag| flag == name))
        });
        let flags = EndpointFlags::from_bits(bits.sum());
        Ok(Endpoint {
            address: address(&self.addr)?,
            port: None,
            flags: flags.map_err(|error| error.to_string())?,
        })
    }
}

/// Returns the client's subflows, each of which is established at once. Routing knows only the
/// client's first address.
fn mainline(inputs: &Inputs) -> Result<Value, String> {
    let endpoints: Vec<NamedEndpoint> = inputs.get("client_endpoints")?;
    let endpoints = endpoints.iter().map(NamedEndpoint::endpoint);
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    let limits: BTreeMap<String, usize> = inputs.get("limits")?;
    let parameters = Parameters {
        endpoints: Some(endpoints.clone()),
        limits: Limits {
            subflows: limits["subflows"],
            add_addr_accepted: limits["add_addr_accepted"],
        },
        ..Parameters::default()
    };
    let announced: Vec<String> = inputs.get("server_announces")?;
    let mut policy = policy("kernel_endpoints", &connection(Vec::new()), &parameters);
    let mut extra = opened(&handle(&mut *policy, &Event::Established));
    for (id, announced) in (1..).zip(&announced) {
        let (address, port) = (address(announced)?, None);
        extra.extend(opened(&handle(
            &mut *policy,
            &Event::Announced { id, address, port },
        )));
    }
    // An address without an endpoint was picked by routing.
    let is_endpoint = |local: &str| endpoints.iter().any(|one| name(one.address) == local);
    for [local, _] in extra.iter_mut().filter(|[local, _]| !is_endpoint(local)) {
        *local = format!("route({local})");
    }
    Ok(json!({"extra": extra}))
}

fn flags(inputs: &Inputs) -> Result<Value, String> {
    let bits = inputs.get("flags")?;
    let names: Vec<_> = EndpointFlags::names_of(bits).collect();
    Ok(json!({"names": names, "accepted": EndpointFlags::from_bits(bits).is_ok()}))
}
