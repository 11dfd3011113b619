//! A host with sockets over the engine, in virtual time. Calls answer with an error number where the system's would; one that
//! would block answers EAGAIN.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use libc::{
    EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, EBADF, ECONNABORTED, ECONNREFUSED, ECONNRESET,
    EINPROGRESS, EINVAL, EISCONN, EMFILE, ENOPROTOOPT, ENOTCONN, EPIPE, EPROTONOSUPPORT,
    ESOCKTNOSUPPORT, ETIMEDOUT,
};
use mptcp::connection::{Algorithms, Buffer, Config, Event, Mode};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView, Profile};
use mptcp::payload::Payload;
use mptcp::subflow::CloseReason;
use mptcp::time::{Nanos, SECOND};
use mptcp::wire::{IcmpError, Packet};
use mptcp::{cc, pm, sched};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::options::Options;
use crate::tcp_info;

/// What the system's `errno` would be.
pub type Errno = i32;

/// The protocol of sockets that speak Multipath TCP on Linux.
pub const IPPROTO_MPTCP: i32 = 262;

/// Ports that sockets get who do not ask for one, below those of the engine.
const FIRST_PORT: u16 = 32_768;

/// Headers of IP and TCP in a packet of an Ethernet.
const IPV4_MSS_BYTES: u16 = 1460;
const IPV6_MSS_BYTES: u16 = 1440;

/// The host.
pub struct Host {
    options: Options,
    now: Nanos,
    endpoint: Endpoint,
    sockets: BTreeMap<i32, Socket>,
    progress: BTreeMap<ConnectionId, Progress>,
    /// What it has sent and nobody has taken yet.
    sent: VecDeque<(Nanos, Packet)>,
    next_port: u16,
}

/// A socket.
struct Socket {
    config: Config,
    congestion_control: String,
    is_ipv6: bool,
    is_blocking: bool,
    local: Option<SocketAddr>,
    state: State,
    /// Closing it resets its connection (SO_LINGER of 0 s).
    aborts: bool,
}

enum State {
    Fresh,
    Listening,
    Connected(Stream),
}

/// What a program has of a connection.
struct Stream {
    id: ConnectionId,
    /// Taken from the connection, and not yet read.
    waiting: Payload,
    /// Which directions the program has ended.
    reads_no_more: bool,
    writes_no_more: bool,
}

/// What the engine told of a connection.
#[derive(Clone, Copy, Default)]
struct Progress {
    is_connected: bool,
    has_finished: bool,
    closed: Option<CloseReason>,
}

/// Which directions of a stream are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing is read any more.
    Read,
    /// Ours is at its end.
    Write,
    /// Both.
    Both,
}

impl Host {
    /// A host at time 0.
    pub fn new(options: Options) -> Self {
        let rng = Box::new(Xoshiro256PlusPlus::seed_from_u64(1));
        Self {
            options,
            now: SECOND,
            endpoint: Endpoint::new(NetworkView::default(), rng),
            sockets: BTreeMap::new(),
            progress: BTreeMap::new(),
            sent: VecDeque::new(),
            next_port: FIRST_PORT,
        }
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// When its next timer expires.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.endpoint.poll_timeout()
    }

    /// Lets time pass until then, or does nothing if it has.
    pub fn advance_to(&mut self, until: Nanos) {
        while let Some(at) = self.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.endpoint.handle_timeout(self.now);
            self.settle();
        }
        self.now = self.now.max(until);
    }

    /// Lets time pass until the next timer; false if there is none.
    pub fn advance_to_next(&mut self) -> bool {
        let next = self.next_timer();
        if let Some(at) = next {
            self.advance_to(at);
        }
        next.is_some()
    }

    /// A packet arrives. What is neither TCP nor ICMP about it is ignored.
    pub fn receive(&mut self, bytes: &[u8]) {
        if let Ok((packet, _)) = Packet::parse(&Arc::from(bytes)) {
            self.endpoint.handle_packet(self.now, &packet);
            self.settle();
        } else if let Ok(error) = IcmpError::parse(bytes) {
            self.endpoint.handle_icmp_error(self.now, &error);
            self.settle();
        }
    }

    /// The first packet that was sent and not yet taken, and when.
    pub fn take_sent(&mut self) -> Option<(Nanos, Vec<u8>)> {
        let (at, packet) = self.sent.pop_front()?;
        let mut bytes = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut bytes);
        Some((at, bytes))
    }

    /// Takes up what the engine has to send and to tell.
    fn settle(&mut self) {
        while let Some(packet) = self.endpoint.poll_transmit(self.now) {
            self.sent.push_back((self.now, packet));
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            let progress = self.progress.entry(id).or_default();
            match event {
                Event::Connected { .. } => progress.is_connected = true,
                Event::Finished => progress.has_finished = true,
                Event::Closed { reason } => progress.closed = Some(reason),
                _ => {}
            }
        }
    }

    /// A new socket.
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
        let subflow = Arc::make_mut(&mut config.subflow);
        subflow.mss_bytes = if is_ipv6 {
            IPV6_MSS_BYTES
        } else {
            IPV4_MSS_BYTES
        };
        subflow.window_scale = Some(self.options.window_scale);
        subflow.nagle = true;
        subflow.ecn = self.options.ecn;
        self.add(Socket {
            config,
            congestion_control: self.options.congestion_control.clone(),
            is_ipv6,
            is_blocking: kind & libc::SOCK_NONBLOCK == 0,
            local: None,
            state: State::Fresh,
            aborts: false,
        })
    }

    /// Its descriptor is one of the process, as packetdrill closes what is left at the end by itself.
    fn add(&mut self, socket: Socket) -> Result<i32, Errno> {
        let opened = File::open("/dev/null").map_err(|_| EMFILE)?;
        let descriptor = opened.into_raw_fd();
        self.sockets.insert(descriptor, socket);
        Ok(descriptor)
    }

    fn of(&mut self, descriptor: i32) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&descriptor).ok_or(EBADF)
    }

    /// Whether calls on a socket wait for what they ask for.
    pub fn blocks(&self, descriptor: i32) -> bool {
        let socket = self.sockets.get(&descriptor);
        socket.is_some_and(|socket| socket.is_blocking)
    }

    /// Whether they are to.
    pub fn set_blocking(&mut self, descriptor: i32, blocks: bool) -> Result<(), Errno> {
        self.of(descriptor)?.is_blocking = blocks;
        Ok(())
    }

    /// Where a socket is to be reached, or where it starts.
    pub fn bind(&mut self, descriptor: i32, local: SocketAddr) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        if socket.is_ipv6 != local.is_ipv6() {
            return Err(EAFNOSUPPORT);
        }
        if socket.local.is_some() || !matches!(socket.state, State::Fresh) {
            return Err(EINVAL);
        }
        socket.local = Some(local);
        Ok(())
    }

    /// Takes connections.
    pub fn listen(&mut self, descriptor: i32, backlog: i32) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        let local = socket.local.ok_or(EINVAL)?;
        if matches!(socket.state, State::Connected(_)) {
            return Err(EINVAL);
        }
        socket.config.backlog = usize::try_from(backlog).unwrap_or(0).max(1);
        socket.state = State::Listening;
        let profile = socket.profile();
        self.endpoint.listen(local.port(), profile);
        Ok(())
    }

    /// The next connection of a socket that listens, and its peer.
    pub fn accept(&mut self, descriptor: i32) -> Result<(i32, SocketAddr), Errno> {
        let listener = self.of(descriptor)?;
        let port = listener
            .local
            .filter(|_| matches!(listener.state, State::Listening));
        let port = port.ok_or(EINVAL)?.port();
        let accepted = Socket {
            config: listener.config.clone(),
            congestion_control: listener.congestion_control.clone(),
            is_ipv6: listener.is_ipv6,
            is_blocking: true,
            local: None,
            state: State::Fresh,
            aborts: false,
        };
        let id = self.endpoint.accept(port).ok_or(EAGAIN)?;
        let ends = self.endpoint.connection(id).ok_or(EAGAIN)?.initial();
        let descriptor = self.add(Socket {
            local: Some(ends.local),
            state: State::Connected(Stream::new(id)),
            ..accepted
        })?;
        Ok((descriptor, ends.remote))
    }

    /// Opens a connection: EINPROGRESS for the first call.
    pub fn connect(&mut self, descriptor: i32, remote: SocketAddr) -> Result<(), Errno> {
        let socket = self.sockets.get(&descriptor).ok_or(EBADF)?;
        match &socket.state {
            State::Connected(stream) => return self.connected(stream.id),
            State::Listening => return Err(EISCONN),
            State::Fresh if socket.is_ipv6 != remote.is_ipv6() => return Err(EAFNOSUPPORT),
            State::Fresh => {}
        }
        let profile = socket.profile();
        let local = self.start_of(socket.local, remote)?;
        let opened = self.endpoint.connect(self.now, local, remote, &profile);
        let id = opened.map_err(|_| EADDRNOTAVAIL)?;
        let socket = self.of(descriptor)?;
        socket.local = Some(local);
        socket.state = State::Connected(Stream::new(id));
        self.settle();
        Err(EINPROGRESS)
    }

    /// What a further call of `connect` says.
    fn connected(&self, id: ConnectionId) -> Result<(), Errno> {
        match self.progress(id) {
            Progress {
                closed: Some(reason),
                ..
            } => Err(error_of(reason)),
            Progress {
                is_connected: true, ..
            } => Err(EISCONN),
            _ => Err(EALREADY),
        }
    }

    /// How a connection that was opened came out, for a call that waits for it.
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

    fn progress(&self, id: ConnectionId) -> Progress {
        self.progress.get(&id).copied().unwrap_or_default()
    }

    fn stream(&mut self, descriptor: i32) -> Result<&mut Stream, Errno> {
        match &mut self.of(descriptor)?.state {
            State::Connected(stream) => Ok(stream),
            _ => Err(ENOTCONN),
        }
    }

    /// Up to so many bytes of the peer; none at the end of its stream. What is only looked at stays.
    pub fn read(&mut self, descriptor: i32, most: usize, peeks: bool) -> Result<Vec<u8>, Errno> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let id = self.stream(descriptor)?.id;
        while self.stream(descriptor)?.waiting.len() < most {
            let more = self.endpoint.command(id, |connection| connection.recv());
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
        match self.progress(id) {
            _ if !taken.is_empty() => Ok(taken.to_vec()),
            _ if reads_no_more => Ok(Vec::new()),
            Progress {
                has_finished: true, ..
            } => Ok(Vec::new()),
            Progress {
                closed: Some(reason),
                ..
            } => Err(error_of(reason)),
            Progress {
                is_connected: false,
                ..
            } => Err(ENOTCONN),
            _ => Err(EAGAIN),
        }
    }

    /// Gives the connection as many of these bytes as it takes.
    pub fn write(&mut self, descriptor: i32, bytes: &[u8]) -> Result<usize, Errno> {
        let stream = self.stream(descriptor)?;
        let (id, is_shut) = (stream.id, stream.writes_no_more);
        match self.progress(id) {
            Progress {
                closed: Some(reason),
                ..
            } => return Err(write_error_of(reason)),
            _ if is_shut => return Err(EPIPE),
            Progress {
                is_connected: false,
                ..
            } => return Err(EAGAIN),
            _ => {}
        }
        let payload = Payload::literal(bytes);
        let taken = self
            .endpoint
            .command(id, |connection| connection.send(&payload));
        self.settle();
        match taken {
            Some(taken) if taken > 0 || bytes.is_empty() => Ok(taken as usize),
            Some(_) => Err(EAGAIN),
            None => Err(EPIPE),
        }
    }

    /// Ends directions of a stream.
    pub fn shutdown(&mut self, descriptor: i32, how: Shutdown) -> Result<(), Errno> {
        let stream = self.stream(descriptor)?;
        let id = stream.id;
        stream.reads_no_more |= how != Shutdown::Write;
        if how != Shutdown::Read {
            stream.writes_no_more = true;
            self.endpoint.command(id, |connection| connection.close());
            self.settle();
        }
        Ok(())
    }

    /// Closes a socket, and leaves its descriptor to the caller. What nobody read, and SO_LINGER of 0 s, reset its connection (RFC 9293, section 3.10.4; RFC 2525,
    /// section 2.17).
    pub fn close(&mut self, descriptor: i32) -> Result<(), Errno> {
        let socket = self.sockets.remove(&descriptor).ok_or(EBADF)?;
        if let State::Connected(stream) = socket.state {
            let unread = !stream.waiting.is_empty();
            self.endpoint.command(stream.id, |connection| {
                match socket.aborts || unread || connection.unread_bytes() > 0 {
                    true => connection.abort(),
                    false => connection.close(),
                }
            });
            self.settle();
        } else if let (State::Listening, Some(local)) = (socket.state, socket.local) {
            self.endpoint.stop_listening(local.port());
            self.settle();
        }
        Ok(())
    }

    /// Which of these events a socket has (`poll`).
    pub fn events(&mut self, descriptor: i32, asked: i16) -> i16 {
        let always = libc::POLLERR | libc::POLLHUP;
        let Some(socket) = self.sockets.get(&descriptor) else {
            return libc::POLLNVAL;
        };
        let (id, waiting) = match (&socket.state, socket.local) {
            (State::Connected(stream), _) => (&stream.id, &stream.waiting),
            (State::Listening, Some(local)) if self.endpoint.has_acceptable(local.port()) => {
                return asked & libc::POLLIN;
            }
            _ => return 0,
        };
        let (progress, connection) = (self.progress(*id), self.endpoint.connection(*id));
        let mut found = 0;
        let has_unread = connection.is_some_and(|it| it.unread_bytes() > 0);
        if has_unread || !waiting.is_empty() || progress.has_finished {
            found |= libc::POLLIN;
        }
        if progress.is_connected && connection.is_some_and(|it| it.send_capacity() > 0) {
            found |= libc::POLLOUT;
        }
        if progress.has_finished {
            found |= libc::POLLRDHUP;
        }
        if let Some(reason) = progress.closed {
            found |= libc::POLLHUP | libc::POLLIN | libc::POLLOUT;
            found |= if reason == CloseReason::Finished {
                0
            } else {
                libc::POLLERR
            };
        }
        found & (asked | always)
    }

    /// Bytes that can be read (SIOCINQ).
    pub fn unread_bytes(&mut self, descriptor: i32) -> Result<u64, Errno> {
        let (id, waiting) = self
            .stream(descriptor)
            .map(|stream| (stream.id, stream.waiting.len()))?;
        let connection = self.endpoint.connection(id);
        Ok(connection.map_or(0, |it| it.unread_bytes()) + u64::from(waiting))
    }

    /// Bytes that were written and the peer has not acknowledged (SIOCOUTQ).
    pub fn unacked_bytes(&mut self, descriptor: i32) -> Result<u64, Errno> {
        let id = self.stream(descriptor)?.id;
        Ok(self
            .endpoint
            .connection(id)
            .map_or(0, |it| it.unacked_bytes()))
    }

    /// The value of an option.
    pub fn option(&mut self, descriptor: i32, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        let number = |value: i32| Ok(value.to_ne_bytes().to_vec());
        let socket = self.sockets.get(&descriptor).ok_or(EBADF)?;
        let id = match &socket.state {
            State::Connected(stream) => Some(stream.id),
            _ => None,
        };
        let connection = id.and_then(|id| self.endpoint.connection(id));
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let closed = id.and_then(|id| self.progress(id).closed);
                number(closed.map_or(0, error_of))
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                let subflow = connection.and_then(|it| it.subflows().next());
                subflow.map(|it| tcp_info::of(&it).to_vec()).ok_or(ENOTCONN)
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let subflow = connection.and_then(|it| it.subflows().next());
                let mss = u32::from(socket.config.subflow.mss_bytes);
                number(subflow.map_or(mss, |it| it.window.mss_bytes) as i32)
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                number(i32::from(!socket.config.subflow.nagle))
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                Ok(socket.congestion_control.clone().into_bytes())
            }
            (libc::IPPROTO_TCP, TCP_IS_MPTCP) => {
                let mode = connection.map(|it| it.mode());
                number(i32::from(mode == Some(Mode::Multipath)))
            }
            _ => Err(ENOPROTOOPT),
        }
    }

    /// Sets an option. Parameters of the engine cannot change once there is a connection.
    pub fn set_option(
        &mut self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        let number = value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => Ok(()),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = value.get(4..).and_then(<[u8]>::first_chunk);
                let seconds = seconds.map(|bytes| i32::from_ne_bytes(*bytes));
                socket.aborts = number.is_some_and(|on| on != 0) && seconds == Some(0);
                Ok(())
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let name = String::from_utf8_lossy(value)
                    .trim_end_matches('\0')
                    .to_owned();
                socket.must_be_fresh()?;
                cc::by_name(&name).ok_or(libc::ENOENT)?;
                socket.congestion_control = name;
                Ok(())
            }
            _ => self.set_number(descriptor, level, name, number.ok_or(EINVAL)?),
        }
    }

    /// Options that a connection takes while it runs, and others before.
    fn set_number(
        &mut self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: i32,
    ) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        let State::Connected(Stream { id, .. }) = socket.state else {
            return socket.set_parameter(level, name, value);
        };
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.endpoint.command(id, |connection| {
                connection.set_send_buffer(u64::from(value.unsigned_abs()));
            }),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self
                .endpoint
                .command(id, |connection| connection.set_nagle(value == 0)),
            _ => return Err(ENOPROTOOPT),
        };
        self.settle();
        Ok(())
    }
}

/// Of Linux 5.16 and newer.
const TCP_IS_MPTCP: i32 = 43;

impl Socket {
    fn profile(&self) -> Profile {
        let name = self.congestion_control.clone();
        Profile {
            config: self.config.clone().into(),
            algorithms: Box::new(move |connection| Algorithms {
                congestion_control: cc::by_name(&name).expect("was looked up")(
                    &cc::Parameters::default(),
                ),
                scheduler: sched::by_name("kernel_default").expect("a scheduler")(
                    &sched::Parameters::default(),
                ),
                path_manager: pm::by_name("passive").expect("a path manager")(
                    connection,
                    &pm::Parameters::default(),
                ),
            }),
        }
    }

    fn must_be_fresh(&self) -> Result<(), Errno> {
        match self.state {
            State::Fresh => Ok(()),
            _ => Err(ENOPROTOOPT),
        }
    }

    fn set_parameter(&mut self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        self.must_be_fresh()?;
        let bytes = u64::from(value.unsigned_abs());
        let subflow = Arc::make_mut(&mut self.config.subflow);
        match (level, name) {
            // Linux doubles what is asked for, for what it keeps beside the payload.
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                self.config.receive_buffer = Buffer::Fixed(bytes)
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.config.send_buffer = Buffer::Fixed(bytes),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => subflow.nagle = value == 0,
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let asked = u16::try_from(value).map_err(|_| EINVAL)?;
                subflow.mss_bytes = subflow.mss_bytes.min(asked);
            }
            (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => {
                subflow.syn_retries.count = u32::try_from(value).map_err(|_| EINVAL)?;
            }
            _ => return Err(ENOPROTOOPT),
        }
        Ok(())
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

fn error_of(reason: CloseReason) -> Errno {
    match reason {
        CloseReason::Finished => ENOTCONN,
        CloseReason::Reset => ECONNRESET,
        CloseReason::Refused => ECONNREFUSED,
        CloseReason::TimedOut => ETIMEDOUT,
        CloseReason::Aborted => ECONNABORTED,
    }
}

fn write_error_of(reason: CloseReason) -> Errno {
    match reason {
        CloseReason::Finished => EPIPE,
        _ => error_of(reason),
    }
}
