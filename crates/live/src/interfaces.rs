//! Which interfaces are up, as events change it.

use std::collections::HashMap;

use netlab::resolved::{Action, Experiment, LinkDownBy};

/// The interfaces of an experiment.
pub(crate) struct Interfaces {
    index_of: HashMap<String, usize>,
    is_up: Vec<bool>,
    port_is_down: Vec<bool>,
    /// By link: its ends at routers, switches and access points.
    ports_of_link: HashMap<String, Vec<usize>>,
}

impl Interfaces {
    pub(crate) fn new(experiment: &Experiment) -> Self {
        let interfaces = experiment.interfaces.iter();
        let index_of: HashMap<_, _> = interfaces
            .enumerate()
            .map(|(index, interface)| (interface.id.clone(), index))
            .collect();
        let is_host = |node: &String| experiment.hosts.iter().any(|host| host.id == *node);
        let ports = |link: &netlab::resolved::Link| {
            let ends = [&link.a, &link.b].into_iter().map(|end| index_of[end]);
            let ports = ends.filter(|end| !is_host(&experiment.interfaces[*end].node));
            (link.id.clone(), ports.collect())
        };
        Self {
            ports_of_link: experiment.links.iter().map(ports).collect(),
            is_up: experiment
                .interfaces
                .iter()
                .map(|interface| interface.up)
                .collect(),
            port_is_down: vec![false; experiment.interfaces.len()],
            index_of,
        }
    }

    pub(crate) fn apply(&mut self, action: &Action) {
        let by_port = LinkDownBy::PortDown;
        match action {
            Action::InterfaceDown { interface } => self.is_up[self.index_of[interface]] = false,
            Action::InterfaceUp { interface } => self.is_up[self.index_of[interface]] = true,
            Action::LinkDown { link, by } if *by == by_port => self.set_ports(link, true),
            Action::LinkUp { link, by } if *by == by_port => self.set_ports(link, false),
            _ => {}
        }
    }

    fn set_ports(&mut self, link: &str, are_down: bool) {
        for port in &self.ports_of_link[link] {
            self.port_is_down[*port] = are_down;
        }
    }

    pub(crate) fn is_up(&self, index: usize) -> bool {
        self.is_up[index] && !self.port_is_down[index]
    }
}
