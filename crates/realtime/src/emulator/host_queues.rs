//! Reports to hosts with the userspace stack when packets that wait for the first link have left.

use emulation::link::Enqueued;
use experiment::time::Nanos;

use super::fabric::Fabric;
use crate::userspace::{Awaited, Message};

impl Fabric {
    /// Records that a link was offered a packet of the host at a port.
    pub(super) fn enter_host_queue(
        &mut self,
        now: Nanos,
        port: usize,
        enqueued: Enqueued,
        awaited: Option<Awaited>,
    ) {
        let Some(place) = self.host_queues.place(self.ports[port].outgoing) else {
            return;
        };
        let waits = enqueued == Enqueued::Queued
            && self.host_queues.enter(now, place, awaited, &mut self.links);
        match waits {
            true => self.look_again_at_host(now, place),
            false => self.report_departure(port, awaited),
        }
    }

    /// Reports departed packets to their hosts.
    pub(super) fn leave_hosts(&mut self, now: Nanos) {
        for place in 0..self.leaving.len() {
            if self.leaving[place].is_none_or(|at| at > now) {
                continue;
            }
            let direction = self.host_queues.directions()[place];
            let from = self
                .ports
                .iter()
                .position(|port| port.outgoing == direction);
            let from = from.expect("each direction begins at a port");
            while let Some(awaited) = self.host_queues.leave(now, place, &mut self.links) {
                self.report_departure(from, awaited);
            }
            self.look_again_at_host(now, place);
        }
    }

    pub(super) fn look_again_at_host(&mut self, now: Nanos, place: usize) {
        self.leaving[place] = self.host_queues.next_leave(now, place, &mut self.links);
    }

    /// Reports a departure even if the mailbox is full: without it the subflow would wait for ever.
    pub(super) fn report_departure(&self, port: usize, awaited: Option<Awaited>) {
        if let (Some(stack), Some(awaited)) = (&self.ports[port].stack, awaited) {
            stack.put_always(Message::Departed(awaited));
        }
    }
}
