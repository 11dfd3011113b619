//! The network: interfaces, links, the channels that carry them, and the routes over them.

mod actions;
mod construction;
mod routes;

use std::collections::HashMap;

use super::event_queue::{Deadlines, EntityId};
use super::packet::Packet;
use crate::link::{Channel, DropReason, Enqueued, Output, StationId};
use crate::resolved::Direction;
use crate::time::Nanos;

pub(super) use routes::RouteId;
use routes::Routes;

/// The entity of the first channel; the others follow.
pub(in crate::sim) const FIRST_CHANNEL: u32 = 1;

/// The end of a packet's life.
pub(in crate::sim) enum Fate {
    /// It reached the host that has the address of this interface.
    Delivered {
        packet: Packet,
        destination: usize,
    },
    Dropped {
        packet: Packet,
        place: DropPlace,
    },
}

/// Where a packet was dropped, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum DropPlace {
    Link {
        direction: usize,
        reason: DropReason,
    },
    InterfaceDown {
        interface: usize,
    },
    NoAddress {
        interface: usize,
    },
}

impl DropPlace {
    /// Numbers for the trace hash; 0 is for delivered packets.
    pub(in crate::sim) fn code(self) -> [u32; 2] {
        match self {
            Self::InterfaceDown { interface } => [1, interface as u32],
            Self::NoAddress { interface } => [2, interface as u32],
            Self::Link { direction, reason } => [3 + reason as u32, direction as u32],
        }
    }
}

/// Where a node is attached to a link.
pub(in crate::sim) struct Interface {
    /// Whether it belongs to a router, switch or access point.
    is_port: bool,
    is_up: bool,
    /// Taken down as the port of a link that is out of service.
    port_is_down: bool,
    has_address: bool,
    pub(in crate::sim) sent: u64,
    pub(in crate::sim) received: u64,
    pub(in crate::sim) dropped_interface_down: u64,
    pub(in crate::sim) dropped_no_address: u64,
}

impl Interface {
    pub(in crate::sim) fn is_up(&self) -> bool {
        self.is_up && !self.port_is_down
    }
}

/// One direction of a link.
struct LinkDirection {
    channel: usize,
    station: StationId,
    /// The interface at its beginning.
    from: usize,
    /// The interface at its end.
    to: usize,
    dropped_by_rule: u64,
}

struct Link {
    /// Interfaces a and b.
    ends: [usize; 2],
    has_drop_rule: bool,
    /// What the seed makes of its delay, in millionths.
    delay_ppm: u64,
}

struct Carrier {
    channel: Channel<Packet>,
    /// By station: the direction it is.
    directions: Vec<usize>,
}

/// What a link direction has counted, and what it holds.
pub(in crate::sim) struct LinkState {
    pub(in crate::sim) wire_bytes: u64,
    pub(in crate::sim) wire_packets: u64,
    pub(in crate::sim) queue_bytes: u64,
    pub(in crate::sim) queue_packets: u64,
    pub(in crate::sim) offered_packets: u64,
    pub(in crate::sim) delivered_packets: u64,
    /// In the order of [`DropReason::ALL`].
    pub(in crate::sim) dropped: [u64; DropReason::ALL.len()],
    pub(in crate::sim) in_flight_packets: u64,
}

/// All that carries packets. Directions 2k and 2k + 1 are forward and backward of link k.
pub(in crate::sim) struct Network {
    interfaces: Vec<Interface>,
    links: Vec<Link>,
    directions: Vec<LinkDirection>,
    carriers: Vec<Carrier>,
    routes: Routes,
    interface_of: HashMap<String, usize>,
    link_of: HashMap<String, usize>,
}

impl Network {
    /// Number of channels, which is that of the network's entities.
    pub(in crate::sim) fn channel_count(&self) -> usize {
        self.carriers.len()
    }

    pub(in crate::sim) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Brings the gauges of all links to `now`, without any packet leaving one.
    pub(in crate::sim) fn advance(&mut self, now: Nanos) {
        for carrier in &mut self.carriers {
            carrier.channel.advance(now);
        }
    }

    /// State of link direction `index`, as of the last time its channel was called.
    pub(in crate::sim) fn link_state(&self, index: usize) -> LinkState {
        let direction = &self.directions[index];
        let channel = &self.carriers[direction.channel].channel;
        let counters = channel.counters(direction.station);
        let mut dropped = DropReason::ALL.map(|reason| counters.dropped(reason));
        dropped[DropReason::LinkDown as usize] += direction.dropped_by_rule;
        LinkState {
            wire_bytes: counters.wire_bytes,
            wire_packets: counters.wire_packets,
            queue_bytes: channel.queue_bytes(direction.station),
            queue_packets: channel.queue_packets(direction.station),
            offered_packets: counters.offered_packets + direction.dropped_by_rule,
            delivered_packets: counters.delivered_packets,
            dropped,
            in_flight_packets: channel.in_flight(direction.station),
        }
    }

    /// Sends a new packet on its route, whose source must have an address.
    pub(in crate::sim) fn originate(
        &mut self,
        now: Nanos,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let source = self.routes.get(packet.route).source;
        let interface = &mut self.interfaces[source];
        if !interface.has_address {
            interface.dropped_no_address += 1;
            return Some(dropped(packet, DropPlace::NoAddress { interface: source }));
        }
        self.go_on(now, packet, deadlines)
    }

    /// Sends a packet over its next hop; behind the last it is where it was to go.
    fn go_on(&mut self, now: Nanos, packet: Packet, deadlines: &mut Deadlines) -> Option<Fate> {
        let route = self.routes.get(packet.route);
        match route.direction(packet.hop) {
            Some(direction) => self.send(now, direction, packet, deadlines),
            None => Some(self.take_in(route.destination, packet)),
        }
    }

    /// The receiving host takes a packet if it has the address that the packet is for, on whichever interface.
    fn take_in(&mut self, destination: usize, packet: Packet) -> Fate {
        let interface = &mut self.interfaces[destination];
        if interface.has_address {
            return Fate::Delivered {
                packet,
                destination,
            };
        }
        interface.dropped_no_address += 1;
        dropped(
            packet,
            DropPlace::NoAddress {
                interface: destination,
            },
        )
    }

    fn send(
        &mut self,
        now: Nanos,
        index: usize,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let direction = &mut self.directions[index];
        let interface = &mut self.interfaces[direction.from];
        if !interface.is_up() {
            interface.dropped_interface_down += 1;
            let place = DropPlace::InterfaceDown {
                interface: direction.from,
            };
            return Some(dropped(packet, place));
        }
        interface.sent += 1;
        let lost = |reason| {
            let place = DropPlace::Link {
                direction: index,
                reason,
            };
            Some(dropped(packet, place))
        };
        if self.links[index / 2].has_drop_rule {
            direction.dropped_by_rule += 1;
            return lost(DropReason::LinkDown);
        }
        let (number, station) = (direction.channel, direction.station);
        let enqueued = self.carriers[number].channel.enqueue(now, station, packet);
        self.schedule(now, number, deadlines);
        match enqueued {
            Enqueued::Queued => None,
            Enqueued::Dropped(reason) => lost(reason),
        }
    }

    /// Tells the event queue when a channel must be polled next.
    pub(in crate::sim) fn schedule(&self, now: Nanos, channel: usize, deadlines: &mut Deadlines) {
        // What a queue discipline dropped at an earlier instant comes out now.
        let next = self.carriers[channel].channel.next_departure();
        let entity = EntityId(FIRST_CHANNEL + channel as u32);
        deadlines.set(entity, next.map(|at| at.max(now)));
    }

    /// Whether a channel has something to do up to `now`.
    pub(in crate::sim) fn is_due(&self, now: Nanos, channel: usize) -> bool {
        let next = self.carriers[channel].channel.next_departure();
        next.is_some_and(|at| at <= now)
    }

    /// The next packet that leaves a channel up to `now`.
    pub(in crate::sim) fn poll(&mut self, now: Nanos, channel: usize) -> Option<Output<Packet>> {
        self.carriers[channel].channel.poll(now)
    }

    /// Takes a packet that left a channel to where it goes; `None` if it goes on from there.
    pub(in crate::sim) fn handle(
        &mut self,
        now: Nanos,
        channel: usize,
        output: Output<Packet>,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        match output {
            Output::Delivered {
                station, packet, ..
            } => {
                let direction = self.carriers[channel].directions[station.index()];
                self.arrive(now, self.directions[direction].to, packet, deadlines)
            }
            Output::Dropped {
                station,
                packet,
                reason,
                ..
            } => {
                let direction = self.carriers[channel].directions[station.index()];
                Some(dropped(packet, DropPlace::Link { direction, reason }))
            }
        }
    }

    fn arrive(
        &mut self,
        now: Nanos,
        index: usize,
        mut packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let interface = &mut self.interfaces[index];
        if !interface.is_up() {
            interface.dropped_interface_down += 1;
            return Some(dropped(
                packet,
                DropPlace::InterfaceDown { interface: index },
            ));
        }
        interface.received += 1;
        packet.hop += 1;
        self.go_on(now, packet, deadlines)
    }
}

impl Link {
    /// The direction with the delay that it has under this seed.
    fn varied(&self, direction: &Direction) -> Direction {
        let delay = u128::from(direction.delay_ns) * u128::from(self.delay_ppm) / 1_000_000;
        Direction {
            delay_ns: delay as Nanos,
            ..direction.clone()
        }
    }
}

fn dropped(packet: Packet, place: DropPlace) -> Fate {
    Fate::Dropped { packet, place }
}
