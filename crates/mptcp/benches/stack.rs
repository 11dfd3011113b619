//! Two endpoints back to back, with two subflows and symbolic payload: time and allocations for each data segment with its
//! acknowledgment, and how much memory connections take.
//!
//! Usage: `cargo bench -p mptcp --bench stack`; one figure per line. With the arguments `repeat segment 1000` it does nothing but
//! that, without a clock.

use std::alloc::System;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use mptcp::connection::{Algorithms, Buffer, Config};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView, Profile};
use mptcp::payload::Payload;
use mptcp::pm::AddressPair;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::Packet;
use mptcp::{cc, pm, sched};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PORT: u16 = 5001;
const SUBFLOWS: usize = 2;
const TRANSFER_BYTES: u64 = 100_000_000;
/// The transfer is timed in parts, and the fastest tenth of them counts: whatever else the machine does slows down the rest.
const PARTS: u64 = 200;
/// A window that stays in the processor's caches, as in the measurement of the peer.
const BUFFER_BYTES: u64 = 1 << 18;
/// Payload of a full-sized segment: 1460 bytes without timestamps and a DSS with long numbers.
const SEGMENT_BYTES: u32 = 1420;
const ROUND_TRIP: Nanos = 10 * MILLISECOND;
const IDLE_CONNECTIONS: usize = 1000;

/// A client and a server with nothing between them but time.
struct Stack {
    now: Nanos,
    client: Endpoint,
    server: Endpoint,
    /// Packets under way; kept, so that it allocates nothing while it is measured.
    packets: Vec<Packet>,
    data_segments: u64,
    acknowledgments: u64,
}

fn address(subflow: usize, side: u8) -> IpAddr {
    IpAddr::from([10, 1, subflow as u8 + 1, side + 1])
}

fn endpoint(side: u8) -> Endpoint {
    let pairs = (0..SUBFLOWS).map(|subflow| AddressPair {
        local: address(subflow, side),
        remote: address(subflow, 1 - side),
    });
    let network = NetworkView {
        pairs: pairs.collect(),
        ..NetworkView::default()
    };
    let rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(side));
    Endpoint::new(network, Box::new(rng))
}

fn profile(buffer_bytes: u64) -> Profile {
    Profile {
        config: Arc::new(Config {
            send_buffer: Buffer::Fixed(buffer_bytes),
            ..Config::default()
        }),
        algorithms: Box::new(|connection| Algorithms {
            congestion_control: cc::by_name("reno").expect("a congestion control")(
                &cc::Parameters::default(),
            ),
            scheduler: sched::by_name("min_rtt").expect("a scheduler")(
                &sched::Parameters::default(),
            ),
            path_manager: pm::by_name("full_mesh").expect("a path manager")(
                connection,
                &pm::Parameters::default(),
            ),
        }),
    }
}

impl Stack {
    fn new(buffer_bytes: u64) -> Self {
        let mut server = endpoint(1);
        server.listen(PORT, profile(buffer_bytes));
        Self {
            now: 0,
            client: endpoint(0),
            server,
            packets: Vec::new(),
            data_segments: 0,
            acknowledgments: 0,
        }
    }

    fn connect(&mut self, profile: &Profile) -> ConnectionId {
        let local = SocketAddr::new(address(0, 0), 0);
        let remote = SocketAddr::new(address(0, 1), PORT);
        let id = self.client.connect(self.now, local, remote, profile);
        id.expect("the families are the same")
    }

    /// What the client has to send arrives, each packet with the answers to it; these arrive at the end of the round.
    fn round(&mut self) {
        self.now += ROUND_TRIP;
        self.deliver_answers();
        let mut packets = std::mem::take(&mut self.packets);
        for endpoint in [&mut self.client, &mut self.server] {
            if endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
                endpoint.handle_timeout(self.now);
            }
        }
        while let Some(packet) = self.client.poll_transmit(self.now) {
            self.data_segments += u64::from(!packet.segment.payload.is_empty());
            self.server.handle_packet(self.now, &packet);
            while let Some(answer) = self.server.poll_transmit(self.now) {
                packets.push(answer);
            }
        }
        while let Some(packet) = self.server.poll_transmit(self.now) {
            packets.push(packet);
        }
        self.acknowledgments += packets.len() as u64;
        self.packets = packets;
        while self.client.poll_event().is_some() {}
        while self.server.poll_event().is_some() {}
    }

    fn deliver_answers(&mut self) {
        for packet in self.packets.drain(..) {
            self.client.handle_packet(self.now, &packet);
        }
    }

    /// Goes on until all handshakes and joins are over.
    fn settle(&mut self) {
        (0..20).for_each(|_| self.round());
    }

    /// The client says a word, which is read.
    fn greet(&mut self, client: ConnectionId, server: ConnectionId) {
        let word = Payload::stream(1, 0, 100);
        let sent = self.client.command(client, |it| it.send(&word));
        assert_eq!(sent, Some(100));
        self.settle();
        assert_eq!(self.read(server), 100);
    }

    fn subflows(&self, client: ConnectionId) -> usize {
        let connection = self.client.connection(client);
        connection.expect("it is open").subflows().count()
    }

    fn accept(&mut self) -> ConnectionId {
        self.server.accept(PORT).expect("it is established")
    }

    fn write(&mut self, id: ConnectionId, offset: u64) -> u64 {
        let payload = Payload::stream(1, offset, u32::MAX);
        let written = self.client.command(id, |it| it.send(&payload));
        u64::from(written.expect("the connection is there"))
    }

    fn read(&mut self, id: ConnectionId) -> u64 {
        let read = self.server.command(id, |it| {
            let all = std::iter::from_fn(|| it.recv());
            all.map(|payload| u64::from(payload.len())).sum()
        });
        read.expect("the connection is there")
    }

    fn transfer(&mut self, (client, server): (ConnectionId, ConnectionId), bytes: u64) {
        let (mut written, mut received) = (0, 0);
        while received < bytes {
            written += self.write(client, written);
            self.round();
            received += self.read(server);
        }
    }
}

/// Time and allocations for each data segment of a long transfer after its first bytes.
fn segment() {
    let mut stack = Stack::new(BUFFER_BYTES);
    let client = stack.connect(&profile(BUFFER_BYTES));
    stack.settle();
    let ids = (client, stack.accept());
    stack.transfer(ids, TRANSFER_BYTES / 10);
    (stack.data_segments, stack.acknowledgments) = (0, 0);
    let mut times_ns = Vec::with_capacity(PARTS as usize);
    let before = ALLOCATOR.stats();
    for _ in 0..PARTS {
        times_ns.push(part_ns(&mut stack, ids));
    }
    let change = ALLOCATOR.stats() - before;
    times_ns.sort_by(f64::total_cmp);
    let segments = stack.data_segments as f64;
    let allocations = (change.allocations + change.reallocations) as f64;
    println!("segment {:.1}", times_ns[times_ns.len() / 10]);
    println!("segment-allocations {:.4}", allocations / segments);
    println!(
        "segment-acknowledgments {:.3}",
        stack.acknowledgments as f64 / segments
    );
}

/// So many data segments and their acknowledgments and nothing else, for who counts instructions.
fn repeat(segments: &str) {
    let segments: u64 = segments.parse().expect("a number of segments");
    let mut stack = Stack::new(BUFFER_BYTES);
    let client = stack.connect(&profile(BUFFER_BYTES));
    stack.settle();
    let ids = (client, stack.accept());
    stack.transfer(ids, segments * u64::from(SEGMENT_BYTES));
}

/// Time for each data segment of a part of the transfer.
fn part_ns(stack: &mut Stack, ids: (ConnectionId, ConnectionId)) -> f64 {
    let before = stack.data_segments;
    let begun = Instant::now();
    stack.transfer(ids, TRANSFER_BYTES / PARTS);
    begun.elapsed().as_nanos() as f64 / (stack.data_segments - before) as f64
}

fn held_bytes() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

/// Memory of both ends for each subflow of connections that do nothing. Each has brought a few bytes across before: only then
/// there is a second subflow.
fn idle_state() {
    let mut stack = Stack::new(BUFFER_BYTES);
    let profile = profile(BUFFER_BYTES);
    let before = held_bytes();
    for _ in 0..IDLE_CONNECTIONS {
        let client = stack.connect(&profile);
        stack.settle();
        let server = stack.accept();
        stack.greet(client, server);
        assert_eq!(stack.subflows(client), SUBFLOWS);
    }
    stack.packets = Vec::new();
    let subflows = (IDLE_CONNECTIONS * SUBFLOWS) as f64;
    println!(
        "segment-idle-subflow-bytes {:.0}",
        (held_bytes() - before) / subflows
    );
}

/// Memory that the sender holds for each segment that it has sent and nobody has acknowledged: what is freed with them, in a
/// window of thousands.
fn unacknowledged_state() {
    let buffer_bytes = Config::default().send_buffer.initial_bytes();
    let mut stack = Stack::new(buffer_bytes);
    let client = stack.connect(&profile(buffer_bytes));
    stack.settle();
    let ids = (client, stack.accept());
    stack.transfer(ids, TRANSFER_BYTES);
    stack.deliver_answers();
    stack.write(client, 0);
    while stack.client.poll_transmit(stack.now).is_some() {}
    let connection = stack.client.connection(client).expect("it is open");
    let in_flight = connection.subflows().map(|it| it.window.in_flight_bytes);
    let segments = in_flight.sum::<u32>() / SEGMENT_BYTES;
    let before = held_bytes();
    stack.client.forget(client);
    println!("segment-unacknowledged-segments {segments}");
    println!(
        "segment-unacknowledged-bytes {:.0}",
        (before - held_bytes()) / f64::from(segments)
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["repeat", "segment", segments, ..] => repeat(segments),
        _ => {
            segment();
            idle_state();
            unacknowledged_state();
        }
    }
}
