//! Finds the features of an experiment that the simulator lacks, each with the reason.

use std::collections::HashMap;

use emulation::first_hop;
use experiment::addressing::{Lookup, MOST_FLOWS, pairs_between, port_of_flow};
use experiment::algorithms::Registry;
use experiment::capabilities::{Capabilities, Missing};
use experiment::resolved::{Application, Experiment, Flow, Transport};
use experiment::traffic::why_impossible;

use crate::capabilities::capabilities;
use crate::network::{Forwarding, direction};
use crate::packet::datagram_headers_bytes;

/// Returns all features of a valid experiment that the simulator lacks. Empty if it can run the
/// experiment.
pub fn check(experiment: &Experiment, registry: &Registry) -> Vec<Missing> {
    let mut missing = Capabilities::new(&capabilities(registry)).check(experiment);
    let lookup = Lookup::new(experiment);
    for flow in &experiment.flows {
        missing.extend(why_impossible(flow).map(|why| Missing {
            feature: format!("flows.{}.app: {}", flow.id, flow.app.kind()),
            why,
        }));
        missing.extend(check_size(&lookup, flow));
    }
    missing.extend(check_routed(experiment));
    missing.extend(check_middleboxes(experiment));
    missing.extend(first_hop::check_middleboxes(experiment));
    missing.extend(check_ports(experiment));
    missing
}

/// Checks that routers connect the first and the last link of each routed path.
fn check_routed(experiment: &Experiment) -> Vec<Missing> {
    let links = experiment.links.iter().map(|link| link.id.as_str());
    let link_of: HashMap<_, _> = links.zip(0..).collect();
    let mut forwarding = Forwarding::new(experiment, 0);
    let mut missing = Vec::new();
    for flow in &experiment.flows {
        for path in flow.paths.iter().filter(|path| path.routed) {
            let ends = [&path.hops[0], &path.hops[path.hops.len() - 1]];
            if !forwarding.leads(ends.map(|hop| direction(link_of[hop.link.as_str()], hop))) {
                missing.push(Missing {
                    feature: format!("flows.{}.paths: {} to {}", flow.id, path.local, path.remote),
                    why: "no routers lead from its first link to its last".to_owned(),
                });
            }
        }
    }
    missing
}

/// Checks that both directions of a connection pass each middlebox.
fn check_middleboxes(experiment: &Experiment) -> Vec<Missing> {
    let nodes = experiment.nodes.iter();
    let is_chosen = nodes.clone().any(|node| node.next_hop.is_some());
    let between_nodes = |interface: &String| {
        let links = experiment.links.iter();
        let link = links
            .clone()
            .find(|link| [&link.a, &link.b].contains(&interface));
        let is_node = |end: &String| {
            let mut interfaces = experiment.interfaces.iter();
            let end = interfaces.find(|one| one.id == *end);
            end.is_some_and(|end| nodes.clone().any(|node| node.id == end.node))
        };
        link.is_some_and(|link| is_node(&link.a) && is_node(&link.b))
    };
    let middleboxes = experiment.middleboxes.iter().enumerate();
    let astray = middleboxes.filter(|(_, one)| is_chosen && between_nodes(&one.at));
    astray
        .map(|(index, middlebox)| Missing {
            feature: format!("middleboxes.{index}.at: {}", middlebox.at),
            why: "where routers choose next hops, answers may come back over other links: use the link of a host".to_owned(),
        })
        .collect()
}

/// Checks that there are enough ports, because flows that are not UDP are identified by the port at
/// which they are accepted.
fn check_ports(experiment: &Experiment) -> Option<Missing> {
    let last = experiment.flows.len().checked_sub(1)?;
    port_of_flow(last).is_none().then(|| Missing {
        feature: format!("{} flows", experiment.flows.len()),
        why: format!("each has a port of its own, and there are {MOST_FLOWS}"),
    })
}

/// Checks that a datagram fits into the smallest MTU of its path, because it is sent as one packet.
fn check_size(lookup: &Lookup<'_>, flow: &Flow) -> Option<Missing> {
    let size_bytes = match flow.app {
        Application::Cbr { size_bytes, .. } | Application::Probe { size_bytes, .. }
            if flow.transport == Transport::Udp =>
        {
            size_bytes
        }
        _ => return None,
    };
    let path = flow.paths.first()?;
    let mtu_bytes = lookup.path_mtu_bytes(path)?;
    let ends = pairs_between(lookup, &path.local, &path.remote);
    let headers_bytes = datagram_headers_bytes(ends.first()?.local);
    (size_bytes + headers_bytes > mtu_bytes).then(|| Missing {
        feature: format!("flows.{}.app.size_bytes: {size_bytes}", flow.id),
        why: format!(
            "with {headers_bytes} bytes of headers it exceeds the path's MTU of {mtu_bytes} bytes, and the simulator does not fragment"
        ),
    })
}
