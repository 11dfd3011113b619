//! The hop of a packet over links that do nothing but carry it. Most hops of a run are of this kind,
//! so it is one short function. All other hops go through `arrive` and `send`, with the same effect.

use emulation::link::Enqueued;
use experiment::time::Nanos;

use super::{DropPlace, Fate, Network, Passage, dropped};
use crate::event_queue::Deadlines;
use crate::packet::Packet;

/// Marks a link direction that is not plain.
const NONE: u32 = u32::MAX;

/// The plain link directions, each with its channel. A direction is plain if it is on no medium, no
/// rule drops its packets, packets pass both its ends freely and uncaptured, and no host waits for
/// them to leave.
pub(super) struct PlainHops(Vec<u32>);

impl PlainHops {
    /// Returns `directions` link directions, none of them plain.
    pub(super) fn new(directions: usize) -> Self {
        Self(vec![NONE; directions])
    }

    /// Returns the channel of a direction, if it is plain.
    fn channel(&self, direction: usize) -> Option<usize> {
        let channel = self.0[direction];
        (channel != NONE).then_some(channel as usize)
    }
}

impl Network {
    /// Finds out whether a link direction is plain. Call it after each change of what that depends
    /// on.
    pub(super) fn update_plain(&mut self, direction: usize) {
        let mut ends = self.ends_of(direction).into_iter();
        let are_free = ends.all(|interface| {
            self.passages[interface] == Passage::Open && !self.captures.has(interface)
        });
        let is_plain = are_free && self.host_queues.place(direction).is_none();
        let channel = self.links.channel_alone(direction);
        let channel = channel.filter(|_| is_plain);
        self.plain.0[direction] = channel.map_or(NONE, |channel| channel as u32);
    }

    /// Moves a packet that has left its link to the next one, or delivers it. Returns `None` if it
    /// continues from there.
    #[inline]
    pub(super) fn hop(
        &mut self,
        now: Nanos,
        mut packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let (direction, next) = self.routes.direction_and_next(packet.hop);
        if self.plain.channel(direction).is_none() {
            return self.arrive(now, direction, packet, deadlines);
        }
        packet.hop += 1;
        let Some(next) = next else {
            return self.go_on(now, packet, deadlines);
        };
        let Some(channel) = self.plain.channel(next) else {
            return self.send(now, next, packet, deadlines);
        };
        let is_settled = self.links.is_settled(channel);
        let enqueued = self.links.offer_alone(now, channel, packet);
        if !is_settled {
            self.schedule(now, channel, deadlines);
        }
        match enqueued {
            Enqueued::Queued => None,
            Enqueued::Dropped(reason) => {
                let direction = next;
                Some(dropped(packet, DropPlace::Link { direction, reason }))
            }
        }
    }
}
