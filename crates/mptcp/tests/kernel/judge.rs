//! The engine with its application, the kernel, and the paths between them, in real time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mptcp::connection::{Connection, Event, Mode};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView};
use mptcp::payload::Payload;
use mptcp::pm::AddressPair;
use mptcp::subflow::CloseReason;
use mptcp::time::Nanos;
use mptcp::wire::{IcmpError, Packet};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::capture::Capture;
use crate::middleboxes::{Middlebox, Place, as_bytes};
use crate::namespace::{Namespace, Program};
use crate::path::{End, Family, Path, ROUTER, address, number_of};
use crate::peer::{Manner, Peer, Report};
use crate::stack::Stack;
use crate::witness::Witness;

/// The listener's port.
const PORT: u16 = 5001;

/// Longer than any of these tests takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The longest wait without reading the peer's reports.
const LOOK_INTERVAL: Nanos = 10_000_000;

/// Packets read from a path before the engine is polled.
const BATCH_LEN: usize = 64;

/// The number of TCP in IP headers.
const TCP: u8 = 6;

/// Seeds of the byte streams to and from the kernel.
const UPLOAD: u32 = 1;
const DOWNLOAD: u32 = 2;

/// The opener of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    Engine,
    Kernel,
}

/// The setting of a test.
pub struct Trial {
    pub opener: Opener,
    pub family: Family,
    /// The address family of all paths except the first, if it differs.
    pub further_family: Option<Family>,
    pub paths: usize,
    /// Bytes to the kernel and from it.
    pub upload: u32,
    pub download: u32,
    pub stack: Stack,
    pub manner: Manner,
    /// The MTU of a router's link towards the kernel, if the kernel is behind a router. The router
    /// is a kernel too.
    pub router_mtu_bytes: Option<u16>,
    /// Whether the kernel requires checksums.
    pub kernel_checksums: bool,
    /// Whether the kernel uses SYN cookies.
    pub kernel_uses_syn_cookies: bool,
    /// Whether a program, and not the kernel, decides about subflows. It accepts all.
    pub kernel_asks_a_program: bool,
    /// Endpoints of the kernel's path manager: arguments of `ip mptcp endpoint add`.
    pub kernel_endpoints: Vec<String>,
}

impl Trial {
    /// Returns a trial with a megabyte in each direction over one IPv4 path.
    pub fn new(opener: Opener) -> Self {
        Self {
            opener,
            family: Family::V4,
            further_family: None,
            paths: 1,
            upload: 1_000_000,
            download: 1_000_000,
            stack: Stack::default(),
            manner: Manner::default(),
            router_mtu_bytes: None,
            kernel_checksums: false,
            kernel_uses_syn_cookies: false,
            kernel_asks_a_program: false,
            kernel_endpoints: Vec::new(),
        }
    }

    /// Returns the address of an end of a path.
    pub fn address(&self, number: usize, end: End) -> IpAddr {
        let family = self.further_family.filter(|_| number > 1);
        address(family.unwrap_or(self.family), number, end)
    }

    fn pairs(&self) -> Arc<[AddressPair]> {
        (1..=self.paths)
            .map(|number| AddressPair {
                local: self.address(number, End::Engine),
                remote: self.address(number, End::Kernel),
            })
            .collect()
    }

    /// Returns the paths to the kernel in that namespace, and the router at which they end, if
    /// there is one.
    fn lead_to(&self, kernel: &Namespace) -> (Option<Namespace>, Vec<Path>) {
        let numbers = 1..=self.paths;
        let Some(mtu_bytes) = self.router_mtu_bytes else {
            let paths = numbers.map(|number| Path::new(kernel, number, End::Kernel as u8));
            return (None, paths.collect());
        };
        let router = Namespace::new();
        let paths = numbers.map(|number| Path::new(&router, number, ROUTER));
        let paths = paths.collect();
        let ends = (1..=self.paths).map(|number| self.address(number, End::Kernel));
        router.route_to(kernel, ends, mtu_bytes);
        (Some(router), paths)
    }

    fn prepare(&self, namespace: &Namespace) {
        namespace.set(
            "net.mptcp.checksum_enabled",
            u8::from(self.kernel_checksums),
        );
        namespace.set("net.mptcp.pm_type", u8::from(self.kernel_asks_a_program));
        // 2 means always.
        namespace.set(
            "net.ipv4.tcp_syncookies",
            2 * u32::from(self.kernel_uses_syn_cookies),
        );
        namespace.ip("mptcp limits set subflows 8 add_addr_accepted 8");
        for endpoint in &self.kernel_endpoints {
            namespace.ip(&format!("mptcp endpoint add {endpoint}"));
        }
    }

    /// Starts the program that decides about subflows: it only listens.
    fn start_path_manager(&self, namespace: &Namespace) -> Option<Program> {
        self.kernel_asks_a_program.then(|| {
            let mut monitor = namespace.command("ip");
            monitor.args(["mptcp", "monitor"]).stdout(Stdio::null());
            Program(monitor.spawn().unwrap())
        })
    }

    fn start_peer(&self, namespace: &Namespace) -> Peer {
        let (local, remote) = match self.opener {
            Opener::Engine => {
                let family = self.further_family.unwrap_or(self.family);
                (SocketAddr::new(unspecified(family), PORT), None)
            }
            Opener::Kernel => (
                SocketAddr::new(self.address(1, End::Kernel), 0),
                Some(SocketAddr::new(self.address(1, End::Engine), PORT)),
            ),
        };
        let streams = [
            &Payload::stream(DOWNLOAD, 0, self.download),
            &Payload::stream(UPLOAD, 0, self.upload),
        ];
        Peer::start(namespace, local, remote, self.manner, streams)
    }
}

/// Returns the unspecified address; that of IPv6 stands for both families.
fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// A running trial.
pub struct Judge {
    pub trial: Trial,
    pub endpoint: Endpoint,
    pub connection: Option<ConnectionId>,
    pub events: Vec<Event>,
    /// Whether the application accepts bytes that were changed in transit. Otherwise they fail the
    /// test.
    pub takes_changed: bool,
    /// Whether it closes when it has written everything. Otherwise the test closes it.
    pub closes: bool,
    pub sent: u32,
    pub received: u32,
    pub peer: Peer,
    _path_manager: Option<Program>,
    pub paths: Vec<Path>,
    /// Packets of all paths pass the middleboxes in this order.
    pub middleboxes: Vec<Middlebox>,
    pub namespace: Namespace,
    _router: Option<Namespace>,
    witness: Witness,
    capture: Capture,
    start: Instant,
}

impl Judge {
    /// Starts both hosts. The connection is opened as soon as the listener is ready.
    pub fn new(trial: Trial) -> Self {
        let namespace = Namespace::new();
        let (router, paths) = trial.lead_to(&namespace);
        trial.prepare(&namespace);
        let network = NetworkView {
            pairs: trial.pairs(),
            ..NetworkView::default()
        };
        let rng = Box::new(Xoshiro256PlusPlus::seed_from_u64(1));
        let mut endpoint = Endpoint::new(network, rng);
        endpoint.listen(PORT, trial.stack.profile());
        Self {
            endpoint,
            connection: None,
            events: Vec::new(),
            takes_changed: false,
            closes: true,
            sent: 0,
            received: 0,
            _path_manager: trial.start_path_manager(&namespace),
            peer: trial.start_peer(&namespace),
            paths,
            middleboxes: vec![as_bytes()],
            namespace,
            _router: router,
            witness: Witness::new(UPLOAD),
            capture: Capture::default(),
            start: Instant::now(),
            trial,
        }
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    /// Runs until `is_done`. Panics with the state if that takes too long.
    pub fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_done(self) {
            self.step();
            assert!(Instant::now() < end, "not done: {}", self.describe());
        }
    }

    /// Runs until both byte streams have arrived and both applications have seen the end.
    pub fn run_to_the_end(&mut self) {
        self.run_until(|judge| judge.closed().is_some() && judge.peer_end().is_some());
        let expected = Report::Ended {
            sent: self.trial.download.into(),
            received: self.trial.upload.into(),
            error: None,
        };
        // The peer's report shows why its kernel reset the connection, if it did.
        assert_eq!(
            (self.closed(), self.received, self.peer_end()),
            (
                Some(CloseReason::Finished),
                self.trial.download,
                Some(&expected)
            ),
            "{}",
            self.describe()
        );
        self.run_until(|judge| judge.counter("MPCurrEstab") == 0);
    }

    fn step(&mut self) {
        self.wait();
        for index in 0..self.paths.len() {
            self.receive(index);
        }
        let now = self.now();
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.peer.listen();
        self.act();
        self.transmit();
        self.act();
        self.transmit();
    }

    /// Waits until a packet arrives or something is due.
    fn wait(&self) {
        let due = self.endpoint.poll_timeout();
        let wait = due.map_or(LOOK_INTERVAL, |at| at.saturating_sub(self.now()));
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: wait.min(LOOK_INTERVAL) as _,
        };
        let mut devices: Vec<_> = self
            .paths
            .iter()
            .map(|path| PollFd::new(path, PollFlags::IN))
            .collect();
        poll(&mut devices, Some(&wait)).unwrap();
    }

    fn receive(&mut self, index: usize) {
        for _ in 0..BATCH_LEN {
            let Some(bytes) = self.paths[index].receive() else {
                return;
            };
            let now = self.now();
            if let Ok(error) = IcmpError::parse(&bytes) {
                self.endpoint.handle_icmp_error(self.now(), &error);
            }
            if is_tcp(&bytes) && self.paths[index].delivers() {
                self.capture.add(now, &bytes);
                let bytes: Arc<[u8]> = bytes.into();
                let (packet, _) = Packet::parse(&bytes).expect("the kernel's packets are right");
                for packet in self.pass(index, End::Kernel, packet) {
                    self.endpoint.handle_packet(now, &packet);
                }
            }
        }
    }

    fn transmit(&mut self) {
        while let Some(packet) = self.endpoint.poll_transmit(self.now()) {
            self.witness.see(&packet);
            let index = number_of(packet.destination) - 1;
            if self.paths[index].delivers() {
                for packet in self.pass(index, End::Engine, packet) {
                    let mut bytes = Vec::new();
                    packet.emit(&mut bytes);
                    self.paths[index].send(&bytes);
                    self.capture.add(self.now(), &bytes);
                }
            }
        }
    }

    /// Returns what the middleboxes make of a packet.
    fn pass(&mut self, path: usize, from: End, packet: Packet) -> Vec<Packet> {
        let place = Place {
            now: self.now(),
            path,
            from: from as usize,
        };
        self.middleboxes
            .iter_mut()
            .fold(vec![packet], |packets, middlebox| {
                packets
                    .into_iter()
                    .flat_map(|packet| middlebox(place, packet))
                    .collect()
            })
    }

    /// Runs the engine's application: accepts or opens the connection, reads and checks, writes,
    /// closes.
    fn act(&mut self) {
        while let Some((_, event)) = self.endpoint.poll_event() {
            self.events.push(event);
        }
        if self.connection.is_none() {
            self.connection = self.open();
        }
        let Some(id) = self.connection else { return };
        while let Some(Some(payload)) = self.endpoint.command(id, Connection::recv) {
            let expected = Payload::stream(DOWNLOAD, self.received.into(), payload.len());
            let is_right = self.takes_changed || payload == expected;
            assert!(is_right, "wrong bytes at {}", self.received);
            self.received += payload.len();
        }
        self.write(id);
    }

    fn open(&mut self) -> Option<ConnectionId> {
        match self.trial.opener {
            Opener::Kernel => self.endpoint.accept(PORT),
            Opener::Engine if self.peer.said.contains(&Report::Listening) => {
                let local = SocketAddr::new(self.trial.address(1, End::Engine), 0);
                let remote = SocketAddr::new(self.trial.address(1, End::Kernel), PORT);
                let profile = self.trial.stack.profile();
                let id = self.endpoint.connect(self.now(), local, remote, &profile);
                Some(id.expect("the families are the same"))
            }
            Opener::Engine => None,
        }
    }

    fn write(&mut self, id: ConnectionId) {
        let left = self.trial.upload - self.sent;
        let capacity = self
            .endpoint
            .connection(id)
            .map_or(0, Connection::send_capacity);
        if left > 0 && capacity > 0 {
            let payload = Payload::stream(UPLOAD, self.sent.into(), left);
            let taken = self
                .endpoint
                .command(id, |connection| connection.send(&payload));
            self.sent += taken.unwrap_or(0);
        }
        if self.sent == self.trial.upload && self.closes {
            self.closes = false;
            self.endpoint.command(id, Connection::close);
        }
    }

    /// Runs a command on the connection.
    pub fn command(&mut self, command: impl FnOnce(&mut Connection)) {
        let id = self.connection.expect("there is a connection");
        self.endpoint.command(id, command);
    }

    /// Adds or removes the engine's address on a path.
    pub fn set_address(&mut self, number: usize, is_up: bool) {
        let address = self.trial.address(number, End::Engine);
        self.endpoint
            .handle_address_change(self.now(), address, is_up);
    }

    /// Sets the priority of the engine's subflows on a path.
    pub fn set_backup(&mut self, number: usize, on: bool) {
        let local = self.trial.address(number, End::Engine);
        self.endpoint.set_backup(self.now(), local, on);
    }

    /// Returns the connection, once there is one.
    pub fn state(&self) -> Option<&Connection> {
        self.connection.and_then(|id| self.endpoint.connection(id))
    }

    /// Returns the mode of the connection.
    pub fn mode(&self) -> Option<Mode> {
        self.state().map(Connection::mode)
    }

    /// Returns why the connection ended, once it has.
    pub fn closed(&self) -> Option<CloseReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { reason } => Some(*reason),
            _ => None,
        })
    }

    /// Returns the peer's last report, once its connection has ended.
    pub fn peer_end(&self) -> Option<&Report> {
        let is_end = |report: &&Report| matches!(report, Report::Ended { .. });
        self.peer.said.iter().find(is_end)
    }

    /// Returns whether the kernel gave its application bytes of the engine's byte stream at a place
    /// that contradicts their mapping. The engine sent them correctly, as the witness has checked.
    pub fn kernel_misplaced_data(&self) -> bool {
        matches!(self.peer_end(), Some(Report::Ended { error: Some(error), .. }) if error.contains("belongs to"))
    }

    /// Keeps all packets in a file of that name.
    pub fn keep_capture(&self, name: &str) {
        self.capture.keep(name);
    }

    /// Returns a counter of the kernel.
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.namespace.counters();
        *counters
            .get(name)
            .unwrap_or_else(|| panic!("this kernel does not count {name}"))
    }

    /// Checks that no counter of trouble has moved, except those in `allowed`.
    pub fn assert_no_trouble_but(&self, allowed: &[&str]) {
        let counters = self.namespace.counters();
        let trouble: Vec<_> = counters
            .iter()
            .filter(|(name, count)| {
                **count > 0 && is_trouble(name) && !allowed.contains(&name.as_str())
            })
            .collect();
        assert!(trouble.is_empty(), "{trouble:?}: {}", self.describe());
    }

    fn describe(&self) -> String {
        let counters = self.namespace.counters();
        let counted: Vec<_> = counters.iter().filter(|(_, count)| **count > 0).collect();
        let state = self.state();
        let subflows: Vec<_> = state.iter().flat_map(|state| state.subflows()).collect();
        format!(
            "sent {}, received {}, {:?}\npeer {:?}\nkernel {counted:?}\n{:?}\n{subflows:#?}",
            self.sent,
            self.received,
            self.events,
            self.peer.said,
            state.map(Connection::counters),
        )
    }
}

/// Returns whether a packet carries TCP, by its IP header without extensions.
fn is_tcp(packet: &[u8]) -> bool {
    match packet[0] >> 4 {
        4 => packet[9] == TCP,
        _ => packet[6] == TCP,
    }
}

/// Returns whether a counter of the kernel stands for something that does not happen between two
/// correct hosts.
fn is_trouble(name: &str) -> bool {
    const PARTS: [&str; 8] = [
        "Fallback",
        "Failure",
        "Corruption",
        "Csum",
        "Infinite",
        "NoDSS",
        "DSSNo",
        "Drop",
    ];
    const NAMES: [&str; 8] = [
        "MPJoinNoTokenFound",
        "MPJoinRejected",
        "MPFailTx",
        "MPFailRx",
        "MPFastcloseTx",
        "MPFastcloseRx",
        "MPRstTx",
        "MPRstRx",
    ];
    PARTS.iter().any(|part| name.contains(part)) || NAMES.contains(&name)
}
