//! Outages by rules that drop: an entry above all others at the switches of a link. A thread of
//! their own changes the rules, because samples and files keep that of the run busy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use experiment::time::Nanos;
use serde::Serialize;

use super::cached_flows::CachedFlows;
use super::openflow::{Change, Connection, DropRule, Match};
use super::plan::Switch;
use crate::{Clock, Hosts, LiveError, sys};

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

/// The rules of all links, and the connections over which they are changed.
struct Rules {
    /// By switch.
    connections: Vec<Connection>,
    cached_flows: CachedFlows,
    /// The rules of each link that has a controlled switch, by index of the switch.
    of_links: BTreeMap<String, Vec<(usize, Vec<DropRule>)>>,
}

impl Rules {
    /// Adds or removes the rules of a link, and waits until the switches act by it.
    fn change(&mut self, order: &RuleOrder, clock: Clock) -> Result<RuleChange, LiveError> {
        let sent_ns = clock.now();
        let mut barriers = Vec::new();
        for (switch, rules) in self.of_links.get(&order.link).into_iter().flatten() {
            let barrier = self.connections[*switch].begin(order.change, rules)?;
            barriers.push((*switch, barrier));
        }
        for (switch, barrier) in barriers {
            self.connections[switch].await_barrier(barrier)?;
        }
        let answered_ns = clock.now();
        self.cached_flows.remove()?;
        Ok(RuleChange {
            event: order.event.clone(),
            link: order.link.clone(),
            added: order.change == Change::Add,
            sent_ns,
            answered_ns,
        })
    }
}

/// A change of the rules of a link.
#[derive(Clone, Debug)]
pub(super) struct RuleOrder {
    pub(super) at_ns: Nanos,
    pub(super) change: Change,
    pub(super) link: String,
    /// Id of the event.
    pub(super) event: String,
}

/// The outages of a run. Dropping it ends its thread.
pub(super) struct Outages {
    links: BTreeSet<String>,
    /// The rules, until the thread has them.
    rules: Option<Rules>,
    /// The events of which the thread knows.
    known: BTreeSet<String>,
    orders: Option<Sender<RuleOrder>>,
    changes: Option<Receiver<Result<RuleChange, LiveError>>>,
    /// Changes that the thread has made and nobody has asked for yet, by event.
    made: BTreeMap<String, RuleChange>,
    thread: Option<JoinHandle<()>>,
}

impl Outages {
    /// Prepares the rules of all links.
    pub(super) fn new(
        switches: &[Switch],
        connections: Vec<Connection>,
        cached_flows: CachedFlows,
        hosts: &Hosts,
    ) -> Self {
        let of_links = rules_of_links(switches, hosts);
        Self {
            links: of_links.keys().cloned().collect(),
            rules: Some(Rules {
                connections,
                cached_flows,
                of_links,
            }),
            known: BTreeSet::new(),
            orders: None,
            changes: None,
            made: BTreeMap::new(),
            thread: None,
        }
    }

    /// Returns whether controlled switches can drop what passes a link.
    pub(super) fn has(&self, link: &str) -> bool {
        self.links.contains(link)
    }

    /// Starts the thread, which carries out `scheduled` at their times.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn begin(
        &mut self,
        scheduled: Vec<RuleOrder>,
        clock: Clock,
    ) -> Result<(), LiveError> {
        let Some(mut rules) = self.rules.take() else {
            return Ok(());
        };
        self.known = scheduled.iter().map(|order| order.event.clone()).collect();
        let (orders, ordered) = channel();
        let (done, changes) = channel();
        let run = move || {
            // Without the right to do so it runs among them.
            let _ = sys::run_before_ordinary_threads();
            let mut waiting = scheduled;
            while let Some(order) = next_due(&mut waiting, &ordered, clock) {
                if done.send(rules.change(&order, clock)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("outages".to_owned()).spawn(run);
        let doing = "starting the thread for outages";
        self.thread = Some(thread.map_err(LiveError::while_(doing))?);
        (self.orders, self.changes) = (Some(orders), Some(changes));
        Ok(())
    }

    /// Returns the change that the thread has made for a scheduled order, or has it make that of
    /// another one.
    ///
    /// # Errors
    /// A switch refuses, or does not answer.
    pub(super) fn carry_out(&mut self, order: RuleOrder) -> Result<RuleChange, LiveError> {
        let ended = || LiveError::Failed("the thread for outages has ended".to_owned());
        let event = order.event.clone();
        if !self.known.contains(&event) {
            let orders = self.orders.as_ref().ok_or_else(ended)?;
            orders.send(order).map_err(|_| ended())?;
        }
        loop {
            if let Some(made) = self.made.remove(&event) {
                return Ok(made);
            }
            let changes = self.changes.as_ref().ok_or_else(ended)?;
            let change = changes.recv().map_err(|_| ended())??;
            self.made.insert(change.event.clone(), change);
        }
    }
}

impl Drop for Outages {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for the next order that is due. Returns `None` once no more can come.
fn next_due(
    waiting: &mut Vec<RuleOrder>,
    ordered: &Receiver<RuleOrder>,
    clock: Clock,
) -> Option<RuleOrder> {
    loop {
        waiting.sort_by_key(|order| order.at_ns);
        let next_at = waiting.first().map(|order| order.at_ns);
        if next_at.is_some_and(|at| at <= clock.now()) {
            return Some(waiting.remove(0));
        }
        let patience = next_at.map_or(Duration::MAX, |at| clock.until(at));
        match ordered.recv_timeout(patience) {
            Ok(order) => waiting.push(order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Returns the rules of each link that has a controlled switch, by index of the switch.
fn rules_of_links(
    switches: &[Switch],
    hosts: &Hosts,
) -> BTreeMap<String, Vec<(usize, Vec<DropRule>)>> {
    let mut rules: BTreeMap<String, Vec<(usize, Vec<DropRule>)>> = BTreeMap::new();
    let is_controlled = |node: &str| switches.iter().any(|switch| switch.name == node);
    for (index, switch) in switches.iter().enumerate() {
        for port in &switch.ports {
            let mut selected = vec![Match::InPort(port.number)];
            // What leaves towards another controlled switch arrives at a port of that one.
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
    rules
}
