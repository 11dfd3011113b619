//! The network: nodes, interfaces, links and the channels that carry them.

use std::collections::HashMap;

use super::event_queue::{Deadlines, EntityId};
use super::forwarding::{Attachment, Routes};
use super::packet::Packet;
use crate::link::{Channel, DropReason, Enqueued, Output, StationGenerators, StationId};
use crate::resolved::{Action, Direction, Experiment, InvalidDirection, LinkDownBy, NodeKind};
use crate::rng::Generator;
use crate::time::Nanos;

/// The entity of the first channel; the others follow.
pub(super) const FIRST_CHANNEL: u32 = 1;

/// The end of a packet's life.
pub(super) enum Fate {
    Delivered { packet: Packet },
    Dropped { packet: Packet, place: DropPlace },
}

/// Where a packet was dropped, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropPlace {
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
    NoRoute {
        node: usize,
    },
    HopLimit {
        node: usize,
    },
}

impl DropPlace {
    /// Numbers for the trace hash; 0 is for delivered packets.
    pub(super) fn code(self) -> [u32; 2] {
        match self {
            Self::InterfaceDown { interface } => [1, interface as u32],
            Self::NoAddress { interface } => [2, interface as u32],
            Self::NoRoute { node } => [3, node as u32],
            Self::HopLimit { node } => [4, node as u32],
            Self::Link { direction, reason } => [5 + reason as u32, direction as u32],
        }
    }
}

/// A host or what is between hosts.
pub(super) struct Node {
    kind: Option<NodeKind>,
    pub(super) dropped_no_route: u64,
    pub(super) dropped_hop_limit: u64,
}

/// Where a node is attached to a link.
pub(super) struct Interface {
    node: usize,
    /// The link direction by which it sends.
    out: usize,
    is_up: bool,
    /// Taken down as the port of a link that is out of service.
    port_is_down: bool,
    has_address: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) dropped_interface_down: u64,
    pub(super) dropped_no_address: u64,
}

impl Interface {
    pub(super) fn is_up(&self) -> bool {
        self.is_up && !self.port_is_down
    }
}

/// One direction of a link.
struct LinkDirection {
    channel: usize,
    station: StationId,
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
pub(super) struct LinkState {
    pub(super) wire_bytes: u64,
    pub(super) wire_packets: u64,
    pub(super) queue_bytes: u64,
    pub(super) queue_packets: u64,
    pub(super) offered_packets: u64,
    pub(super) delivered_packets: u64,
    /// In the order of [`DropReason::ALL`].
    pub(super) dropped: [u64; DropReason::ALL.len()],
    pub(super) in_flight_packets: u64,
}

/// All that carries packets. Directions 2k and 2k + 1 are forward and backward of link k; nodes are the hosts, then the others.
pub(super) struct Network {
    nodes: Vec<Node>,
    interfaces: Vec<Interface>,
    links: Vec<Link>,
    directions: Vec<LinkDirection>,
    carriers: Vec<Carrier>,
    routes: Routes,
    interface_of: HashMap<String, usize>,
    link_of: HashMap<String, usize>,
}

fn indices<'a>(ids: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    ids.cloned()
        .enumerate()
        .map(|(index, id)| (id, index))
        .collect()
}

impl Network {
    /// The network of a valid experiment, as the seed varies it.
    ///
    /// # Errors
    /// A direction that the link model refuses.
    pub(super) fn new(experiment: &Experiment, seed: u64) -> Result<Self, InvalidDirection> {
        let interface_of = indices(experiment.interfaces.iter().map(|interface| &interface.id));
        let interfaces = interfaces(experiment);
        let links = links(experiment, seed, &interface_of);
        let nodes = nodes(experiment);
        let mut network = Self {
            routes: routes(&nodes, &interfaces, &links),
            nodes,
            interfaces,
            links,
            directions: Vec::new(),
            carriers: Vec::new(),
            interface_of,
            link_of: indices(experiment.links.iter().map(|link| &link.id)),
        };
        network.add_channels(experiment, seed)?;
        Ok(network)
    }

    /// One channel per medium, then one per direction of every other link.
    fn add_channels(&mut self, experiment: &Experiment, seed: u64) -> Result<(), InvalidDirection> {
        for medium in &experiment.media {
            self.add_carrier(Channel::medium(medium.rate_bps, medium.overhead_bytes)?);
        }
        let medium_of = indices(experiment.media.iter().map(|medium| &medium.id));
        for (index, link) in experiment.links.iter().enumerate() {
            for (side, (name, direction)) in
                [("forward", &link.forward), ("backward", &link.backward)]
                    .into_iter()
                    .enumerate()
            {
                let channel = match &link.medium {
                    Some(medium) => medium_of[medium],
                    None => self.add_carrier(Channel::point_to_point()),
                };
                let generators = StationGenerators::new(seed, &format!("{}/{name}", link.id));
                let direction = self.links[index].varied(direction);
                let carrier = &mut self.carriers[channel];
                let station = carrier.channel.add_station(&direction, generators)?;
                carrier.directions.push(self.directions.len());
                let to = self.links[index].ends[1 - side];
                self.directions.push(LinkDirection {
                    channel,
                    station,
                    to,
                    dropped_by_rule: 0,
                });
            }
        }
        Ok(())
    }

    fn add_carrier(&mut self, channel: Channel<Packet>) -> usize {
        self.carriers.push(Carrier {
            channel,
            directions: Vec::new(),
        });
        self.carriers.len() - 1
    }

    /// Number of channels, which is that of the network's entities.
    pub(super) fn channel_count(&self) -> usize {
        self.carriers.len()
    }

    pub(super) fn interface_index(&self, id: &str) -> usize {
        self.interface_of[id]
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Brings the gauges of all links to `now`, without any packet leaving one.
    pub(super) fn advance(&mut self, now: Nanos) {
        for carrier in &mut self.carriers {
            carrier.channel.advance(now);
        }
    }

    /// State of link direction `index`, as of the last time its channel was called.
    pub(super) fn link_state(&self, index: usize) -> LinkState {
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

    /// Sends a packet from the host's interface that it names as its source.
    pub(super) fn originate(
        &mut self,
        now: Nanos,
        packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let source = packet.source as usize;
        let interface = &mut self.interfaces[source];
        if interface.is_up() && !interface.has_address {
            interface.dropped_no_address += 1;
            return Some(dropped(packet, DropPlace::NoAddress { interface: source }));
        }
        self.send(now, source, packet, deadlines)
    }

    fn send(
        &mut self,
        now: Nanos,
        index: usize,
        packet: Packet,
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
        interface.sent += 1;
        let out = interface.out;
        let direction = &mut self.directions[out];
        if self.links[out / 2].has_drop_rule {
            direction.dropped_by_rule += 1;
            return Some(dropped(
                packet,
                DropPlace::Link {
                    direction: out,
                    reason: DropReason::LinkDown,
                },
            ));
        }
        let channel = direction.channel;
        let enqueued = self.carriers[channel]
            .channel
            .enqueue(now, direction.station, packet);
        self.schedule(now, channel, deadlines);
        match enqueued {
            Enqueued::Queued => None,
            Enqueued::Dropped(reason) => Some(dropped(
                packet,
                DropPlace::Link {
                    direction: out,
                    reason,
                },
            )),
        }
    }

    /// Tells the event queue when a channel must be polled next.
    pub(super) fn schedule(&self, now: Nanos, channel: usize, deadlines: &mut Deadlines) {
        // What a queue discipline dropped at an earlier instant comes out now.
        let next = self.carriers[channel].channel.next_departure();
        let entity = EntityId(FIRST_CHANNEL + channel as u32);
        deadlines.set(entity, next.map(|at| at.max(now)));
    }

    /// The next packet that leaves a channel up to `now`.
    pub(super) fn poll(&mut self, now: Nanos, channel: usize) -> Option<Output<Packet>> {
        self.carriers[channel].channel.poll(now)
    }

    /// Takes a packet that left a channel to where it goes; `None` if it goes on from there.
    pub(super) fn handle(
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
        packet: Packet,
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
        let node = interface.node;
        if packet.destination as usize != index {
            interface.received += 1;
            return self.forward(now, node, packet, deadlines);
        }
        if !interface.has_address {
            interface.dropped_no_address += 1;
            return Some(dropped(packet, DropPlace::NoAddress { interface: index }));
        }
        interface.received += 1;
        Some(Fate::Delivered { packet })
    }

    fn forward(
        &mut self,
        now: Nanos,
        index: usize,
        mut packet: Packet,
        deadlines: &mut Deadlines,
    ) -> Option<Fate> {
        let node = &mut self.nodes[index];
        if node.kind == Some(NodeKind::Router) {
            packet.hops_left -= 1;
            if packet.hops_left == 0 {
                node.dropped_hop_limit += 1;
                return Some(dropped(packet, DropPlace::HopLimit { node: index }));
            }
        }
        match self.routes.next_hop(index, packet.destination as usize) {
            Some(interface) => self.send(now, interface, packet, deadlines),
            None => {
                node.dropped_no_route += 1;
                Some(dropped(packet, DropPlace::NoRoute { node: index }))
            }
        }
    }

    /// Carries out an action that `check` accepts.
    ///
    /// # Errors
    /// A direction that the link model refuses.
    pub(super) fn apply(
        &mut self,
        now: Nanos,
        action: &Action,
        deadlines: &mut Deadlines,
    ) -> Result<(), InvalidDirection> {
        match action {
            Action::InterfaceDown { interface } => self.interface(interface).is_up = false,
            Action::InterfaceUp { interface } => self.interface(interface).is_up = true,
            Action::AddressAdd { interface } => self.interface(interface).has_address = true,
            Action::AddressRemove { interface } => self.interface(interface).has_address = false,
            Action::LinkDown { link, by } => {
                self.set_link_up(now, self.link_of[link], *by, false, deadlines)
            }
            Action::LinkUp { link, by } => {
                self.set_link_up(now, self.link_of[link], *by, true, deadlines)
            }
            Action::SetLink {
                link,
                forward,
                backward,
            } => {
                let link = self.link_of[link];
                self.reconfigure(now, 2 * link, forward, deadlines)?;
                self.reconfigure(now, 2 * link + 1, backward, deadlines)?;
            }
            Action::SetBackup { .. } | Action::Exec { .. } => unreachable!("refused by check"),
        }
        Ok(())
    }

    fn interface(&mut self, id: &str) -> &mut Interface {
        &mut self.interfaces[self.interface_of[id]]
    }

    fn set_link_up(
        &mut self,
        now: Nanos,
        link: usize,
        by: LinkDownBy,
        up: bool,
        deadlines: &mut Deadlines,
    ) {
        match by {
            LinkDownBy::Cut => {
                for direction in [2 * link, 2 * link + 1] {
                    let LinkDirection {
                        channel, station, ..
                    } = self.directions[direction];
                    self.carriers[channel].channel.set_up(now, station, up);
                    self.schedule(now, channel, deadlines);
                }
            }
            LinkDownBy::DropRule => self.links[link].has_drop_rule = !up,
            LinkDownBy::PortDown => {
                for end in self.links[link].ends {
                    let interface = &mut self.interfaces[end];
                    interface.port_is_down = !up && self.nodes[interface.node].kind.is_some();
                }
            }
        }
    }

    fn reconfigure(
        &mut self,
        now: Nanos,
        index: usize,
        direction: &Direction,
        deadlines: &mut Deadlines,
    ) -> Result<(), InvalidDirection> {
        let direction = self.links[index / 2].varied(direction);
        let LinkDirection {
            channel, station, ..
        } = self.directions[index];
        self.carriers[channel]
            .channel
            .reconfigure(now, station, &direction)?;
        self.schedule(now, channel, deadlines);
        Ok(())
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

fn nodes(experiment: &Experiment) -> Vec<Node> {
    let hosts = experiment.hosts.iter().map(|_| None);
    let others = experiment.nodes.iter().map(|node| Some(node.kind));
    let new = |kind| Node {
        kind,
        dropped_no_route: 0,
        dropped_hop_limit: 0,
    };
    hosts.chain(others).map(new).collect()
}

fn interfaces(experiment: &Experiment) -> Vec<Interface> {
    let hosts = experiment.hosts.iter().map(|host| &host.id);
    let node_of = indices(hosts.chain(experiment.nodes.iter().map(|node| &node.id)));
    let link_of = indices(experiment.links.iter().map(|link| &link.id));
    let new = |interface: &crate::resolved::Interface| {
        let link = link_of[&interface.link];
        Interface {
            node: node_of[&interface.node],
            out: 2 * link + usize::from(experiment.links[link].b == interface.id),
            is_up: interface.up,
            port_is_down: false,
            has_address: interface.ipv4.is_some() || interface.ipv6.is_some(),
            sent: 0,
            received: 0,
            dropped_interface_down: 0,
            dropped_no_address: 0,
        }
    };
    experiment.interfaces.iter().map(new).collect()
}

fn links(experiment: &Experiment, seed: u64, interface_of: &HashMap<String, usize>) -> Vec<Link> {
    let spread = u64::from(experiment.vary.rtt_ppm);
    let new = |link: &crate::resolved::Link| {
        let draw = Generator::new(seed, &format!("rtt/{}", link.id)).below(2 * spread + 1);
        Link {
            ends: [interface_of[&link.a], interface_of[&link.b]],
            has_drop_rule: false,
            delay_ppm: 1_000_000 - spread + draw,
        }
    };
    experiment.links.iter().map(new).collect()
}

fn routes(nodes: &[Node], interfaces: &[Interface], links: &[Link]) -> Routes {
    let attachment = |interface: &Interface| Attachment {
        node: interface.node,
        peer: links[interface.out / 2].ends[1 - interface.out % 2],
    };
    let forwards = nodes.iter().map(|node| node.kind.is_some());
    Routes::new(
        interfaces.iter().map(attachment).collect(),
        forwards.collect(),
    )
}
