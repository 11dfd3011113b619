//! Switches and access points: a bridge each, which knows from the start behind which port every
//! interface of its subnet is.

use std::collections::VecDeque;

use super::addresses::{Layout, PlaceKind, mac_of};
use crate::LiveError;
use crate::network::netlink::Mac;

/// The name of the bridge. Ports of the description never have a name of this form.
pub(super) const BRIDGE: &str = "(bridge)";

/// Refuses switches that form a loop. Without a spanning tree frames would circulate for ever; with
/// one, links of the description would be blocked.
///
/// # Errors
/// Names the link that closes a loop.
pub(super) fn check_loops(layout: &Layout) -> Result<(), LiveError> {
    let mut leader: Vec<usize> = (0..layout.places.len()).collect();
    for ends in &layout.ends {
        if ends
            .iter()
            .any(|&end| layout.kind_at(end) != PlaceKind::Switch)
        {
            continue;
        }
        let [a, b] = ends.map(|end| leader_of(&mut leader, layout.ports[end].place));
        if a == b {
            let [one, other] = ends.map(|end| layout.ports[end].id.as_str());
            return Err(LiveError::Failed(format!(
                "the link between {one} and {other} closes a loop of switches, in which frames would go round for ever; remove it or make one of the switches a router"
            )));
        }
        leader[a] = b;
    }
    Ok(())
}

fn leader_of(leader: &mut [usize], mut place: usize) -> usize {
    while leader[place] != place {
        leader[place] = leader[leader[place]];
        place = leader[place];
    }
    place
}

/// Returns each interface of a host or router that a switch reaches, with the port that leads
/// there.
pub(super) fn frames_by_port(layout: &Layout, switch: usize) -> Vec<(usize, Mac)> {
    let mut found = Vec::new();
    for &port in &layout.places[switch].interfaces {
        let mut to_visit = VecDeque::from([layout.peer(port)]);
        while let Some(end) = to_visit.pop_front() {
            if layout.kind_at(end) != PlaceKind::Switch {
                found.push((port, mac_of(end)));
                continue;
            }
            let interfaces = &layout.places[layout.ports[end].place].interfaces;
            let others = interfaces.iter().filter(|other| **other != end);
            to_visit.extend(others.map(|&other| layout.peer(other)));
        }
    }
    found
}
