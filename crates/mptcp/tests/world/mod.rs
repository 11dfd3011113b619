//! Two endpoints and the paths between them, in virtual time that jumps to the next wake-up.

mod before_wraps;
pub mod middleboxes;
mod network;
mod promises;
mod stack;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use mptcp::connection::{Connection, Event, Mode, SubflowState};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView};
use mptcp::payload::Payload;
use mptcp::pm::{AddressPair, FourTuple};
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::wire::Packet;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use before_wraps::BeforeWraps;
use network::Arrival;
pub use network::{Faults, Network, PathModel, too_big};
pub use stack::Stack;

/// The port at which the server listens.
pub const PORT: u16 = 5001;

/// One host with its application, which writes a byte stream and closes, and checks what it reads.
pub struct Side {
    pub endpoint: Endpoint,
    pub connection: Option<ConnectionId>,
    pub events: Vec<(Nanos, Event)>,
    /// Bytes to write and bytes written. It closes after them if `closes` is set.
    pub to_send: u64,
    pub sent: u64,
    pub closes: bool,
    /// Whether it writes nothing before the peer's byte stream has ended.
    pub sends_last: bool,
    pub received: u64,
    /// When it starts to read.
    pub reads_at: Nanos,
    /// How long it pauses after each piece that it reads.
    pub read_pause: Nanos,
    /// Whether it accepts bytes that were changed in transit. Otherwise they fail the test.
    pub takes_changed: bool,
    /// Bytes in pieces that differed from what was sent.
    pub changed_bytes: u64,
    /// When the peer's byte stream had arrived completely.
    pub finished_at: Option<Nanos>,
    seed: u32,
    peer_seed: u32,
}

/// The index of the client.
pub const CLIENT: usize = 0;
/// The index of the server.
pub const SERVER: usize = 1;

/// Two hosts and the network between them.
pub struct Pair {
    pub now: Nanos,
    pub sides: [Side; 2],
    pub network: Network,
    /// Every packet that was sent, with its time and sender; empty unless `keeps_log` is set.
    pub log: Vec<(Nanos, usize, Packet)>,
    pub keeps_log: bool,
    /// The number of packets that were sent, and the time of the last one.
    pub packets: usize,
    pub last_packet_at: Nanos,
    address: Addressing,
}

/// Returns the address of one host on a path.
pub type Addressing = fn(path: usize, side: usize) -> IpAddr;

/// IPv4 addresses.
pub fn ipv4(path: usize, side: usize) -> IpAddr {
    IpAddr::from([10, 1, path as u8 + 1, side as u8 + 1])
}

/// IPv6 addresses.
pub fn ipv6(path: usize, side: usize) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(
        0xfd00,
        path as u16 + 1,
        0,
        0,
        0,
        0,
        0,
        side as u16 + 1,
    ))
}

impl Pair {
    /// Creates a pair that is joined by these paths. Both hosts use that stack.
    pub fn new(seed: u64, paths: Vec<PathModel>, stack: &Stack) -> Self {
        Self::of(seed, paths, [stack, stack])
    }

    /// Like [`Self::new`], with a stack for the client and one for the server.
    pub fn of(seed: u64, paths: Vec<PathModel>, stacks: [&Stack; 2]) -> Self {
        Self::addressed(seed, paths, stacks, ipv4)
    }

    /// Like [`Self::of`], with addresses of a family.
    pub fn addressed(
        seed: u64,
        paths: Vec<PathModel>,
        stacks: [&Stack; 2],
        address: Addressing,
    ) -> Self {
        let mut pair = Self::apart(seed, paths, stacks, address, |random, _| Box::new(random));
        pair.connect(stacks[CLIENT], 1);
        pair
    }

    /// Like [`Self::new`], but all sequence numbers, of subflows and of data, start 20 to 50 kB
    /// before they wrap at 32 bits. This is beyond the first burst, whose data numbers MP_CAPABLE
    /// implies.
    pub fn before_wraps(seed: u64, paths: Vec<PathModel>, stack: &Stack) -> Self {
        let mut pair = Self::apart(seed, paths, [stack, stack], ipv4, |random, side| {
            Box::new(BeforeWraps { random, side })
        });
        pair.connect(stack, 1);
        pair
    }

    /// Like [`Self::addressed`], but the client may start on any path. The first is that of the
    /// initial subflow.
    pub fn over_all_paths(
        seed: u64,
        paths: Vec<PathModel>,
        stacks: [&Stack; 2],
        address: Addressing,
    ) -> Self {
        let ways = paths.len();
        let mut pair = Self::apart(seed, paths, stacks, address, |random, _| Box::new(random));
        pair.connect(stacks[CLIENT], ways);
        pair
    }

    /// Creates a listening server and a client. `generator_of` turns a random generator into that
    /// of an endpoint.
    fn apart(
        seed: u64,
        paths: Vec<PathModel>,
        stacks: [&Stack; 2],
        address: Addressing,
        generator_of: impl Fn(Xoshiro256PlusPlus, usize) -> Box<dyn Rng + Send>,
    ) -> Self {
        let pairs_of = |side: usize| {
            let pairs = (0..paths.len()).map(|path| AddressPair {
                local: address(path, side),
                remote: address(path, 1 - side),
            });
            NetworkView {
                pairs: pairs.collect(),
                change_delay: stacks[side].config.behaviour.path_manager_delay,
                ..NetworkView::default()
            }
        };
        let generator = |which: u64| Xoshiro256PlusPlus::seed_from_u64(seed * 3 + which);
        let sides = [CLIENT, SERVER].map(|side| {
            let rng = generator_of(generator(side as u64), side);
            Side::new(Endpoint::new(pairs_of(side), rng), side)
        });
        let path_of = (0..paths.len())
            .flat_map(|path| [CLIENT, SERVER].map(|side| (address(path, side), path)));
        let path_of = path_of.collect();
        let mut pair = Self {
            now: 0,
            sides,
            network: Network::new(paths, path_of, generator(2)),
            log: Vec::new(),
            keeps_log: true,
            packets: 0,
            last_packet_at: 0,
            address,
        };
        pair.sides[SERVER]
            .endpoint
            .listen(PORT, stacks[SERVER].profile());
        pair
    }

    /// Opens a connection of the client over the first `ways` paths.
    fn connect(&mut self, stack: &Stack, ways: usize) {
        let ways = (0..ways).map(|path| FourTuple {
            local: SocketAddr::new((self.address)(path, CLIENT), 0),
            remote: SocketAddr::new((self.address)(path, SERVER), PORT),
        });
        let ways: Vec<_> = ways.collect();
        let client = &mut self.sides[CLIENT];
        let profile = stack.profile();
        let id = client
            .endpoint
            .connect_over(0, ways[0], &ways[1..], &profile);
        client.connection = Some(id.expect("the families are the same"));
    }

    /// Sets how many bytes the client and the server write.
    pub fn transfer(&mut self, upload: u64, download: u64) {
        self.sides[CLIENT].to_send = upload;
        self.sides[SERVER].to_send = download;
    }

    /// Runs until `is_done`. Panics with the state if it is not done by `deadline`.
    pub fn run_until(&mut self, deadline: Nanos, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            let next = self.step();
            let next = next.filter(|at| *at <= deadline);
            assert!(
                next.is_some() || is_done(self),
                "not done by {} ms: {}",
                deadline / MILLISECOND,
                self.describe()
            );
            if let Some(next) = next {
                self.now = next.max(self.now);
            }
        }
    }

    /// Runs for `duration`.
    pub fn run_for(&mut self, duration: Nanos) {
        let end = self.now + duration;
        while let Some(next) = self.step().filter(|at| *at <= end) {
            self.now = next.max(self.now);
        }
        self.now = end;
    }

    /// Runs until both byte streams have arrived and both connections have ended.
    pub fn run_to_the_end(&mut self, deadline: Nanos) {
        self.run_until(deadline, |pair| {
            pair.sides
                .iter()
                .all(|side| side.finished_at.is_some() && side.has_closed())
        });
    }

    /// Runs until both byte streams have arrived. A host may still wait for a path that is cut.
    pub fn run_to_both_finishes(&mut self, deadline: Nanos) {
        self.run_until(deadline, |pair| {
            pair.sides.iter().all(|side| side.finished_at.is_some())
        });
    }

    /// Does everything that is due now. Returns when the next thing is due.
    fn step(&mut self) -> Option<Nanos> {
        for (side, arrival) in self.network.arrivals(self.now) {
            let endpoint = &mut self.sides[side].endpoint;
            match arrival {
                Arrival::Packet(packet) => endpoint.handle_packet(self.now, &packet),
                Arrival::Error(error) => endpoint.handle_icmp_error(self.now, &error),
            }
        }
        let mut timeouts = Vec::new();
        for side in [CLIENT, SERVER] {
            let endpoint = &mut self.sides[side].endpoint;
            if endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
                endpoint.handle_timeout(self.now);
            }
            self.sides[side].act(self.now);
            while self.transmit(side) | self.sides[side].act(self.now) {}
            timeouts.extend(self.sides[side].endpoint.poll_timeout());
            timeouts.extend(self.sides[side].reads_next().filter(|at| *at > self.now));
        }
        timeouts.extend(self.network.next_arrival());
        timeouts.into_iter().min()
    }

    /// Sends everything that a host has to send. Returns whether that was anything.
    fn transmit(&mut self, side: usize) -> bool {
        let before = self.packets;
        while let Some(packet) = self.sides[side].endpoint.poll_transmit(self.now) {
            if self.keeps_log {
                self.log.push((self.now, side, packet.clone()));
            }
            self.packets += 1;
            self.last_packet_at = self.now;
            self.network.send(self.now, side, packet);
        }
        self.packets > before
    }

    /// Returns whether both connections can be joined, or are plain TCP and never can.
    pub fn is_settled(&self) -> bool {
        self.sides.iter().all(|side| {
            let connection = side.connection.and_then(|id| side.endpoint.connection(id));
            connection.is_some_and(|connection| {
                connection.is_fully_established() || connection.mode() == Mode::Plain
            })
        })
    }

    /// Cuts a path, or repairs it. No host is told.
    pub fn set_path(&mut self, path: usize, is_up: bool) {
        self.network.paths[path].is_up = is_up;
    }

    /// Takes an interface of one host down or up. The host's path manager is told.
    pub fn set_interface(&mut self, path: usize, side: usize, is_up: bool) {
        self.set_path(path, is_up);
        let address = (self.address)(path, side);
        self.sides[side]
            .endpoint
            .handle_address_change(self.now, address, is_up);
    }

    /// Returns the payload that a host sent over a path, with retransmissions and reinjections, in
    /// bytes.
    pub fn sent_bytes(&self, side: usize, path: usize) -> u64 {
        let sent = self
            .log
            .iter()
            .filter(|(_, by, packet)| *by == side && packet.source == (self.address)(path, side));
        sent.map(|(_, _, packet)| u64::from(packet.segment.payload.len()))
            .sum()
    }

    /// Returns the number of packets that a host sent and that match.
    pub fn sent_packets(&self, side: usize, matches: impl Fn(&Packet) -> bool) -> usize {
        let sent = self.log.iter().filter(|(_, by, _)| *by == side);
        sent.filter(|(_, _, packet)| matches(packet)).count()
    }

    /// Delivers a packet to a host, whatever its sender.
    pub fn deliver(&mut self, side: usize, packet: &Packet) {
        self.sides[side].endpoint.handle_packet(self.now, packet);
    }

    fn describe(&self) -> String {
        let [client, server] = [CLIENT, SERVER].map(|side| self.sides[side].describe());
        format!("client {client}\nserver {server}")
    }
}

impl Side {
    fn new(endpoint: Endpoint, side: usize) -> Self {
        Self {
            endpoint,
            connection: None,
            events: Vec::new(),
            to_send: 0,
            sent: 0,
            closes: true,
            sends_last: false,
            received: 0,
            reads_at: 0,
            read_pause: 0,
            takes_changed: false,
            changed_bytes: 0,
            finished_at: None,
            seed: side as u32 + 1,
            peer_seed: 2 - side as u32,
        }
    }

    /// Runs the application: accepts connections, reads and checks, writes, closes. Returns whether
    /// it did anything.
    fn act(&mut self, now: Nanos) -> bool {
        let mut has_acted = false;
        while let Some((_, event)) = self.endpoint.poll_event() {
            let is_finished = event == Event::Finished;
            self.events.push((now, event));
            if is_finished {
                self.finished_at.get_or_insert(now);
            }
            has_acted = true;
        }
        if self.connection.is_none() {
            self.connection = self.endpoint.accept(PORT);
            has_acted |= self.connection.is_some();
        }
        let Some(id) = self.connection else {
            return has_acted;
        };
        let before = (self.received, self.sent, self.closes);
        self.read(now, id);
        self.write(id);
        has_acted || before != (self.received, self.sent, self.closes)
    }

    fn read(&mut self, now: Nanos, id: ConnectionId) {
        while self.reads_at <= now
            && let Some(Some(payload)) = self.endpoint.command(id, |connection| connection.recv())
        {
            let expected = Payload::stream(self.peer_seed, self.received, payload.len());
            let is_right = payload == expected;
            assert!(
                is_right || self.takes_changed,
                "wrong bytes at {}",
                self.received
            );
            self.changed_bytes += u64::from(payload.len()) * u64::from(!is_right);
            self.received += u64::from(payload.len());
            self.reads_at = now + self.read_pause;
        }
    }

    /// Returns when it reads again, if there is data.
    fn reads_next(&self) -> Option<Nanos> {
        let unread = self.connection().map_or(0, Connection::unread_bytes);
        (unread > 0).then_some(self.reads_at)
    }

    fn write(&mut self, id: ConnectionId) {
        if self.sends_last && self.finished_at.is_none() {
            return;
        }
        let left = self.to_send - self.sent;
        let len = u32::try_from(left).unwrap_or(u32::MAX);
        let payload = Payload::stream(self.seed, self.sent, len);
        let capacity = self
            .endpoint
            .connection(id)
            .map_or(0, |connection| connection.send_capacity());
        if left > 0 && capacity > 0 {
            let taken = self
                .endpoint
                .command(id, |connection| connection.send(&payload));
            self.sent += u64::from(taken.unwrap_or(0));
        }
        if self.sent == self.to_send && std::mem::take(&mut self.closes) {
            self.endpoint.command(id, |connection| connection.close());
        }
    }

    /// Returns its connection, if there is one.
    pub fn connection(&self) -> Option<&Connection> {
        self.connection.and_then(|id| self.endpoint.connection(id))
    }

    /// Returns its subflows, in the order in which they were added.
    pub fn subflows(&self) -> Vec<SubflowState> {
        let connection = self.connection();
        connection.map_or_else(Vec::new, |connection| connection.subflows().collect())
    }

    fn describe(&self) -> String {
        let is_news = |event: &Event| !matches!(event, Event::Readable | Event::Writable);
        let news = self.events.iter().filter(|(_, event)| is_news(event));
        format!(
            "sent {} of {}, received {}, counters {:?}, events {:#?}, subflows {:#?}",
            self.sent,
            self.to_send,
            self.received,
            self.connection().map(Connection::counters),
            news.collect::<Vec<_>>(),
            self.subflows()
        )
    }

    /// Returns whether its connection has ended.
    pub fn has_closed(&self) -> bool {
        self.events
            .iter()
            .any(|(_, event)| matches!(event, Event::Closed { .. }))
    }

    /// Returns whether such an event happened.
    pub fn has_seen(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(|(_, event)| wanted(event))
    }
}

/// Converts seconds, for messages and bounds.
pub fn seconds(count: u64) -> Nanos {
    count * SECOND
}
