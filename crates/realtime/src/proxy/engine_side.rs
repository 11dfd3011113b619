//! Connections of the engine, together with what carries their packets.

use std::collections::VecDeque;

use experiment::time::Nanos;
use mptcp::connection::{Connection, Event, Mode};
use mptcp::driver::{self, Driver};
use mptcp::endpoint::{ConnectionId, Endpoint};
use mptcp::wire::{IcmpError, Packet};

use super::relay::Side;
use crate::applications::traffic::ByteStream;
use crate::userspace::{EngineStream, Progress};

/// Sends packets. A packet that cannot be sent is lost.
pub(super) trait Wire {
    fn send(&mut self, packet: &Packet);
}

/// A change of a connection that has to be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It was established.
    Connected,
    /// It may have become readable or writable.
    Moved,
    /// It has closed. What it has received can still be read.
    Closed,
}

/// The engine, its connections and the wire that carries their packets.
pub(super) struct EngineSide<W> {
    pub(super) driver: Driver<Progress>,
    pub(super) wire: W,
    news: VecDeque<(ConnectionId, News)>,
    pub(super) counts: Counts,
}

/// Counters of connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) connected: u64,
    /// Connections that were plain TCP from the start or fell back to it.
    pub(super) without_mptcp: u64,
}

impl<W: Wire> EngineSide<W> {
    pub(super) fn new(endpoint: Endpoint, wire: W) -> Self {
        Self {
            driver: Driver::new(endpoint),
            wire,
            news: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Takes over a connection that was opened, or accepted and is not yet established.
    pub(super) fn adopt(&mut self, id: ConnectionId) {
        self.driver.insert(id, Progress::default());
    }

    /// Handles a packet and sends the answers.
    pub(super) fn receive(&mut self, now: Nanos, packet: &Packet) {
        self.driver.endpoint.handle_packet(now, packet);
        self.answer(now);
    }

    /// Handles an ICMP error about a packet of this host.
    pub(super) fn receive_error(&mut self, now: Nanos, error: &IcmpError) {
        self.driver.endpoint.handle_icmp_error(now, error);
        self.answer(now);
    }

    /// Sends what is ready and records events.
    pub(super) fn answer(&mut self, now: Nanos) {
        while let Some(packet) = self.driver.endpoint.poll_transmit(now) {
            self.wire.send(&packet);
        }
        while let Some(event) = self.driver.poll_event() {
            if let driver::Event::Connection(id, event) = event {
                self.handle(id, event);
            }
        }
    }

    fn handle(&mut self, id: ConnectionId, event: Event) {
        match event {
            Event::Connected { mode } => {
                self.counts.connected += 1;
                self.counts.without_mptcp += u64::from(mode == Mode::Plain);
                if self.driver.get(id).is_none() {
                    self.adopt(id);
                }
                self.news.push_back((id, News::Connected));
            }
            Event::FellBack => self.counts.without_mptcp += 1,
            Event::Readable | Event::Writable | Event::Finished => {
                self.news.push_back((id, News::Moved));
            }
            Event::Closed { .. } => self.news.push_back((id, News::Closed)),
            Event::SubflowEstablished { .. } | Event::SubflowClosed { .. } => {}
        }
    }

    /// Returns the next news.
    pub(super) fn next_news(&mut self) -> Option<(ConnectionId, News)> {
        self.news.pop_front()
    }

    /// Resets every connection that has not ended in both directions, so that the peer does not
    /// wait for data that will not come (RFC 8684, section 3.5).
    pub(super) fn reset_unfinished(&mut self, now: Nanos) {
        let left: Vec<_> = self.unfinished().map(|(id, _)| id).collect();
        left.into_iter().for_each(|id| self.reset(id));
        self.answer(now);
    }

    /// Returns whether all connections have ended in both directions, as far as they can.
    pub(super) fn has_finished_all(&self) -> bool {
        self.unfinished().next().is_none()
    }

    /// Returns the bytes that were written and not acknowledged.
    pub(super) fn unacked_bytes(&self) -> u64 {
        let left = self.unfinished();
        left.map(|(_, connection)| connection.unacked_bytes()).sum()
    }

    fn unfinished(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        let known = self.driver.iter();
        let open = known.filter(|(_, connection, _)| connection.closed().is_none());
        let left = open.filter(|(_, connection, _)| {
            // For plain TCP, the machine's kernel resets later segments.
            let has_heard_all = connection.mode() == Mode::Plain || connection.peer_has_ended();
            !(connection.has_delivered_all() && has_heard_all)
        });
        left.map(|(id, connection, _)| (id, connection))
    }
}

impl<W: Wire> Side for EngineSide<W> {
    type Id = ConnectionId;

    fn with_stream<T>(
        &mut self,
        id: ConnectionId,
        action: impl FnOnce(&mut dyn ByteStream) -> T,
    ) -> Option<T> {
        self.driver.command(id, |connection, progress| {
            action(&mut EngineStream {
                connection,
                progress,
            })
        })
    }

    fn reset(&mut self, id: ConnectionId) {
        self.driver.endpoint.command(id, Connection::abort);
        self.release(id);
    }

    fn release(&mut self, id: ConnectionId) {
        self.driver.release(id);
    }
}
