//! Plans the path manager of each host from the experiment.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use experiment::addressing::{Lookup, PathPairs, host_at, port_of_flow};
use experiment::algorithms::parameters::path_manager;
use experiment::capabilities::Missing;
use experiment::resolved::{Experiment, Flow, FlowEnd, Host, Stack, Transport};
use experiment::time::Nanos;
use mptcp::pm::{
    AddressPair, Constructor, Endpoint, EndpointFlags, FourTuple, Limits, Parameters, Role, by_name,
};

use super::abilities::Abilities;

/// The name of the in-kernel path manager.
const KERNEL_ENDPOINTS: &str = "kernel_endpoints";

/// Policies that only the engine can use: over netlink the kernel takes no source route, and it
/// runs its own path manager by itself.
const BY_ENGINE_ONLY: &[&str] = &["binder", KERNEL_ENDPOINTS];

/// The setting of kernels that drop timestamps to make room for a long announcement. They do so
/// unless it is 0.
const DROPS_TIMESTAMPS: &str = "/proc/sys/net/mptcp/add_addr_v6_port_drop_ts";

/// A host that opens or accepts MPTCP connections.
#[derive(Clone, Debug)]
pub(super) struct HostPlan {
    pub(super) id: String,
    pub(super) delay_ns: Nanos,
    /// By the id of the interface.
    pub(super) addresses: BTreeMap<String, Vec<IpAddr>>,
    pub(super) flows: Vec<FlowPlan>,
    pub(super) mode: Mode,
}

/// What manages the paths of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The policies of `mptcp::pm`.
    Policies,
    /// The kernel, with these endpoints, in order, and limits.
    Endpoints(Vec<Endpoint>, Limits),
}

/// One end of a flow.
#[derive(Clone, Debug)]
pub(super) struct FlowPlan {
    pub(super) id: String,
    pub(super) role: Role,
    /// Id of the host at the other end.
    peer: String,
    /// The port at which the acceptor listens.
    port: u16,
    /// As seen from this end.
    pairs: PathPairs,
    /// `None` if the kernel manages the paths.
    pub(super) policy: Option<Constructor>,
    pub(super) parameters: Parameters,
}

impl FlowPlan {
    /// Returns the pairs of a connection whose initial subflow has this local address.
    pub(super) fn pairs_of_connection(&self, initial: IpAddr) -> Vec<AddressPair> {
        self.pairs.of_connection(initial)
    }

    /// Returns the pairs of its own connections.
    fn own_pairs(&self) -> Vec<AddressPair> {
        self.pairs_of_connection(self.pairs.initial().local)
    }

    /// Returns the addresses on this host that its connections use besides the initial one, in
    /// order. Some may be repeated.
    fn further_locals(&self) -> impl Iterator<Item = IpAddr> {
        let initial = self.pairs.initial().local;
        let locals = self.own_pairs().into_iter().map(|pair| pair.local);
        locals.filter(move |local| *local != initial)
    }

    /// Returns whether a path leads from this address to the remote address of the initial subflow.
    fn meets_initial_remote(&self, local: IpAddr) -> bool {
        let remote = self.pairs.initial().remote;
        self.own_pairs().contains(&AddressPair { local, remote })
    }

    fn routes(&self, role: Role, initial: FourTuple) -> bool {
        self.role == role && self.pairs.all().contains(&initial.pair())
    }

    fn listens(&self, initial: FourTuple) -> bool {
        self.port
            == match self.role {
                Role::Opener => initial.remote.port(),
                Role::Acceptor => initial.local.port(),
            }
    }
}

impl HostPlan {
    /// Returns the flow that a connection belongs to, and whether the connection is the flow's own.
    /// A program's connection is treated like that of the first flow between the same addresses.
    pub(super) fn flow_of(&self, role: Role, initial: FourTuple) -> Option<(&FlowPlan, bool)> {
        let alike = || {
            self.flows
                .iter()
                .filter(move |flow| flow.routes(role, initial))
        };
        let own = alike().find(|flow| flow.listens(initial));
        let own = own.map(|flow| (flow, true));
        own.or_else(|| alike().next().map(|flow| (flow, false)))
    }

    /// Returns whether connections of its flows use an address.
    pub(super) fn uses(&self, local: IpAddr) -> bool {
        let pairs = self.flows.iter().flat_map(FlowPlan::own_pairs);
        pairs.into_iter().any(|pair| pair.local == local)
    }

    /// Returns all its addresses.
    pub(super) fn all_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.values().flatten().copied()
    }
}

/// Returns the plans of all hosts that need a path manager.
pub(super) fn plan(experiment: &Experiment) -> Result<Vec<HostPlan>, Missing> {
    if let Some(missing) = check(experiment).into_iter().next() {
        return Err(missing);
    }
    let lookup = Lookup::new(experiment);
    let plans = kernel_hosts(experiment).map(|host| plan_host(&lookup, host));
    Ok(plans.filter(|plan| !plan.flows.is_empty()).collect())
}

/// Returns the hosts with the kernel's stack. A host with the userspace stack manages its paths
/// itself.
fn kernel_hosts(experiment: &Experiment) -> impl Iterator<Item = &Host> {
    let hosts = experiment.hosts.iter();
    hosts.filter(|host| host.stack != Stack::Userspace)
}

fn plan_host(lookup: &Lookup<'_>, host: &Host) -> HostPlan {
    let flows = flows_of(lookup.experiment, &host.id);
    let plans: Vec<_> = flows
        .iter()
        .flat_map(|(index, flow)| plan_ends(lookup, *index, flow, &host.id))
        .collect();
    let mode = if plans.iter().all(|flow| flow.policy.is_none()) {
        let limits = plans.first().map(|flow| flow.parameters.limits);
        Mode::Endpoints(endpoints(&plans), limits.unwrap_or_default())
    } else {
        Mode::Policies
    };
    HostPlan {
        id: host.id.clone(),
        delay_ns: host.behaviour().path_manager_delay_ns,
        addresses: addresses_of(lookup.experiment, &host.id),
        flows: plans,
        mode,
    }
}

/// Returns the MPTCP flows with an end at a host, with their indices.
fn flows_of<'a>(experiment: &'a Experiment, host: &str) -> Vec<(usize, &'a Flow)> {
    let flows = experiment.flows.iter().enumerate();
    let concerned = flows.filter(|(_, flow)| {
        flow.transport == Transport::Mptcp && (flow.from == host || flow.to == host)
    });
    concerned.collect()
}

/// Returns the ends of a flow at this host.
fn plan_ends(lookup: &Lookup<'_>, index: usize, flow: &Flow, host: &str) -> Vec<FlowPlan> {
    let ends = [(FlowEnd::From, &flow.from), (FlowEnd::To, &flow.to)];
    let here = ends.into_iter().filter(|(_, id)| *id == host);
    here.map(|(end, _)| plan_end(lookup, index, flow, end))
        .collect()
}

fn plan_end(lookup: &Lookup<'_>, index: usize, flow: &Flow, end: FlowEnd) -> FlowPlan {
    let manager = flow.path_manager.first();
    let peer = match end {
        FlowEnd::From => &flow.to,
        FlowEnd::To => &flow.from,
    };
    let pairs = PathPairs::new(lookup, &flow.paths, end);
    FlowPlan {
        id: flow.id.clone(),
        peer: peer.clone(),
        role: if flow.opened_by == end {
            Role::Opener
        } else {
            Role::Acceptor
        },
        port: port_of_flow(index).unwrap_or(u16::MAX),
        policy: manager.and_then(|manager| policy(&manager.name)),
        parameters: manager.map_or_else(Parameters::default, |manager| {
            path_manager(manager, lookup.experiment, host_at(flow, end), &pairs)
        }),
        pairs,
    }
}

/// Returns the policy of that name, unless [`BY_ENGINE_ONLY`] contains it.
fn policy(name: &str) -> Option<Constructor> {
    by_name(name).filter(|_| !BY_ENGINE_ONLY.contains(&name))
}

fn addresses_of(experiment: &Experiment, host: &str) -> BTreeMap<String, Vec<IpAddr>> {
    let interfaces = experiment.interfaces.iter();
    interfaces
        .filter(|interface| interface.node == host)
        .map(|interface| (interface.id.clone(), interface.addresses()))
        .collect()
}

/// Returns the endpoints of the description. Without any, the further addresses of flows that this
/// host opens become `subflow` endpoints, and those of flows that it accepts become `signal`
/// endpoints, so that disjoint subnets are used too. Only addresses that flows use
/// become endpoints, because each counts against a limit of the kernel.
///
/// An accepting host with a `subflow` endpoint announces only one address and then waits for a
/// subflow that cannot be opened. If a host both opens and accepts, `subflow` endpoints that open
/// no path of the description (to the peer's initial address) are left out.
fn endpoints(flows: &[FlowPlan]) -> Vec<Endpoint> {
    if let Some(given) = given_endpoints(flows) {
        return given.clone();
    }
    let accepts =
        |flow: &FlowPlan| flow.role == Role::Acceptor && flow.further_locals().next().is_some();
    let does_accept = flows.iter().any(accepts);
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for flow in flows {
        for local in flow.further_locals() {
            let flags = match flow.role {
                Role::Acceptor => EndpointFlags::SIGNAL,
                Role::Opener if does_accept && !flow.meets_initial_remote(local) => continue,
                Role::Opener => EndpointFlags::SUBFLOW,
            };
            match endpoints.iter_mut().find(|one| one.address == local) {
                Some(known) => known.flags = known.flags | flags,
                None => endpoints.push(Endpoint {
                    address: local,
                    port: None,
                    flags,
                }),
            }
        }
    }
    endpoints
}

fn given_endpoints(flows: &[FlowPlan]) -> Option<&Vec<Endpoint>> {
    flows
        .iter()
        .find_map(|flow| flow.parameters.endpoints.as_ref())
}

/// Returns what no path manager of the kernel can do.
pub(super) fn check(experiment: &Experiment) -> Vec<Missing> {
    let lookup = Lookup::new(experiment);
    kernel_hosts(experiment)
        .flat_map(|host| check_host(&lookup, &host.id))
        .collect()
}

fn check_host(lookup: &Lookup<'_>, host: &str) -> Vec<Missing> {
    let flows = flows_of(lookup.experiment, host);
    let (kernel, ours): (Vec<_>, Vec<_>) = flows.iter().partition(|(_, flow)| is_by_kernel(flow));
    let unknown = ours.iter().find_map(|(_, flow)| unknown(flow));
    if let Some(unknown) = unknown {
        return vec![unknown];
    }
    if let (Some((_, kernel)), Some((_, ours))) = (kernel.first(), ours.first()) {
        return vec![mixed(host, kernel, ours)];
    }
    let plans: Vec<_> = kernel
        .iter()
        .flat_map(|(index, flow)| plan_ends(lookup, *index, flow, host))
        .collect();
    if let Some(disagreement) = disagreement(host, &plans) {
        return vec![disagreement];
    }
    let beyond = beyond_abilities(host, &plans);
    if given_endpoints(&plans).is_some() {
        return beyond.into_iter().chain(no_room(host, &plans)).collect();
    }
    let foreign = kernel
        .iter()
        .filter_map(|(index, _)| foreign_pair(host, &plans, &lookup.experiment.flows[*index]));
    let refused = beyond.into_iter().chain(both_ways(host, &plans));
    refused.chain(foreign).collect()
}

fn unknown(flow: &Flow) -> Option<Missing> {
    let name = flow.path_manager.first().map(|manager| &manager.name);
    let is_known = name.is_some_and(|name| policy(name).is_some());
    (!is_known).then(|| Missing {
        feature: format!(
            "flows.{}.path_manager: {}",
            flow.id,
            name.map_or("", |name| name)
        ),
        why: "there is no such path manager for the kernel".to_owned(),
    })
}

fn is_by_kernel(flow: &Flow) -> bool {
    let manager = flow.path_manager.first();
    manager.is_some_and(|manager| manager.name == KERNEL_ENDPOINTS)
}

fn mixed(host: &str, kernel: &Flow, ours: &Flow) -> Missing {
    let other = ours.path_manager.first();
    let other = other.map_or("another one", |manager| manager.name.as_str());
    Missing {
        feature: format!("flows.{}.path_manager: {KERNEL_ENDPOINTS}", kernel.id),
        why: format!(
            "flow {} at the same host {host} has {other}, and a host's paths are managed either by the kernel or by a program: give both flows the same kind",
            ours.id
        ),
    }
}

/// Refuses flows that disagree: all flows of a host must have the same endpoints and limits, or
/// none.
fn disagreement(host: &str, plans: &[FlowPlan]) -> Option<Missing> {
    let (first, others) = plans.split_first()?;
    let differs = |one: &&FlowPlan| {
        let (ours, theirs) = (&first.parameters, &one.parameters);
        (&ours.endpoints, ours.limits) != (&theirs.endpoints, theirs.limits)
    };
    others.iter().find(differs).map(|other| Missing {
        feature: format!("flows.{}.path_manager: {KERNEL_ENDPOINTS}", other.id),
        why: format!(
            "the kernel's endpoints and limits are those of host {host} and not of a flow, and flow {} has others: give both flows the same",
            first.id
        ),
    })
}

/// Refuses endpoints and limits that the running kernel was found not to take. Without the rights
/// to try it, the kernel refuses them when the run starts.
fn beyond_abilities(host: &str, plans: &[FlowPlan]) -> Option<Missing> {
    let flow = plans.first()?;
    let why = why_beyond(
        host,
        &endpoints(plans),
        flow.parameters.limits,
        Abilities::here()?,
    )?;
    Some(Missing {
        feature: format!("flows.{}.path_manager: {KERNEL_ENDPOINTS}", flow.id),
        why,
    })
}

fn why_beyond(
    host: &str,
    endpoints: &[Endpoint],
    limits: Limits,
    kernel: &Abilities,
) -> Option<String> {
    let most = kernel.endpoints;
    if endpoints.len() > most {
        let count = endpoints.len();
        return Some(format!(
            "host {host} would need {count} endpoints, and this kernel has at most {most}: use full_mesh, or fewer interfaces (`via`)"
        ));
    }
    let flags = endpoints
        .iter()
        .flat_map(|one| EndpointFlags::names_of(one.flags.bits()));
    if let Some(dropped) = flags.into_iter().find(|name| !kernel.flags.contains(name)) {
        let kept = kernel.flags.join(", ");
        return Some(format!(
            "host {host} would have a {dropped} endpoint, and this kernel has endpoints with {kept} only"
        ));
    }
    let asked = [
        ("subflows", limits.subflows, kernel.subflows),
        (
            "add_addr_accepted",
            limits.add_addr_accepted,
            kernel.add_addr_accepted,
        ),
    ];
    let beyond = asked
        .into_iter()
        .find(|(_, asked, most)| *asked > *most as usize);
    beyond.map(|(name, asked, most)| {
        format!("{name} is {asked} at host {host}, and this kernel takes at most {most}: use full_mesh, which has no such limit")
    })
}

/// Refuses an announcement that does not fit. An IPv6 address with a port has no room beside
/// timestamps, so a kernel that cannot drop timestamps never sends it.
fn no_room(host: &str, plans: &[FlowPlan]) -> Option<Missing> {
    let endpoints = endpoints(plans);
    let long = endpoints
        .iter()
        .find(|one| one.port.is_some() && one.address.is_ipv6())?;
    (!Path::new(DROPS_TIMESTAMPS).exists()).then(|| Missing {
        feature: format!("flows.{}.path_manager: {KERNEL_ENDPOINTS}", plans[0].id),
        why: format!(
            "host {host} would announce {} with a port, for which kernels before Linux 7.2 have no room beside timestamps: leave the port out, or use IPv4 on that path",
            long.address
        ),
    })
}

/// Refuses a host for which both kinds of endpoint remain after [`endpoints`] left out those it
/// can.
fn both_ways(host: &str, plans: &[FlowPlan]) -> Option<Missing> {
    let endpoints = endpoints(plans);
    let has = |flag| endpoints.iter().any(|one| one.flags.has(flag));
    (has(EndpointFlags::SIGNAL) && has(EndpointFlags::SUBFLOW)).then(|| Missing {
        feature: format!("flows.{}.path_manager: {KERNEL_ENDPOINTS}", plans[0].id),
        why: format!(
            "host {host} opens some flows over several paths and accepts others, for which the kernel's endpoints are in each other's way: use full_mesh"
        ),
    })
}

/// Refuses a pair that only another flow between the same hosts has. Endpoints belong to the host,
/// so the kernel would use the pair for this flow too.
fn foreign_pair(host: &str, plans: &[FlowPlan], flow: &Flow) -> Option<Missing> {
    let is_own = |plan: &&FlowPlan| plan.id == flow.id && plan.role == Role::Opener;
    let own = plans.iter().find(is_own)?;
    let initial = own.pairs.initial();
    let own_pairs = own.pairs.all();
    let same_hosts = plans.iter().filter(|plan| plan.peer == own.peer);
    let (plan, pair) = same_hosts
        .flat_map(|plan| further_pairs(plan).map(move |pair| (plan, pair)))
        .filter(|(_, pair)| !own_pairs.contains(pair))
        .find(|(plan, pair)| pair.remote == initial.remote || is_further_remote(plan, pair))?;
    Some(Missing {
        feature: format!("flows.{}.path_manager: {KERNEL_ENDPOINTS}", flow.id),
        why: format!(
            "the kernel's endpoints are those of host {host} and not of a flow: it would also use {} to {}, which only flow {} has; use full_mesh, or give both flows the same interfaces",
            pair.local, pair.remote, plan.id
        ),
    })
}

/// Returns all pairs of a flow's connections except the initial one.
fn further_pairs(plan: &FlowPlan) -> impl Iterator<Item = AddressPair> {
    plan.own_pairs().into_iter().skip(1)
}

fn is_further_remote(plan: &FlowPlan, pair: &AddressPair) -> bool {
    plan.pairs.initial().remote != pair.remote
}

#[cfg(test)]
mod tests {
    use super::*;

    const A1: &str = "10.1.1.1";
    const A2: &str = "10.1.2.1";
    const B1: &str = "10.1.1.2";
    const B2: &str = "10.1.2.2";

    fn flow(id: &str, role: Role, pairs: &[(&str, &str)]) -> FlowPlan {
        let pairs = pairs.iter().map(|(local, remote)| {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            vec![AddressPair { local, remote }]
        });
        FlowPlan {
            id: id.to_owned(),
            role,
            peer: "peer".to_owned(),
            port: 5001,
            pairs: pairs.collect(),
            policy: None,
            parameters: Parameters::default(),
        }
    }

    fn endpoint(address: &str, flags: EndpointFlags) -> Endpoint {
        Endpoint {
            address: address.parse().unwrap(),
            port: None,
            flags,
        }
    }

    #[test]
    fn netlink_drives_no_policy_that_is_the_engines_alone() {
        assert!(policy("full_mesh").is_some());
        assert!(policy("binder").is_none());
        assert!(policy(KERNEL_ENDPOINTS).is_none());
    }

    #[test]
    fn the_opener_has_subflow_and_the_acceptor_signal_endpoints_for_further_addresses() {
        let opened = flow("f", Role::Opener, &[(A1, B1), (A2, B2)]);
        assert_eq!(endpoints(&[opened]), [endpoint(A2, EndpointFlags::SUBFLOW)]);
        let accepted = flow("f", Role::Acceptor, &[(B1, A1), (B2, A2)]);
        assert_eq!(
            endpoints(&[accepted]),
            [endpoint(B2, EndpointFlags::SIGNAL)]
        );
    }

    #[test]
    fn single_paths_need_none() {
        let flows = [
            flow("f", Role::Opener, &[(A1, B1)]),
            flow("g", Role::Acceptor, &[(A2, B2)]),
        ];
        assert_eq!(endpoints(&flows), []);
    }

    #[test]
    fn a_host_that_accepts_too_only_announces_where_that_is_enough() {
        let pairs = [(A1, B1), (A2, B2)];
        let flows = [
            flow("f", Role::Opener, &pairs),
            flow("g", Role::Acceptor, &pairs),
        ];
        assert_eq!(endpoints(&flows), [endpoint(A2, EndpointFlags::SIGNAL)]);
        assert_eq!(both_ways("host", &flows), None);
    }

    #[test]
    fn an_endpoint_has_the_family_of_its_path() {
        let pairs = [("fd00::1", "fd00::2"), (A2, B2)];
        let accepted = flow("f", Role::Acceptor, &pairs);
        assert_eq!(
            endpoints(&[accepted]),
            [endpoint(A2, EndpointFlags::SIGNAL)]
        );
        let accepted = flow("f", Role::Acceptor, &[(A2, B2), ("fd00::1", "fd00::2")]);
        assert_eq!(
            endpoints(&[accepted]),
            [endpoint("fd00::1", EndpointFlags::SIGNAL)]
        );
    }

    #[test]
    fn given_endpoints_are_taken_as_they_are_and_from_all_flows_of_a_host_alike() {
        let pairs = [(A1, B1), (A2, B2)];
        let mut flows = [
            flow("f", Role::Acceptor, &pairs),
            flow("g", Role::Opener, &pairs),
        ];
        let given = vec![Endpoint {
            port: Some(7000),
            ..endpoint(A2, EndpointFlags::SIGNAL)
        }];
        flows[0].parameters.endpoints = Some(given.clone());
        let refused = disagreement("host", &flows).unwrap();
        assert_eq!(refused.feature, "flows.g.path_manager: kernel_endpoints");
        flows[1].parameters.endpoints = Some(given.clone());
        assert_eq!(disagreement("host", &flows), None);
        assert_eq!(endpoints(&flows), given);
    }

    #[test]
    fn what_a_kernel_was_found_not_to_take_is_refused() {
        let kernel = Abilities {
            endpoints: 2,
            subflows: 8,
            add_addr_accepted: 8,
            usual_limits: (2, 0),
            flags: vec!["signal", "subflow"],
        };
        let two = [A1, A2].map(|address| endpoint(address, EndpointFlags::SUBFLOW));
        let why = |endpoints: &[Endpoint], subflows| {
            let limits = Limits {
                subflows,
                ..Limits::default()
            };
            why_beyond("client", endpoints, limits, &kernel)
        };
        assert_eq!(why(&two, 8), None);
        let three = [two[0], two[1], endpoint(B1, EndpointFlags::SUBFLOW)];
        assert!(why(&three, 8).unwrap().contains("need 3 endpoints"));
        let laminar = [endpoint(A2, EndpointFlags::LAMINAR)];
        assert_eq!(
            why(&laminar, 8).unwrap(),
            "host client would have a laminar endpoint, and this kernel has endpoints with signal, subflow only"
        );
        assert!(
            why(&two, 9)
                .unwrap()
                .starts_with("subflows is 9 at host client")
        );
    }

    #[test]
    fn a_host_that_must_open_from_what_it_announces_is_refused() {
        let pairs = [(A1, B1), (A2, B1)];
        let flows = [
            flow("f", Role::Opener, &pairs),
            flow("g", Role::Acceptor, &pairs),
        ];
        let refused = both_ways("host", &flows).unwrap();
        assert!(refused.why.contains("host host opens some flows"));
    }
}
