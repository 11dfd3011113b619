//! What waits in hosts that feel their own first link. Each such queue is an entity: it acts when a packet leaves it.

use mptcp::pm::FourTuple;

use super::Network;
use crate::sim::event_queue::{Deadlines, EntityId};
use crate::sim::packet::{Content, Packet};
use crate::time::Nanos;

/// What a packet in the queue of a host is to its sender.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Waiting {
    /// Data of a subflow, seen from its sender.
    Segment { four: FourTuple, payload_bytes: u32 },
    /// A datagram of an application.
    Datagram { application: usize },
    /// Nobody waits for it.
    Other,
}

impl Network {
    /// How many queues of hosts there are.
    pub(in crate::sim) fn host_queue_count(&self) -> usize {
        self.host_queues.count()
    }

    /// Says which entity the first is; the others follow.
    pub(in crate::sim) fn set_first_host_queue(&mut self, entity: EntityId) {
        self.first_host_queue = entity;
    }

    /// The interface before which a queue of a host stands.
    pub(in crate::sim) fn interface_of_host_queue(&self, place: usize) -> usize {
        let direction = self.host_queues.directions()[place];
        self.ends_of(direction)[0]
    }

    /// The packet that has just joined the queue of a host, and that queue, if one has.
    #[inline]
    pub(in crate::sim) fn take_newly_waiting(&mut self) -> Option<(usize, Waiting)> {
        self.newly_waiting.take()
    }

    /// A link has taken a packet from the host before it.
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

    /// The next packet that has left the queue of a host.
    pub(in crate::sim) fn leave_host_queue(&mut self, now: Nanos, place: usize) -> Option<Waiting> {
        self.host_queues.leave(now, place, &mut self.links)
    }

    /// Tells the event queue when the next packet leaves the queue of a host.
    pub(in crate::sim) fn schedule_host_queue(
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
