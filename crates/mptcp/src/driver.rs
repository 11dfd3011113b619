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
//! on it in turns ([`Driver::advance`]). When the driver no longer needs the connection, it calls
//! [`Driver::release`]. The connection stays until it is over ([`Connection::is_over`]), because
//! late segments must find their subflow. Then the driver removes it and returns it in
//! [`Event::Forgotten`].

use std::collections::{BTreeMap, BTreeSet};

use crate::connection::{self, Connection};
use crate::endpoint::{ConnectionId, Endpoint};
use crate::time::Nanos;

/// Combines an endpoint with a state of type `S` for each connection, such as the application on
/// it.
#[derive(Debug)]
pub struct Driver<S> {
    /// The endpoint, which owns all connections of the host. Take its events with
    /// [`Driver::poll_event`], not with [`Endpoint::poll_event`].
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

/// An event that [`Driver::poll_event`] returns.
#[derive(Debug)]
pub enum Event<S> {
    /// The connection with this ID reports an event.
    Connection(ConnectionId, connection::Event),
    /// The driver has removed a connection that was released ([`Driver::release`]) and is over
    /// ([`Connection::is_over`]). Contains the connection and the state that the driver kept for
    /// it.
    Forgotten(Box<Connection>, S),
}

impl<S> Driver<S> {
    /// Creates a driver for `endpoint`, without any connection state.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            entries: BTreeMap::new(),
            turns: BTreeSet::new(),
            leaving: Vec::new(),
        }
    }

    /// Adds `state` for the connection `id` of the endpoint. The connection is then kept until
    /// [`Driver::release`] or [`Driver::forget`].
    pub fn insert(&mut self, id: ConnectionId, state: S) {
        let entry = Entry {
            state,
            turn_at: None,
            is_released: false,
        };
        self.entries.insert(id, entry);
    }

    /// Returns the state of the connection `id`, or `None` if the driver has none for it.
    pub fn get(&self, id: ConnectionId) -> Option<&S> {
        self.entries.get(&id).map(|entry| &entry.state)
    }

    /// Returns a mutable reference to the state of the connection `id`, or `None` if the driver has
    /// none for it.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut S> {
        self.entries.get_mut(&id).map(|entry| &mut entry.state)
    }

    /// Iterates over the connections that were added and not yet forgotten, with their IDs and
    /// states, in the order of the IDs.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection, &S)> {
        self.entries.iter().filter_map(|(id, entry)| {
            let connection = self.endpoint.connection(*id)?;
            Some((*id, connection, &entry.state))
        })
    }

    /// Iterates over the connections that were added and not yet forgotten, with mutable references
    /// to their states, in the order of the connection IDs.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Connection, &mut S)> {
        let endpoint = &self.endpoint;
        self.entries.iter_mut().filter_map(|(id, entry)| {
            let connection = endpoint.connection(*id)?;
            Some((connection, &mut entry.state))
        })
    }

    /// Runs `command` on the connection `id` and its state, and returns the result of `command`.
    /// Returns `None` if the driver has no state for `id` or the endpoint no such connection.
    pub fn command<T>(
        &mut self,
        id: ConnectionId,
        command: impl FnOnce(&mut Connection, &mut S) -> T,
    ) -> Option<T> {
        let state = &mut self.entries.get_mut(&id)?.state;
        self.endpoint
            .command(id, |connection| command(connection, state))
    }

    /// Lets the application of the connection `id` act by calling `turn`.
    ///
    /// `turn` returns the time of the application's next turn, or `None` if the application waits
    /// for an event. The result replaces the time that was set before.
    pub fn advance(
        &mut self,
        id: ConnectionId,
        turn: impl FnOnce(&mut Connection, &mut S) -> Option<Nanos>,
    ) {
        let next = self.command(id, turn).flatten();
        self.set_turn(id, next);
    }

    /// Sets the time of the next turn of the application on the connection `id`. With `None`, the
    /// application has no turn until an event occurs. Has no effect if `id` is unknown.
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

    /// Returns the connection with the earliest turn that is due at `now`, and clears that turn.
    /// Returns `None` if no turn is due.
    pub fn poll_turn(&mut self, now: Nanos) -> Option<ConnectionId> {
        let (_, id) = self.turns.first().filter(|(at, _)| *at <= now).copied()?;
        self.set_turn(id, None);
        Some(id)
    }

    /// Calls [`Endpoint::handle_timeout`] if a timeout of the endpoint is due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
    }

    /// Returns the time of the next timeout of the endpoint or the next turn of an application,
    /// whichever is earlier. Returns `None` if there is neither.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let turn = self.turns.first().map(|(at, _)| *at);
        turn.into_iter().chain(self.endpoint.poll_timeout()).min()
    }

    /// Returns the next event, or `None` if there is none. A released connection that is over is
    /// forgotten first, which produces an [`Event::Forgotten`].
    ///
    /// A connection that was never added with [`Driver::insert`] counts as released, unless it
    /// waits for [`Endpoint::accept`]. Because it has no state, it is forgotten without an event.
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

    /// Marks the connection `id` as no longer needed. [`Driver::poll_event`] removes the connection
    /// as soon as it is over ([`Connection::is_over`]).
    pub fn release(&mut self, id: ConnectionId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_released = true;
            self.leaving.push(id);
        }
    }

    /// Removes the connection `id` and its state at once, and returns both. Returns `None` if
    /// either does not exist; the other one is still removed. The endpoint answers later segments
    /// of the connection with resets.
    pub fn forget(&mut self, id: ConnectionId) -> Option<(Box<Connection>, S)> {
        self.set_turn(id, None);
        let entry = self.entries.remove(&id);
        let connection = self.endpoint.forget(id);
        Some((connection?, entry?.state))
    }
}
