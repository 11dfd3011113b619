//! What the simulator cannot do, each with the reason.

use super::packet::UDP_HEADER_BYTES;
use crate::resolved::{
    Action, Application, Experiment, FirstHop, Flow, Host, Path, Stack, Transport,
};

/// A feature that an experiment asks for and the simulator does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Where it is asked for, and what.
    pub feature: String,
    /// Why it is not there.
    pub why: String,
}

const NEEDS_ENGINE: &str = "arrives with the protocol engine";
const NEEDS_KERNEL: &str =
    "runs programs, which need a real kernel: use the kernel or userspace back-end";

/// Everything in a valid experiment that the simulator cannot do; empty if it can run it.
pub fn check(experiment: &Experiment) -> Vec<Missing> {
    let hosts = experiment.hosts.iter().flat_map(check_host);
    let flows = experiment
        .flows
        .iter()
        .flat_map(|flow| check_flow(experiment, flow));
    let events = experiment.events.iter().filter_map(|event| {
        let why = check_action(&event.action)?;
        Some(missing(
            format!("events.{}: {}", event.id, kind_of(&event.action)),
            why,
        ))
    });
    let captures = experiment.measure.captures.iter();
    let captures = captures.map(|id| {
        missing(
            format!("measure.captures: {id}"),
            "the simulator does not write capture files yet",
        )
    });
    hosts.chain(flows).chain(events).chain(captures).collect()
}

/// Why the simulator cannot carry out an action; `None` if it can.
pub(super) fn check_action(action: &Action) -> Option<&'static str> {
    match action {
        Action::Exec { .. } => Some(NEEDS_KERNEL),
        Action::SetBackup { .. } => Some(NEEDS_ENGINE),
        _ => None,
    }
}

pub(super) fn kind_of(action: &Action) -> &'static str {
    match action {
        Action::InterfaceDown { .. } => "interface_down",
        Action::InterfaceUp { .. } => "interface_up",
        Action::LinkDown { .. } => "link_down",
        Action::LinkUp { .. } => "link_up",
        Action::SetLink { .. } => "set_link",
        Action::AddressAdd { .. } => "address_add",
        Action::AddressRemove { .. } => "address_remove",
        Action::SetBackup { .. } => "set_backup",
        Action::Exec { .. } => "exec",
    }
}

fn missing(feature: String, why: impl Into<String>) -> Missing {
    Missing {
        feature,
        why: why.into(),
    }
}

fn check_host(host: &Host) -> Vec<Missing> {
    let stack = match host.stack {
        Stack::Backend => None,
        Stack::Kernel => Some((
            "kernel",
            "the simulator has no kernel: use the kernel back-end",
        )),
        Stack::Userspace => Some((
            "userspace",
            "our stack in real time needs the userspace back-end",
        )),
    };
    let stack = stack.map(|(name, why)| missing(format!("hosts.{}.stack: {name}", host.id), why));
    let first_hop = (host.first_hop == FirstHop::Host).then(|| {
        missing(
            format!("hosts.{}.first_hop: host", host.id),
            "back-pressure on a sender's stack arrives with the protocol engine",
        )
    });
    stack.into_iter().chain(first_hop).collect()
}

fn check_flow(experiment: &Experiment, flow: &Flow) -> Vec<Missing> {
    let transport = match flow.transport {
        Transport::Udp => None,
        Transport::Tcp => Some("tcp"),
        Transport::Mptcp => Some("mptcp"),
    };
    let transport =
        transport.map(|name| missing(format!("flows.{}.transport: {name}", flow.id), NEEDS_ENGINE));
    transport
        .into_iter()
        .chain(check_application(experiment, flow))
        .collect()
}

fn check_application(experiment: &Experiment, flow: &Flow) -> Option<Missing> {
    let why = match &flow.app {
        Application::Cbr { size_bytes, .. } | Application::Probe { size_bytes, .. } => {
            return check_size(experiment, flow, *size_bytes);
        }
        Application::Iperf3 { .. } | Application::Command { .. } => NEEDS_KERNEL,
        Application::Bulk { .. }
        | Application::RequestResponse { .. }
        | Application::ShortFlows { .. }
        | Application::Streaming { .. } => NEEDS_ENGINE,
    };
    Some(missing(
        format!("flows.{}.app: {}", flow.id, flow.app.kind()),
        why,
    ))
}

/// A datagram is one packet: it must fit the smallest MTU of its path.
fn check_size(experiment: &Experiment, flow: &Flow, size_bytes: u32) -> Option<Missing> {
    if flow.transport != Transport::Udp {
        return None;
    }
    let mtu_bytes = flow
        .paths
        .first()
        .and_then(|path| path_mtu_bytes(experiment, path))?;
    (size_bytes + UDP_HEADER_BYTES > mtu_bytes).then(|| {
        let why = format!(
            "with {UDP_HEADER_BYTES} bytes of headers it exceeds the path's MTU of {mtu_bytes} bytes, and the simulator does not fragment"
        );
        missing(format!("flows.{}.app.size_bytes: {size_bytes}", flow.id), why)
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
