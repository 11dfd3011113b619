//! A performance-enhancing proxy (RFC 3135): data is acknowledged in the middle, and the proxy answers for its arrival.

use std::collections::VecDeque;

use mptcp::seq::SeqNr;
use mptcp::wire::{Ecn, Flags, Hops, Packet, Segment, TcpOptions, Timestamps};

use super::connections::Connections;
use super::{Heading, Middlebox, Outlet, Passing};
use crate::resolved::{self, MiddleboxDirection};
use crate::time::{NANOS_PER_SECOND, Nanos};

/// How long the receiver may take before the first data that it misses is sent again; doubled each time.
const FIRST_TIMEOUT: Nanos = NANOS_PER_SECOND / 2;
const LAST_TIMEOUT: Nanos = 64 * FIRST_TIMEOUT;

/// Acknowledgments of the same that mean a loss (RFC 5681, section 3.2).
const DUPLICATES: u32 = 3;

/// Acknowledges data that come in order, keeps them until the receiver has acknowledged them too, and sends them again if they are
/// lost. Its acknowledgments have no options of Multipath TCP.
pub(super) struct AcknowledgeEarly {
    described: resolved::AcknowledgeEarly,
    direction: MiddleboxDirection,
    connections: Connections<Halves>,
    /// When the first of all connections is to be looked at; not later, perhaps earlier.
    wakes_at: Option<Nanos>,
}

/// By the heading of the data.
type Halves = [Half; 2];

/// One direction of a connection.
#[derive(Default)]
struct Half {
    /// The number next to all that came in order.
    next: Option<SeqNr>,
    /// What the sender was told last, in the receiver's name or by itself.
    acknowledged: Option<SeqNr>,
    /// The sender's last time stamp and receive window.
    timestamp: Option<u32>,
    window: u16,
    /// What the receiver has not acknowledged.
    kept: VecDeque<Packet>,
    kept_bytes: u64,
    timeout: Nanos,
    sends_again_at: Option<Nanos>,
    /// How often the receiver has said that it misses the first of them.
    duplicates: u32,
    /// Up to there the receiver may miss more (RFC 6582).
    recovers_to: Option<SeqNr>,
}

impl Half {
    /// Notes what a sender says of itself.
    fn note(&mut self, segment: &Segment) {
        self.window = segment.window;
        self.timestamp = segment.options.timestamps.map(|stamps| stamps.value);
        if segment.flags.contains(Flags::SYN) {
            self.next.get_or_insert(segment.seq + 1);
        }
    }

    /// Whether these data are the next, and there is room to keep them; a part of them may be known.
    fn takes(&mut self, now: Nanos, packet: &Packet, buffer_bytes: u64) -> bool {
        let segment = &packet.segment;
        let bytes = u64::from(segment.payload.len());
        if self.next != Some(segment.seq) || self.kept_bytes + bytes > buffer_bytes {
            return false;
        }
        self.next = Some(segment.seq + segment.payload.len());
        self.kept.push_back(packet.clone());
        self.kept_bytes += bytes;
        if self.sends_again_at.is_none() {
            self.restart_timer(now);
        }
        true
    }

    /// Whether all these data were acknowledged before.
    fn has(&self, segment: &Segment) -> bool {
        let end = segment.seq + segment.payload.len();
        self.next.is_some_and(|next| end.is_at_or_before(next))
    }

    fn restart_timer(&mut self, now: Nanos) {
        self.timeout = FIRST_TIMEOUT;
        self.sends_again_at = (!self.kept.is_empty()).then_some(now + FIRST_TIMEOUT);
    }

    /// The receiver acknowledges; gives what it misses.
    fn arrived(&mut self, now: Nanos, segment: &Segment) -> Option<Packet> {
        let ack = segment.ack;
        let before = self.kept.len();
        while let Some(first) = self.kept.front()
            && (first.segment.seq + first.segment.payload.len()).is_at_or_before(ack)
        {
            self.kept_bytes -= u64::from(first.segment.payload.len());
            self.kept.pop_front();
        }
        self.next = self.next.map(|next| next.max(ack));
        let has_progressed = self.kept.len() < before;
        if has_progressed {
            self.restart_timer(now);
            self.duplicates = 0;
            self.recovers_to = self.recovers_to.filter(|end| ack.is_before(*end));
        }
        let first = self.kept.front().filter(|first| first.segment.seq == ack)?;
        self.duplicates += u32::from(!has_progressed && segment.payload.is_empty());
        let is_lost = match has_progressed {
            true => self.recovers_to.is_some(),
            false => self.duplicates == DUPLICATES,
        };
        if is_lost {
            self.recovers_to = self.recovers_to.or(self.next);
        }
        is_lost.then(|| first.clone())
    }

    /// What is to be sent again now.
    fn send_again(&mut self, now: Nanos) -> Option<Packet> {
        self.sends_again_at.filter(|at| *at <= now)?;
        self.timeout = (2 * self.timeout).min(LAST_TIMEOUT);
        self.sends_again_at = Some(now + self.timeout);
        self.kept.front().cloned()
    }
}

impl AcknowledgeEarly {
    pub(super) fn new(
        described: resolved::AcknowledgeEarly,
        direction: MiddleboxDirection,
    ) -> Self {
        Self {
            described,
            direction,
            connections: Connections::new(),
            wakes_at: None,
        }
    }
}

/// Whether it is an acknowledgment and nothing else.
fn is_bare(segment: &Segment) -> bool {
    segment.payload.is_empty() && segment.flags == Flags::ACK && segment.options.mptcp.is_empty()
}

/// The sender hears nothing of what the proxy answers for: an acknowledgment never goes back behind what it was told.
fn raise(passing: &mut Passing, told: SeqNr) {
    let segment = &mut passing.change().segment;
    segment.ack = told;
    segment.options.sack.clear();
}

/// The acknowledgment of all that came in order, in the name of who is to receive it.
fn acknowledgment(packet: &Packet, ack: SeqNr, receiver: &Half) -> Option<Packet> {
    let data = &packet.segment;
    let timestamps = receiver.timestamp.zip(data.options.timestamps);
    Some(Packet {
        source: packet.destination,
        destination: packet.source,
        ecn: Ecn::NotCapable,
        via: Hops::new(),
        segment: Segment {
            source_port: data.destination_port,
            destination_port: data.source_port,
            seq: receiver.next?,
            ack,
            flags: Flags::ACK,
            window: receiver.window,
            options: TcpOptions {
                timestamps: timestamps.map(|(value, sent)| Timestamps {
                    value,
                    echo: sent.value,
                }),
                ..TcpOptions::default()
            },
            payload: mptcp::payload::Payload::EMPTY,
        },
    })
}

impl Middlebox for AcknowledgeEarly {
    fn handle(&mut self, now: Nanos, heading: Heading, mut passing: Passing, out: &mut Outlet) {
        let packet = passing.packet().clone();
        let segment = &packet.segment;
        let halves = self.connections.of(heading, &packet, Halves::default);
        if segment.flags.contains(Flags::RST) {
            *halves = Halves::default();
            return out.pass(heading, passing);
        }
        let [own, other] = match heading {
            Heading::Leaving => halves.each_mut(),
            Heading::Arriving => {
                let [leaving, arriving] = halves.each_mut();
                [arriving, leaving]
            }
        };
        own.note(segment);
        let missed = match segment.flags.contains(Flags::ACK) {
            true => other.arrived(now, segment),
            false => None,
        };
        let told = other
            .acknowledged
            .filter(|told| segment.ack.is_before(*told));
        match told {
            Some(_) if is_bare(segment) => out.drop(passing),
            Some(told) => {
                raise(&mut passing, told);
                out.pass(heading, passing);
            }
            None => out.pass(heading, passing),
        }
        if let Some(missed) = missed {
            out.make(heading.back(), missed);
        }
        let is_data = !segment.payload.is_empty() && !segment.flags.contains(Flags::SYN);
        if !is_data || !self.direction.covers(heading) {
            return;
        }
        if (own.has(segment) || own.takes(now, &packet, self.described.buffer_bytes))
            && let Some(next) = own.next
            && let Some(answer) = acknowledgment(&packet, next, other)
        {
            own.acknowledged = Some(next);
            out.make(heading.back(), answer);
        }
        let due = own.sends_again_at;
        self.wakes_at = self.wakes_at.into_iter().chain(due).min();
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.wakes_at
    }

    fn handle_timeout(&mut self, now: Nanos, out: &mut Outlet) {
        for halves in self.connections.all() {
            for (heading, half) in [Heading::Leaving, Heading::Arriving]
                .into_iter()
                .zip(halves)
            {
                if let Some(packet) = half.send_again(now) {
                    out.make(heading, packet);
                }
            }
        }
        let halves = self.connections.all().flatten();
        self.wakes_at = halves.filter_map(|half| half.sends_again_at).min();
    }
}
