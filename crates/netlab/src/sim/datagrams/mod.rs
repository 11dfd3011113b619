//! Applications over UDP: what sends, and what it notes about what arrives.

mod probe;

use mptcp::subflow::segment_memory_bytes;

use super::network::RouteId;
use super::packet::{Content, Datagram, Packet};
use crate::flows::port_of_flow;
use crate::pacing::Pace;
use crate::time::Nanos;

pub(super) use probe::Probe;

/// The port from which the first application sends: the first that nobody owns (RFC 6335, section 6).
const FIRST_PORT: u16 = 49152;

/// What of an application may wait in its host: the send buffer of its socket (`net.core.wmem_default` of Linux).
const SEND_BUFFER_BYTES: u32 = 212_992;

/// The ports from which an application sends, and at which it is answered.
pub(super) fn ports(application: usize) -> [u16; 2] {
    let listening = port_of_flow(application).unwrap_or(u16::MAX);
    [FIRST_PORT.wrapping_add(application as u16), listening]
}

/// On which way, and in what sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagrams {
    /// Index of the application.
    pub(super) application: u32,
    /// From the sender to the receiver.
    pub(super) route: RouteId,
    /// The interface from which it sends.
    pub(super) source: usize,
    /// Payload of each datagram.
    pub(super) size_bytes: u32,
    /// What goes before it, of IP and UDP.
    pub(super) headers_bytes: u32,
}

/// When an application sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// From when on.
    pub(super) start: Nanos,
    /// For how long; `None` is without end.
    pub(super) duration: Option<Nanos>,
}

/// What distinguishes the applications.
pub(super) enum Behaviour {
    Cbr(Pace),
    Probe(Probe),
}

/// Counters of an application, both ends together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AppCounters {
    pub(super) packets_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) packets_received: u64,
    pub(super) bytes_received: u64,
}

/// What the arrival of a packet leads to.
pub(super) enum Arrival {
    /// The receiver has a datagram.
    Received,
    /// The receiver has a probe and answers.
    Echoed(Packet),
    /// The sender has the answer.
    Answered { rtt: Nanos },
}

/// A sender of datagrams and its receiver.
pub(super) struct App {
    /// The flow that it is, by its index; probes that `measure` asks for are none.
    flow: Option<usize>,
    datagrams: Datagrams,
    timing: Timing,
    behaviour: Behaviour,
    counters: AppCounters,
    /// Its packets, answers included, that are neither delivered nor dropped.
    in_network: u64,
    /// Memory of its datagrams that wait in its host.
    waiting_bytes: u32,
    /// Its send buffer was full, and is not yet half empty: so long Linux lets a program wait.
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

    /// The flow that it is, by its index.
    pub(super) fn flow(&self) -> Option<usize> {
        self.flow
    }

    /// Payload of each datagram.
    pub(super) fn size_bytes(&self) -> u64 {
        u64::from(self.datagrams.size_bytes)
    }

    /// The interface from which it sends.
    pub(super) fn source(&self) -> usize {
        self.datagrams.source
    }

    pub(super) fn start(&self) -> Nanos {
        self.timing.start
    }

    pub(super) fn counters(&self) -> &AppCounters {
        &self.counters
    }

    /// The probe it is, if it is one.
    pub(super) fn probe(&self) -> Option<&Probe> {
        match &self.behaviour {
            Behaviour::Probe(probe) => Some(probe),
            Behaviour::Cbr(_) => None,
        }
    }

    /// When it sends next, or would have before it had to wait; `None` if it has sent all, or waits for room in its host.
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

    /// One of its datagrams arrived by `packet`'s route.
    pub(super) fn receive(&mut self, now: Nanos, packet: &Packet, datagram: Datagram) -> Arrival {
        self.in_network -= 1;
        self.last_delivery = now;
        if let Behaviour::Probe(probe) = &mut self.behaviour
            && packet.is_answer()
        {
            let rtt = now - datagram.sent_at;
            probe.note_answer();
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

    /// One of its datagrams waits in its host.
    pub(super) fn hold(&mut self) {
        self.waiting_bytes += segment_memory_bytes(self.datagrams.size_bytes);
        self.is_blocked |= self.waiting_bytes >= SEND_BUFFER_BYTES;
    }

    /// One that waited there has left.
    pub(super) fn release(&mut self) {
        self.waiting_bytes -= segment_memory_bytes(self.datagrams.size_bytes);
        self.is_blocked &= self.waiting_bytes >= SEND_BUFFER_BYTES / 2;
    }

    /// One of its packets was dropped.
    pub(super) fn lose(&mut self) {
        self.in_network -= 1;
    }

    /// Whether it ends by itself.
    pub(super) fn is_finite(&self) -> bool {
        self.timing.duration.is_some()
    }

    /// When its last packet arrived, once it has sent all and none of its packets is in the network.
    pub(super) fn end(&self) -> Option<Nanos> {
        let is_done = self.in_network == 0 && self.next_send().is_none();
        is_done.then_some(self.last_delivery)
    }
}
