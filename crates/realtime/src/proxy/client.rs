//! Carries a program's TCP connections over MPTCP.
//!
//! The program's kernel sends a SYN to the TUN device. The client holds the SYN until the server or
//! gateway has answered, so that the program sees a refusal as a refusal. Then the engine accepts
//! the program's connection, and bytes are relayed between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use experiment::time::{NANOS_PER_SECOND, Nanos};
use getrandom::SysRng;
use mptcp::connection::{Algorithms, Buffer, Config};
use mptcp::endpoint::{ConnectError, ConnectionId, Endpoint, NetworkView, Profile};
use mptcp::pm::{FourTuple, Passive};
use mptcp::wire::{Flags, Packet, UdpPacket};
use mptcp::{cc, pm, sched, subflow};
use rand_core::UnwrapErr;

use super::datagrams::{Datagrams, FlowId};
use super::engine_side::{EngineSide, News, Wire};
use super::network_side::{NetworkSide, RawWire};
use super::outlets::Routes;
use super::program::{Program, raise_descriptor_limit};
use super::program_namespace::{MTU_BYTES, ProgramNamespace};
use super::relay::{Relays, Side};
use super::report::Report;
use super::waiting::{Source, Waiting};
use super::{Settings, convert, earliest};
use crate::{Clock, LiveError};

/// How long, after the end of the command, its data may make no progress before the proxy gives up.
const PATIENCE_AFTER_END: Nanos = 10 * NANOS_PER_SECOND;
/// Packets read from the program before others get their turn.
const PACKETS_IN_A_ROW: usize = 32;
/// Enough for a path without delay.
const BUFFER_BYTES: u64 = 1 << 20;
/// Short, because no segment is late on a path without delay.
const TIME_WAIT: Nanos = NANOS_PER_SECOND / 100;

/// Sends packets to the TUN device.
struct TunWire {
    network: ProgramNamespace,
    buffer: Vec<u8>,
}

impl Wire for TunWire {
    fn send(&mut self, packet: &Packet) {
        self.network.send(&mut self.buffer, |to| packet.emit(to));
    }
}

/// A connection that a program has asked for.
struct Opening {
    syn: Packet,
    /// The gateway's answer, if there is a gateway.
    answer: Option<convert::Incoming>,
}

/// The descriptors that only the client waits for.
enum OfProgram {
    /// Receives the packets of the program.
    Packets,
    /// Ready when the command has ended.
    Command,
    Datagrams(FlowId),
}

const FIRST_DATAGRAMS: u64 = 2;

impl From<OfProgram> for u64 {
    fn from(source: OfProgram) -> Self {
        match source {
            OfProgram::Packets => 0,
            OfProgram::Command => 1,
            OfProgram::Datagrams(id) => FIRST_DATAGRAMS + id,
        }
    }
}

impl From<u64> for OfProgram {
    fn from(number: u64) -> Self {
        match number {
            0 => Self::Packets,
            1 => Self::Command,
            _ => Self::Datagrams(number - FIRST_DATAGRAMS),
        }
    }
}

/// A command in a network of its own, and its connections over MPTCP.
pub(super) struct Client {
    clock: Clock,
    network: NetworkSide,
    /// The connections of the program.
    programs: EngineSide<TunWire>,
    program_profile: Profile,
    relays: Relays<EngineSide<RawWire>, EngineSide<TunWire>>,
    openings: BTreeMap<ConnectionId, Opening>,
    /// The addresses of the openings.
    asked_for: BTreeSet<FourTuple>,
    datagrams: Datagrams,
    gateway: Option<SocketAddr>,
    waiting: Waiting<OfProgram>,
    scratch: Vec<u8>,
    refused: u64,
    /// Bytes that servers have not acknowledged, and when their number last changed. Used after the
    /// end of the command.
    unacked: (u64, Nanos),
    exit_status: Option<i32>,
}

impl Client {
    /// Creates the network of the program.
    ///
    /// # Errors
    /// The settings are wrong, privileges are missing, or the system refuses.
    pub(super) fn new(settings: &Settings, gateway: Option<SocketAddr>) -> Result<Self, LiveError> {
        let network = NetworkSide::open(settings, Routes::OfDevices)?;
        let addresses: Vec<_> = network.addresses().collect();
        let program_network = ProgramNamespace::new(&addresses, &loopback_nameservers())?;
        let waiting = Waiting::new()?;
        let program = waiting.for_input(&program_network, Source::Own(OfProgram::Packets));
        program.map_err(LiveError::while_("watching the interfaces"))?;
        network.be_waited_for(&waiting)?;
        let endpoint = Endpoint::new(NetworkView::default(), Box::new(UnwrapErr(SysRng)));
        let wire = TunWire {
            network: program_network,
            buffer: Vec::new(),
        };
        Ok(Self {
            clock: Clock::start(),
            network,
            programs: EngineSide::new(endpoint, wire),
            program_profile: program_profile(),
            relays: Relays::new(),
            openings: BTreeMap::new(),
            asked_for: BTreeSet::new(),
            datagrams: Datagrams::new(),
            gateway,
            waiting,
            scratch: vec![0; MTU_BYTES as usize + 1024],
            refused: 0,
            unacked: (0, 0),
            exit_status: None,
        })
    }

    /// Runs a command until it has ended and its data has arrived, or until `stop` is readable,
    /// which ends the command. The calling thread cannot start threads afterwards.
    ///
    /// # Errors
    /// The command cannot be started, or the system refuses.
    pub(super) fn run(mut self, command: &[String], stop: &OwnedFd) -> Result<Report, LiveError> {
        let before = raise_descriptor_limit();
        let namespace = &self.programs.wire.network.namespace;
        let mut program = Program::start(command, namespace, before)?;
        let watched = self
            .waiting
            .for_changes(&program, Source::Own(OfProgram::Command));
        watched
            .and_then(|()| self.waiting.for_input(stop, Source::Stop))
            .map_err(LiveError::while_("watching the command"))?;
        loop {
            let now = self.clock.now();
            self.do_what_is_due(now);
            if self.is_over(now) {
                break;
            }
            for source in self.waiting.wait(self.timeout(now))? {
                let now = self.clock.now();
                match source {
                    Source::Own(OfProgram::Command) => self.record_end(&mut program),
                    Source::Stop => {
                        program.kill();
                        return Ok(self.end());
                    }
                    Source::Own(OfProgram::Packets) => self.handle_program(now),
                    Source::Addresses => self.network.follow_addresses(now)?,
                    Source::Outlet(index) => {
                        self.network.receive_from(index, now);
                    }
                    Source::Own(OfProgram::Datagrams(id)) => {
                        let TunWire { network, buffer } = &mut self.programs.wire;
                        self.datagrams.receive(now, id, |packet| {
                            network.send(buffer, |to| packet.emit(to));
                        });
                    }
                }
                self.settle(now);
            }
        }
        Ok(self.end())
    }

    fn record_end(&mut self, program: &mut Program) {
        if self.exit_status.is_none()
            && let Some(status) = program.end()
        {
            self.exit_status = Some(status);
            self.unacked.1 = self.clock.now();
            // The program that asked for these connections has ended.
            for (id, _) in std::mem::take(&mut self.openings) {
                self.network.engine.reset(id);
            }
        }
    }

    fn is_over(&mut self, now: Nanos) -> bool {
        if self.exit_status.is_none() {
            return false;
        }
        let unacked = self.network.engine.unacked_bytes();
        if unacked != self.unacked.0 {
            self.unacked = (unacked, now);
        }
        // Data from servers is not waited for. The program's kernel answers it with a reset, which
        // is passed to the server.
        let has_finished = self.network.engine.has_finished_all();
        has_finished || now >= self.unacked.1 + PATIENCE_AFTER_END
    }

    fn timeout(&self, now: Nanos) -> Option<Nanos> {
        let end = self
            .exit_status
            .map(|_| self.unacked.1 + PATIENCE_AFTER_END);
        let engines = [
            self.network.engine.driver.poll_timeout(),
            self.programs.driver.poll_timeout(),
        ];
        earliest(engines.into_iter().chain([end]), now)
    }

    fn do_what_is_due(&mut self, now: Nanos) {
        self.network.engine.driver.handle_timeout(now);
        self.programs.driver.handle_timeout(now);
        self.settle(now);
    }

    /// Sends and relays until nothing is left to do now.
    fn settle(&mut self, now: Nanos) {
        loop {
            self.network.engine.answer(now);
            self.programs.answer(now);
            if let Some((id, news)) = self.network.engine.next_news() {
                self.handle_network_news(now, id, news);
            } else if let Some((id, _)) = self.programs.next_news() {
                let sides = (&mut self.network.engine, &mut self.programs);
                self.relays.advance_local(sides, id);
            } else {
                return;
            }
        }
    }

    fn handle_network_news(&mut self, now: Nanos, id: ConnectionId, news: News) {
        if !self.openings.contains_key(&id) {
            let sides = (&mut self.network.engine, &mut self.programs);
            self.relays.advance(sides, id);
            return;
        }
        if news == News::Closed {
            self.refuse(id);
            return;
        }
        if let (News::Connected, Some(_)) = (news, self.gateway) {
            self.ask_gateway(id);
        }
        match self.has_answered(id) {
            Some(true) => self.accept(now, id),
            Some(false) => self.refuse(id),
            None => {}
        }
    }

    fn ask_gateway(&mut self, id: ConnectionId) {
        if let Some(opening) = self.openings.get_mut(&id) {
            let question = convert::connect(destination(&opening.syn));
            opening.answer = Some(convert::Incoming::default());
            // The first bytes of a connection always have room.
            self.network.engine.with_stream(id, |stream| {
                let _ = stream.send(&[IoSlice::new(&question)]);
            });
        }
    }

    /// Returns whether the server was reached; `None` until that is known.
    fn has_answered(&mut self, id: ConnectionId) -> Option<bool> {
        let opening = self.openings.get_mut(&id)?;
        let Some(answer) = &mut opening.answer else {
            return self.gateway.is_none().then_some(true);
        };
        let read =
            |stream: &mut dyn crate::applications::traffic::ByteStream| match answer.read(stream) {
                Ok(Some(message)) => Some(convert::is_connected(message)),
                Ok(None) => None,
                Err(_) => Some(false),
            };
        self.network.engine.with_stream(id, read).flatten()
    }

    fn accept(&mut self, now: Nanos, id: ConnectionId) {
        let Some(Opening { syn, .. }) = self.openings.remove(&id) else {
            return;
        };
        self.asked_for.remove(&FourTuple::of_receiver(&syn));
        let endpoint = &mut self.programs.driver.endpoint;
        let Some(local) = endpoint.accept_syn(now, &syn, &self.program_profile) else {
            self.network.engine.reset(id);
            return;
        };
        self.programs.adopt(local);
        self.relays.join(id, local);
        let sides = (&mut self.network.engine, &mut self.programs);
        self.relays.advance(sides, id);
    }

    fn refuse(&mut self, id: ConnectionId) {
        if let Some(Opening { syn, .. }) = self.openings.remove(&id) {
            self.asked_for.remove(&FourTuple::of_receiver(&syn));
            self.programs.driver.endpoint.refuse_packet(&syn);
            self.refused += 1;
        }
        self.network.engine.reset(id);
    }

    fn handle_program(&mut self, now: Nanos) {
        for _ in 0..PACKETS_IN_A_ROW {
            let Some(bytes) = self.programs.wire.network.receive(&mut self.scratch) else {
                return;
            };
            let bytes: Arc<[u8]> = Arc::from(bytes);
            // Packets of other protocols are dropped.
            if let Ok((packet, _)) = Packet::parse(&bytes) {
                self.handle_packet(now, packet);
            } else if let Ok(packet) = UdpPacket::parse(&bytes) {
                let waiting = &self.waiting;
                // A datagram may be lost.
                let _ = self.datagrams.send(now, &packet, |id, socket| {
                    waiting.for_input(socket.as_fd(), Source::Own(OfProgram::Datagrams(id)))
                });
            }
        }
    }

    fn handle_packet(&mut self, now: Nanos, packet: Packet) {
        let flags = packet.segment.flags;
        let is_first = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
        let four = FourTuple::of_receiver(&packet);
        if is_first && self.asked_for.contains(&four) {
            return;
        }
        if is_first && !self.is_known(four) {
            self.open(now, four, packet);
        } else {
            self.programs.receive(now, &packet);
        }
    }

    /// Returns whether a connection with these addresses exists. One that has ended is forgotten.
    fn is_known(&mut self, four: FourTuple) -> bool {
        let endpoint = &self.programs.driver.endpoint;
        let Some(id) = endpoint.connection_between(four) else {
            return false;
        };
        let connection = endpoint.connection(id);
        let has_ended = connection.is_some_and(|it| it.closed().is_some());
        if has_ended {
            self.programs.driver.forget(id);
        }
        !has_ended
    }

    fn open(&mut self, now: Nanos, four: FourTuple, syn: Packet) {
        let to = self.gateway.unwrap_or_else(|| destination(&syn));
        let is_host = !to.ip().is_multicast() && !to.ip().is_loopback();
        let opened = is_host.then(|| self.network.connect(now, to));
        let id = match opened {
            Some(Ok(id)) => id,
            // The SYN is dropped, so that the program's kernel sends it again. A second later some
            // ports have left TIME-WAIT.
            Some(Err(ConnectError::NoFreePort { .. })) => return,
            Some(Err(_)) | None => {
                self.programs.driver.endpoint.refuse_packet(&syn);
                self.refused += 1;
                return;
            }
        };
        self.asked_for.insert(four);
        let opening = Opening { syn, answer: None };
        self.openings.insert(id, opening);
    }

    /// Resets the remaining connections and returns the report.
    fn end(mut self) -> Report {
        let now = self.clock.now();
        self.network.engine.reset_unfinished(now);
        let counts = self.network.engine.counts;
        Report {
            connections: counts.connected,
            without_mptcp: counts.without_mptcp,
            refused: self.refused,
            interfaces: self.network.interfaces().to_vec(),
            exit_status: self.exit_status,
        }
    }
}

/// Returns the destination of a program's SYN.
fn destination(syn: &Packet) -> SocketAddr {
    SocketAddr::new(syn.destination, syn.segment.destination_port)
}

/// Returns the profile of connections with the program: TCP over a path without delay or loss.
fn program_profile() -> Profile {
    let mss_bytes = MTU_BYTES - 60;
    let config = Config {
        subflow: Arc::new(subflow::Config {
            mss_bytes: mss_bytes as u16,
            window_scale: Some(7),
            time_wait: TIME_WAIT,
            ..subflow::Config::default()
        }),
        is_multipath: false,
        send_buffer: Buffer::Fixed(BUFFER_BYTES),
        receive_buffer: Buffer::Fixed(BUFFER_BYTES),
        ..Config::default()
    };
    let known = "the engine has it";
    let control = cc::by_name("reno").expect(known);
    let scheduler = sched::by_name("min_rtt").expect(known);
    Profile {
        config: Arc::new(config),
        algorithms: Box::new(move |seen: &pm::Connection| Algorithms {
            congestion_control: control(&cc::Parameters::default()),
            scheduler: scheduler(&sched::Parameters::default()),
            path_manager: Box::new(Passive::new(seen)),
        }),
    }
}

/// Returns the nameservers at loopback addresses (resolv.conf(5)).
fn loopback_nameservers() -> Vec<Ipv4Addr> {
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let lines = text.lines().map(str::split_whitespace);
    let named = lines.filter_map(|mut words| match (words.next(), words.next()) {
        (Some("nameserver"), Some(address)) => address.parse().ok(),
        _ => None,
    });
    named.filter(Ipv4Addr::is_loopback).collect()
}
