//! An application that keeps its bulk data off an expensive interface, and its messages on all (RFC 6897): a phone uploads
//! photographs over a WLAN that breaks down for two seconds, while LTE is there and costs by the byte.
//!
//! ```text
//! cargo run --release --package mptcp --example metered
//! ```
//!
//! Two connections to the same server: for the photographs the application makes the subflow over LTE a backup one, for the
//! messages it takes the scheduler `redundant`. Beside it the same application that leaves all that alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mptcp::connection::{Algorithms, Config, Connection, Event};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView, Profile};
use mptcp::payload::Payload;
use mptcp::pm::{self, AddressPair};
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::wire::Packet;
use mptcp::{cc, sched};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

const PORT: u16 = 443;
const PHOTOGRAPHS_BYTES: u32 = 6_000_000;
const MESSAGE_BYTES: u32 = 200;
const MESSAGE_EVERY: Nanos = 100 * MILLISECOND;
const DURATION: Nanos = 10 * SECOND;

/// A link of a rate and a delay, the same both ways.
struct Link {
    name: &'static str,
    ns_per_byte: Nanos,
    delay: Nanos,
    /// When it carries nothing.
    broken: std::ops::Range<Nanos>,
    /// By direction: when it has sent all that it was given.
    free_at: [Nanos; 2],
    carried_bytes: u64,
}

impl Link {
    /// When a packet that goes now arrives, if it does.
    fn arrival(&mut self, now: Nanos, from: usize, packet: &Packet) -> Option<Nanos> {
        let bytes = packet.wire_len() as u64;
        if self.broken.contains(&now) {
            return None;
        }
        self.carried_bytes += bytes;
        let sent = self.free_at[from].max(now) + bytes * self.ns_per_byte;
        self.free_at[from] = sent;
        Some(sent + self.delay)
    }
}

fn links() -> [Link; 2] {
    let link = |name, mbit_per_s: Nanos, delay, broken| Link {
        name,
        ns_per_byte: 8_000 / mbit_per_s,
        delay,
        broken,
        free_at: [0; 2],
        carried_bytes: 0,
    };
    [
        link("WLAN", 8, 10 * MILLISECOND, 3 * SECOND..5 * SECOND),
        link("LTE", 8, 30 * MILLISECOND, 0..0),
    ]
}

/// The address of the phone (0) or the server (1) on a link.
fn address(link: usize, side: usize) -> IpAddr {
    IpAddr::from([10, 0, link as u8, side as u8 + 1])
}

fn profile() -> Profile {
    Profile {
        config: Arc::new(Config::default()),
        algorithms: Box::new(|connection| Algorithms {
            congestion_control: cc::by_name("lia").unwrap()(&Default::default()),
            scheduler: sched::by_name("min_rtt").unwrap()(&Default::default()),
            path_manager: pm::by_name("full_mesh").unwrap()(connection, &Default::default()),
        }),
    }
}

fn host(side: usize) -> Endpoint {
    let pairs = (0..2).map(|link| AddressPair {
        local: address(link, side),
        remote: address(link, 1 - side),
    });
    let network = NetworkView {
        pairs: pairs.collect(),
        ..Default::default()
    };
    let rng = Xoshiro256PlusPlus::seed_from_u64(side as u64);
    Endpoint::new(network, Box::new(rng))
}

/// Both hosts and what is between them.
struct World {
    now: Nanos,
    hosts: [Endpoint; 2],
    links: [Link; 2],
    /// When, to which host, which packet; in the order in which they were sent.
    under_way: BinaryHeap<Reverse<(Nanos, usize, usize)>>,
    packets: Vec<Packet>,
}

impl World {
    fn send_all(&mut self) {
        for from in 0..2 {
            while let Some(packet) = self.hosts[from].poll_transmit(self.now) {
                let link = (0..2).find(|link| address(*link, from) == packet.source);
                let link = &mut self.links[link.expect("each address is on a link")];
                if let Some(at) = link.arrival(self.now, from, &packet) {
                    let number = self.packets.len();
                    self.under_way.push(Reverse((at, number, 1 - from)));
                    self.packets.push(packet);
                }
            }
        }
    }

    /// Goes on to the next thing that happens, at the latest to `until`.
    fn step(&mut self, until: Nanos) {
        self.send_all();
        let arrival = self.under_way.peek().map(|Reverse((at, ..))| *at);
        let timeouts = self.hosts.iter().filter_map(Endpoint::poll_timeout);
        let next = timeouts.chain(arrival).min().unwrap_or(until);
        self.now = next.clamp(self.now, until);
        while let Some(&Reverse((at, number, to))) = self.under_way.peek() {
            if at > self.now {
                break;
            }
            self.under_way.pop();
            self.hosts[to].handle_packet(self.now, &self.packets[number]);
        }
        for host in &mut self.hosts {
            if host.poll_timeout().is_some_and(|at| at <= self.now) {
                host.handle_timeout(self.now);
            }
        }
    }
}

/// What the phone wants of its connections.
struct Phone {
    is_careful: bool,
    photographs: ConnectionId,
    messages: ConnectionId,
    uploaded_bytes: u32,
    /// When each message was written.
    written_at: Vec<Nanos>,
}

impl Phone {
    fn connect(world: &mut World, is_careful: bool) -> Self {
        let to = SocketAddr::new(address(0, 1), PORT);
        let from = SocketAddr::new(address(0, 0), 0);
        let mut connect = || world.hosts[0].connect(0, from, to, &profile()).unwrap();
        let (photographs, messages) = (connect(), connect());
        if is_careful {
            world.hosts[0].command(messages, |connection| {
                connection.set_scheduler(sched::by_name("redundant").unwrap()(&Default::default()));
            });
        }
        Self {
            is_careful,
            photographs,
            messages,
            uploaded_bytes: 0,
            written_at: Vec::new(),
        }
    }

    fn act(&mut self, world: &mut World) {
        while let Some((id, event)) = world.hosts[0].poll_event() {
            // A new subflow for the photographs: if it is over LTE, only as a last resort.
            if let Event::SubflowEstablished { id: subflow, four } = event
                && self.is_careful
                && id == self.photographs
                && four.local.ip() == address(1, 0)
            {
                world.hosts[0].command(id, |connection| connection.set_backup(subflow, true));
            }
        }
        let left = Payload::stream(1, 0, PHOTOGRAPHS_BYTES - self.uploaded_bytes);
        let taken = world.hosts[0].command(self.photographs, |connection| connection.send(&left));
        self.uploaded_bytes += taken.unwrap_or(0);
        if world.now >= MESSAGE_EVERY * (self.written_at.len() as Nanos + 1) {
            let message = Payload::stream(2, 0, MESSAGE_BYTES);
            world.hosts[0].command(self.messages, |connection| connection.send(&message));
            self.written_at.push(world.now);
        }
    }
}

/// What the server reads.
#[derive(Default)]
struct Server {
    connections: Vec<(ConnectionId, u64)>,
    photographs_at: Option<Nanos>,
    /// When each message had come.
    messages_at: Vec<Nanos>,
}

impl Server {
    fn act(&mut self, world: &mut World) {
        let host = &mut world.hosts[1];
        while host.poll_event().is_some() {}
        while let Some(id) = host.accept(PORT) {
            self.connections.push((id, 0));
        }
        for (which, (id, received)) in self.connections.iter_mut().enumerate() {
            while let Some(Some(bytes)) = host.command(*id, Connection::recv) {
                *received += u64::from(bytes.len());
            }
            // The first connection has the photographs.
            if which == 0 && *received == u64::from(PHOTOGRAPHS_BYTES) {
                self.photographs_at.get_or_insert(world.now);
            }
            while which == 1
                && self.messages_at.len() < (*received / u64::from(MESSAGE_BYTES)) as usize
            {
                self.messages_at.push(world.now);
            }
        }
    }
}

fn run(is_careful: bool) {
    let mut world = World {
        now: 0,
        hosts: [host(0), host(1)],
        links: links(),
        under_way: BinaryHeap::new(),
        packets: Vec::new(),
    };
    world.hosts[1].listen(PORT, profile());
    let mut phone = Phone::connect(&mut world, is_careful);
    let mut server = Server::default();
    while world.now < DURATION {
        let next_message = MESSAGE_EVERY * (phone.written_at.len() as Nanos + 1);
        world.step(next_message.min(DURATION));
        server.act(&mut world);
        phone.act(&mut world);
    }
    let delays = phone.written_at.iter().zip(&server.messages_at);
    let mut delays: Vec<_> = delays.map(|(from, to)| (to - from) / MILLISECOND).collect();
    delays.sort_unstable();
    let manner = if is_careful { "careful" } else { "careless" };
    let carried = world
        .links
        .each_ref()
        .map(|link| format!("{} {} kB", link.name, link.carried_bytes / 1000));
    let uploaded = server.photographs_at.map_or("not yet".to_owned(), |at| {
        format!("after {:.1} s", at as f64 / 1e9)
    });
    println!(
        "{manner:9} {}, photographs there {uploaded}, messages: median {} ms, slowest {} ms",
        carried.join(", "),
        delays[delays.len() / 2],
        delays[delays.len() - 1],
    );
}

fn main() {
    run(false);
    run(true);
}
