//! Middleboxes at the ends of links. They are one entity: what comes out of them goes on at the same instant, when it has its turn.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{DropPlace, Fate, Network, Passage, dropped};
use crate::middlebox::{Chain, Heading, MiddleboxSummary, Passing, summaries};
use crate::resolved::Experiment;
use crate::sim::event_queue::{Deadlines, EntityId};
use crate::sim::packet::{Content, Packet};
use crate::time::Nanos;

/// By the interface before which they stand.
pub(super) struct Middleboxes {
    chains: BTreeMap<usize, Chain>,
    /// Set before anything is sent.
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

    /// How packets pass an interface that is up.
    pub(super) fn passage(&self, interface: usize) -> Passage {
        match self.chains.contains_key(&interface) {
            true => Passage::Watched,
            false => Passage::Open,
        }
    }
}

impl Network {
    /// Says which entity they are.
    pub(in crate::sim) fn set_middlebox_entity(&mut self, entity: EntityId) {
        self.middleboxes.entity = entity;
    }

    /// Gives a segment to the middleboxes before an interface; all else passes them, and is given back.
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

    /// Lets those middleboxes act whose time has come.
    pub(in crate::sim) fn wake_middleboxes(&mut self, now: Nanos) {
        for chain in self.middleboxes.chains.values_mut() {
            chain.handle_timeout(now);
        }
    }

    /// Takes the next packet that is through to where it goes: `None` if there is none, `Some(None)` if it goes on from there.
    pub(in crate::sim) fn leave_middleboxes(
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

    /// A segment, changed perhaps, on the way between its ends that leads by here; without one it is dropped.
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

    /// Tells the event queue when middleboxes act without a packet.
    pub(in crate::sim) fn schedule_middleboxes(&self, deadlines: &mut Deadlines) {
        let chains = self.middleboxes.chains.values();
        let next = chains.filter_map(Chain::poll_timeout).min();
        deadlines.set(self.middleboxes.entity, next);
    }

    /// What they have done.
    pub(in crate::sim) fn middlebox_summaries(&self) -> Vec<MiddleboxSummary> {
        summaries(self.middleboxes.chains.values())
    }
}
