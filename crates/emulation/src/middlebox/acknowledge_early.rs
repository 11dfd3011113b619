//! A performance-enhancing proxy (RFC 3135): acknowledges data on behalf of the receiver, and then
//! ensures that it arrives.

use std::collections::VecDeque;

use experiment::resolved::{self, MiddleboxDirection};
use experiment::time::{NANOS_PER_SECOND, Nanos};
use mptcp::seq::SeqNr;
use mptcp::wire::{Ecn, Flags, Hops, Packet, Segment, TcpOptions, Timestamps};

use super::connections::Connections;
use super::{Heading, Middlebox, Outlet, Passing};

/// The time after which the first data missing at the receiver is sent again. Doubles each time, up
/// to `LAST_TIMEOUT`.
const FIRST_TIMEOUT: Nanos = NANOS_PER_SECOND / 2;
const LAST_TIMEOUT: Nanos = 64 * FIRST_TIMEOUT;

/// The number of duplicate acknowledgments that indicates a loss (RFC 5681, section 3.2).
const DUPLICATES: u32 = 3;

/// Acknowledges data that arrives in order, keeps it until the receiver has acknowledged it too,
/// and sends it again if it is lost. The acknowledgments it creates carry no MPTCP options.
pub(super) struct AcknowledgeEarly {
    described: resolved::AcknowledgeEarly,
    direction: MiddleboxDirection,
    connections: Connections<Halves>,
    /// A time no later than the next deadline of any connection.
    wakes_at: Option<Nanos>,
}

/// Both directions of a connection, indexed by the heading of the data.
type Halves = [Half; 2];

/// One direction of a connection.
#[derive(Default)]
struct Half {
    /// The sequence number after all data that arrived in order.
    next: Option<SeqNr>,
    /// The last acknowledgment number sent to the sender, by the receiver or on its behalf.
    acknowledged: Option<SeqNr>,
    /// The last timestamp and receive window sent by the sender of this direction.
    timestamp: Option<u32>,
    window: u16,
    /// Data that the receiver has not acknowledged.
    kept: VecDeque<Packet>,
    kept_bytes: u64,
    timeout: Nanos,
    sends_again_at: Option<Nanos>,
    /// How many duplicate acknowledgments reported the first packet of `kept` missing.
    duplicates: u32,
    /// The end of the recovery: up to here the receiver may miss further data (RFC 6582).
    recovers_to: Option<SeqNr>,
}

impl Half {
    /// Records window, timestamp and initial sequence number of a sender.
    fn record(&mut self, segment: &Segment) {
        self.window = segment.window;
        self.timestamp = segment.options.timestamps.map(|stamps| stamps.value);
        if segment.flags.contains(Flags::SYN) {
            self.next.get_or_insert(segment.seq + 1);
        }
    }

    /// Accepts data that is next in order if there is room to keep it. Returns whether it was
    /// accepted.
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

    /// Returns whether all data of `segment` was acknowledged before.
    fn has(&self, segment: &Segment) -> bool {
        let end = segment.seq + segment.payload.len();
        self.next.is_some_and(|next| end.is_at_or_before(next))
    }

    fn restart_timer(&mut self, now: Nanos) {
        self.timeout = FIRST_TIMEOUT;
        self.sends_again_at = (!self.kept.is_empty()).then_some(now + FIRST_TIMEOUT);
    }

    /// Handles an acknowledgment by the receiver. Returns the packet that the receiver misses, if
    /// any.
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

    /// Returns the packet to send again at `now`, if any.
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

/// Returns whether `segment` is an acknowledgment and nothing else.
fn is_bare(segment: &Segment) -> bool {
    segment.payload.is_empty() && segment.flags == Flags::ACK && segment.options.mptcp.is_empty()
}

/// Raises the acknowledgment to `told` and removes SACK blocks, because an acknowledgment must not
/// go back behind what the sender was told.
fn raise(passing: &mut Passing, told: SeqNr) {
    let segment = &mut passing.change().segment;
    segment.ack = told;
    segment.options.sack.clear();
}

/// Returns an acknowledgment on behalf of the receiver for all data before `ack`.
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
        own.record(segment);
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
        if !is_data || !heading.is_covered_by(self.direction) {
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
