//! The network: interfaces, links, the channels that carry them, and the routes over them.

mod actions;
mod construction;
mod forwarding;
mod host_queues;
mod middleboxes;
mod plain_hops;
mod routes;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use emulation::first_hop::HostQueues;
use emulation::link::{DropReason, Enqueued};
use emulation::links::{Arrival, LinkState, Links};
use emulation::middlebox::Heading;
use experiment::addressing::pairs_of;
use experiment::samples::metrics;
use experiment::time::Nanos;

use super::captures::Captures;
use super::event_queue::{Deadlines, EntityId};
use super::packet::{Packet, Segments};

pub(super) use construction::direction;
pub(super) use forwarding::Forwarding;
pub(super) use host_queues::Waiting;
use middleboxes::Middleboxes;
use plain_hops::PlainHops;
pub(super) use routes::RouteId;
use routes::Routes;

/// The entity of the first channel. The others follow.
pub(crate) const FIRST_CHANNEL: u32 = 1;

/// The end of a packet's life.
pub(crate) enum Fate {
    /// It reached the host with the address of interface `destination`.
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
pub(crate) enum DropPlace {
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
    /// Returns numbers for the trace hash. 0 is for delivered packets.
    pub(crate) fn code(self) -> [u32; 2] {
        match self {
            Self::InterfaceDown { interface } => [1, interface as u32],
            Self::NoAddress { interface } => [2, interface as u32],
            Self::Link { direction, reason } => [3 + reason as u32, direction as u32],
        }
    }
}

/// The attachment of a node to a link.
pub(crate) struct Interface {
    /// A number shared by all interfaces of a node.
    node: usize,
    /// Whether it belongs to a router, switch or access point.
    is_port: bool,
    is_up: bool,
    /// Whether it was taken down as the port of a link that is out of service.
    port_is_down: bool,
    has_address: bool,
    /// The link direction that begins here.
    outgoing: usize,
    /// Its addresses, IPv4 first.
    addresses: Vec<IpAddr>,
    /// Packets dropped because it was down, by whether they were leaving or arriving.
    dropped_leaving: u64,
    dropped_arriving: u64,
    dropped_no_address: u64,
    dropped_no_route: u64,
    /// Packets it sent that its link was not offered, and packets it received that its link did not
    /// deliver. Middleboxes cause the difference.
    sent_beyond: i64,
    received_beyond: i64,
}

/// How packets pass an interface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    /// Packets do not pass: it or its port is down.
    Down,
    /// Packets pass freely.
    Open,
    /// Packets pass through middleboxes.
    Watched,
}

/// The network of an experiment.
pub(crate) struct Network {
    interfaces: Vec<Interface>,
    /// By interface. Stored separately because every packet needs it.
    passages: Vec<Passage>,
    plain: PlainHops,
    middleboxes: Middleboxes,
    /// Interfaces a and b of each link.
    ends: Vec<[u32; 2]>,
    links: Links<Packet>,
    host_queues: HostQueues<Waiting>,
    /// Set before the first packet is sent.
    first_host_queue: EntityId,
    newly_waiting: Option<(usize, Waiting)>,
    /// The TCP segments that packets carry.
    pub(crate) segments: Segments,
    pub(crate) captures: Captures,
    routes: Routes,
    forwarding: Forwarding,
    interface_of: HashMap<String, usize>,
    interface_at: HashMap<IpAddr, usize>,
    link_of: HashMap<String, usize>,
    flow_of: HashMap<String, usize>,
    /// The routes over the links of a path that the description lists, by flow and index of the
    /// path.
    routes_of_path: HashMap<(usize, usize), Vec<RouteId>>,
}

impl Network {
    /// Returns the number of channels, which is also the number of entities of the network.
    pub(crate) fn channel_count(&self) -> usize {
        self.links.channel_count()
    }

    /// Returns the channel that an entity is.
    #[inline]
    pub(crate) fn channel_of(&self, entity: EntityId) -> Option<usize> {
        let channel = entity.0.checked_sub(FIRST_CHANNEL)? as usize;
        (channel < self.links.channel_count()).then_some(channel)
    }

    /// Returns the state of an interface, as of the last call to the channels of its link.
    pub(crate) fn interface_counters(&self, index: usize) -> [u64; metrics::INTERFACE.len()] {
        let interface = &self.interfaces[index];
        let leaving = self.links.state(interface.outgoing);
        let arriving = self.links.state(interface.outgoing ^ 1);
        [
            u64::from(self.passages[index] != Passage::Down),
            leaving
                .offered_packets
                .saturating_add_signed(interface.sent_beyond),
            (arriving.delivered_packets - interface.dropped_arriving)
                .saturating_add_signed(interface.received_beyond),
            interface.dropped_leaving + interface.dropped_arriving,
            interface.dropped_no_address,
            interface.dropped_no_route,
        ]
    }

    /// Brings the gauges of all links to `now`. No packet leaves.
    pub(crate) fn advance(&mut self, now: Nanos) {
        self.links.advance(now);
    }

    /// Returns the state of a link direction, as of the last call to its channel.
    pub(crate) fn link_state(&self, index: usize) -> LinkState {
        self.links.state(index)
    }

    /// Returns the interfaces at the beginning and the end of a link direction.
    fn ends_of(&self, direction: usize) -> [usize; 2] {
        let ends = &self.ends[direction / 2];
        let from = direction % 2;
        [ends[from] as usize, ends[1 - from] as usize]
    }

    /// Returns the route of a segment between two ends, if a flow has one. With a source route it
    /// is the first route that passes the routers `via` in this order. Segments back then take the
    /// same route.
    pub(crate) fn route(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
        via: &[Ipv4Addr],
    ) -> Option<RouteId> {
        if via.is_empty() {
            let forwarding = &mut self.forwarding;
            return self.routes.between(forwarding, source, destination);
        }
        let mut candidates = self.routes.listed_between(source, destination)?.iter();
        let route = *candidates.find(|route| self.passes(**route, via))?;
        self.routes.pin(destination, source, route.reversed());
        Some(route)
    }

    /// Returns whether a route passes the routers `via` in this order. Other routers may lie
    /// between.
    fn passes(&self, route: RouteId, via: &[Ipv4Addr]) -> bool {
        let hops = self.routes.get(route).first_hop..;
        let directions = hops.map_while(|hop| self.routes.direction(hop));
        let mut nodes =
            directions.map(|direction| self.interfaces[self.ends_of(direction)[1]].node);
        via.iter().all(|router| {
            let router = self.interface_at.get(&IpAddr::V4(*router));
            router.is_some_and(|router| nodes.any(|node| node == self.interfaces[*router].node))
        })
    }

    /// Counts a packet of a host for which there is no route.
    pub(crate) fn refuse(&mut self, source: IpAddr) {
        if let Some(interface) = self.interface_at.get(&source) {
            self.interfaces[*interface].dropped_no_route += 1;
        }
    }

    /// Sends a new packet on its route. The source must have an address.
    pub(crate) fn originate(
        &mut self,
        now: Nanos,
        mut packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let route = self.routes.get(packet.route);
        let source = route.source as usize;
        packet.hop = route.first_hop;
        let interface = &mut self.interfaces[source];
        if !interface.has_address {
            interface.dropped_no_address += 1;
            return Some(dropped(packet, DropPlace::NoAddress { interface: source }));
        }
        self.go_on(now, packet, deadlines)
    }

    /// Sends a packet over its next hop, or delivers it after the last one.
    fn go_on(&mut self, now: Nanos, packet: Packet, deadlines: &mut Deadlines) -> Option<Fate> {
        match self.routes.direction(packet.hop) {
            Some(direction) => self.send(now, direction, packet, deadlines),
            None => self.end_way(now, packet, deadlines),
        }
    }

    /// Delivers a packet that has reached the end of its way, unless its route leads elsewhere from
    /// here by now.
    fn end_way(
        &mut self,
        now: Nanos,
        mut packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        if let Some(hop) = self.routes.continuation(packet.hop) {
            packet.hop = hop;
            return self.go_on(now, packet, deadlines);
        }
        let destination = self.routes.get(packet.route).destination;
        Some(self.deliver(destination as usize, packet))
    }

    /// Delivers a packet if its destination has its address. The host accepts it on any of its
    /// interfaces.
    fn deliver(&mut self, destination: usize, packet: Packet) -> Fate {
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

    /// Returns the interface with the address of the sender.
    pub(crate) fn source_of(&self, route: RouteId) -> usize {
        self.routes.get(route).source as usize
    }

    /// Returns the addresses of datagrams on a route: IPv4 if both ends have it.
    pub(crate) fn addresses_of(&self, route: RouteId) -> [IpAddr; 2] {
        let route = self.routes.get(route);
        self.addresses_between([route.source, route.destination].map(|end| end as usize))
    }

    fn addresses_between(&self, ends: [usize; 2]) -> [IpAddr; 2] {
        let [source, destination] = ends.map(|end| self.interfaces[end].addresses.as_slice());
        let pairs = pairs_of(source, destination);
        let first = pairs
            .first()
            .expect("validated: a path has addresses of one family");
        [first.local, first.remote]
    }

    #[inline]
    fn capture(&mut self, now: Nanos, interface: usize, is_sent: bool, packet: &Packet) {
        if self.captures.are_none() || !self.captures.has(interface) {
            return;
        }
        let ends = self.addresses_of(packet.route);
        self.captures
            .add(now, interface, is_sent, packet, &self.segments, ends);
    }

    fn send(
        &mut self,
        now: Nanos,
        index: usize,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let [from, _] = self.ends_of(index);
        if self.passages[from] != Passage::Open {
            return self.send_not_openly(now, from, packet, deadlines);
        }
        self.capture(now, from, true, &packet);
        self.offer(now, index, packet, deadlines)
    }

    /// Sends a packet from an interface that is down or has middleboxes.
    #[cold]
    fn send_not_openly(
        &mut self,
        now: Nanos,
        from: usize,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        if self.passages[from] == Passage::Down {
            self.interfaces[from].dropped_leaving += 1;
            return Some(dropped(
                packet,
                DropPlace::InterfaceDown { interface: from },
            ));
        }
        self.capture(now, from, true, &packet);
        let packet = self.enter_middleboxes(now, from, Heading::Leaving, packet, deadlines)?;
        let direction = self.interfaces[from].outgoing;
        self.offer(now, direction, packet, deadlines)
    }

    #[inline]
    fn offer(
        &mut self,
        now: Nanos,
        index: usize,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let channel = self.links.channel_of(index);
        let is_settled = self.links.is_settled(channel);
        let enqueued = self.links.offer(now, index, packet);
        if !is_settled {
            self.schedule(now, channel, deadlines);
        }
        match enqueued {
            Enqueued::Queued => {
                if let Some(place) = self.host_queues.place(index) {
                    self.enter_host_queue(now, place, &packet, deadlines);
                }
                None
            }
            Enqueued::Dropped(reason) => {
                let place = DropPlace::Link {
                    direction: index,
                    reason,
                };
                Some(dropped(packet, place))
            }
        }
    }

    /// Sets the deadline at which a channel must be polled next, and returns it.
    pub(crate) fn schedule(
        &self,
        now: Nanos,
        channel: usize,
        deadlines: &mut Deadlines,
    ) -> Option<Nanos> {
        // A packet that a queue discipline dropped earlier is reported now.
        let next = self.links.next_departure(channel).map(|at| at.max(now));
        deadlines.set(EntityId(FIRST_CHANNEL + channel as u32), next);
        next
    }

    /// Moves the next packet that leaves a channel up to `now`. Returns `None` if there is none, and
    /// `Some(None)` if it continues.
    #[inline]
    pub(crate) fn leave_channel(
        &mut self,
        now: Nanos,
        channel: usize,
        deadlines: &mut Deadlines,
    ) -> Option<Option<Fate>> {
        if let Some(packet) = self.links.poll_computed(now, channel) {
            return Some(self.hop(now, packet, deadlines));
        }
        let arrival = self.links.poll(now, channel)?;
        Some(self.handle(now, arrival, deadlines))
    }

    /// Handles a packet that left a channel. Returns `None` if it continues from there.
    fn handle(
        &mut self,
        now: Nanos,
        arrival: Arrival<Packet>,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        match arrival {
            Arrival::Delivered {
                direction, packet, ..
            } => self.arrive(now, direction, packet, deadlines),
            Arrival::Dropped {
                direction,
                packet,
                reason,
            } => Some(dropped(packet, DropPlace::Link { direction, reason })),
        }
    }

    /// Handles a packet that arrives at the end of a link direction.
    fn arrive(
        &mut self,
        now: Nanos,
        direction: usize,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let [_, index] = self.ends_of(direction);
        if self.passages[index] != Passage::Open {
            return self.arrive_not_openly(now, index, packet, deadlines);
        }
        self.arrive_behind(now, index, packet, deadlines)
    }

    /// Handles a packet that arrives at an interface that is down or has middleboxes.
    #[cold]
    fn arrive_not_openly(
        &mut self,
        now: Nanos,
        index: usize,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        if self.passages[index] == Passage::Down {
            self.interfaces[index].dropped_arriving += 1;
            return Some(dropped(
                packet,
                DropPlace::InterfaceDown { interface: index },
            ));
        }
        let packet = self.enter_middleboxes(now, index, Heading::Arriving, packet, deadlines)?;
        self.arrive_behind(now, index, packet, deadlines)
    }

    /// Handles a packet that arrives at an interface, after any middleboxes.
    #[inline]
    fn arrive_behind(
        &mut self,
        now: Nanos,
        index: usize,
        mut packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        self.capture(now, index, false, &packet);
        packet.hop += 1;
        self.go_on(now, packet, deadlines)
    }
}

fn dropped(packet: Packet, place: DropPlace) -> Fate {
    Fate::Dropped { packet, place }
}
