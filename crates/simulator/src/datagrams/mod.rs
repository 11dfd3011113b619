//! Applications over UDP: when they send, and what they record about arrivals.

mod probe;

use experiment::addressing::port_of_flow;
use experiment::time::Nanos;
use experiment::traffic::Pace;
use mptcp::subflow::segment_memory_bytes;

use super::network::RouteId;
use super::packet::{Content, Datagram, Packet};

pub(super) use probe::Probe;

/// The port from which the first application sends: the first dynamic port (RFC 6335, section 6).
const FIRST_PORT: u16 = 49152;

/// How much data of an application may wait in its host: the send buffer of its socket
/// (`net.core.wmem_default` of Linux).
const SEND_BUFFER_BYTES: u32 = 212_992;

/// Returns the port from which an application sends and the port at which it is answered.
pub(super) fn ports(application: usize) -> [u16; 2] {
    let listening = port_of_flow(application).unwrap_or(u16::MAX);
    [FIRST_PORT.wrapping_add(application as u16), listening]
}

/// The route and the size of the datagrams of an application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagrams {
    /// Index of the application.
    pub(super) application: u32,
    /// The route from the sender to the receiver.
    pub(super) route: RouteId,
    /// The interface from which it sends.
    pub(super) source: usize,
    /// Payload of each datagram in bytes.
    pub(super) size_bytes: u32,
    /// Bytes of its IP and UDP headers.
    pub(super) headers_bytes: u32,
}

/// When an application sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// When it starts.
    pub(super) start: Nanos,
    /// How long it sends. `None` is without end.
    pub(super) duration: Option<Nanos>,
}

/// The properties in which applications differ.
pub(super) enum Behaviour {
    Cbr(Pace),
    Probe(Probe),
}

/// Counters of an application, for both ends together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AppCounters {
    pub(super) packets_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) packets_received: u64,
    pub(super) bytes_received: u64,
}

/// The effect of the arrival of a packet.
pub(super) enum Arrival {
    /// The receiver received a datagram.
    Received,
    /// The receiver received a probe and answers.
    Echoed(Packet),
    /// The sender received the answer.
    Answered { rtt: Nanos },
}

/// A sender of datagrams and its receiver.
pub(super) struct App {
    /// Index of its flow. `None` for probes requested by `measure`.
    flow: Option<usize>,
    datagrams: Datagrams,
    timing: Timing,
    behaviour: Behaviour,
    counters: AppCounters,
    /// Its packets, answers included, that are neither delivered nor dropped.
    in_network: u64,
    /// Memory in bytes of its datagrams that wait in its host.
    waiting_bytes: u32,
    /// Whether its send buffer was full and is not yet half empty. Linux blocks a program for that
    /// long.
    is_blocked: bool,
    last_delivery: Nanos,
}

impl App {
    pub(super) fn new(
        flow: Option<usize>,
        datagrams: Datagrams,
        timing: Timing,
        behaviour: Behaviour,
    ) -> Self {
        Self {
            flow,
            datagrams,
            timing,
            behaviour,
            counters: AppCounters::default(),
            in_network: 0,
            waiting_bytes: 0,
            is_blocked: false,
            last_delivery: timing.start,
        }
    }

    /// Returns the index of its flow, if it has one.
    pub(super) fn flow(&self) -> Option<usize> {
        self.flow
    }

    /// Returns the payload of each datagram in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        u64::from(self.datagrams.size_bytes)
    }

    /// Returns the interface from which it sends.
    pub(super) fn source(&self) -> usize {
        self.datagrams.source
    }

    pub(super) fn start(&self) -> Nanos {
        self.timing.start
    }

    pub(super) fn counters(&self) -> &AppCounters {
        &self.counters
    }

    /// Returns its probe state, if it is a probe.
    pub(super) fn probe(&self) -> Option<&Probe> {
        match &self.behaviour {
            Behaviour::Probe(probe) => Some(probe),
            Behaviour::Cbr(_) => None,
        }
    }

    /// Returns when the next datagram is due, which may be in the past if it had to wait. `None` if
    /// all are sent, or while it waits for room in its host.
    pub(super) fn next_send(&self) -> Option<Nanos> {
        let sent = self.counters.packets_sent;
        let after_start = match &self.behaviour {
            Behaviour::Cbr(pace) => pace.due(sent),
            Behaviour::Probe(probe) => probe.send_time(sent),
        };
        let is_over = self
            .timing
            .duration
            .is_some_and(|duration| after_start >= duration);
        let waits = is_over || self.is_blocked;
        (!waits).then(|| self.timing.start.saturating_add(after_start))
    }

    pub(super) fn send(&mut self, now: Nanos) -> Packet {
        let datagram = Datagram {
            application: self.datagrams.application,
            number: self.counters.packets_sent,
            sent_at: now,
        };
        self.counters.packets_sent += 1;
        self.counters.bytes_sent += self.size_bytes();
        self.in_network += 1;
        Packet {
            route: self.datagrams.route,
            hop: 0,
            ip_bytes: self.datagrams.size_bytes + self.datagrams.headers_bytes,
            content: Content::Datagram(datagram),
        }
    }

    /// Handles the arrival of one of its datagrams.
    pub(super) fn receive(&mut self, now: Nanos, packet: &Packet, datagram: Datagram) -> Arrival {
        self.in_network -= 1;
        self.last_delivery = now;
        if let Behaviour::Probe(probe) = &mut self.behaviour
            && packet.is_answer()
        {
            let rtt = now - datagram.sent_at;
            probe.record_answer();
            return Arrival::Answered { rtt };
        }
        self.counters.packets_received += 1;
        self.counters.bytes_received += self.size_bytes();
        match self.behaviour {
            Behaviour::Cbr(_) => Arrival::Received,
            Behaviour::Probe(_) => {
                self.in_network += 1;
                Arrival::Echoed(packet.answer_to(datagram))
            }
        }
    }

    /// Records that one of its datagrams waits in its host.
    pub(super) fn hold(&mut self) {
        self.waiting_bytes += segment_memory_bytes(self.datagrams.size_bytes);
        self.is_blocked |= self.waiting_bytes >= SEND_BUFFER_BYTES;
    }

    /// Records that a datagram which waited in the host has left.
    pub(super) fn release(&mut self) {
        self.waiting_bytes -= segment_memory_bytes(self.datagrams.size_bytes);
        self.is_blocked &= self.waiting_bytes >= SEND_BUFFER_BYTES / 2;
    }

    /// Records that one of its packets was dropped.
    pub(super) fn lose(&mut self) {
        self.in_network -= 1;
    }

    /// Returns whether it ends by itself.
    pub(super) fn is_finite(&self) -> bool {
        self.timing.duration.is_some()
    }

    /// Returns when its last packet arrived, once all are sent and none is in the network.
    pub(super) fn end(&self) -> Option<Nanos> {
        let is_done = self.in_network == 0 && self.next_send().is_none();
        is_done.then_some(self.last_delivery)
    }
}
