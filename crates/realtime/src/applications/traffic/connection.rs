//! Connections: one host opens, the other accepts, and each end runs its application.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use experiment::time::Nanos;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, connect, sockopt};

use super::StreamEnd;
use super::byte_stream::ByteStream;
use super::record::Journal;
use super::role::Opened;
use super::sockets::{Addresses, Registered, Registry, bind_address, set_nodelay};
use super::worker::{Task, Turn, Wait};
use crate::Clock;

/// Connections accepted in one turn.
const ACCEPTS_PER_TURN: usize = 64;
/// How long a host that is out of descriptors waits before it accepts again.
const ACCEPT_AGAIN: Nanos = 10_000_000;

/// The application at one end of a connection.
pub(crate) trait End: Send {
    /// Goes on with its work. Returns `None` when nothing is left to do.
    ///
    /// # Errors
    /// The connection broke.
    fn advance(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Option<Wait>>;
}

/// The flow that connections belong to.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) flow: usize,
    /// The end that is here.
    pub(super) end: StreamEnd,
    pub(super) registry: Arc<Registry>,
}

impl Owner {
    fn register(&self, socket: OwnedFd) -> Registered {
        self.registry.add(self.flow, self.end, socket)
    }
}

/// An established connection.
struct Connection {
    socket: Registered,
    end: Box<dyn End>,
    journal: Arc<dyn Journal>,
}

impl Connection {
    fn advance(&mut self, clock: Clock) -> Option<Wait> {
        match self.end.advance(&mut self.socket, clock) {
            Ok(wait) => wait,
            Err(error) => {
                self.journal.record_failure(error.to_string());
                None
            }
        }
    }
}

impl Task for Connection {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        Connection::advance(self, turn.clock)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Opens a connection at its time.
pub(super) struct Opener {
    at: Nanos,
    addresses: Addresses,
    owner: Owner,
    journal: Arc<dyn Journal>,
    /// The socket and application of the connection, created at the start so that errors show
    /// early.
    prepared: Option<(OwnedFd, Box<dyn End>)>,
    is_connecting: bool,
}

impl Opener {
    pub(super) fn new(
        at: Nanos,
        addresses: Addresses,
        owner: Owner,
        Opened { end, journal }: Opened,
        socket: OwnedFd,
    ) -> Self {
        Self {
            at,
            addresses,
            owner,
            journal,
            prepared: Some((socket, end)),
            is_connecting: false,
        }
    }

    /// Calls connect, from the address of the initial subflow.
    fn connect(&self, socket: &OwnedFd) -> io::Result<()> {
        bind_address(socket, self.addresses.source)?;
        match connect(socket, &self.addresses.target) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn fail(&self, error: io::Error) -> Option<Wait> {
        let Addresses { source, target } = self.addresses;
        let error = format!("connecting from {source} to {target}: {error}");
        self.journal.record_failure(error);
        None
    }
}

impl Task for Opener {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        let now = turn.clock.now();
        if now < self.at {
            return Some(Wait::until(self.at));
        }
        let (socket, end) = self.prepared.take()?;
        if !self.is_connecting {
            self.is_connecting = true;
            self.journal.record_connecting(now);
            if let Err(error) = self.connect(&socket) {
                return self.fail(error);
            }
            self.prepared = Some((socket, end));
            return Some(Wait::writable());
        }
        match sockopt::socket_error(&socket) {
            Err(error) | Ok(Err(error)) => return self.fail(error.into()),
            Ok(Ok(())) => {}
        }
        self.journal.record_established(now);
        turn.spawned.push(Box::new(Connection {
            socket: self.owner.register(socket),
            end,
            journal: Arc::clone(&self.journal),
        }));
        None
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        let (socket, _) = self.prepared.as_ref()?;
        Some(socket.as_fd())
    }
}

/// Creates the application of an accepted connection; `None` for a connection that no flow expects.
pub(crate) type MakeEnd = Box<dyn FnMut() -> Option<Box<dyn End>> + Send>;

/// Accepts connections.
pub(super) struct Acceptor {
    pub(super) listener: OwnedFd,
    pub(super) owner: Owner,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) make_end: MakeEnd,
}

impl Acceptor {
    fn handle_connection(&mut self, socket: OwnedFd, turn: &mut Turn) {
        let Some(end) = (self.make_end)() else {
            return;
        };
        if let Err(error) = set_nodelay(&socket) {
            self.journal.record_failure(format!("accepting: {error}"));
            return;
        }
        turn.spawned.push(Box::new(Connection {
            socket: self.owner.register(socket),
            end,
            journal: Arc::clone(&self.journal),
        }));
    }
}

impl Task for Acceptor {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for _ in 0..ACCEPTS_PER_TURN {
            match accept_with(&self.listener, flags) {
                Ok(socket) => self.handle_connection(socket, turn),
                Err(Errno::AGAIN) => break,
                // The peer closed the connection before it was accepted.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => {
                    self.journal.record_failure(format!("accepting: {error}"));
                    return Some(Wait::until(turn.clock.now() + ACCEPT_AGAIN));
                }
            }
        }
        Some(Wait::readable())
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.listener.as_fd())
    }
}
