//! Fuzz target: two hosts with one connection and a network that behaves as the input says.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use mptcp::connection::{Connection, Event};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView};
use mptcp::payload::Payload;
use mptcp::pm::AddressPair;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::{IcmpError, Packet, Problem};

use crate::script::Script;
use crate::stack::{self, BUFFER_BYTES, MAX_SUBFLOWS};
use crate::{Generator, forge};

const PORT: u16 = 80;
/// Packets that a host may send without receiving anything. More is an endless loop.
const MAX_BURST: usize = 20_000;
/// Packets in flight to a host. The network drops more than that.
const MAX_UNDER_WAY: usize = 64;
/// Timers that may expire at the same time.
const MAX_EXPIRIES: usize = 100;
/// Packets to each host that can be sent again, changed.
const MAX_SEEN: usize = 8;

/// Runs an input: it sets the parameters of both hosts and then gives commands.
pub fn connection(input: &[u8]) {
    let mut script = Script::new(input);
    let mut world = World::new(&mut script);
    for _ in 0..script.byte() % 8 {
        world.pass_time(10 * MILLISECOND);
        world.deliver_all();
    }
    while let Some(command) = script.command() {
        world.obey(command, &mut script);
        world.check();
    }
}

struct World {
    now: Nanos,
    hosts: [Host; 2],
    /// Whether every packet that arrived was sent by the other host.
    is_honest: bool,
}

struct Host {
    endpoint: Endpoint,
    id: Option<ConnectionId>,
    /// Bytes that the application wrote (`sent`) and read (`received`).
    sent: u64,
    received: u64,
    has_closed: bool,
    /// Packets in flight to this host.
    under_way: VecDeque<Packet>,
    /// The packets that last went to this host.
    seen: VecDeque<Packet>,
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let shape = script.byte();
        let paths = 1 + usize::from(shape & 1);
        let hosts = [0, 1].map(|side| {
            Host::new(
                u64::from(shape >> 1) * 2 + side as u64,
                network(paths, side),
            )
        });
        let mut world = Self {
            now: MILLISECOND,
            hosts,
            is_honest: true,
        };
        let [opener, acceptor] = &mut world.hosts;
        acceptor.endpoint.listen(PORT, stack::profile(script));
        let (local, remote) = (
            SocketAddr::new(address(0, 0), 0),
            SocketAddr::new(address(0, 1), PORT),
        );
        let id = opener
            .endpoint
            .connect(world.now, local, remote, &stack::profile(script));
        opener.id = Some(id.expect("its first connection"));
        world.settle();
        world
    }

    fn obey(&mut self, command: u8, script: &mut Script<'_>) {
        let to = usize::from(command >> 7);
        match command % 16 {
            0..=2 => self.deliver(to, 1 + usize::from(command >> 4 & 7)),
            3 | 4 => self.deliver_all(),
            5 => drop(self.hosts[to].under_way.pop_front()),
            6 => self.repeat(to, script),
            7..=9 => self.forge(to, script),
            10 => self.pass_time(MILLISECOND << (script.byte() % 17)),
            11 | 12 => self.write(to, u32::from(script.word())),
            13 => self.read(to),
            14 => self.end(to, script.byte()),
            _ => match script.byte() {
                how if how & 8 == 0 => self.change_address(to, how),
                _ => self.tell_of_error(to, script),
            },
        }
        self.settle();
    }

    /// Delivers the next `count` packets to a host, in order.
    fn deliver(&mut self, to: usize, count: usize) {
        for _ in 0..count {
            let Some(packet) = self.hosts[to].under_way.pop_front() else {
                return;
            };
            self.hosts[to].note_seen(&packet);
            self.hosts[to].endpoint.handle_packet(self.now, &packet);
        }
    }

    fn deliver_all(&mut self) {
        for to in [0, 1] {
            self.deliver(to, MAX_UNDER_WAY);
            self.settle();
        }
    }

    /// Delivers an old packet again.
    fn repeat(&mut self, to: usize, script: &mut Script<'_>) {
        let host = &mut self.hosts[to];
        if !host.seen.is_empty() {
            let packet = host.seen[script.below(host.seen.len())].clone();
            host.endpoint.handle_packet(self.now, &packet);
        }
    }

    /// Delivers a changed copy of a packet.
    fn forge(&mut self, to: usize, script: &mut Script<'_>) {
        let host = &mut self.hosts[to];
        if host.seen.is_empty() {
            return;
        }
        let mut packet = host.seen[script.below(host.seen.len())].clone();
        forge::change(&mut packet, script);
        if let Some(packet) = forge::read_again(&packet) {
            self.is_honest = false;
            host.endpoint.handle_packet(self.now, &packet);
        }
    }

    /// Advances time by `duration` and lets timers expire.
    fn pass_time(&mut self, duration: Nanos) {
        let end = self.now + duration;
        let mut at_once = 0;
        while let Some(at) = self.next_timeout().filter(|at| *at <= end) {
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(at_once < MAX_EXPIRIES, "a timer that never rests");
            self.now = self.now.max(at);
            for host in &mut self.hosts {
                host.endpoint.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    fn next_timeout(&self) -> Option<Nanos> {
        let timeouts = self.hosts.iter().map(|host| host.endpoint.poll_timeout());
        timeouts.flatten().min()
    }

    fn write(&mut self, side: usize, len: u32) {
        let host = &mut self.hosts[side];
        let payload = Payload::stream(side as u32 + 1, host.sent, len);
        let taken = host.command(|connection| connection.send(&payload));
        host.sent += u64::from(taken.unwrap_or(0));
    }

    fn read(&mut self, side: usize) {
        let is_honest = self.is_honest;
        let host = &mut self.hosts[side];
        while let Some(Some(payload)) = host.command(Connection::recv) {
            let expected = Payload::stream(2 - side as u32, host.received, payload.len());
            assert!(
                !is_honest || payload == expected,
                "wrong bytes at {}",
                host.received
            );
            host.received += u64::from(payload.len());
        }
    }

    fn end(&mut self, side: usize, how: u8) {
        self.hosts[side].command(|connection| match how % 16 {
            0 => connection.abort(),
            _ => connection.close(),
        });
    }

    fn change_address(&mut self, side: usize, how: u8) {
        let (local, is_on) = (address(usize::from(how & 1), side), how & 2 == 0);
        let endpoint = &mut self.hosts[side].endpoint;
        match how & 4 {
            0 => endpoint.handle_address_change(self.now, local, is_on),
            _ => endpoint.set_backup(self.now, local, is_on),
        }
    }

    /// Delivers an ICMP error that says a packet did not arrive, whether or not it did.
    fn tell_of_error(&mut self, to: usize, script: &mut Script<'_>) {
        let sent = &self.hosts[1 - to].seen;
        if sent.is_empty() {
            return;
        }
        let packet = &sent[script.below(sent.len())];
        let error = IcmpError {
            problem: match script.byte() % 4 {
                0 => Problem::Refused,
                1 => Problem::Unreachable,
                _ => Problem::TooBig {
                    mtu_bytes: script.word().into(),
                },
            },
            sender: SocketAddr::new(packet.source, packet.segment.source_port),
            receiver: SocketAddr::new(packet.destination, packet.segment.destination_port),
            seq: packet.segment.seq,
        };
        self.hosts[to].endpoint.handle_icmp_error(self.now, &error);
    }

    /// Takes the packets that the hosts send and puts them in flight to the other host.
    fn settle(&mut self) {
        for side in [0, 1] {
            let packets = self.hosts[side].transmit(self.now);
            let other = &mut self.hosts[1 - side];
            other.under_way.extend(packets);
            other.under_way.truncate(MAX_UNDER_WAY);
        }
    }

    fn check(&self) {
        for host in &self.hosts {
            if let Some(connection) = host.id.and_then(|id| host.endpoint.connection(id)) {
                check(connection);
            }
        }
    }
}

impl Host {
    fn new(seed: u64, network: NetworkView) -> Self {
        Self {
            endpoint: Endpoint::new(network, Box::new(Generator(seed))),
            id: None,
            sent: 0,
            received: 0,
            has_closed: false,
            under_way: VecDeque::new(),
            seen: VecDeque::new(),
        }
    }

    fn command<T>(&mut self, command: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        self.endpoint.command(self.id?, command)
    }

    fn note_seen(&mut self, packet: &Packet) {
        self.seen.truncate(MAX_SEEN - 1);
        self.seen.push_front(packet.clone());
    }

    fn transmit(&mut self, now: Nanos) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(packet) = self.endpoint.poll_transmit(now) {
            assert!(packet.wire_len() <= 2_000 + 100);
            packets.push(packet);
            assert!(
                packets.len() < MAX_BURST,
                "packets without end: {:?}",
                &packets[packets.len() - 3..]
            );
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.id = self.id.or(Some(id));
            if self.id == Some(id) && matches!(event, Event::Closed { .. }) {
                assert!(!self.has_closed, "closed twice");
                self.has_closed = true;
            }
        }
        packets
    }
}

/// Checks what holds at any time: buffers are bounded, and no data is acknowledged that was not
/// sent.
fn check(connection: &Connection) {
    assert!(connection.subflows().count() <= MAX_SUBFLOWS);
    assert!(connection.send_capacity() <= BUFFER_BYTES);
    let kept = connection.out_of_order_bytes() + connection.unread_bytes();
    assert!(
        kept <= (1 + MAX_SUBFLOWS as u64) * 2 * BUFFER_BYTES,
        "{kept} bytes kept"
    );
    for subflow in connection.subflows() {
        assert!(subflow.counters.acked_bytes <= subflow.counters.sent_bytes);
        assert!(subflow.window.cwnd_bytes.is_finite() && subflow.window.cwnd_bytes > 0.0);
    }
}

fn network(paths: usize, side: usize) -> NetworkView {
    let pairs = (0..paths).map(|path| AddressPair {
        local: address(path, side),
        remote: address(path, 1 - side),
    });
    NetworkView {
        pairs: pairs.collect(),
        ..NetworkView::default()
    }
}

fn address(path: usize, side: usize) -> IpAddr {
    IpAddr::from([10, 0, path as u8, side as u8 + 1])
}
