//! The connections of hosts: how they open, how applications react to their events, and how they
//! end.

use std::net::SocketAddr;

use experiment::addressing::{flow_at_port, other_end};
use experiment::engine_config::why_closed;
use experiment::resolved::Application;
use experiment::time::Nanos;
use mptcp::connection::{Connection, Event, Mode};
use mptcp::endpoint::ConnectionId;
use mptcp::subflow::CloseReason;

use super::record::Transfer;
use super::session::{Turn, session};
use super::{Hosts, Slot, Stream};

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
        let driver = &mut self.hosts[host].driver;
        let endpoint = &mut driver.endpoint;
        match endpoint.connect_over(now, stream.first, &stream.others, &stream.opening) {
            Ok(id) => {
                let slot = Slot::new(stream, index, stream.opened_by, transfer);
                driver.insert(id, slot);
            }
            Err(error) => stream.record.fail(error.to_string()),
        }
        if let Some(intervals) = &mut stream.intervals {
            let next = now.saturating_add(intervals.draw());
            self.hosts[host].openings.insert((next, index));
        }
    }

    pub(super) fn handle_event(&mut self, now: Nanos, host: usize, id: ConnectionId, event: Event) {
        match event {
            Event::Connected { mode } => self.connected(now, host, id, mode),
            Event::FellBack => self.fell_back(host, id),
            Event::Readable | Event::Writable | Event::Finished => self.advance(now, host, id),
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
            }
            Event::Closed { reason } => self.closed(host, id, reason),
        }
    }

    fn slot(&mut self, host: usize, id: ConnectionId) -> Option<(&mut Slot, &mut Stream)> {
        let slot = self.hosts[host].driver.get_mut(id)?;
        let stream = &mut self.streams[slot.stream];
        Some((slot, stream))
    }

    /// Starts the applications of a connection that is established.
    fn connected(&mut self, now: Nanos, host: usize, id: ConnectionId, mode: Mode) {
        let driver = &self.hosts[host].driver;
        let Some(four) = driver.endpoint.connection(id).map(Connection::initial) else {
            return;
        };
        if driver.get(id).is_none() {
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
        self.hosts[host].driver.endpoint.accept(port);
        let flow = flow_at_port(port);
        let Some(index) = flow.and_then(|flow| self.stream_of_flow[flow]) else {
            return;
        };
        let stream = &self.streams[index];
        let transfer = stream.record.transfers.get(&opener).copied();
        let side = other_end(stream.opened_by);
        let slot = Slot::new(stream, index, side, transfer.unwrap_or_default());
        self.hosts[host].driver.insert(id, slot);
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
        let driver = &mut hosts[host].driver;
        if driver.get(id).is_none_or(|slot| slot.session.is_none()) {
            return;
        }
        driver.advance(id, |connection, slot| {
            let record = &mut streams[slot.stream].record;
            slot.session.as_mut()?.advance(&mut Turn {
                now,
                connection,
                record,
                notes,
            })
        });
    }

    /// Handles the end of a connection.
    fn closed(&mut self, host: usize, id: ConnectionId, reason: CloseReason) {
        let connection = self.hosts[host].driver.endpoint.connection(id);
        let reinjected = connection.map_or(0, |it| it.counters().reinjected_bytes);
        let opener = connection.map(|it| it.initial().local);
        // Record its subflows now. They may stay for minutes (TIME-WAIT) but are not observed any
        // more.
        let last = connection.map(|it| it.subflows().collect::<Vec<_>>());
        let Some((slot, stream)) = self.slot(host, id) else {
            return;
        };
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
        let driver = &mut self.hosts[host].driver;
        driver.set_turn(id, None);
        driver.release(id);
    }
}
