//! Sends a UDP echo along every path, all at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emulation::link::longest_wait_ns;
use experiment::addressing::port_of_flow;
use experiment::resolved::{
    Direction, Experiment, Flow, FlowEnd, HopDirection, Host, Install, Link, Loss, Path, Stack,
    Transport,
};
use experiment::time::Nanos;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::super::addresses::{Family, PlaceKind};
use super::super::{Hosts, in_one_thread};
use super::knock::Knock;
use super::name_of;
use crate::LiveError;

/// The port of the echo service (RFC 862). No other program runs in the namespaces yet.
const PORT: u16 = 7;

/// How late the best attempt may be on a busy machine.
const SLACK_NS: Nanos = 10_000_000;

/// How long a controlled switch may hold a packet for each port of all switches, because Open
/// vSwitch looks at all of them in turn, and echoes of other paths pass at the same time. Up to
/// 15 us were seen on two cores.
const SLACK_PER_PORT_NS: Nanos = 25_000;

/// Echoes that are waited for at once. With more, this program's own work would show in the times.
const AT_ONCE: usize = 64;

/// Attempts until a path is given up.
pub(super) const ATTEMPTS: u32 = 30;

/// How long a controller of the user may take until its entries are there, as it does not say, and
/// how long another machine may take until it answers.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(5);

/// The interval at which other machines are asked whether they still need answers.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Echoes over a real link, whose shortest round trip counts, because the first one also waits for
/// the resolution of link-layer addresses.
const ECHOES_OVER_REAL_LINK: usize = 5;

/// The wait for an answer over a real link, after which another echo is sent.
const PATIENCE_OVER_REAL_LINK_NS: Nanos = 200_000_000;

/// If the description lets less than this share of echoes through, the path is not verified.
const SMALLEST_CHANCE: f64 = 0.2;

/// The largest packet: IPv4 or IPv6 header, UDP header and content.
const PACKET_BYTES: u32 = 40 + 8 + CONTENT_BYTES as u32;

/// Index of the path, number of the attempt, and whether it is the answer.
const CONTENT_BYTES: usize = 9;

/// Names the operation in errors of the system.
const WAITING: &str = "waiting for echoes";

/// An echo along one path.
struct Probe {
    path: String,
    /// Whether its source and its destination are on this machine.
    is_ours: bool,
    is_answered_here: bool,
    /// The host of the destination, for errors.
    towards: String,
    source: SocketAddr,
    destination: SocketAddr,
    /// The real link that it crosses, for whose time there is no description.
    real_link: Option<String>,
    /// How long it is attempted at least.
    patience: Duration,
    /// The shortest and the longest time that the description allows.
    expected_ns: (Nanos, Nanos),
    made: Instant,
    sent: Vec<Instant>,
    answers: usize,
    best_ns: Option<Nanos>,
    arrived: bool,
    refused: Option<io::Error>,
}

/// A message read from a socket.
struct Message {
    probe: usize,
    attempt: usize,
    is_answer: bool,
}

/// Sends an echo along every path that begins here, and waits for the answers. Then answers the
/// echoes of other machines as long as `is_asked` returns true. Returns the shortest round trip over
/// each real link that was crossed from here.
///
/// # Errors
/// Names the first path, in order of declaration, along which no echo came back or none within the
/// described time.
pub(super) fn verify(
    hosts: &Hosts,
    experiment: &Experiment,
    is_asked: impl FnMut() -> Result<bool, LiveError>,
) -> Result<BTreeMap<String, Nanos>, LiveError> {
    let (mut probes, knocks) = probes(hosts, experiment);
    exchange(hosts, &mut probes, is_asked)?;
    knocks.iter().try_for_each(Knock::verify)?;
    let over_real_links = probes.into_iter();
    Ok(over_real_links
        .filter_map(|probe| Some((probe.real_link?, probe.best_ns?)))
        .collect())
}

fn exchange(
    hosts: &Hosts,
    probes: &mut [Probe],
    mut is_asked: impl FnMut() -> Result<bool, LiveError>,
) -> Result<(), LiveError> {
    if probes.is_empty() {
        return Ok(());
    }
    let sockets = Sockets::open(hosts, probes)?;
    loop {
        // Takes the first paths that have not succeeded yet.
        let wanting: Vec<usize> = (0..probes.len())
            .filter(|&index| probes[index].is_ours && !probes[index].has_succeeded())
            .take(AT_ONCE)
            .collect();
        if wanting.is_empty() && !is_asked()? {
            return Ok(());
        }
        let now = Instant::now();
        let attempts = wanting.iter().map(|&index| probes[index].next_attempt());
        let next = attempts.min().unwrap_or(now + LOOK_EVERY);
        for index in wanting {
            if probes[index].next_attempt() <= now {
                probes[index].attempt(index, &sockets)?;
            }
        }
        for (at, from, message) in sockets.receive(next.saturating_duration_since(now))? {
            sockets.handle(at, from, &message, probes)?;
        }
    }
}

/// By what controlled switches tell the packets of a path from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinction {
    Addresses,
    /// An earlier flow between the same addresses takes other links.
    Port,
    /// An earlier path of the flow has the same addresses and other links. Only subflows differ.
    Subflow,
}

/// The links of the first path between two addresses, of all flows and of each.
#[derive(Default)]
struct Distinctions<'a> {
    of_all: BTreeMap<[IpAddr; 2], Vec<&'a str>>,
    of_flow: BTreeMap<(&'a str, [IpAddr; 2]), Vec<&'a str>>,
}

impl<'a> Distinctions<'a> {
    fn of(&mut self, flow: &'a Flow, mut ends: [IpAddr; 2], path: &'a Path) -> Distinction {
        let mut links: Vec<&str> = path.hops.iter().map(|hop| hop.link.as_str()).collect();
        if ends[0] > ends[1] {
            ends.reverse();
            links.reverse();
        }
        let of_flow = self.of_flow.entry((&flow.id, ends));
        let of_flow = of_flow.or_insert_with(|| links.clone());
        let of_all = self.of_all.entry(ends).or_insert_with(|| links.clone());
        if *of_flow != links {
            Distinction::Subflow
        } else if *of_all != links {
            Distinction::Port
        } else {
            Distinction::Addresses
        }
    }
}

/// Returns the port at which a flow is accepted.
fn port_at_acceptor(experiment: &Experiment, flow: &Flow) -> u16 {
    let index = experiment.flows.iter().position(|one| one.id == flow.id);
    index.and_then(port_of_flow).unwrap_or(PORT)
}

/// Returns the echoes, and the connections for paths along which no echo over UDP goes.
fn probes(hosts: &Hosts, experiment: &Experiment) -> (Vec<Probe>, Vec<Knock>) {
    let mut asked = BTreeSet::new();
    let mut distinctions = Distinctions::default();
    let mut knocks = Vec::new();
    let control = experiment.control.as_ref();
    let is_controlled = control.is_some_and(|control| control.command.is_some());
    let patience = match is_controlled || !experiment.machines().is_empty() {
        true => PATIENCE_WITH_OTHERS,
        false => Duration::ZERO,
    };
    let mut probes = Vec::new();
    for (flow, path) in hosts.usable_paths(experiment) {
        let [local, remote] = [&path.local, &path.remote].map(|id| hosts.layout.port_of[id]);
        let addresses = Family::BOTH.into_iter().find_map(|family| {
            Some((
                hosts.address(local, family)?,
                hosts.address(remote, family)?,
            ))
        });
        let Some((source, destination)) = addresses else {
            continue;
        };
        let way = Way::new(hosts, experiment, path);
        let real_link = real_link_of(hosts, experiment, path);
        let expected_ns = match real_link {
            Some(_) => (0, Nanos::MAX),
            None => (way.shortest_ns, way.longest_ns + SLACK_NS),
        };
        let port = match distinctions.of(flow, [source, destination], path) {
            Distinction::Addresses => PORT,
            Distinction::Port => port_at_acceptor(experiment, flow),
            Distinction::Subflow => continue,
        };
        if way.chance < SMALLEST_CHANCE {
            continue;
        }
        if port != PORT && flow.transport != Transport::Udp {
            let ends = [(&flow.from, source), (&flow.to, destination)];
            knocks.extend(knock(hosts, experiment, (flow, path), ends, expected_ns));
            continue;
        }
        let source = SocketAddr::new(source, PORT);
        let destination = SocketAddr::new(destination, port);
        if !asked.insert((source, destination)) {
            continue;
        }
        probes.push(Probe {
            path: name_of(flow, path),
            is_ours: hosts.is_here(local),
            is_answered_here: hosts.is_here(remote),
            towards: flow.to.clone(),
            source,
            destination,
            real_link,
            patience,
            expected_ns,
            made: Instant::now(),
            sent: Vec::new(),
            answers: 0,
            best_ns: None,
            arrived: false,
            refused: None,
        });
    }
    (probes, knocks)
}

/// Returns the id of the real link that a path crosses. It is the only link of the path, because
/// both its ends are hosts.
fn real_link_of(hosts: &Hosts, experiment: &Experiment, path: &Path) -> Option<String> {
    let hops = path.hops.iter();
    let mut links = hops.map(|hop| &experiment.links[hosts.layout.link_of[&hop.link]]);
    links.find(|link| link.real).map(|link| link.id.clone())
}

/// Returns the connection that verifies a path of a flow over TCP. Returns `None` if the userspace
/// stack would have to answer, which does not run yet, or if entries come with the first packet.
fn knock(
    hosts: &Hosts,
    experiment: &Experiment,
    (flow, path): (&Flow, &Path),
    mut ends: [(&String, IpAddr); 2],
    expected_ns: (Nanos, Nanos),
) -> Option<Knock> {
    // A reactive controller would take it for the first subflow of the flow.
    let control = experiment.control.as_ref()?;
    if control.install == Install::Reactive {
        return None;
    }
    let is_ours = |host: &Host| host.stack == Stack::Userspace;
    let mut hosts_of_flow = experiment.hosts.iter();
    if hosts_of_flow.any(|host| is_ours(host) && [&flow.from, &flow.to].contains(&&host.id)) {
        return None;
    }
    if flow.opened_by == FlowEnd::To {
        ends.reverse();
    }
    let [(opener, source), (_, acceptor)] = ends;
    Some(Knock {
        path: name_of(flow, path),
        namespace: Arc::clone(hosts.namespace(opener)?),
        source,
        destination: SocketAddr::new(acceptor, port_at_acceptor(experiment, flow)),
        expected_ns,
    })
}

/// What the description says about an echo along a path.
struct Way {
    chance: f64,
    shortest_ns: Nanos,
    longest_ns: Nanos,
}

impl Way {
    fn new(hosts: &Hosts, experiment: &Experiment, path: &Path) -> Self {
        let varied_ns = path.rtt_ns / 1000 * u64::from(experiment.vary.rtt_ppm) / 1000 + 1;
        let mut way = Self {
            chance: 1.0,
            shortest_ns: path.rtt_ns.saturating_sub(varied_ns),
            longest_ns: path.rtt_ns + varied_ns,
        };
        for hop in &path.hops {
            let link = &experiment.links[hosts.layout.link_of[&hop.link]];
            for direction in HopDirection::BOTH {
                way.add(experiment, link, direction);
            }
            let mut access = experiment.access.iter();
            if let Some(access) = access.find(|access| access.carries(&link.id)) {
                way.longest_ns += 2 * access.longest_wait_ns();
            }
        }
        let ports = hosts.layout.ports.iter().enumerate();
        let is_controlled = |port: usize| hosts.layout.kind_at(port) == PlaceKind::Openflow;
        let controlled = ports.filter(|(port, _)| is_controlled(*port)).count() as Nanos;
        let passed = path.hops.iter().filter(|hop| {
            let mut ends = hosts.layout.ends[hosts.layout.link_of[&hop.link]].into_iter();
            ends.any(is_controlled)
        });
        way.longest_ns += 2 * passed.count() as Nanos * controlled * SLACK_PER_PORT_NS;
        way
    }

    fn add(&mut self, experiment: &Experiment, link: &Link, direction: HopDirection) {
        let direction = match direction {
            HopDirection::Forward => &link.forward,
            HopDirection::Backward => &link.backward,
        };
        self.chance *= chance_of(&direction.loss);
        self.longest_ns += direction.jitter_ns + serialization_ns(experiment, link, direction);
        if let Some(trace) = &direction.trace {
            self.chance *= 1.0 - trace.mean_loss();
            // The round trip of the path has the least delay.
            let (least_ns, greatest_ns) = trace.delay_range_ns();
            self.longest_ns += greatest_ns - least_ns;
        }
    }
}

fn chance_of(loss: &Loss) -> f64 {
    match loss {
        Loss::None {} | Loss::List { .. } => 1.0,
        Loss::Bernoulli { probability } => 1.0 - probability,
        Loss::GilbertElliott(chain) => {
            let leaves = chain.good_to_bad + chain.bad_to_good;
            let bad = if leaves > 0.0 {
                chain.good_to_bad / leaves
            } else {
                0.0
            };
            1.0 - bad * chain.loss_bad - (1.0 - bad) * chain.loss_good
        }
    }
}

fn serialization_ns(experiment: &Experiment, link: &Link, direction: &Direction) -> Nanos {
    let bytes = direction.wire_bytes(PACKET_BYTES);
    let medium = link
        .medium
        .as_ref()
        .and_then(|id| experiment.media.iter().find(|m| m.id == *id));
    let rate_bps = medium
        .and_then(|medium| medium.rate_bps)
        .or(direction.rate_bps);
    let trace = direction.trace.as_ref();
    let waiting_ns = trace.map_or(0, |trace| longest_wait_ns(trace, bytes));
    rate_bps.map_or(0, |rate_bps| u64::from(bytes) * 8_000_000_000 / rate_bps) + waiting_ns
}

impl Probe {
    fn has_succeeded(&self) -> bool {
        let wanted = self.real_link.as_ref().map_or(1, |_| ECHOES_OVER_REAL_LINK);
        self.answers >= wanted && self.best_ns.is_some_and(|best| best <= self.expected_ns.1)
    }

    /// Returns when it is sent again.
    fn next_attempt(&self) -> Instant {
        match self.sent.last() {
            None => self.made,
            Some(last) if self.answers == self.sent.len() => *last,
            Some(last) => {
                let is_real = self.real_link.is_some();
                let wait_ns = if is_real {
                    PATIENCE_OVER_REAL_LINK_NS
                } else {
                    self.expected_ns.1
                };
                *last + Duration::from_nanos(wait_ns)
            }
        }
    }

    fn attempt(&mut self, index: usize, sockets: &Sockets) -> Result<(), LiveError> {
        if self.sent.len() as u32 >= ATTEMPTS && self.made.elapsed() >= self.patience {
            return Err(self.failure());
        }
        let message = Message {
            probe: index,
            attempt: self.sent.len(),
            is_answer: false,
        };
        self.sent.push(Instant::now());
        if let Err(why) = sockets.send(self.source, self.destination, &message) {
            self.refused = Some(why);
        }
        Ok(())
    }

    fn failure(&self) -> LiveError {
        let found = match (self.best_ns, &self.refused) {
            (Some(best), _) => format!("{} at best", milliseconds(best)),
            (None, Some(why)) => format!("none, and the kernel refused to send: {why}"),
            (None, None) if self.arrived => {
                format!(
                    "none: requests arrive at {}, but answers do not",
                    self.towards
                )
            }
            (None, None) if !self.is_answered_here => {
                format!("none: no answer arrives from {}", self.towards)
            }
            (None, None) => format!("none: requests do not arrive at {}", self.towards),
        };
        if let Some(link) = &self.real_link {
            return LiveError::Verification(format!(
                "{}: an echo from {} to {} should come back over the real link {link}, found {found}, in {} attempts",
                self.path,
                self.source.ip(),
                self.destination.ip(),
                self.sent.len()
            ));
        }
        let (shortest, longest) = self.expected_ns;
        LiveError::Verification(format!(
            "{}: an echo from {} to {} should take {} to {}, found {found}, in {} attempts",
            self.path,
            self.source.ip(),
            self.destination.ip(),
            milliseconds(shortest),
            milliseconds(longest),
            self.sent.len()
        ))
    }

    fn answered(&mut self, attempt: usize) -> Result<(), LiveError> {
        let Some(sent) = self.sent.get(attempt) else {
            return Ok(());
        };
        let took_ns = sent.elapsed().as_nanos() as Nanos;
        self.answers += 1;
        self.best_ns = Some(self.best_ns.map_or(took_ns, |best| best.min(took_ns)));
        if took_ns < self.expected_ns.0 {
            return Err(self.failure());
        }
        Ok(())
    }
}

pub(super) fn milliseconds(ns: Nanos) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// One socket at each address and port.
struct Sockets {
    sockets: Vec<(SocketAddr, UdpSocket)>,
    index_of: BTreeMap<SocketAddr, usize>,
    epoll: OwnedFd,
}

impl Sockets {
    fn open(hosts: &Hosts, probes: &[Probe]) -> Result<Self, LiveError> {
        let wanted: BTreeSet<SocketAddr> = probes
            .iter()
            .flat_map(|probe| [probe.source, probe.destination])
            .collect();
        let sockets = in_one_thread(|| {
            let mut sockets = Vec::with_capacity(wanted.len());
            for place in hosts.places.values() {
                let addresses: BTreeSet<IpAddr> = place.addresses().collect();
                let own = wanted.iter().filter(|one| addresses.contains(&one.ip()));
                let own: Vec<SocketAddr> = own.copied().collect();
                if !own.is_empty() {
                    place.namespace.enter()?;
                }
                for address in own {
                    sockets.push((address, open(address)?));
                }
            }
            Ok::<_, LiveError>(sockets)
        })?;
        let index_of = sockets.iter().enumerate();
        Ok(Self {
            index_of: index_of
                .map(|(index, (address, _))| (*address, index))
                .collect(),
            epoll: watch(&sockets).map_err(LiveError::while_(WAITING))?,
            sockets,
        })
    }

    fn send(&self, source: SocketAddr, to: SocketAddr, message: &Message) -> io::Result<()> {
        let (_, socket) = &self.sockets[self.index_of[&source]];
        socket.send_to(&message.bytes(), to).map(drop)
    }

    /// Returns all messages that arrived, after at most `wait`.
    fn receive(&self, wait: Duration) -> Result<Vec<(SocketAddr, SocketAddr, Message)>, LiveError> {
        let timeout = Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut ready = Vec::with_capacity(AT_ONCE);
        match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(LiveError::while_(WAITING)(why)),
        }
        let mut messages = Vec::new();
        for event in ready {
            let (at, socket) = &self.sockets[event.data.u64() as usize];
            let mut content = [0; CONTENT_BYTES + 1];
            // Reads until the socket is empty.
            while let Ok((length, from)) = socket.recv_from(&mut content) {
                let message = Message::parse(&content[..length]);
                messages.extend(message.map(|message| (*at, from, message)));
            }
        }
        Ok(messages)
    }

    fn handle(
        &self,
        at: SocketAddr,
        from: SocketAddr,
        message: &Message,
        probes: &mut [Probe],
    ) -> Result<(), LiveError> {
        let Some(probe) = probes.get_mut(message.probe) else {
            return Ok(());
        };
        if message.is_answer && (at, from) == (probe.source, probe.destination) {
            return probe.answered(message.attempt);
        }
        if !message.is_answer && (at, from) == (probe.destination, probe.source) {
            probe.arrived = true;
            let answer = Message {
                is_answer: true,
                ..*message
            };
            if let Err(why) = self.send(at, from, &answer) {
                probe.refused = Some(why);
            }
        }
        Ok(())
    }
}

fn watch(sockets: &[(SocketAddr, UdpSocket)]) -> Result<OwnedFd, Errno> {
    let watched = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, (_, socket)) in sockets.iter().enumerate() {
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&watched, socket, data, epoll::EventFlags::IN)?;
    }
    Ok(watched)
}

fn open(address: SocketAddr) -> Result<UdpSocket, LiveError> {
    let open = || {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    open().map_err(LiveError::while_::<io::Error>(format!(
        "opening a UDP socket at {address}"
    )))
}

impl Message {
    fn bytes(&self) -> [u8; CONTENT_BYTES] {
        let mut bytes = [0; CONTENT_BYTES];
        bytes[..4].copy_from_slice(&(self.probe as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&(self.attempt as u32).to_be_bytes());
        bytes[8] = u8::from(self.is_answer);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; CONTENT_BYTES] = bytes.try_into().ok()?;
        let number =
            |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
        Some(Self {
            probe: number(0),
            attempt: number(4),
            is_answer: bytes[8] == 1,
        })
    }
}
