//! Which contenders have packets that they can send, and from when on.

use experiment::time::Nanos;

use super::{Sender, WifiAir};
use crate::link::{Packet, StationId};

impl<P: Packet> WifiAir<P> {
    /// Takes packets for the stations from their queues, as far as the driver of the access point
    /// has room.
    pub(super) fn refill(&mut self, now: Nanos) {
        let mut pending = std::mem::take(&mut self.pending);
        let of_client = |client: usize| self.lanes[self.lane_of(client, false)].pending(self);
        pending.extend((0..self.clients.len()).map(of_client));
        let (access_point, stations) = (&mut self.access_point, &mut self.stations);
        let lanes = &self.lanes;
        let downlink = |client: usize| 2 * client + usize::from(lanes[2 * client].is_uplink);
        access_point.refill(&pending, |client| {
            stations.serve_next(now, StationId(downlink(client) as u32))
        });
        pending.clear();
        self.pending = pending;
    }

    /// Makes a contender ready from when on it has packets that it can send. Returns whether that
    /// has changed.
    pub(super) fn update_ready(&mut self, now: Nanos, contender: usize) -> bool {
        let at = match self.senders[contender] {
            Sender::Client(client) => {
                let waits = self.has_packets_of(client);
                waits.then(|| self.clients[client].presence.next(now, true))
            }
            Sender::AccessPoint(category) => self.next_receiver(now, category),
            Sender::Neighbour(_) => return false,
        };
        self.set_ready(now, contender, at)
    }

    /// Makes a contender ready from `at` on. Returns whether that has changed.
    #[inline]
    pub(super) fn set_ready(&mut self, now: Nanos, contender: usize, at: Option<Nanos>) -> bool {
        match (at, self.contention.ready(contender)) {
            (None, None) => false,
            (None, Some(_)) => {
                self.contention.clear_ready(contender);
                true
            }
            // It is ready already, unless its receivers have left the channel.
            (Some(at), Some(ready)) if ready <= now && at <= now => false,
            (Some(at), Some(ready)) if ready == at => false,
            (Some(at), _) => {
                self.contention.set_ready(contender, at);
                true
            }
        }
    }

    /// Returns when the access point can send packets of a category that it has.
    pub(super) fn next_receiver(&mut self, now: Nanos, category: usize) -> Option<Nanos> {
        let mut first = None;
        for client in 0..self.clients.len() {
            if self.clients[client].category != category || !self.has_packets_for(client) {
                continue;
            }
            let of = &mut self.clients[client];
            of.receives_from = of.presence.next(now, false);
            self.access_point.list(client);
            first = Some(first.map_or(of.receives_from, |at: Nanos| at.min(of.receives_from)));
        }
        first
    }

    /// Returns whether a client has packets to send.
    pub(super) fn has_packets_of(&self, client: usize) -> bool {
        let lane = self.lane_of(client, true);
        let queued = self.stations.as_slice()[lane].is_backlogged();
        queued || self.lanes[lane].window.has_unsent()
    }

    /// Returns whether the driver of the access point has packets for a station, or takes some when
    /// it sends next.
    pub(super) fn has_packets_for(&self, client: usize) -> bool {
        let lane = self.lane_of(client, false);
        // By air time the driver always has room for a station of which it holds nothing.
        let comes =
            self.access_point.is_by_air_time() && self.stations.as_slice()[lane].is_backlogged();
        comes || self.access_point.packets(client) > 0 || self.lanes[lane].window.has_unsent()
    }
}
