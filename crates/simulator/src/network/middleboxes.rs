//! Middleboxes at the ends of links. All of them are one entity. Packets that leave them continue
//! at the same time, when that entity acts.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use emulation::middlebox::{Chain, Heading, MiddleboxSummary, Passing, summaries};
use experiment::resolved::Experiment;
use experiment::time::Nanos;

use super::{DropPlace, Fate, Network, Passage, dropped};
use crate::event_queue::{Deadlines, EntityId};
use crate::packet::{Content, Packet};

/// Chains of middleboxes by interface.
pub(super) struct Middleboxes {
    chains: BTreeMap<usize, Chain>,
    /// Set before the first packet is sent.
    entity: EntityId,
}

impl Middleboxes {
    pub(super) fn new(experiment: &Experiment, seed: u64) -> Self {
        let interfaces = experiment.interfaces.iter().enumerate();
        let chains = interfaces
            .filter_map(|(index, one)| Some((index, Chain::before(experiment, seed, &one.id)?)));
        Self {
            chains: chains.collect(),
            entity: EntityId(u32::MAX),
        }
    }

    /// Returns how packets pass an interface that is up.
    pub(super) fn passage(&self, interface: usize) -> Passage {
        match self.chains.contains_key(&interface) {
            true => Passage::Watched,
            false => Passage::Open,
        }
    }
}

impl Network {
    /// Sets their entity.
    pub(crate) fn set_middlebox_entity(&mut self, entity: EntityId) {
        self.middleboxes.entity = entity;
    }

    /// Passes a segment to the middleboxes at an interface. Returns any other packet, because
    /// middleboxes do not handle it.
    pub(super) fn enter_middleboxes(
        &mut self,
        now: Nanos,
        interface: usize,
        heading: Heading,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Packet> {
        let Content::Segment(segment) = packet.content else {
            return Some(packet);
        };
        match heading {
            Heading::Leaving => self.interfaces[interface].sent_beyond += 1,
            Heading::Arriving => self.interfaces[interface].received_beyond -= 1,
        }
        let passing = Passing::new(self.segments.take(segment.id), None);
        let chain = self.middleboxes.chains.get_mut(&interface);
        let chain = chain.expect("they make its passage a watched one");
        chain.enter(now, heading, passing);
        deadlines.set(self.middleboxes.entity, Some(now));
        None
    }

    /// Calls the middleboxes whose timeout has expired.
    pub(crate) fn wake_middleboxes(&mut self, now: Nanos) {
        for chain in self.middleboxes.chains.values_mut() {
            chain.handle_timeout(now);
        }
    }

    /// Moves the next packet out of the middleboxes. Returns `None` if there is none, and
    /// `Some(None)` if it continues.
    pub(crate) fn leave_middleboxes(
        &mut self,
        now: Nanos,
        deadlines: &mut Deadlines,
    ) -> Option<Option<Fate>> {
        let mut chains = self.middleboxes.chains.iter_mut();
        let (interface, (heading, passing)) =
            chains.find_map(|(index, chain)| Some((*index, chain.poll_output()?)))?;
        let packet = self.packet_behind(interface, heading, passing);
        Some(packet.and_then(|packet| match heading {
            _ if self.passages[interface] == Passage::Down => {
                Some(dropped(packet, DropPlace::InterfaceDown { interface }))
            }
            Heading::Leaving => {
                self.interfaces[interface].sent_beyond -= 1;
                let direction = self.interfaces[interface].outgoing;
                self.offer(now, direction, packet, deadlines)
            }
            Heading::Arriving => {
                self.interfaces[interface].received_beyond += 1;
                self.arrive_behind(now, interface, packet, deadlines)
            }
        }))
    }

    /// Returns a segment that has passed middleboxes, with its route and hop. Drops it if no route
    /// between its ends leads over this link.
    fn packet_behind(
        &mut self,
        interface: usize,
        heading: Heading,
        passing: Passing,
    ) -> Option<Packet> {
        let (packet, _) = passing.into_parts();
        let source = SocketAddr::new(packet.source, packet.segment.source_port);
        let destination = SocketAddr::new(packet.destination, packet.segment.destination_port);
        let outgoing = self.interfaces[interface].outgoing;
        let direction = match heading {
            Heading::Leaving => outgoing,
            Heading::Arriving => outgoing ^ 1,
        };
        let route = self.route(source, destination, &packet.via);
        let way = route.and_then(|route| Some((route, self.routes.hop_over(route, direction)?)));
        let Some((route, hop)) = way else {
            self.interfaces[interface].dropped_no_route += 1;
            return None;
        };
        let mut packet = self.segments.send(route, packet);
        packet.hop = hop;
        Some(packet)
    }

    /// Sets the deadline at which middleboxes act without a packet.
    pub(crate) fn schedule_middleboxes(&self, deadlines: &mut Deadlines) {
        let chains = self.middleboxes.chains.values();
        let next = chains.filter_map(Chain::poll_timeout).min();
        deadlines.set(self.middleboxes.entity, next);
    }

    /// Returns the summaries of all middleboxes.
    pub(crate) fn middlebox_summaries(&self) -> Vec<MiddleboxSummary> {
        summaries(self.middleboxes.chains.values())
    }
}
