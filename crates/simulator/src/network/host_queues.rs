//! The queues of hosts with `first_hop: host`. Each queue is an entity that acts when a packet
//! leaves it.

use experiment::time::Nanos;
use mptcp::pm::FourTuple;

use super::Network;
use crate::event_queue::{Deadlines, EntityId};
use crate::packet::{Content, Packet};

/// The owner of a packet in the queue of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    /// A segment with data, seen from its sender.
    Segment { four: FourTuple, payload_bytes: u32 },
    /// A datagram of an application.
    Datagram { application: usize },
    /// No sender waits for it.
    Other,
}

impl Network {
    /// Returns the number of host queues.
    pub(crate) fn host_queue_count(&self) -> usize {
        self.host_queues.count()
    }

    /// Sets the entity of the first host queue. The others follow.
    pub(crate) fn set_first_host_queue(&mut self, entity: EntityId) {
        self.first_host_queue = entity;
    }

    /// Returns the interface at which a host queue stands.
    pub(crate) fn interface_of_host_queue(&self, place: usize) -> usize {
        let direction = self.host_queues.directions()[place];
        self.ends_of(direction)[0]
    }

    /// Returns the packet that has just joined a host queue, with the queue, if there is one.
    #[inline]
    pub(crate) fn take_newly_waiting(&mut self) -> Option<(usize, Waiting)> {
        self.newly_waiting.take()
    }

    /// Handles a packet that a link accepted from the host before it.
    #[cold]
    pub(super) fn enter_host_queue(
        &mut self,
        now: Nanos,
        place: usize,
        packet: &Packet,
        deadlines: &mut Deadlines,
    ) {
        let waiting = self.waiting(packet);
        if self.host_queues.enter(now, place, waiting, &mut self.links) {
            self.newly_waiting = Some((place, waiting));
            self.schedule_host_queue(now, place, deadlines);
        }
    }

    fn waiting(&self, packet: &Packet) -> Waiting {
        match packet.content {
            Content::Datagram(datagram) if !packet.is_answer() => Waiting::Datagram {
                application: datagram.application as usize,
            },
            Content::Datagram(_) => Waiting::Other,
            Content::Segment(segment) => {
                let packet = self.segments.get(segment.id);
                match packet.segment.payload.len() {
                    0 => Waiting::Other,
                    payload_bytes => Waiting::Segment {
                        four: FourTuple::of_sender_of(packet),
                        payload_bytes,
                    },
                }
            }
        }
    }

    /// Returns the next packet that has left a host queue.
    pub(crate) fn leave_host_queue(&mut self, now: Nanos, place: usize) -> Option<Waiting> {
        self.host_queues.leave(now, place, &mut self.links)
    }

    /// Sets the deadline at which the next packet leaves a host queue.
    pub(crate) fn schedule_host_queue(
        &mut self,
        now: Nanos,
        place: usize,
        deadlines: &mut Deadlines,
    ) {
        let next = self.host_queues.next_leave(now, place, &mut self.links);
        let entity = EntityId(self.first_host_queue.0 + place as u32);
        deadlines.set(entity, next.map(|at| at.max(now)));
    }
}
