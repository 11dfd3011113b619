//! The host under test: an endpoint, its sockets and its addresses, as programs and administrators
//! use them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mptcp::connection::{Algorithms, Buffer, Config, Event, Mode};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView, Profile};
use mptcp::payload::Payload;
use mptcp::pm::{self, AddressPair, EndpointFlags};
use mptcp::subflow::CloseReason;
use mptcp::time::Nanos;
use mptcp::wire::{IcmpError, Packet};
use mptcp::{cc, sched};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::script::{Call, Sender, list, number, words};

/// The port at which servers listen.
pub const SERVER_PORT: u16 = 8080;

const CLIENT_NAMES: [&str; 2] = ["caddr0", "caddr1"];
const SERVER_NAMES: [&str; 2] = ["saddr0", "saddr1"];

/// Returns the address with that name: two of the client and two of the server, each pair in its
/// own subnet.
pub fn address(name: &str) -> Result<IpAddr, String> {
    let place = |names: [&str; 2]| names.iter().position(|known| *known == name);
    let octets = match (place(CLIENT_NAMES), place(SERVER_NAMES)) {
        (Some(subnet), _) => [10, 0, subnet as u8, 1],
        (_, Some(subnet)) => [10, 0, subnet as u8, 2],
        _ => return name.parse().map_err(|_| format!("{name} is no address")),
    };
    Ok(IpAddr::from(octets))
}

/// Parameters of the host, which sockets inherit.
#[derive(Clone)]
struct Parameters {
    config: Config,
    path_manager: String,
    of_path_manager: pm::Parameters,
}

enum Socket {
    Fresh(Box<Parameters>),
    Listening,
    Connected(Stream),
}

/// A program's state of a connection.
struct Stream {
    id: ConnectionId,
    written: u64,
    read: u64,
    /// Data taken from the connection and not read yet.
    waiting: Payload,
    aborts: bool,
}

/// The host.
pub struct Host {
    endpoint: Option<Endpoint>,
    parameters: Parameters,
    sockets: BTreeMap<u32, Socket>,
    has_finished: bool,
    closed: Option<CloseReason>,
}

impl Host {
    pub fn new() -> Self {
        let of_path_manager = pm::Parameters {
            endpoints: Some(Vec::new()),
            ..pm::Parameters::default()
        };
        Self {
            endpoint: None,
            parameters: Parameters {
                config: Config::default(),
                path_manager: "kernel_endpoints".to_owned(),
                of_path_manager,
            },
            sockets: BTreeMap::new(),
            has_finished: false,
            closed: None,
        }
    }

    /// Returns whether the host is the server.
    fn has_listener(&self) -> bool {
        self.sockets
            .values()
            .any(|socket| matches!(socket, Socket::Listening))
    }

    /// Returns the names of its addresses and of the peer's.
    pub fn names(&self) -> [[&'static str; 2]; 2] {
        match self.has_listener() {
            true => [SERVER_NAMES, CLIENT_NAMES],
            false => [CLIENT_NAMES, SERVER_NAMES],
        }
    }

    /// Returns the endpoint, once it is known which side it is.
    fn start(&mut self) -> &mut Endpoint {
        let [ours, peers] = self.names();
        let known = |name| address(name).expect("a name of the table");
        let pairs = ours.iter().flat_map(|our| {
            peers.iter().map(|peer| AddressPair {
                local: known(our),
                remote: known(peer),
            })
        });
        let network = NetworkView {
            pairs: pairs.collect(),
            ..NetworkView::default()
        };
        let rng = Box::new(Xoshiro256PlusPlus::seed_from_u64(1));
        self.endpoint
            .get_or_insert_with(|| Endpoint::new(network, rng))
    }

    /// Returns the endpoint of a host that listens or connects.
    fn endpoint(&mut self) -> &mut Endpoint {
        self.endpoint
            .as_mut()
            .expect("a script listens or connects first")
    }

    /// Handles an ICMP error about a packet that was sent.
    pub fn handle_icmp_error(&mut self, now: Nanos, error: &IcmpError) {
        self.endpoint().handle_icmp_error(now, error);
    }

    /// Handles a packet, after converting it to bytes and back.
    pub fn handle_packet(&mut self, now: Nanos, packet: &Packet) {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        let (packet, _) = Packet::parse(&Arc::from(bytes)).expect("a packet of a script is whole");
        self.endpoint().handle_packet(now, &packet);
    }

    pub fn handle_timeout(&mut self, now: Nanos) {
        self.endpoint().handle_timeout(now);
    }

    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.endpoint.as_ref()?.poll_timeout()
    }

    /// Returns the next packet, after converting it to bytes and back.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        let packet = self.endpoint.as_mut()?.poll_transmit(now);
        while let Some((_, event)) = self.endpoint().poll_event() {
            match event {
                Event::Finished => self.has_finished = true,
                Event::Closed { reason } => self.closed = Some(reason),
                _ => {}
            }
        }
        let mut bytes = Vec::new();
        packet?.emit(&mut bytes);
        let (packet, ignored) = Packet::parse(&Arc::from(bytes)).expect("what is sent is whole");
        assert!(ignored.is_none(), "every option that is sent can be read");
        Some(packet)
    }

    /// Makes a system call. Returns its result.
    pub fn call(&mut self, now: Nanos, call: &Call) -> Result<String, String> {
        let argument = |index: usize| call.arguments.get(index).map_or("", String::as_str);
        match call.name.as_str() {
            "socket" => self.socket(argument(2), number(&call.result)?),
            "bind" => Ok("0".to_owned()),
            "listen" => self.listen(number(argument(0))?),
            "connect" => self.connect(now, number(argument(0))?),
            "accept" => self.accept(&call.result),
            "setsockopt" => self.set_option(number(argument(0))?, argument(2), argument(3)),
            "getsockopt" => self.option(number(argument(0))?, argument(2)),
            "read" => self.read(number(argument(0))?, number(argument(2))?),
            "write" => self.write(number(argument(0))?, number(argument(2))?),
            "close" | "shutdown" => self.close(number(argument(0))?),
            name => Err(format!("{name} is not known")),
        }
    }

    fn socket(&mut self, protocol: &str, descriptor: u32) -> Result<String, String> {
        let mut parameters = self.parameters.clone();
        parameters.config.is_multipath = protocol == "IPPROTO_MPTCP";
        self.sockets
            .insert(descriptor, Socket::Fresh(Box::new(parameters)));
        Ok(descriptor.to_string())
    }

    fn profile(&self, descriptor: u32) -> Result<Profile, String> {
        let Some(Socket::Fresh(parameters)) = self.sockets.get(&descriptor) else {
            return Err(format!("{descriptor} is no fresh socket"));
        };
        let Parameters {
            config,
            path_manager,
            of_path_manager,
        } = (**parameters).clone();
        Ok(Profile {
            config: config.into(),
            algorithms: Box::new(move |connection| Algorithms {
                congestion_control: cc::by_name("reno").expect("a congestion control")(
                    &cc::Parameters::default(),
                ),
                scheduler: sched::by_name("min_rtt").expect("a scheduler")(
                    &sched::Parameters::default(),
                ),
                path_manager: pm::by_name(&path_manager).expect("a path manager")(
                    connection,
                    &of_path_manager,
                ),
            }),
        })
    }

    fn listen(&mut self, descriptor: u32) -> Result<String, String> {
        let profile = self.profile(descriptor)?;
        self.sockets.insert(descriptor, Socket::Listening);
        self.start().listen(SERVER_PORT, profile);
        Ok("0".to_owned())
    }

    fn connect(&mut self, now: Nanos, descriptor: u32) -> Result<String, String> {
        let profile = self.profile(descriptor)?;
        let (from, to) = (address(CLIENT_NAMES[0])?, address(SERVER_NAMES[0])?);
        let (from, to) = (SocketAddr::new(from, 0), SocketAddr::new(to, SERVER_PORT));
        let opened = self.start().connect(now, from, to, &profile);
        let id = opened.map_err(|error| error.to_string())?;
        self.sockets
            .insert(descriptor, Socket::Connected(Stream::new(id)));
        Ok("-1 EINPROGRESS".to_owned())
    }

    fn accept(&mut self, result: &str) -> Result<String, String> {
        let Some(id) = self.endpoint().accept(SERVER_PORT) else {
            return Ok("-1 EAGAIN".to_owned());
        };
        self.sockets
            .insert(number(result)?, Socket::Connected(Stream::new(id)));
        Ok(result.to_owned())
    }

    fn stream(&mut self, descriptor: u32) -> Result<&mut Stream, String> {
        match self.sockets.get_mut(&descriptor) {
            Some(Socket::Connected(stream)) => Ok(stream),
            _ => Err(format!("{descriptor} is not connected")),
        }
    }

    fn set_option(&mut self, descriptor: u32, name: &str, value: &str) -> Result<String, String> {
        let inner = value.trim_matches(['[', ']']);
        match (name, self.sockets.get_mut(&descriptor)) {
            ("SO_RCVBUF", Some(Socket::Fresh(parameters))) => {
                parameters.config.receive_buffer = Buffer::Fixed(number(inner)?);
            }
            ("TCP_QUICKACK", Some(Socket::Fresh(parameters))) => {
                Arc::make_mut(&mut parameters.config.subflow).quick_acks = number(inner)?
            }
            ("SO_LINGER", Some(Socket::Connected(stream))) => {
                stream.aborts = value == "{onoff=1, linger=0}"
            }
            _ => return Err(format!("{name} cannot be set on {descriptor}")),
        }
        Ok("0".to_owned())
    }

    /// Returns a socket option in brackets, as a script writes the expected value.
    fn option(&mut self, descriptor: u32, name: &str) -> Result<String, String> {
        let id = self.stream(descriptor)?.id;
        let mode = self
            .start()
            .connection(id)
            .map(|connection| connection.mode());
        match name {
            "TCP_IS_MPTCP" => Ok(format!("[{}]", u32::from(mode == Some(Mode::Multipath)))),
            _ => Err(format!("{name} is not known")),
        }
    }

    /// Reads at most `most` bytes, and checks that they are those of the peer's application.
    fn read(&mut self, descriptor: u32, most: u32) -> Result<String, String> {
        let (has_finished, closed) = (self.has_finished, self.closed);
        let id = self.stream(descriptor)?.id;
        while self.stream(descriptor)?.waiting.len() < most {
            let Some(Some(more)) = self.endpoint().command(id, |connection| connection.recv())
            else {
                break;
            };
            self.stream(descriptor)?.waiting.append(more);
        }
        let stream = self.stream(descriptor)?;
        let all = stream.waiting.len();
        let taken = all.min(most);
        let (payload, rest) = (
            stream.waiting.slice(0..taken),
            stream.waiting.slice(taken..all),
        );
        if payload != Sender::Peer.stream(stream.read, taken) {
            return Err(format!("wrong bytes from {} on", stream.read));
        }
        stream.read += u64::from(taken);
        stream.waiting = rest;
        Ok(match closed {
            _ if taken > 0 => taken.to_string(),
            _ if has_finished => "0".to_owned(),
            Some(reason) => error_of(reason).to_owned(),
            None => "-1 EAGAIN".to_owned(),
        })
    }

    fn write(&mut self, descriptor: u32, bytes: u32) -> Result<String, String> {
        let closed = self.closed;
        let stream = self.stream(descriptor)?;
        let (id, payload) = (stream.id, Sender::Ours.stream(stream.written, bytes));
        let taken = self
            .start()
            .command(id, |connection| connection.send(&payload))
            .unwrap_or(0);
        self.stream(descriptor)?.written += u64::from(taken);
        Ok(match closed {
            Some(reason) => error_of(reason).to_owned(),
            None => taken.to_string(),
        })
    }

    /// Ends the byte stream; with SO_LINGER of 0 s, ends the connection.
    fn close(&mut self, descriptor: u32) -> Result<String, String> {
        if let Some(Socket::Listening) = self.sockets.get(&descriptor) {
            self.endpoint().stop_listening(SERVER_PORT);
            return Ok("0".to_owned());
        }
        let stream = self.stream(descriptor)?;
        let (id, aborts) = (stream.id, stream.aborts);
        self.endpoint().command(id, |connection| match aborts {
            true => connection.abort(),
            false => connection.close(),
        });
        Ok("0".to_owned())
    }

    /// Carries out a command of an administrator: parameters before sockets are created, addresses
    /// at any time.
    pub fn command(&mut self, now: Nanos, command: &str) -> Result<(), String> {
        let words = words(command);
        match words.as_slice() {
            ["sysctl", "-w", assignment] => self.set_parameter(assignment),
            ["ip", "mptcp", "endpoint", "add", name, flag] => self.add_endpoint(name, None, flag),
            ["ip", "mptcp", "endpoint", "add", name, "port", port, flag] => {
                self.add_endpoint(name, Some(number(port)?), flag)
            }
            ["ip", "addr", "del", name] => {
                let local = address(name)?;
                self.endpoint().handle_address_change(now, local, false);
                Ok(())
            }
            ["ip", "link", "set", name, "multipath", what] => {
                let local = address(name)?;
                self.endpoint().set_backup(now, local, *what == "backup");
                Ok(())
            }
            _ => Err(format!("{command} is not known")),
        }
    }

    fn set_parameter(&mut self, assignment: &str) -> Result<(), String> {
        let (name, value) = assignment.split_once('=').ok_or("name=value is missing")?;
        let config = &mut self.parameters.config;
        match name {
            "net.mptcp.checksum_enabled" => config.uses_checksums = value == "1",
            "net.mptcp.allow_join_initial_addr_port" => {
                config.allows_joins_to_initial = value == "1";
            }
            "net.mptcp.path_manager" => self.parameters.path_manager = value.to_owned(),
            "net.ipv4.tcp_recovery" => Arc::make_mut(&mut config.subflow).rack = value == "1",
            _ => return Err(format!("{name} is not known")),
        }
        Ok(())
    }

    fn add_endpoint(&mut self, name: &str, port: Option<u16>, flag: &str) -> Result<(), String> {
        let flags = match flag {
            "signal" => EndpointFlags::SIGNAL,
            "subflow" => EndpointFlags::SUBFLOW,
            _ => return Err(format!("{flag} is not known")),
        };
        let endpoints = self
            .parameters
            .of_path_manager
            .endpoints
            .get_or_insert_default();
        endpoints.push(pm::Endpoint {
            address: address(name)?,
            port,
            flags,
        });
        Ok(())
    }
}

impl Stream {
    fn new(id: ConnectionId) -> Self {
        Self {
            id,
            written: 0,
            read: 0,
            waiting: Payload::EMPTY,
            aborts: false,
        }
    }
}

/// Returns the error of a call on a connection that has ended.
fn error_of(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Finished => "-1 EPIPE",
        CloseReason::Reset => "-1 ECONNRESET",
        CloseReason::Refused => "-1 ECONNREFUSED",
        CloseReason::TimedOut => "-1 ETIMEDOUT",
        CloseReason::Aborted => "-1 ECONNABORTED",
    }
}

/// Returns the result that a script expects of a call: the return value, or for `getsockopt` the
/// option's value.
pub fn expected(call: &Call) -> String {
    let is_query = call.name == "getsockopt";
    let value = call.arguments.get(3).filter(|_| is_query);
    let result: Vec<_> = list(&call.result);
    value.cloned().unwrap_or_else(|| result.join(", "))
}
