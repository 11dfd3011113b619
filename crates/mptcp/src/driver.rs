//! The part that all drivers share: an endpoint, and the life of its connections.
//!
//! A driver connects an [`Endpoint`] to a network, a clock and applications: the simulator in
//! virtual time, the userspace stack and the proxy in real time, packetdrill's sockets. For each of
//! its connections it keeps a state `S`, such as the application on it. A [`Driver`] stores these
//! states, wakes applications at the times that they ask for, and forgets each connection when it
//! is no longer needed.
//!
//! # The order of calls
//! 1. Report an input to [`Driver::endpoint`], or call [`Driver::handle_timeout`] and then
//!    [`Driver::poll_turn`] until it returns `None`.
//! 2. Call [`Endpoint::poll_transmit`] until it returns `None`, then [`Driver::poll_event`]. Repeat
//!    both until there are neither packets nor events, because the reaction to an event can produce
//!    more packets.
//! 3. Call [`Driver::poll_timeout`].
//!
//! # The life of a connection
//! [`Driver::insert`] adds a connection that the endpoint opened or accepted. An application acts
//! on it in turns ([`Driver::advance`]). When the driver needs the connection no longer, it calls
//! [`Driver::release`]. The connection stays until it is over ([`Connection::is_over`]), because
//! late segments must find their subflow. Then it is forgotten, and [`Event::Forgotten`] returns
//! what is left of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::connection::{self, Connection};
use crate::endpoint::{ConnectionId, Endpoint};
use crate::time::Nanos;

/// An endpoint, and a state `S` for each connection of its driver.
#[derive(Debug)]
pub struct Driver<S> {
    /// All connections of the host. Poll its events with [`Driver::poll_event`] only.
    pub endpoint: Endpoint,
    entries: BTreeMap<ConnectionId, Entry<S>>,
    /// When the applications of connections act next.
    turns: BTreeSet<(Nanos, ConnectionId)>,
    /// Connections that may be over.
    leaving: Vec<ConnectionId>,
}

#[derive(Debug)]
struct Entry<S> {
    state: S,
    /// The entry of this connection in [`Driver::turns`].
    turn_at: Option<Nanos>,
    is_released: bool,
}

/// An event of a driver.
#[derive(Debug)]
pub enum Event<S> {
    /// An event of a connection.
    Connection(ConnectionId, connection::Event),
    /// A released connection is over and was forgotten.
    Forgotten(Box<Connection>, S),
}

impl<S> Driver<S> {
    /// Returns a driver of `endpoint`, which has no connections yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            entries: BTreeMap::new(),
            turns: BTreeSet::new(),
            leaving: Vec::new(),
        }
    }

    /// Adds a connection of the endpoint, so that it is kept until [`Driver::release`].
    pub fn insert(&mut self, id: ConnectionId, state: S) {
        let entry = Entry {
            state,
            turn_at: None,
            is_released: false,
        };
        self.entries.insert(id, entry);
    }

    /// Returns the state of a connection.
    pub fn get(&self, id: ConnectionId) -> Option<&S> {
        self.entries.get(&id).map(|entry| &entry.state)
    }

    /// Returns the state of a connection for changes.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut S> {
        self.entries.get_mut(&id).map(|entry| &mut entry.state)
    }

    /// Returns the connections that were added and not forgotten, with their states.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection, &S)> {
        self.entries.iter().filter_map(|(id, entry)| {
            let connection = self.endpoint.connection(*id)?;
            Some((*id, connection, &entry.state))
        })
    }

    /// Returns the same with the states for changes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Connection, &mut S)> {
        let endpoint = &self.endpoint;
        self.entries.iter_mut().filter_map(|(id, entry)| {
            let connection = endpoint.connection(*id)?;
            Some((connection, &mut entry.state))
        })
    }

    /// Runs `command` on a connection and its state. Returns `None` if the connection is unknown.
    pub fn command<T>(
        &mut self,
        id: ConnectionId,
        command: impl FnOnce(&mut Connection, &mut S) -> T,
    ) -> Option<T> {
        let state = &mut self.entries.get_mut(&id)?.state;
        self.endpoint
            .command(id, |connection| command(connection, state))
    }

    /// Lets the application of a connection act. `turn` returns when the application acts next if
    /// no event comes before; this replaces the time of the turn before.
    pub fn advance(
        &mut self,
        id: ConnectionId,
        turn: impl FnOnce(&mut Connection, &mut S) -> Option<Nanos>,
    ) {
        let next = self.command(id, turn).flatten();
        self.set_turn(id, next);
    }

    /// Sets when the application of a connection acts next. `None` is at its next event.
    pub fn set_turn(&mut self, id: ConnectionId, next: Option<Nanos>) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.turn_at == next {
            return;
        }
        if let Some(old) = std::mem::replace(&mut entry.turn_at, next) {
            self.turns.remove(&(old, id));
        }
        self.turns.extend(next.map(|at| (at, id)));
    }

    /// Returns a connection whose application is due to act at `now`, the earliest first.
    pub fn poll_turn(&mut self, now: Nanos) -> Option<ConnectionId> {
        let (_, id) = self.turns.first().filter(|(at, _)| *at <= now).copied()?;
        self.set_turn(id, None);
        Some(id)
    }

    /// Processes the timeouts of the endpoint that are due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
    }

    /// Returns when the endpoint or an application acts next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let turn = self.turns.first().map(|(at, _)| *at);
        turn.into_iter().chain(self.endpoint.poll_timeout()).min()
    }

    /// Returns the next event, or `None` if there is none. Before, forgets a connection that is
    /// over, if it was released.
    ///
    /// A connection that was never added counts as released, unless it waits for
    /// [`Endpoint::accept`].
    pub fn poll_event(&mut self) -> Option<Event<S>> {
        while let Some(id) = self.leaving.pop() {
            if self.is_needed(id) {
                continue;
            }
            if let Some((connection, state)) = self.forget(id) {
                return Some(Event::Forgotten(connection, state));
            }
        }
        let (id, event) = self.endpoint.poll_event()?;
        if let connection::Event::SubflowClosed { .. } | connection::Event::Closed { .. } = event {
            self.leaving.push(id);
        }
        Some(Event::Connection(id, event))
    }

    fn is_needed(&self, id: ConnectionId) -> bool {
        let connection = self.endpoint.connection(id);
        if connection.is_some_and(|connection| !connection.is_over()) {
            return true;
        }
        match self.entries.get(&id) {
            Some(entry) => !entry.is_released,
            None => self.endpoint.awaits_accept(id),
        }
    }

    /// Ends the use of a connection: it is forgotten as soon as it is over.
    pub fn release(&mut self, id: ConnectionId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_released = true;
            self.leaving.push(id);
        }
    }

    /// Forgets a connection at once. Later packets for it are answered with resets.
    pub fn forget(&mut self, id: ConnectionId) -> Option<(Box<Connection>, S)> {
        self.set_turn(id, None);
        let entry = self.entries.remove(&id);
        let connection = self.endpoint.forget(id);
        Some((connection?, entry?.state))
    }
}
