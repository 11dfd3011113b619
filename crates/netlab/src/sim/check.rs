//! What an experiment asks for and the simulator cannot do, each with the reason.

use super::capabilities::capabilities;
use super::packet::UDP_HEADER_BYTES;
use crate::capabilities::{Capabilities, Missing};
use crate::resolved::{Application, Experiment, Flow, Path, Transport};

/// Everything in a valid experiment that the simulator cannot do; empty if it can run it.
pub fn check(experiment: &Experiment) -> Vec<Missing> {
    let mut missing = Capabilities::new(capabilities()).check(experiment);
    let flows = experiment.flows.iter();
    missing.extend(flows.filter_map(|flow| check_size(experiment, flow)));
    missing
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

fn path_mtu_bytes(experiment: &Experiment, path: &Path) -> Option<u32> {
    let is_on_path = |link: &String| path.hops.iter().any(|hop| hop.link == *link);
    let interfaces = experiment
        .interfaces
        .iter()
        .filter(|interface| is_on_path(&interface.link));
    interfaces.map(|interface| interface.mtu_bytes).min()
}
