//! From addresses to interfaces, links and hosts of the description.

use std::collections::HashMap;
use std::net::IpAddr;

use netlab::resolved::{Experiment, Flow, FlowEnd};

use super::state::{SubflowResult, SubflowState};
use crate::traffic::port_of_flow;

/// Where the flows of an experiment run.
pub(super) struct Places {
    interface_of: HashMap<IpAddr, String>,
    link_of_interface: HashMap<String, String>,
    flows: Vec<Flow>,
}

impl Places {
    pub(super) fn new(experiment: &Experiment) -> Self {
        let mut interface_of = HashMap::new();
        let mut link_of_interface = HashMap::new();
        for interface in &experiment.interfaces {
            for address in [&interface.ipv4, &interface.ipv6].into_iter().flatten() {
                let ip = address.split('/').next().and_then(|ip| ip.parse().ok());
                interface_of.extend(ip.map(|ip: IpAddr| (ip, interface.id.clone())));
            }
            link_of_interface.insert(interface.id.clone(), interface.link.clone());
        }
        Self {
            interface_of,
            link_of_interface,
            flows: experiment.flows.clone(),
        }
    }

    /// Id of the host that sends a flow's data.
    pub(super) fn sender(&self, flow: usize) -> &str {
        &self.flows[flow].from
    }

    pub(super) fn result(&self, flow: usize, state: &SubflowState) -> SubflowResult {
        let interface = self.interface_of.get(&state.local.ip());
        let remote_interface = self.interface_of.get(&state.remote.ip());
        SubflowResult {
            id: state.number,
            local: state.local.to_string(),
            remote: state.remote.to_string(),
            interface: interface.cloned(),
            remote_interface: remote_interface.cloned(),
            link: self.link(flow, interface, remote_interface),
            opened_ns: state.opened_ns.unwrap_or(0),
            closed_ns: state.closed_ns,
            bytes: state.bytes(),
            retransmitted_bytes: state.retransmitted_bytes.unwrap_or(0),
            opened_by: self.opener(flow, state).to_owned(),
        }
    }

    /// The first link of the path; what is no path of the description leaves by the interface's own link.
    fn link(&self, flow: usize, local: Option<&String>, remote: Option<&String>) -> Option<String> {
        let paths = &self.flows[flow].paths;
        let path = paths
            .iter()
            .find(|path| Some(&path.local) == local && Some(&path.remote) == remote);
        let first = path.and_then(|path| path.hops.first());
        first
            .map(|hop| hop.link.clone())
            .or_else(|| self.link_of_interface.get(local?).cloned())
    }

    /// Who opened it did not do so from the flow's port, at which the other listens.
    fn opener(&self, flow: usize, state: &SubflowState) -> &str {
        let described = &self.flows[flow];
        let port = port_of_flow(flow).ok();
        if Some(state.local.port()) == port {
            &described.to
        } else if Some(state.remote.port()) == port {
            &described.from
        } else {
            match described.opened_by {
                FlowEnd::From => &described.from,
                FlowEnd::To => &described.to,
            }
        }
    }
}
