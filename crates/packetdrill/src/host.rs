//! A host with sockets over the engine, in virtual time. Calls return the error number that the
//! system call would return. A call that would block returns EAGAIN.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use libc::{
    EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, EBADF, ECONNABORTED, ECONNREFUSED, ECONNRESET,
    EINPROGRESS, EINVAL, EISCONN, EMFILE, ENOTCONN, EPIPE, EPROTONOSUPPORT, ESOCKTNOSUPPORT,
    ETIMEDOUT,
};
use mptcp::connection::{Algorithms, Config, Connection, Mode};
use mptcp::driver::Driver;
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView, Profile};
use mptcp::payload::Payload;
use mptcp::subflow::{CloseReason, Keepalive};
use mptcp::time::{Nanos, SECOND};
use mptcp::wire::{Flags, IcmpError, Packet};
use mptcp::{cc, pm, sched};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::options::Options;

/// A value of `errno`.
pub type Errno = i32;

/// The protocol number of MPTCP sockets on Linux.
pub const IPPROTO_MPTCP: i32 = 262;

/// The first port for sockets that do not request one, below the ports of the engine.
const FIRST_PORT: u16 = 32_768;

/// Bytes of the IP and TCP headers without options.
const IPV4_HEADERS_BYTES: u16 = 40;
const IPV6_HEADERS_BYTES: u16 = 60;

/// A host.
pub struct Host {
    options: Arc<Options>,
    now: Nanos,
    pub(crate) driver: Driver<()>,
    pub(crate) sockets: BTreeMap<i32, Socket>,
    /// Packets sent and not yet taken.
    sent: VecDeque<(Nanos, Packet)>,
    next_port: u16,
}

/// A socket.
pub(crate) struct Socket {
    /// The options of the host.
    options: Arc<Options>,
    pub(crate) config: Config,
    pub(crate) congestion_control: String,
    is_ipv6: bool,
    is_blocking: bool,
    local: Option<SocketAddr>,
    pub(crate) state: State,
    /// Whether closing it resets its connection (SO_LINGER with 0 s).
    pub(crate) aborts: bool,
    /// The largest segment it sends or receives (TCP_MAXSEG).
    pub(crate) max_segment_bytes: Option<u16>,
    /// Keepalive parameters (TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT). They apply if SO_KEEPALIVE
    /// is set.
    pub(crate) keepalive: Keepalive,
    /// How long calls wait, by [`Waiting`] (SO_RCVTIMEO, SO_SNDTIMEO).
    pub(crate) patience: [Option<Nanos>; 2],
}

/// What a call waits for. Selects a timeout of [`Socket::patience`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Bytes, or a connection to accept.
    ToRead,
    /// Room in the send buffer, or the answer to a SYN.
    ToWrite,
}

/// Linux's defaults.
const KEEPALIVE: Keepalive = Keepalive {
    idle: 7200 * SECOND,
    interval: 75 * SECOND,
    probes: 9,
};

pub(crate) enum State {
    Fresh,
    Listening,
    Connected(Stream),
}

/// The state of a connection at its socket.
pub(crate) struct Stream {
    pub(crate) id: ConnectionId,
    /// Bytes taken from the connection and not yet read.
    waiting: Payload,
    /// Whether the program has shut down each direction.
    reads_no_more: bool,
    writes_no_more: bool,
}

/// The directions of a stream that are shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing more is read.
    Read,
    /// Nothing more is written.
    Write,
    /// Both directions.
    Both,
}

impl Host {
    /// Returns a host whose clock stands at 1 s.
    pub fn new(options: Options) -> Self {
        let rng = Box::new(Xoshiro256PlusPlus::seed_from_u64(1));
        Self {
            options: Arc::new(options),
            now: SECOND,
            driver: Driver::new(Endpoint::new(NetworkView::default(), rng)),
            sockets: BTreeMap::new(),
            sent: VecDeque::new(),
            next_port: FIRST_PORT,
        }
    }

    /// Returns the time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns when the next timer expires.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.driver.poll_timeout()
    }

    /// Advances the clock to `until`. Does nothing if that has passed.
    pub fn advance_to(&mut self, until: Nanos) {
        while let Some(at) = self.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.driver.handle_timeout(self.now);
            self.settle();
        }
        self.now = self.now.max(until);
    }

    /// Advances the clock to the next timer. Returns false if there is none.
    pub fn advance_to_next(&mut self) -> bool {
        let next = self.next_timer();
        if let Some(at) = next {
            self.advance_to(at);
        }
        next.is_some()
    }

    /// Handles an arriving packet. Ignores packets that are neither TCP nor ICMP errors about it.
    pub fn receive(&mut self, bytes: &[u8]) {
        if let Ok((packet, _)) = Packet::parse(&Arc::from(bytes)) {
            self.suit_listener_to(&packet);
            self.driver.endpoint.handle_packet(self.now, &packet);
            self.settle();
        } else if let Ok(error) = IcmpError::parse(bytes) {
            self.driver.endpoint.handle_icmp_error(self.now, &error);
            self.settle();
        }
    }

    /// Adapts the profile of a listener to the family of a SYN. An IPv6 socket accepts connections
    /// of both families, whose MSS differs.
    fn suit_listener_to(&mut self, packet: &Packet) {
        let (flags, port) = (packet.segment.flags, packet.segment.destination_port);
        if !flags.contains(Flags::SYN) || flags.contains(Flags::ACK) {
            return;
        }
        let is_at_port = |socket: &&Socket| {
            let is_local = socket.local.is_some_and(|local| local.port() == port);
            is_local && matches!(socket.state, State::Listening)
        };
        if let Some(listener) = self.sockets.values().find(is_at_port) {
            let profile = listener.profile(packet.source.is_ipv4());
            self.driver.endpoint.listen(port, profile);
        }
    }

    /// Removes and returns the first packet sent, with the time at which it was sent.
    pub fn take_sent(&mut self) -> Option<(Nanos, Vec<u8>)> {
        let (at, packet) = self.sent.pop_front()?;
        let mut bytes = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut bytes);
        Some((at, bytes))
    }

    /// Collects the packets of the engine. Sockets ask their connections for their state, so events
    /// say nothing new.
    pub(crate) fn settle(&mut self) {
        while let Some(packet) = self.driver.endpoint.poll_transmit(self.now) {
            self.sent.push_back((self.now, packet));
        }
        while self.driver.poll_event().is_some() {}
    }

    /// Creates a socket and returns its descriptor.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32, Errno> {
        let is_ipv6 = match domain {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return Err(EAFNOSUPPORT),
        };
        if kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != libc::SOCK_STREAM {
            return Err(ESOCKTNOSUPPORT);
        }
        if ![0, libc::IPPROTO_TCP, IPPROTO_MPTCP].contains(&protocol) {
            return Err(EPROTONOSUPPORT);
        }
        let mut config = Config {
            is_multipath: protocol == IPPROTO_MPTCP,
            ..Config::default()
        };
        config.close_timeout = self.options.close_timeout;
        config.lifetime_without_subflows = self.options.close_timeout;
        let subflow = Arc::make_mut(&mut config.subflow);
        subflow.window_scale = Some(self.options.window_scale);
        subflow.nagle = true;
        subflow.ecn = self.options.ecn;
        subflow.timestamps = self.options.timestamps;
        subflow.syn_retries = self.options.syn_retries;
        self.add(Socket {
            options: Arc::clone(&self.options),
            config,
            congestion_control: self.options.congestion_control.clone(),
            is_ipv6,
            is_blocking: kind & libc::SOCK_NONBLOCK == 0,
            local: None,
            state: State::Fresh,
            aborts: false,
            max_segment_bytes: None,
            keepalive: KEEPALIVE,
            patience: [None; 2],
        })
    }

    /// Adds a socket under a real descriptor of the process, because packetdrill closes descriptors
    /// that are left at the end.
    fn add(&mut self, socket: Socket) -> Result<i32, Errno> {
        let opened = File::open("/dev/null").map_err(|_| EMFILE)?;
        let descriptor = opened.into_raw_fd();
        self.sockets.insert(descriptor, socket);
        Ok(descriptor)
    }

    pub(crate) fn of(&mut self, descriptor: i32) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&descriptor).ok_or(EBADF)
    }

    /// Returns whether calls on a socket block.
    pub fn blocks(&self, descriptor: i32) -> bool {
        let socket = self.sockets.get(&descriptor);
        socket.is_some_and(|socket| socket.is_blocking)
    }

    /// Returns how long a blocking call waits. `None` is forever.
    pub fn patience(&self, descriptor: i32, waiting: Waiting) -> Option<Nanos> {
        let socket = self.sockets.get(&descriptor)?;
        socket.patience[waiting as usize]
    }

    /// Sets whether calls on a socket block.
    pub fn set_blocking(&mut self, descriptor: i32, blocks: bool) -> Result<(), Errno> {
        self.of(descriptor)?.is_blocking = blocks;
        Ok(())
    }

    /// Sets the local address of a socket.
    pub fn bind(&mut self, descriptor: i32, local: SocketAddr) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        if socket.is_ipv6 != local.is_ipv6() {
            return Err(EAFNOSUPPORT);
        }
        if socket.local.is_some() || !matches!(socket.state, State::Fresh) {
            return Err(EINVAL);
        }
        socket.local = Some(canonical(local));
        Ok(())
    }

    /// Lets a socket accept connections.
    pub fn listen(&mut self, descriptor: i32, backlog: i32) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        let local = socket.local.ok_or(EINVAL)?;
        if matches!(socket.state, State::Connected(_)) {
            return Err(EINVAL);
        }
        socket.config.backlog = usize::try_from(backlog).unwrap_or(0).max(1);
        socket.state = State::Listening;
        let profile = socket.profile(local.is_ipv4());
        self.driver.endpoint.listen(local.port(), profile);
        Ok(())
    }

    /// Returns a socket for the next connection of a listening socket, and the address of the peer.
    pub fn accept(&mut self, descriptor: i32) -> Result<(i32, SocketAddr), Errno> {
        let listener = self.of(descriptor)?;
        let port = listener
            .local
            .filter(|_| matches!(listener.state, State::Listening));
        let port = port.ok_or(EINVAL)?.port();
        let accepted = Socket {
            options: Arc::clone(&listener.options),
            config: listener.config.clone(),
            congestion_control: listener.congestion_control.clone(),
            is_ipv6: listener.is_ipv6,
            is_blocking: true,
            local: None,
            state: State::Fresh,
            aborts: false,
            max_segment_bytes: listener.max_segment_bytes,
            keepalive: listener.keepalive,
            patience: listener.patience,
        };
        let is_ipv6 = listener.is_ipv6;
        let id = self.driver.endpoint.accept(port).ok_or(EAGAIN)?;
        let ends = self.driver.endpoint.connection(id).ok_or(EAGAIN)?.initial();
        self.driver.insert(id, ());
        let descriptor = self.add(Socket {
            local: Some(ends.local),
            state: State::Connected(Stream::new(id)),
            ..accepted
        })?;
        Ok((descriptor, as_told(ends.remote, is_ipv6)))
    }

    /// Resets the connection of a socket and makes the socket unconnected (`connect` with
    /// AF_UNSPEC).
    pub fn disconnect(&mut self, descriptor: i32) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        let State::Connected(stream) = &socket.state else {
            return Err(ENOTCONN);
        };
        let id = stream.id;
        (socket.state, socket.local) = (State::Fresh, None);
        self.driver.endpoint.command(id, Connection::abort);
        self.driver.release(id);
        self.settle();
        Ok(())
    }

    /// Opens a connection. The first call returns EINPROGRESS.
    pub fn connect(&mut self, descriptor: i32, remote: SocketAddr) -> Result<(), Errno> {
        let socket = self.sockets.get(&descriptor).ok_or(EBADF)?;
        match &socket.state {
            State::Connected(stream) => return self.connected(stream.id),
            State::Listening => return Err(EISCONN),
            State::Fresh if socket.is_ipv6 != remote.is_ipv6() => return Err(EAFNOSUPPORT),
            State::Fresh => {}
        }
        let remote = canonical(remote);
        let profile = socket.profile(remote.is_ipv4());
        let local = self.start_of(socket.local, remote)?;
        let opened = self
            .driver
            .endpoint
            .connect(self.now, local, remote, &profile);
        let id = opened.map_err(|_| EADDRNOTAVAIL)?;
        self.driver.insert(id, ());
        let socket = self.of(descriptor)?;
        socket.local = Some(local);
        socket.state = State::Connected(Stream::new(id));
        self.settle();
        Err(EINPROGRESS)
    }

    /// Returns the result of a further call of `connect`.
    fn connected(&self, id: ConnectionId) -> Result<(), Errno> {
        let connection = self.connection(id)?;
        match connection.closed() {
            Some(reason) => Err(error_of(reason)),
            None if connection.is_connected() => Err(EISCONN),
            None => Err(EALREADY),
        }
    }

    /// Returns the result of opening a connection, for a call that waits for it. EAGAIN means that
    /// it is not known yet.
    pub fn outcome(&mut self, descriptor: i32) -> Result<(), Errno> {
        let id = self.stream(descriptor)?.id;
        match self.connected(id) {
            Err(EISCONN) => Ok(()),
            Err(EALREADY) => Err(EAGAIN),
            other => other,
        }
    }

    fn start_of(
        &mut self,
        bound: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketAddr, Errno> {
        let is_given = |local: &SocketAddr| !local.ip().is_unspecified();
        let mut known = self.options.local.iter();
        let address = match bound.filter(is_given) {
            Some(local) => local.ip(),
            None => *known
                .find(|local| local.is_ipv4() == remote.is_ipv4())
                .ok_or(EADDRNOTAVAIL)?,
        };
        let port = match bound.map_or(0, |local| local.port()) {
            0 => {
                self.next_port += 1;
                self.next_port
            }
            port => port,
        };
        Ok(SocketAddr::new(address, port))
    }

    /// Returns the connection of a socket. The driver keeps it until the socket is closed.
    fn connection(&self, id: ConnectionId) -> Result<&Connection, Errno> {
        self.driver.endpoint.connection(id).ok_or(ENOTCONN)
    }

    pub(crate) fn stream(&mut self, descriptor: i32) -> Result<&mut Stream, Errno> {
        match &mut self.of(descriptor)?.state {
            State::Connected(stream) => Ok(stream),
            _ => Err(ENOTCONN),
        }
    }

    /// Reads up to `most` bytes. Returns no bytes at the end of the stream. With `peeks` the bytes
    /// stay readable.
    pub fn read(&mut self, descriptor: i32, most: usize, peeks: bool) -> Result<Vec<u8>, Errno> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let id = self.stream(descriptor)?.id;
        while self.stream(descriptor)?.waiting.len() < most {
            let more = self
                .driver
                .endpoint
                .command(id, |connection| connection.recv());
            let Some(more) = more.flatten() else {
                break;
            };
            self.stream(descriptor)?.waiting.append(more);
        }
        self.settle();
        let stream = self.stream(descriptor)?;
        let all = stream.waiting.len();
        let taken = stream.waiting.slice(0..all.min(most));
        if !peeks {
            stream.waiting = stream.waiting.slice(taken.len()..all);
        }
        let reads_no_more = stream.reads_no_more;
        let connection = self.connection(id)?;
        match connection.closed() {
            _ if !taken.is_empty() => Ok(taken.to_vec()),
            _ if reads_no_more || connection.peer_has_ended() => Ok(Vec::new()),
            Some(reason) => Err(reported(connection, reason).map_or(ENOTCONN, error_of)),
            None if !connection.is_connected() => Err(ENOTCONN),
            None => Err(EAGAIN),
        }
    }

    /// Writes as many bytes as the connection accepts and returns their number.
    pub fn write(&mut self, descriptor: i32, bytes: &[u8]) -> Result<usize, Errno> {
        let stream = self.stream(descriptor)?;
        let (id, is_shut) = (stream.id, stream.writes_no_more);
        let connection = self.connection(id)?;
        match connection.closed() {
            Some(reason) => return Err(reported(connection, reason).map_or(EPIPE, error_of)),
            None if is_shut => return Err(EPIPE),
            None if !connection.is_connected() => return Err(EAGAIN),
            None => {}
        }
        let payload = Payload::literal(bytes);
        let taken = self
            .driver
            .endpoint
            .command(id, |connection| connection.send(&payload));
        self.settle();
        match taken {
            Some(taken) if taken > 0 || bytes.is_empty() => Ok(taken as usize),
            Some(_) => Err(EAGAIN),
            None => Err(EPIPE),
        }
    }

    /// Shuts down directions of a stream.
    pub fn shutdown(&mut self, descriptor: i32, how: Shutdown) -> Result<(), Errno> {
        let stream = self.stream(descriptor)?;
        let id = stream.id;
        stream.reads_no_more |= how != Shutdown::Write;
        if how != Shutdown::Read {
            stream.writes_no_more = true;
            self.driver
                .endpoint
                .command(id, |connection| connection.close());
            self.settle();
        }
        Ok(())
    }

    /// Closes a socket. The caller closes its descriptor. Unread data, or SO_LINGER with 0 s,
    /// resets the connection (RFC 9293, section 3.10.4; RFC 2525, section 2.17).
    pub fn close(&mut self, descriptor: i32) -> Result<(), Errno> {
        let socket = self.sockets.remove(&descriptor).ok_or(EBADF)?;
        if let State::Connected(stream) = socket.state {
            let unread = !stream.waiting.is_empty();
            self.driver.endpoint.command(stream.id, |connection| {
                match socket.aborts || unread || connection.unread_bytes() > 0 {
                    true => connection.abort(),
                    false => connection.close(),
                }
            });
            self.driver.release(stream.id);
            self.settle();
        } else if let (State::Listening, Some(local)) = (socket.state, socket.local) {
            self.driver.endpoint.stop_listening(local.port());
            self.settle();
        }
        Ok(())
    }

    /// Returns the events of a socket among `asked` (`poll`).
    pub fn events(&mut self, descriptor: i32, asked: i16) -> i16 {
        let always = libc::POLLERR | libc::POLLHUP;
        let Some(socket) = self.sockets.get(&descriptor) else {
            return libc::POLLNVAL;
        };
        let (id, waiting) = match (&socket.state, socket.local) {
            (State::Connected(stream), _) => (&stream.id, &stream.waiting),
            (State::Listening, Some(local))
                if self.driver.endpoint.has_acceptable(local.port()) =>
            {
                return asked & libc::POLLIN;
            }
            _ => return 0,
        };
        let Ok(connection) = self.connection(*id) else {
            return 0;
        };
        let mut found = 0;
        let has_ended = connection.peer_has_ended();
        if connection.unread_bytes() > 0 || !waiting.is_empty() || has_ended {
            found |= libc::POLLIN;
        }
        if connection.is_connected() && connection.send_capacity() > 0 {
            found |= libc::POLLOUT;
        }
        if has_ended {
            found |= libc::POLLRDHUP;
        }
        if let Some(reason) = connection.closed() {
            found |= libc::POLLHUP | libc::POLLIN | libc::POLLOUT;
            found |= if reason == CloseReason::Finished {
                0
            } else {
                libc::POLLERR
            };
        }
        found & (asked | always)
    }

    /// Returns the number of bytes that can be read (SIOCINQ).
    pub fn unread_bytes(&mut self, descriptor: i32) -> Result<u64, Errno> {
        let (id, waiting) = self
            .stream(descriptor)
            .map(|stream| (stream.id, stream.waiting.len()))?;
        let connection = self.driver.endpoint.connection(id);
        Ok(connection.map_or(0, |it| it.unread_bytes()) + u64::from(waiting))
    }

    /// Returns the number of bytes written and not acknowledged by the peer (SIOCOUTQ).
    pub fn unacked_bytes(&mut self, descriptor: i32) -> Result<u64, Errno> {
        let id = self.stream(descriptor)?.id;
        Ok(self
            .driver
            .endpoint
            .connection(id)
            .map_or(0, |it| it.unacked_bytes()))
    }
}

impl Socket {
    /// Returns the profile for connections of a family.
    fn profile(&self, is_ipv4: bool) -> Profile {
        let name = self.congestion_control.clone();
        let mut config = self.config.clone();
        Arc::make_mut(&mut config.subflow).mss_bytes = self.mss_bytes(is_ipv4);
        let options = Arc::clone(&self.options);
        Profile {
            config: config.into(),
            algorithms: Box::new(move |connection| Algorithms {
                congestion_control: cc::by_name(&name).expect("was looked up")(
                    &cc::Parameters::default(),
                ),
                scheduler: sched::by_name("kernel_default").expect("a scheduler")(
                    &sched::Parameters::default(),
                ),
                path_manager: pm::by_name("kernel_endpoints").expect("a path manager")(
                    connection,
                    &pm::Parameters {
                        endpoints: Some(options.endpoints.clone()),
                        limits: options.limits,
                        ..pm::Parameters::default()
                    },
                ),
            }),
        }
    }

    /// Returns the MSS: the space in a packet of the device after the headers (RFC 9293, section
    /// 3.7.1).
    pub(crate) fn mss_bytes(&self, is_ipv4: bool) -> u16 {
        let headers_bytes = match is_ipv4 {
            true => IPV4_HEADERS_BYTES,
            false => IPV6_HEADERS_BYTES,
        };
        let most = self.options.mtu_bytes - headers_bytes;
        self.max_segment_bytes
            .map_or(most, |wanted| wanted.min(most))
    }

    /// Returns whether its packets are IPv4, as far as that is known.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.local.map_or(!self.is_ipv6, |local| local.is_ipv4())
    }
}

impl Stream {
    fn new(id: ConnectionId) -> Self {
        Self {
            id,
            waiting: Payload::EMPTY,
            reads_no_more: false,
            writes_no_more: false,
        }
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4 (RFC 4291, section 2.5.5.2).
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns the address of a peer in the form that a socket of a family shows.
fn as_told(address: SocketAddr, is_ipv6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if is_ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Returns the reason that Linux reports to programs for the end of a connection. It reports none
/// for a regular close, and none when an MPTCP connection times out.
fn reported(connection: &Connection, reason: CloseReason) -> Option<CloseReason> {
    match reason {
        CloseReason::Finished => None,
        CloseReason::TimedOut if connection.mode() == Mode::Multipath => None,
        _ => Some(reason),
    }
}

pub(crate) fn error_of(reason: CloseReason) -> Errno {
    match reason {
        CloseReason::Finished => ENOTCONN,
        CloseReason::Reset => ECONNRESET,
        CloseReason::Refused => ECONNREFUSED,
        CloseReason::TimedOut => ETIMEDOUT,
        CloseReason::Aborted => ECONNABORTED,
    }
}
