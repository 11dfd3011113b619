//! Switches and access points: a bridge each, which knows from the start behind which port every
//! interface of its subnet is.

use std::collections::BTreeSet;

use super::addresses::{Layout, PlaceKind, mac_of};
use crate::LiveError;
use crate::network::netlink::Mac;

/// The name of the bridge. Ports of the description never have a name of this form.
pub(super) const BRIDGE: &str = "(bridge)";

/// Refuses switches that form a loop. Without a spanning tree frames would circulate for ever; with
/// one, links of the description would be blocked. Controlled switches may form loops among
/// themselves, because frames follow the entries of their flow. Towards other switches they count
/// as one, because a bridge has each link-layer address behind one port.
///
/// # Errors
/// Names the link that closes a loop.
pub(super) fn check_loops(layout: &Layout) -> Result<(), LiveError> {
    let mut leader: Vec<usize> = (0..layout.interfaces_of_node.len()).collect();
    let is_controlled =
        |ends: &[usize; 2]| ends.map(|end| layout.kind_at(end)) == [PlaceKind::Openflow; 2];
    let mut links: Vec<&[usize; 2]> = layout.ends.iter().collect();
    links.sort_by_key(|ends| !is_controlled(ends));
    for ends in links {
        if ends.iter().any(|&end| layout.kind_at(end).is_routed()) {
            continue;
        }
        let [a, b] = ends.map(|end| leader_of(&mut leader, layout.ports[end].node));
        if a == b && !is_controlled(ends) {
            let [one, other] = ends.map(|end| layout.ports[end].id.as_str());
            return Err(LiveError::Failed(format!(
                "the link between {one} and {other} closes a loop of switches, in which frames would go round for ever; remove it, make one of the switches a router, or give all of them kind openflow"
            )));
        }
        leader[a] = b;
    }
    Ok(())
}

fn leader_of(leader: &mut [usize], mut node: usize) -> usize {
    while leader[node] != node {
        leader[node] = leader[leader[node]];
        node = leader[node];
    }
    node
}

/// Returns the link-layer address of each interface of a host or router that a switch reaches, with
/// the port that leads there.
pub(super) fn frames_by_port(layout: &Layout, switch: usize) -> Vec<(usize, Mac)> {
    let ports = layout.places[switch].interfaces.iter();
    let found = ports.flat_map(|&port| {
        let behind = interfaces_behind(layout, port).into_iter();
        behind.map(move |end| (port, mac_of(end)))
    });
    found.collect()
}

/// Returns the interfaces of hosts and routers to which frames that leave a port can go.
pub(super) fn interfaces_behind(layout: &Layout, port: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut passed = BTreeSet::from([layout.ports[port].node]);
    let mut to_visit = vec![layout.peer(port)];
    while let Some(end) = to_visit.pop() {
        let node = layout.ports[end].node;
        if layout.kind_at(end).is_routed() {
            found.push(end);
        } else if passed.insert(node) {
            let others = layout.interfaces_of_node[node].iter();
            let others = others.filter(|other| **other != end);
            to_visit.extend(others.map(|&other| layout.peer(other)));
        }
    }
    found
}
