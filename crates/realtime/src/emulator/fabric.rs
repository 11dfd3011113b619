//! The state of the emulator's thread: devices, the links between them, and the counters of both.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use emulation::first_hop::HostQueues;
use emulation::link::Enqueued;
use emulation::links::{Arrival, LinkState, Links};
use emulation::middlebox::{Chain, Heading, MiddleboxSummary, summaries};
use experiment::addressing::Lookup;
use experiment::resolved::{
    Action, Direction, Experiment, InvalidDirection, Layer, Link, LinkDownBy, Loss, NodeKind,
};
use experiment::time::Nanos;
use rustix::io::Errno;

use super::captures::Captures;
use super::frame::Frame;
use super::lateness::{Excess, Lateness, LatenessSummary};
use super::middleboxes::Middleboxes;
use crate::emulator::mailbox::Mailbox;
use crate::network::first_hop::directions_from;
use crate::userspace::{Awaited, Mailboxes, Message, Outgoing};
use crate::{Clock, Device, LiveError};

/// The largest super-packet with its headers.
const LARGEST_READ_BYTES: usize = (1 << 16) + 64;
/// Packets read from one device before other devices and due packets get their turn.
const PACKETS_PER_TURN: usize = 64;
/// Departures that are closer together are carried out at once, because waking up costs more than
/// carrying a packet.
const SHORTEST_SLEEP_NS: Nanos = 200_000;
/// A packet that is read within this time of the begin of a pass was read promptly. A thread that is
/// woken takes up to 0.4 ms, and most packets that it then reads were sent meanwhile.
const PROMPT_NS: Nanos = 1_000_000;
/// Buffers kept for later packets.
const SPARE_BUFFERS: usize = 1 << 14;
/// From this size on, a packet keeps the buffer that it was read into. Smaller packets are copied
/// to a buffer of their size.
const LARGE_BYTES: usize = 1 << 14;
/// Buffers of that size kept for later packets.
const SPARE_LARGE_BUFFERS: usize = 64;

/// A device and its counters.
pub(super) struct Port {
    /// `None` at a real link, which the emulator does not carry.
    device: Option<Device>,
    layer: Layer,
    /// The link direction that begins here.
    pub(super) outgoing: usize,
    is_captured: bool,
    /// Whether it is a port of a controlled switch.
    is_controlled: bool,
    /// Where TCP goes if its host has the userspace stack.
    pub(super) stack: Option<Arc<Mailbox<Message>>>,
    /// Whether the interface is up, for a host with the userspace stack or on another machine. Other
    /// devices report it themselves.
    is_up: bool,
    state: InterfaceState,
}

impl Port {
    /// Hands a packet to the host. Returns whether there was room for it, and EIO if the interface
    /// is down.
    fn give(&self, frame: &Frame) -> io::Result<bool> {
        let Some(device) = &self.device else {
            return Err(Errno::NODEV.into());
        };
        match &self.stack {
            Some(_) if frame.is_tcp() && !self.is_up => Err(Errno::IO.into()),
            Some(stack) if frame.is_tcp() => Ok(stack.put(Message::Packet(frame.whole_ip()))),
            None if device.is_elsewhere() && !self.is_up => Err(Errno::IO.into()),
            _ => device.write(&frame.bytes).map(|()| true),
        }
    }
}

/// Counters of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceState {
    /// Packets that the host gave to it.
    pub sent: u64,
    /// Packets that it gave to the host.
    pub received: u64,
    /// Packets that arrived while it was down.
    pub dropped_interface_down: u64,
}

/// Counters of a link direction, and its lateness.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionState {
    /// Counters and gauges of the link model.
    pub link: LinkState,
    /// Mean lateness of the deliveries since the last state, in seconds; `None` if there were none.
    pub late_s: Option<f64>,
}

/// The state of the network at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkState {
    /// Directions 2k and 2k + 1 are forward and backward of link k.
    pub directions: Vec<DirectionState>,
    /// By index in the experiment.
    pub interfaces: Vec<InterfaceState>,
}

/// The state of the emulator's thread.
pub(super) struct Fabric {
    pub(super) clock: Clock,
    pub(super) links: Links<Frame>,
    link_ids: Vec<String>,
    pub(super) ports: Vec<Port>,
    /// Middleboxes by the port before which they stand.
    middleboxes: BTreeMap<usize, Middleboxes>,
    /// The port at the end of each direction.
    ends: Vec<usize>,
    /// When each channel has to be polled next.
    due: Vec<Option<Nanos>>,
    /// Packets that wait in hosts with the userspace stack whose `first_hop` is `host`.
    pub(super) host_queues: HostQueues<Option<Awaited>>,
    /// When the next packet leaves each of these queues.
    pub(super) leaving: Vec<Option<Nanos>>,
    lateness: Vec<Lateness>,
    /// The longest time in which the thread read nothing.
    pub(super) longest_standstill: Nanos,
    /// When this pass should have begun; `None` in the pass of a restart.
    pass_began: Option<Nanos>,
    /// When the thread meant to wake up.
    alarm: Option<Nanos>,
    captures: Option<Captures>,
    spare: Vec<Vec<u8>>,
    /// Spare buffers with the length of `scratch`.
    spare_large: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    /// Packets that hosts with the userspace stack send.
    pub(super) from_stacks: Arc<Mailbox<Outgoing>>,
    arriving: VecDeque<Outgoing>,
    /// Whether super-packets may leave by each port. Hosts with the userspace stack read it.
    takes_super_packets: Arc<[AtomicBool]>,
    /// For each link, whether it takes super-packets now, and whether both its ends are hosts.
    super_links: Vec<(bool, bool)>,
    /// Packets for which a host with the userspace stack had no room.
    pub(super) overflows: u64,
    interface_ids: Vec<String>,
    pub(super) failure: Option<String>,
    pub(super) is_over: bool,
}

impl Fabric {
    /// `devices` are by the indices of their interfaces in the experiment.
    pub(super) fn new(
        experiment: &Experiment,
        seed: u64,
        mut devices: BTreeMap<usize, Device>,
        mailboxes: &Mailboxes,
        clock: Clock,
    ) -> Result<Self, LiveError> {
        let links = Links::new(experiment, seed)?;
        let host_queues = HostQueues::new(directions_from(experiment, true));
        let lookup = Lookup::new(experiment);
        let ends = experiment.links.iter().flat_map(|link| [&link.b, &link.a]);
        let ends = ends.filter_map(|id| lookup.interface_index(id));
        let ends: Vec<usize> = ends.collect();
        let outgoing_of = |index: usize| {
            // The direction that ends at the other interface of the same link.
            let arriving = ends.iter().position(|end| *end == index);
            arriving.map_or(0, |direction| direction ^ 1)
        };
        let ports = (0..experiment.interfaces.len()).map(|index| Port {
            device: devices.remove(&index),
            layer: experiment.links[outgoing_of(index) / 2].layer,
            outgoing: outgoing_of(index),
            is_captured: experiment
                .measure
                .captures
                .contains(&experiment.interfaces[index].id),
            is_controlled: is_controlled(experiment, &experiment.interfaces[index].node),
            stack: mailboxes
                .inboxes
                .get(&experiment.interfaces[index].node)
                .cloned(),
            is_up: experiment.interfaces[index].up,
            state: InterfaceState::default(),
        });
        let ports: Vec<Port> = ports.collect();
        let middleboxes = experiment.interfaces.iter().zip(&ports).enumerate();
        let middleboxes = middleboxes.filter_map(|(index, (interface, port))| {
            let chain = Chain::before(experiment, seed, &interface.id)?;
            Some((index, Middleboxes::new(chain, port.layer)))
        });
        let mut fabric = Self {
            clock,
            middleboxes: middleboxes.collect(),
            due: vec![None; links.channel_count()],
            leaving: vec![None; host_queues.count()],
            host_queues,
            links,
            link_ids: experiment
                .links
                .iter()
                .map(|link| link.id.clone())
                .collect(),
            ports,
            lateness: vec![Lateness::new(); ends.len()],
            ends,
            longest_standstill: 0,
            pass_began: None,
            alarm: None,
            captures: None,
            spare: Vec::new(),
            spare_large: Vec::new(),
            scratch: vec![0; LARGEST_READ_BYTES],
            from_stacks: Arc::clone(&mailboxes.to_links),
            arriving: VecDeque::new(),
            takes_super_packets: Arc::clone(&mailboxes.takes_super_packets),
            super_links: experiment
                .links
                .iter()
                .map(|link| (false, is_between_hosts(&lookup, link)))
                .collect(),
            overflows: 0,
            interface_ids: experiment
                .interfaces
                .iter()
                .map(|interface| interface.id.clone())
                .collect(),
            failure: None,
            is_over: false,
        };
        for (index, link) in experiment.links.iter().enumerate() {
            fabric.choose_super_packets(index, &link.forward, &link.backward)?;
        }
        Ok(fabric)
    }

    /// Returns the devices with their ports.
    pub(super) fn devices(&self) -> impl Iterator<Item = (usize, &Device)> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(index, port)| Some((index, port.device.as_ref()?)))
    }

    /// Lets super-packets pass where nothing depends on single packets.
    fn choose_super_packets(
        &mut self,
        link: usize,
        forward: &Direction,
        backward: &Direction,
    ) -> Result<(), LiveError> {
        let directions = [2 * link, 2 * link + 1];
        let [one, other] = directions.map(|direction| self.links.channel_of(direction));
        let is_on_medium = one == other;
        let ends = directions.map(|direction| self.ends[direction]);
        let is_captured = ends.iter().any(|end| self.ports[*end].is_captured);
        let is_changed = ends.iter().any(|end| self.middleboxes.contains_key(end));
        // Open vSwitch takes no packet that is larger than the MTU.
        let is_controlled = ends.iter().any(|end| self.ports[*end].is_controlled);
        let is_possible = |end: &usize| {
            let device = self.ports[*end].device.as_ref();
            device.is_some_and(Device::can_take_super_packets)
        };
        let is_whole = !is_on_medium && !is_captured && !is_changed && !is_controlled;
        let is_whole = is_whole && ends.iter().all(is_possible);
        let mut on = is_whole && is_unshaped(forward) && is_unshaped(backward);
        for device in ends
            .iter()
            .filter_map(|end| self.ports[*end].device.as_ref())
        {
            let chosen = device.set_super_packets(on);
            on &= chosen.map_err(LiveError::while_("setting a device's super-packets"))?;
        }
        self.super_links[link].0 = on;
        self.update_super_packets();
        Ok(())
    }

    /// Lets the userspace stack send super-packets only where no node cuts them before the other
    /// host. If segments were lost after a cut, each would be retransmitted with a mapping of its
    /// own, which Linux takes for an error beside the mapping of the whole.
    fn update_super_packets(&self) {
        let all_on = self.super_links.iter().all(|(on, _)| *on);
        for (port, takes) in self.ports.iter().zip(&*self.takes_super_packets) {
            let (on, is_direct) = self.super_links[port.outgoing / 2];
            takes.store(on && (is_direct || all_on), Ordering::Relaxed);
        }
    }

    /// Returns to time 0 of a new clock: links empty and as described, counters at 0. Middleboxes
    /// have no state yet, because no TCP was sent before.
    pub(super) fn restart(&mut self, clock: Clock, captures: Option<Captures>) {
        self.clock = clock;
        self.links.reset();
        self.due.fill(None);
        self.host_queues.clear();
        self.leaving.fill(None);
        for port in &mut self.ports {
            port.state = InterfaceState::default();
        }
        for lateness in &mut self.lateness {
            *lateness = Lateness::new();
        }
        self.longest_standstill = 0;
        self.pass_began = None;
        self.alarm = None;
        self.overflows = 0;
        self.captures = captures;
    }

    /// Records the end of a pass. Returns how long the thread may sleep; `None`: until something
    /// arrives.
    pub(super) fn end_pass(&mut self) -> Option<Nanos> {
        let now = self.clock.now();
        let stood = now.saturating_sub(self.pass_began.unwrap_or(now));
        self.longest_standstill = self.longest_standstill.max(stood);
        let of_middleboxes = self.middleboxes.values();
        let of_middleboxes = of_middleboxes.filter_map(|one| one.chain.poll_timeout());
        let of_links = self.due.iter().chain(&self.leaving).flatten().copied();
        let due = of_links.chain(of_middleboxes);
        self.alarm = due.min().map(|due| {
            if due > now {
                due.max(now + SHORTEST_SLEEP_NS)
            } else {
                due
            }
        });
        self.alarm.map(|alarm| alarm.saturating_sub(now))
    }

    /// Records the end of a wait. If the thread overslept, the pass is taken to have begun when it
    /// was due.
    pub(super) fn begin_pass(&mut self) {
        let woke = self.clock.now();
        self.pass_began = Some(self.alarm.map_or(woke, |alarm| woke.min(alarm)));
    }

    /// Reads packets from a device, up to a limit, and offers them to the link.
    pub(super) fn read_from(&mut self, port: usize) {
        let direction = self.ports[port].outgoing;
        for _ in 0..PACKETS_PER_TURN {
            let Some(device) = &self.ports[port].device else {
                return;
            };
            let bytes = match device.read(&mut self.scratch) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A device that is down has nothing to read.
                Err(error) if is_down(&error) => break,
                Err(error) => {
                    self.fail(format!("reading from a device: {error}"));
                    break;
                }
            };
            let now = self.clock.now();
            let frame = self.frame(port, bytes);
            self.ports[port].state.sent += 1;
            self.capture(port, now, true, &frame);
            self.send(now, port, frame, None);
        }
        self.look_again(self.links.channel_of(direction));
    }

    /// Sends a packet from a port, through the middleboxes before it.
    fn send(&mut self, now: Nanos, port: usize, frame: Frame, awaited: Option<Awaited>) {
        if let Some(frame) = self.enter_middleboxes(now, port, Heading::Leaving, frame) {
            let direction = self.ports[port].outgoing;
            let since = self.pass_began.unwrap_or(now);
            if now - since > PROMPT_NS
                && let Some(start) = self.links.missed_transmission(now, direction, since)
            {
                self.lateness[direction].record_missed(start);
            }
            // The link counts a packet that it drops at once; its buffer is freed.
            let enqueued = self.links.offer(now, direction, frame);
            self.enter_host_queue(now, port, enqueued, awaited);
        }
    }

    /// Gives a packet to the middleboxes before a port and forwards their output. Returns the
    /// packet if there are none or they leave it alone.
    fn enter_middleboxes(
        &mut self,
        now: Nanos,
        port: usize,
        heading: Heading,
        frame: Frame,
    ) -> Option<Frame> {
        let Some(middleboxes) = self.middleboxes.get_mut(&port) else {
            return Some(frame);
        };
        let frame = middleboxes.enter(now, heading, frame);
        self.leave_middleboxes(now, port);
        frame
    }

    fn leave_middleboxes(&mut self, now: Nanos, port: usize) {
        let next = |fabric: &mut Self| fabric.middleboxes.get_mut(&port)?.poll_output();
        while let Some((heading, frame)) = next(self) {
            match heading {
                Heading::Leaving => {
                    let outgoing = self.ports[port].outgoing;
                    let _: Enqueued = self.links.offer(now, outgoing, frame);
                    self.look_again(self.links.channel_of(outgoing));
                }
                Heading::Arriving => {
                    self.hand_over(port, &frame);
                    self.keep(frame);
                }
            }
        }
    }

    fn wake_middleboxes(&mut self, now: Nanos) {
        let waiting = self.middleboxes.iter_mut();
        let due = waiting.filter(|(_, one)| one.chain.poll_timeout().is_some_and(|at| at <= now));
        let ports = due.map(|(port, middleboxes)| {
            middleboxes.chain.handle_timeout(now);
            *port
        });
        for port in ports.collect::<Vec<_>>() {
            self.leave_middleboxes(now, port);
        }
    }

    /// Handles the packets that hosts with the userspace stack sent: offers them to their links.
    pub(super) fn handle_stacks(&mut self) {
        let mut arriving = std::mem::take(&mut self.arriving);
        self.from_stacks.take_into(&mut arriving);
        let of_stacks = arriving.drain(..);
        for Outgoing {
            port,
            bytes,
            awaited,
        } in of_stacks
        {
            let Port {
                outgoing,
                is_up: true,
                ..
            } = self.ports[port]
            else {
                self.report_departure(port, awaited);
                continue;
            };
            let now = self.clock.now();
            let layer = self.ports[port].layer;
            let frame = Frame { bytes, layer };
            self.ports[port].state.sent += 1;
            self.capture(port, now, true, &frame);
            self.send(now, port, frame, awaited);
            self.look_again(self.links.channel_of(outgoing));
        }
        self.arriving = arriving;
    }

    fn frame(&mut self, port: usize, bytes: usize) -> Frame {
        let buffer = if bytes < LARGE_BYTES {
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(&self.scratch[..bytes]);
            buffer
        } else {
            let fresh = self.spare_large.pop();
            let fresh = fresh.unwrap_or_else(|| vec![0; LARGEST_READ_BYTES]);
            let mut buffer = std::mem::replace(&mut self.scratch, fresh);
            buffer.truncate(bytes);
            buffer
        };
        Frame {
            bytes: buffer,
            layer: self.ports[port].layer,
        }
    }

    fn capture(&mut self, port: usize, at: Nanos, is_sent: bool, frame: &Frame) {
        if let (Some(captures), true) = (&mut self.captures, self.ports[port].is_captured) {
            captures.add(port, at, is_sent, frame.packet());
        }
    }

    /// Delivers everything that is due.
    pub(super) fn deliver_due(&mut self) {
        let now = self.clock.now();
        self.wake_middleboxes(now);
        self.leave_hosts(now);
        for channel in 0..self.due.len() {
            if self.due[channel].is_some_and(|due| due <= now) {
                self.deliver_from(channel, now);
            }
        }
    }

    fn deliver_from(&mut self, channel: usize, now: Nanos) {
        while let Some(arrival) = self.links.poll(now, channel) {
            match arrival {
                Arrival::Delivered {
                    direction,
                    packet,
                    at,
                } => self.deliver(direction, packet, at),
                Arrival::Dropped { packet, .. } => self.keep(packet),
            }
        }
        self.look_again(channel);
    }

    fn deliver(&mut self, direction: usize, frame: Frame, at: Nanos) {
        let port = self.ends[direction];
        let now = self.clock.now();
        let Some(frame) = self.enter_middleboxes(now, port, Heading::Arriving, frame) else {
            self.lateness[direction].record(now.saturating_sub(at));
            return;
        };
        if let Some(now) = self.hand_over(port, &frame) {
            self.lateness[direction].record(now.saturating_sub(at));
        }
        self.keep(frame);
    }

    /// Hands a packet to the host of a port. Returns the time if the host took it.
    fn hand_over(&mut self, port: usize, frame: &Frame) -> Option<Nanos> {
        match self.ports[port].give(frame) {
            Ok(true) => {
                let now = self.clock.now();
                self.ports[port].state.received += 1;
                self.capture(port, now, false, frame);
                return Some(now);
            }
            Ok(false) => self.overflows += 1,
            Err(error) if is_down(&error) => self.ports[port].state.dropped_interface_down += 1,
            Err(error) => self.fail(format!("writing to a device: {error}")),
        }
        None
    }

    fn keep(&mut self, frame: Frame) {
        let mut buffer = frame.bytes;
        if buffer.len() < LARGE_BYTES {
            if self.spare.len() < SPARE_BUFFERS {
                self.spare.push(buffer);
            }
        } else if self.spare_large.len() < SPARE_LARGE_BUFFERS {
            buffer.resize(LARGEST_READ_BYTES, 0);
            self.spare_large.push(buffer);
        }
    }

    fn look_again(&mut self, channel: usize) {
        self.due[channel] = self.links.next_departure(channel);
    }

    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
        self.is_over = true;
    }

    /// Carries out an action on a link. Other actions are ignored.
    pub(super) fn apply(&mut self, action: &Action) -> Result<(), LiveError> {
        let now = self.clock.now();
        match action {
            Action::LinkDown { link, by } => self.set_link_up(now, link, *by, false),
            Action::LinkUp { link, by } => self.set_link_up(now, link, *by, true),
            Action::SetLink {
                link,
                forward,
                backward,
            } => self.set_link(now, link, forward, backward)?,
            Action::Handover { link, .. }
            | Action::Roam { link, .. }
            | Action::SetSignal { link, .. } => {
                let link = self.link(link);
                self.links.disturb(now, link, action);
                self.look_again_at_link(link);
            }
            Action::InterfaceDown { interface } => self.set_interface_up(interface, false),
            Action::InterfaceUp { interface } => self.set_interface_up(interface, true),
            _ => {}
        }
        Ok(())
    }

    fn set_link_up(&mut self, now: Nanos, link: &str, by: LinkDownBy, up: bool) {
        let link = self.link(link);
        match by {
            LinkDownBy::Cut => self.links.set_up(now, link, up),
            LinkDownBy::DropRule => self.links.set_drop_rule(link, !up),
            LinkDownBy::PortDown => {}
        }
        self.look_again_at_link(link);
    }

    fn set_link(
        &mut self,
        now: Nanos,
        link: &str,
        forward: &Direction,
        backward: &Direction,
    ) -> Result<(), LiveError> {
        let link = self.link(link);
        let reconfigured: Result<(), InvalidDirection> =
            self.links.reconfigure(now, link, forward, backward);
        reconfigured?;
        self.look_again_at_link(link);
        self.choose_super_packets(link, forward, backward)
    }

    fn set_interface_up(&mut self, id: &str, up: bool) {
        let place = self
            .interface_ids
            .iter()
            .position(|interface| interface == id);
        let place = place.expect("actions of valid experiments name their interfaces");
        self.ports[place].is_up = up;
    }

    fn look_again_at_link(&mut self, link: usize) {
        for direction in [2 * link, 2 * link + 1] {
            self.look_again(self.links.channel_of(direction));
            if let Some(place) = self.host_queues.place(direction) {
                self.look_again_at_host(self.clock.now(), place);
            }
        }
    }

    fn link(&self, id: &str) -> usize {
        let place = self.link_ids.iter().position(|link| link == id);
        place.expect("actions of valid experiments name their links")
    }

    /// Returns counters and gauges as of now.
    pub(super) fn state(&mut self) -> NetworkState {
        self.links.advance(self.clock.now());
        let directions = self.lateness.iter_mut().enumerate();
        let directions = directions.map(|(index, lateness)| DirectionState {
            link: self.links.state(index),
            late_s: lateness.take_recent_mean_s(),
        });
        NetworkState {
            directions: directions.collect(),
            interfaces: self.ports.iter().map(|port| port.state).collect(),
        }
    }

    /// Returns the lateness of each direction, and the bound that it exceeds.
    pub(super) fn lateness(&self) -> Vec<(LatenessSummary, Option<Excess>)> {
        let all = self.lateness.iter().enumerate();
        let judged = all.map(|(direction, lateness)| {
            let access = self.links.state(direction).access;
            let transmissions = access.map_or(0, |access| access.exchanges);
            (lateness.summary(), lateness.excess(transmissions))
        });
        judged.collect()
    }

    /// Returns what the middleboxes did.
    pub(super) fn middleboxes(&self) -> Vec<MiddleboxSummary> {
        summaries(self.middleboxes.values().map(|one| &one.chain))
    }

    pub(super) fn take_captures(&mut self) -> Option<Captures> {
        self.captures.take()
    }
}

fn is_controlled(experiment: &Experiment, node: &str) -> bool {
    let mut nodes = experiment.nodes.iter();
    nodes.any(|one| one.id == node && one.kind == NodeKind::Openflow)
}

fn is_between_hosts(lookup: &Lookup<'_>, link: &Link) -> bool {
    [&link.a, &link.b].into_iter().all(|id| {
        let node = lookup.interface(id).map(|end| &end.node);
        node.is_some_and(|node| lookup.host(node).is_some())
    })
}

/// Returns whether nothing depends on the size or the order of packets.
fn is_unshaped(direction: &Direction) -> bool {
    direction.rate_bps.is_none()
        && direction.trace.is_none()
        && direction.jitter_ns == 0
        && matches!(direction.loss, Loss::None {})
}

/// Returns whether the device is down; any other error means that it is gone.
fn is_down(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}
