//! The connections of hosts: how they open, how applications react to their events, and how they
//! end.

use std::net::SocketAddr;

use mptcp::connection::{Event, Mode};
use mptcp::endpoint::ConnectionId;
use mptcp::subflow::CloseReason;

use super::record::Transfer;
use super::session::{Turn, session};
use super::{Hosts, Slot, Stream, Timer};
use crate::flows::{flow_at_port, other_end};
use crate::resolved::Application;
use crate::stack::why_closed;
use crate::time::Nanos;

const AT_HANDSHAKE: &str =
    "the handshake ended without Multipath TCP: the other host does not speak it";
const LATER: &str = "Multipath TCP was given up after the handshake (RFC 8684, section 3.7)";

impl Hosts {
    pub(super) fn open(&mut self, now: Nanos, host: usize, index: usize) {
        let stream = &mut self.streams[index];
        let transfer = Transfer {
            number: stream.opened,
            started: now,
        };
        stream.opened += 1;
        stream.record.start.get_or_insert(now);
        let endpoint = &mut self.hosts[host].endpoint;
        match endpoint.connect_over(now, stream.first, &stream.others, &stream.opening) {
            Ok(id) => {
                let slot = Slot::new(stream, index, stream.opened_by, transfer);
                self.hosts[host].sessions.insert(id, slot);
            }
            Err(error) => stream.record.fail(error.to_string()),
        }
        if let Some(intervals) = &mut stream.intervals {
            let next = now.saturating_add(intervals.draw());
            self.hosts[host].timers.insert((next, Timer::Open(index)));
        }
    }

    pub(super) fn handle_event(&mut self, now: Nanos, host: usize, id: ConnectionId, event: Event) {
        match event {
            Event::Connected { mode } => self.connected(now, host, id, mode),
            Event::FellBack => self.fell_back(host, id),
            Event::Readable | Event::Writable => self.advance(now, host, id),
            Event::Finished => {
                if let Some(slot) = self.hosts[host].sessions.get_mut(&id) {
                    slot.peer_has_ended = true;
                }
                self.advance(now, host, id);
            }
            Event::SubflowEstablished { four, .. } => {
                if let Some((slot, stream)) = self.slot(host, id) {
                    stream.record.subflows.opened(now, slot.end, four);
                }
            }
            Event::SubflowClosed { four, counters, .. } => {
                if let Some((slot, stream)) = self.slot(host, id) {
                    let subflows = &mut stream.record.subflows;
                    subflows.closed(now, slot.end, four, &counters);
                }
                self.forget_if_over(host, id);
            }
            Event::Closed { reason } => self.closed(host, id, reason),
        }
    }

    fn slot(&mut self, host: usize, id: ConnectionId) -> Option<(&mut Slot, &mut Stream)> {
        let slot = self.hosts[host].sessions.get_mut(&id)?;
        let stream = &mut self.streams[slot.stream];
        Some((slot, stream))
    }

    /// Starts the applications of a connection that is established.
    fn connected(&mut self, now: Nanos, host: usize, id: ConnectionId, mode: Mode) {
        let endpoint = &self.hosts[host].endpoint;
        let initial = endpoint
            .connection(id)
            .map(|connection| connection.initial());
        let Some(four) = initial else {
            return;
        };
        if !self.hosts[host].sessions.contains_key(&id) {
            self.accept(host, id, four.local.port(), four.remote);
        }
        let Some((slot, stream)) = self.slot(host, id) else {
            return;
        };
        stream.record.subflows.opened(now, slot.end, four);
        if slot.opens {
            stream.record.established.get_or_insert(now);
            stream.record.transfers.insert(four.local, slot.transfer);
        }
        if mode == Mode::Plain && stream.is_multipath {
            stream.record.fallback.get_or_insert(AT_HANDSHAKE);
        }
        slot.session = Some(session(
            &stream.app,
            slot.side,
            stream.unit_bytes,
            &stream.record,
            slot.transfer,
            slot.opens,
        ));
        self.advance(now, host, id);
    }

    /// Accepts a connection opened by another host.
    fn accept(&mut self, host: usize, id: ConnectionId, port: u16, opener: SocketAddr) {
        self.hosts[host].endpoint.accept(port);
        let flow = flow_at_port(port);
        let Some(index) = flow.and_then(|flow| self.stream_of_flow[flow]) else {
            return;
        };
        let stream = &self.streams[index];
        let transfer = stream.record.transfers.get(&opener).copied();
        let side = other_end(stream.opened_by);
        let slot = Slot::new(stream, index, side, transfer.unwrap_or_default());
        self.hosts[host].sessions.insert(id, slot);
    }

    fn fell_back(&mut self, host: usize, id: ConnectionId) {
        if let Some((_, stream)) = self.slot(host, id) {
            stream.record.fallback.get_or_insert(LATER);
        }
    }

    /// Lets the application of a connection act.
    pub(super) fn advance(&mut self, now: Nanos, host: usize, id: ConnectionId) {
        let Self {
            hosts,
            streams,
            notes,
            ..
        } = self;
        let host = &mut hosts[host];
        let Some(slot) = host.sessions.get_mut(&id) else {
            return;
        };
        let Some(session) = &mut slot.session else {
            return;
        };
        let record = &mut streams[slot.stream].record;
        let peer_has_ended = slot.peer_has_ended;
        let wakes_at = host.endpoint.command(id, |connection| {
            session.advance(&mut Turn {
                now,
                connection,
                peer_has_ended,
                record,
                notes,
            })
        });
        let wakes_at = wakes_at.flatten();
        if wakes_at == slot.wakes_at {
            return;
        }
        if let Some(old) = std::mem::replace(&mut slot.wakes_at, wakes_at) {
            host.timers.remove(&(old, Timer::Session(id)));
        }
        host.timers
            .extend(wakes_at.map(|at| (at, Timer::Session(id))));
    }

    /// Handles the end of a connection. It stays until its last subflow is gone, because late
    /// segments may arrive.
    fn closed(&mut self, host: usize, id: ConnectionId, reason: CloseReason) {
        let connection = self.hosts[host].endpoint.connection(id);
        let reinjected = connection.map_or(0, |it| it.counters().reinjected_bytes);
        let opener = connection.map(|it| it.initial().local);
        // Record its subflows now. They may stay for minutes (TIME-WAIT) but are not observed any
        // more.
        let last = connection.map(|it| it.subflows().collect::<Vec<_>>());
        let Some((slot, stream)) = self.slot(host, id) else {
            return;
        };
        slot.is_closed = true;
        slot.session = None;
        let record = &mut stream.record;
        for state in last.iter().flatten() {
            record.subflows.observe(slot.end, state);
        }
        record.reinjected_before += reinjected;
        if reason != CloseReason::Finished {
            record.fail(match stream.app {
                Application::ShortFlows { .. } => {
                    format!("transfer {}: {}", slot.transfer.number, why_closed(reason))
                }
                _ => why_closed(reason).to_owned(),
            });
        }
        if let Some(opener) = opener.filter(|_| slot.opens) {
            record.transfers.remove(&opener);
        }
        if let Some(at) = slot.wakes_at.take() {
            self.hosts[host].timers.remove(&(at, Timer::Session(id)));
        }
        self.forget_if_over(host, id);
    }

    fn forget_if_over(&mut self, host: usize, id: ConnectionId) {
        let host = &mut self.hosts[host];
        let is_closed = host.sessions.get(&id).is_some_and(|slot| slot.is_closed);
        let connection = host.endpoint.connection(id);
        if is_closed && connection.is_none_or(|it| it.subflows().next().is_none()) {
            host.sessions.remove(&id);
            host.endpoint.forget(id);
        }
    }
}
