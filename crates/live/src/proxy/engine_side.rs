//! Connections of the engine, together with what carries their packets.

use std::collections::{BTreeMap, VecDeque};

use mptcp::connection::{Connection, Event, Mode};
use mptcp::endpoint::{ConnectionId, Endpoint};
use mptcp::subflow::CloseReason;
use mptcp::wire::{IcmpError, Packet};
use netlab::time::Nanos;

use super::relay::Side;
use crate::stack::{EngineStream, Progress};
use crate::traffic::ByteStream;

/// Sends packets. A packet that cannot be sent is lost.
pub(super) trait Wire {
    fn send(&mut self, packet: &Packet);
}

/// A change of a connection that has to be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It was established.
    Connected,
    /// It may have become readable or writable, or has failed.
    Moved,
}

#[derive(Default)]
struct Open {
    progress: Progress,
    /// Whether it is plain TCP.
    is_plain: bool,
    is_released: bool,
}

/// The engine, its connections and the wire that carries their packets.
pub(super) struct EngineSide<W> {
    pub(super) endpoint: Endpoint,
    pub(super) wire: W,
    open: BTreeMap<ConnectionId, Open>,
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
            endpoint,
            wire,
            open: BTreeMap::new(),
            news: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Takes over a connection that was opened, or accepted and is not yet established.
    pub(super) fn adopt(&mut self, id: ConnectionId) {
        self.open.insert(id, Open::default());
    }

    /// Handles a packet and sends the answers.
    pub(super) fn receive(&mut self, now: Nanos, packet: &Packet) {
        self.endpoint.handle_packet(now, packet);
        self.answer(now);
    }

    /// Handles an ICMP error about a packet of this host.
    pub(super) fn receive_error(&mut self, now: Nanos, error: &IcmpError) {
        self.endpoint.handle_icmp_error(now, error);
        self.answer(now);
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
    }

    /// Sends what is ready and records events.
    pub(super) fn answer(&mut self, now: Nanos) {
        while let Some(packet) = self.endpoint.poll_transmit(now) {
            self.wire.send(&packet);
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.handle(id, event);
        }
    }

    fn handle(&mut self, id: ConnectionId, event: Event) {
        match event {
            Event::Connected { mode } => {
                self.counts.connected += 1;
                self.open.entry(id).or_default();
                if mode == Mode::Plain {
                    self.note_plain(id);
                }
                self.news.push_back((id, News::Connected));
            }
            Event::FellBack => self.note_plain(id),
            Event::Readable | Event::Writable => self.news.push_back((id, News::Moved)),
            Event::Finished => {
                if let Some(open) = self.open.get_mut(&id) {
                    open.progress.peer_has_ended = true;
                }
                self.news.push_back((id, News::Moved));
            }
            Event::SubflowEstablished { .. } => {}
            Event::SubflowClosed { .. } => self.forget_if_over(id),
            Event::Closed { reason } => self.closed(id, reason),
        }
    }

    fn note_plain(&mut self, id: ConnectionId) {
        if let Some(open) = self.open.get_mut(&id) {
            let is_known = std::mem::replace(&mut open.is_plain, true);
            self.counts.without_mptcp += u64::from(!is_known);
        }
    }

    fn closed(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(open) = self.open.get_mut(&id) else {
            self.endpoint.forget(id);
            return;
        };
        open.progress.closed = Some(reason);
        self.news.push_back((id, News::Moved));
        self.forget_if_over(id);
    }

    /// Forgets a connection that is no longer read and gets no late segments.
    fn forget_if_over(&mut self, id: ConnectionId) {
        let is_over = |open: &Open| open.is_released && open.progress.closed.is_some();
        if !self.open.get(&id).is_some_and(is_over) {
            return;
        }
        let connection = self.endpoint.connection(id);
        if connection.is_none_or(|it| it.subflows().next().is_none()) {
            self.forget(id);
        }
    }

    /// Forgets a connection at once.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.open.remove(&id);
        self.endpoint.forget(id);
    }

    /// Returns the next news.
    pub(super) fn next_news(&mut self) -> Option<(ConnectionId, News)> {
        self.news.pop_front()
    }

    /// Returns why a connection has ended, if it has.
    pub(super) fn why_closed(&self, id: ConnectionId) -> Option<CloseReason> {
        self.open.get(&id)?.progress.closed
    }

    /// Resets every connection that has not ended in both directions, so that the peer does not
    /// wait for data that will not come (RFC 8684, section 3.5).
    pub(super) fn reset_unfinished(&mut self, now: Nanos) {
        let left: Vec<_> = self.unfinished().collect();
        left.into_iter().for_each(|id| self.reset(id));
        self.answer(now);
    }

    /// Returns whether all connections have ended in both directions, as far as they can.
    pub(super) fn has_finished_all(&self) -> bool {
        self.unfinished().next().is_none()
    }

    /// Returns the bytes that were written and not acknowledged.
    pub(super) fn unacked_bytes(&self) -> u64 {
        let all = self.unfinished();
        let connections = all.filter_map(|id| self.endpoint.connection(id));
        connections.map(Connection::unacked_bytes).sum()
    }

    fn unfinished(&self) -> impl Iterator<Item = ConnectionId> {
        let open = self.open.iter();
        let open = open.filter(|(_, open)| open.progress.closed.is_none());
        let left = open.filter(|(id, open)| {
            let connection = self.endpoint.connection(**id);
            // For plain TCP, the machine's kernel resets later segments.
            let has_heard_all = open.is_plain || open.progress.peer_has_ended;
            connection.is_some_and(|it| !(it.has_delivered_all() && has_heard_all))
        });
        left.map(|(id, _)| *id)
    }
}

impl<W: Wire> Side for EngineSide<W> {
    type Id = ConnectionId;

    fn with_stream<T>(
        &mut self,
        id: ConnectionId,
        action: impl FnOnce(&mut dyn ByteStream) -> T,
    ) -> Option<T> {
        let progress = &mut self.open.get_mut(&id)?.progress;
        self.endpoint.command(id, |connection| {
            action(&mut EngineStream {
                connection,
                progress,
            })
        })
    }

    fn reset(&mut self, id: ConnectionId) {
        self.endpoint.command(id, |connection| connection.abort());
        self.release(id);
    }

    fn release(&mut self, id: ConnectionId) {
        if let Some(open) = self.open.get_mut(&id) {
            open.is_released = true;
        }
        self.forget_if_over(id);
    }
}
