//! MPTCP for servers without it. The engine accepts connections, each client names a destination,
//! and the kernel's TCP connects to it.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use experiment::time::Nanos;
use mptcp::endpoint::ConnectionId;

use super::convert::{self, Refusal};
use super::engine_side::{EngineSide, News};
use super::network_side::{NetworkSide, RawWire};
use super::outlets::Routes;
use super::program::raise_descriptor_limit;
use super::questions::Questions;
use super::relay::{Relays, Side};
use super::report::Report;
use super::servers::{ServerId, Servers};
use super::waiting::{Source, Waiting};
use super::{Settings, earliest};
use crate::applications::traffic::ByteStream;
use crate::{Clock, LiveError};

/// A connection whose server has not answered.
struct Connecting {
    server: ServerId,
    address: IpAddr,
}

/// A Transport Converter (RFC 8803) for clients with MPTCP.
pub(super) struct Gateway {
    clock: Clock,
    port: u16,
    network: NetworkSide,
    servers: Servers,
    relays: Relays<EngineSide<RawWire>, Servers>,
    questions: Questions<ConnectionId>,
    connecting: BTreeMap<ConnectionId, Connecting>,
    /// The same connections by their servers.
    by_server: BTreeMap<ServerId, ConnectionId>,
    waiting: Waiting<ServerId>,
    refused: u64,
}

impl Gateway {
    /// Accepts connections at this port of all addresses of the interfaces.
    ///
    /// # Errors
    /// The settings are wrong, the port is taken, privileges are missing, or the system refuses.
    pub(super) fn new(settings: &Settings, port: u16) -> Result<Self, LiveError> {
        raise_descriptor_limit();
        let mut network = NetworkSide::open(settings, Routes::OfMachine)?;
        let waiting = Waiting::new()?;
        network.be_waited_for(&waiting)?;
        network.listen(settings, port)?;
        Ok(Self {
            clock: Clock::start(),
            port,
            network,
            servers: Servers::default(),
            relays: Relays::new(),
            questions: Questions::new(),
            connecting: BTreeMap::new(),
            by_server: BTreeMap::new(),
            waiting,
            refused: 0,
        })
    }

    /// Serves until `stop` is readable.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn run(mut self, stop: &OwnedFd) -> Result<Report, LiveError> {
        let watched = self.waiting.for_input(stop, Source::Stop);
        watched.map_err(LiveError::while_("watching for the end"))?;
        loop {
            let now = self.clock.now();
            self.network.engine.driver.handle_timeout(now);
            self.settle(now);
            self.drop_silent(now);
            let due = [
                self.network.engine.driver.poll_timeout(),
                self.questions.next_deadline(),
            ];
            let timeout = earliest(due, now);
            for source in self.waiting.wait(timeout)? {
                let now = self.clock.now();
                match source {
                    Source::Stop => return Ok(self.end()),
                    Source::Addresses => self.network.follow_addresses(now)?,
                    Source::Outlet(index) => {
                        self.network.receive_from(index, now);
                    }
                    Source::Own(server) => self.handle_server_news(server),
                }
                self.settle(now);
            }
        }
    }

    /// Sends and relays until nothing is left to do now.
    fn settle(&mut self, now: Nanos) {
        loop {
            self.network.engine.answer(now);
            let Some((id, news)) = self.network.engine.next_news() else {
                return;
            };
            if news == News::Connected {
                self.network.engine.driver.endpoint.accept(self.port);
                self.questions.await_from(now, id);
            }
            if self.questions.of(id).is_some() {
                self.read_question(id);
            } else if let Some(Connecting { server, .. }) = self.connecting.get(&id) {
                let server = *server;
                if news == News::Closed {
                    self.give_up(id, server);
                }
            } else {
                let sides = (&mut self.network.engine, &mut self.servers);
                self.relays.advance(sides, id);
            }
        }
    }

    /// Resets connections that have not named a destination in time, and the oldest if there are
    /// too many.
    fn drop_silent(&mut self, now: Nanos) {
        while let Some(id) = self.questions.take_overdue(now) {
            self.refuse(id, None);
        }
        self.network.engine.answer(now);
    }

    fn read_question(&mut self, id: ConnectionId) {
        let Some(question) = self.questions.of(id) else {
            return;
        };
        let read = |stream: &mut dyn ByteStream| match question.read(stream) {
            Ok(Some(message)) => convert::destination(message).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match self.network.engine.with_stream(id, read) {
            Some(Ok(Some(to))) => self.connect(id, to),
            Some(Ok(None)) => {}
            Some(Err(why)) => {
                let answer = why.message(question.so_far());
                self.refuse(id, answer.as_deref());
            }
            None => self.questions.settle(id),
        }
    }

    fn connect(&mut self, id: ConnectionId, to: SocketAddr) {
        self.questions.settle(id);
        let waiting = &self.waiting;
        let begun = self.servers.connect(to, |server, socket| {
            waiting.for_changes(socket, Source::Own(server))
        });
        match begun {
            Ok(server) => {
                let address = to.ip();
                let connecting = Connecting { server, address };
                self.connecting.insert(id, connecting);
                self.by_server.insert(server, id);
            }
            Err(error) => self.refuse_unreached(id, &error, to.ip()),
        }
    }

    fn handle_server_news(&mut self, server: ServerId) {
        let sides = (&mut self.network.engine, &mut self.servers);
        let Some(&id) = self.by_server.get(&server) else {
            self.relays.advance_local(sides, server);
            return;
        };
        if let Some(error) = self.servers.failure(server) {
            self.by_server.remove(&server);
            self.servers.release(server);
            if let Some(Connecting { address, .. }) = self.connecting.remove(&id) {
                self.refuse_unreached(id, &error, address);
            }
        } else if self.servers.is_connected(server) {
            self.by_server.remove(&server);
            self.connecting.remove(&id);
            self.say(id, &convert::connected());
            self.relays.join(id, server);
            let sides = (&mut self.network.engine, &mut self.servers);
            self.relays.advance(sides, id);
        }
    }

    fn say(&mut self, id: ConnectionId, message: &[u8]) {
        self.network.engine.with_stream(id, |stream| {
            // The first bytes of a connection always have room.
            let _ = stream.send(&[IoSlice::new(message)]);
        });
    }

    fn refuse_unreached(&mut self, id: ConnectionId, error: &io::Error, server: IpAddr) {
        let answer = Refusal::of(error, server).message(&[]);
        self.refuse(id, answer.as_deref());
    }

    /// Ends the connection after its answer, or resets it if there is no answer.
    fn refuse(&mut self, id: ConnectionId, answer: Option<&[u8]>) {
        self.questions.settle(id);
        self.refused += 1;
        let Some(answer) = answer else {
            self.network.engine.reset(id);
            return;
        };
        self.say(id, answer);
        self.network.engine.with_stream(id, |stream| {
            let _ = stream.shut_down();
        });
        self.network.engine.release(id);
    }

    /// Gives up a client that has gone before the server answered.
    fn give_up(&mut self, id: ConnectionId, server: ServerId) {
        self.connecting.remove(&id);
        self.by_server.remove(&server);
        self.servers.release(server);
        self.network.engine.release(id);
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
            exit_status: None,
        }
    }
}
