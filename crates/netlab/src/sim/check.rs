//! What an experiment asks for and the simulator cannot do, each with the reason.

use super::capabilities::capabilities;
use super::packet::UDP_HEADER_BYTES;
use crate::capabilities::{Capabilities, Missing};
use crate::flows::{MOST_FLOWS, path_mtu_bytes, port_of_flow, why_impossible};
use crate::registry::Registry;
use crate::resolved::{Application, Experiment, Flow, Transport};

/// Everything in a valid experiment that the simulator cannot do; empty if it can run it.
pub fn check(experiment: &Experiment, registry: &Registry) -> Vec<Missing> {
    let mut missing = Capabilities::new(&capabilities(registry)).check(experiment);
    for flow in &experiment.flows {
        missing.extend(why_impossible(flow).map(|why| Missing {
            feature: format!("flows.{}.app: {}", flow.id, flow.app.kind()),
            why,
        }));
        missing.extend(check_size(experiment, flow));
    }
    missing.extend(check_ports(experiment));
    missing
}

/// Flows that are not UDP are told apart by the ports at which they are accepted.
fn check_ports(experiment: &Experiment) -> Option<Missing> {
    let last = experiment.flows.len().checked_sub(1)?;
    port_of_flow(last).is_none().then(|| Missing {
        feature: format!("{} flows", experiment.flows.len()),
        why: format!("each has a port of its own, and there are {MOST_FLOWS}"),
    })
}

/// A datagram is one packet: it must fit the smallest MTU of its path.
fn check_size(experiment: &Experiment, flow: &Flow) -> Option<Missing> {
    let size_bytes = match flow.app {
        Application::Cbr { size_bytes, .. } | Application::Probe { size_bytes, .. }
            if flow.transport == Transport::Udp =>
        {
            size_bytes
        }
        _ => return None,
    };
    let mtu_bytes = path_mtu_bytes(experiment, flow.paths.first()?)?;
    (size_bytes + UDP_HEADER_BYTES > mtu_bytes).then(|| Missing {
        feature: format!("flows.{}.app.size_bytes: {size_bytes}", flow.id),
        why: format!(
            "with {UDP_HEADER_BYTES} bytes of headers it exceeds the path's MTU of {mtu_bytes} bytes, and the simulator does not fragment"
        ),
    })
}
