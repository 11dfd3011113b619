//! Outages by rules that drop: an entry above all others at the switches of a link.

use std::collections::BTreeMap;

use experiment::time::Nanos;
use serde::Serialize;

use super::openflow::{Change, Connection, DropRule, Match};
use super::plan::Switch;
use crate::{Clock, Hosts, LiveError};

/// The highest priority of an entry.
const HIGHEST: u16 = u16::MAX;
/// "mp", by which others know the entries of a run.
const COOKIE: u64 = 0x6d70;

/// A change of the rules of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleChange {
    /// Id of the event.
    pub event: String,
    /// Id of the link.
    pub link: String,
    /// Whether the rules were added, not removed.
    pub added: bool,
    /// When the first switch was told.
    pub sent_ns: Nanos,
    /// When the last switch had answered the barrier (OpenFlow 1.3, section 7.3.8).
    pub answered_ns: Nanos,
}

/// Changes the rules of links.
pub(super) struct Outages {
    /// By switch.
    connections: Vec<Connection>,
    /// The rules of each link that has a switch under control, by index of the switch.
    rules: BTreeMap<String, Vec<(usize, Vec<DropRule>)>>,
}

impl Outages {
    /// Prepares the rules of all links.
    pub(super) fn new(switches: &[Switch], connections: Vec<Connection>, hosts: &Hosts) -> Self {
        let mut rules: BTreeMap<String, Vec<(usize, Vec<DropRule>)>> = BTreeMap::new();
        let is_controlled = |node: &str| switches.iter().any(|switch| switch.name == node);
        for (index, switch) in switches.iter().enumerate() {
            for port in &switch.ports {
                let mut selected = vec![Match::InPort(port.number)];
                // What leaves towards another switch under control arrives at a port of that one.
                if !is_controlled(&port.far_node) {
                    let behind = hosts.frames_behind(port.index).into_iter();
                    selected.extend(behind.map(Match::Destination));
                }
                let of_port = selected.into_iter().map(|selects| DropRule {
                    priority: HIGHEST,
                    cookie: COOKIE,
                    selects,
                });
                let of_link = rules.entry(port.link.clone()).or_default();
                of_link.push((index, of_port.collect()));
            }
        }
        Self { connections, rules }
    }

    /// Returns whether switches under control can drop what passes a link.
    pub(super) fn has(&self, link: &str) -> bool {
        self.rules.contains_key(link)
    }

    /// Adds or removes the rules of a link, and waits until the switches have done it.
    ///
    /// # Errors
    /// A switch refuses, or does not answer.
    pub(super) fn change(
        &mut self,
        change: Change,
        link: &str,
        event: &str,
        clock: Clock,
    ) -> Result<RuleChange, LiveError> {
        let sent_ns = clock.now();
        let mut barriers = Vec::new();
        for (switch, rules) in self.rules.get(link).into_iter().flatten() {
            barriers.push((*switch, self.connections[*switch].begin(change, rules)?));
        }
        for (switch, barrier) in barriers {
            self.connections[switch].await_barrier(barrier)?;
        }
        Ok(RuleChange {
            event: event.to_owned(),
            link: link.to_owned(),
            added: change == Change::Add,
            sent_ns,
            answered_ns: clock.now(),
        })
    }
}
