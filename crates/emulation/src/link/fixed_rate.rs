//! Links on which the arrival of a packet is known when it is offered: drop-tail, a constant rate,
//! no loss, no jitter.

use std::collections::VecDeque;

use experiment::time::Nanos;

use super::queue::{Limit, Queued};
use super::serializer::RateSerializer;
use super::wire_size::WireSize;
use super::{Counters, DropReason, Enqueued, Packet};

/// Queue, serializer and delay line in one. A packet enters once, and nothing happens to it until
/// it arrives.
///
/// Which packets are queued or in service at an instant follows from when they leave the
/// serializer.
// With thousands of links, a packet-hop is bound by cache misses. Fields read by an arrival are in
// the first cache line, further fields read by an offer in the second.
#[repr(C, align(64))]
pub(super) struct FixedRateFifo<P> {
    /// Packets not yet polled at the far end, in order.
    packets: VecDeque<Sent<P>>,
    delay: Nanos,
    /// When all accepted packets have left the serializer.
    free: Nanos,
    accepted_packets: u64,
    wire_size: WireSize,
    /// `None` if infinitely fast.
    serializer: Option<RateSerializer>,
    limit: Limit,
    accepted_bytes: u64,
    /// The instant of counters and gauges.
    now: Nanos,
    dropped_packets: u64,
}

/// The parameters of such a link.
#[derive(Clone, Debug)]
pub(super) struct FixedRate {
    pub(super) serializer: Option<RateSerializer>,
    pub(super) wire_size: WireSize,
    pub(super) delay: Nanos,
    pub(super) limit: Limit,
}

/// A packet that was accepted.
// Fits into one cache line together with a packet of the simulator.
#[repr(align(64))]
struct Sent<P> {
    packet: P,
    /// When the packet was offered.
    since: Nanos,
    /// When the last bit of the packet leaves the serializer.
    finish: Nanos,
    /// Bytes, overhead included, of all packets accepted up to and including this one.
    bytes_up_to: u64,
}

/// The state of the packets when something about the link changes.
pub(super) struct Interrupted<P> {
    /// Packets that have left the serializer or are in service, with their arrival.
    pub(super) on_wire: Vec<(Nanos, P)>,
    pub(super) wire_bytes_in_service: Option<u32>,
    /// When the serializer has finished the packet in service.
    pub(super) free: Nanos,
    pub(super) waiting: Vec<Queued<P>>,
    /// The serializer as it would be if the queued packets had never been offered.
    pub(super) serializer: Option<RateSerializer>,
}

impl<P: Packet> FixedRateFifo<P> {
    /// Returns an empty queue whose serializer is free from `free` on.
    pub(super) fn new(parameters: FixedRate, free: Nanos) -> Self {
        Self {
            packets: VecDeque::new(),
            delay: parameters.delay,
            free,
            accepted_packets: 0,
            wire_size: parameters.wire_size,
            serializer: parameters.serializer,
            limit: parameters.limit,
            accepted_bytes: 0,
            now: 0,
            dropped_packets: 0,
        }
    }

    pub(super) fn enqueue(&mut self, now: Nanos, packet: P) -> Enqueued {
        let wire_bytes = self.wire_bytes(&packet);
        if !self.admits(now, wire_bytes) {
            self.dropped_packets += 1;
            return Enqueued::Dropped(DropReason::QueueFull);
        }
        let start = self.free.max(now);
        let serializer = self.serializer.as_mut();
        let finish = serializer.map_or(start, |rate| rate.transmit(start, wire_bytes));
        self.free = finish;
        self.accepted_packets += 1;
        self.accepted_bytes += u64::from(wire_bytes);
        self.packets.push_back(Sent {
            packet,
            since: now,
            finish,
            bytes_up_to: self.accepted_bytes,
        });
        Enqueued::Queued
    }

    fn wire_bytes(&self, packet: &P) -> u32 {
        self.wire_size.of(packet)
    }

    fn admits(&mut self, now: Nanos, wire_bytes: u32) -> bool {
        let limit = self.limit;
        // An upper bound of the queue: all packets held. Usually it already admits the packet.
        if !limit.has_bytes() && !limit.is_exceeded(self.packets.len() as u64 + 1, 0) {
            return true;
        }
        self.advance(now);
        let bytes = self.queue_bytes() + u64::from(wire_bytes);
        !limit.is_exceeded(self.queue_packets() + 1, bytes)
    }

    /// Returns whether no packet is queued, in service or in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns when the next packet arrives.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        let first = self.packets.front()?;
        Some(first.finish.saturating_add(self.delay))
    }

    /// Returns the next packet that arrived up to `now`, with its arrival.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let at = self.next_arrival().filter(|at| *at <= now)?;
        let sent = self.packets.pop_front()?;
        Some((at, sent.packet))
    }

    pub(super) fn advance(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Returns the index of the packet in service: the first whose last bit has not left the
    /// serializer.
    fn in_service(&self) -> usize {
        let has_left = |sent: &Sent<P>| sent.finish <= self.now;
        self.packets.partition_point(has_left)
    }

    pub(super) fn queue_packets(&self) -> u64 {
        let unfinished = self.packets.len() - self.in_service();
        unfinished.saturating_sub(1) as u64
    }

    /// Returns when the first queued packet starts, which is when the packet in service has left.
    pub(super) fn next_start(&self) -> Option<Nanos> {
        let in_service = self.packets.get(self.in_service());
        in_service.map(|sent| sent.finish)
    }

    pub(super) fn queue_bytes(&self) -> u64 {
        let in_service = self.packets.get(self.in_service());
        in_service.map_or(0, |sent| self.accepted_bytes - sent.bytes_up_to)
    }

    /// Returns the number of packets in service or in the delay line.
    pub(super) fn in_flight(&self) -> u64 {
        self.packets.len() as u64 - self.queue_packets()
    }

    /// Stops at `self.now` and hands out all packets.
    pub(super) fn interrupt(mut self) -> Interrupted<P> {
        let in_service = self.in_service();
        let first_waiting = self.packets.len().min(in_service + 1);
        let waiting = self.packets.split_off(first_waiting).into_iter();
        let waiting = waiting.map(|sent| Queued {
            wire_bytes: self.wire_bytes(&sent.packet),
            packet: sent.packet,
            since: sent.since,
        });
        let waiting: Vec<_> = waiting.collect();
        let service = self.packets.get(in_service);
        let free = service.map_or(self.free, |sent| sent.finish);
        let wire_bytes_in_service = service.map(|sent| self.wire_bytes(&sent.packet));
        let mut serializer = self.serializer;
        if let Some(rate) = &mut serializer {
            for queued in waiting.iter().rev() {
                rate.take_back(queued.wire_bytes, free);
            }
        }
        let delay = self.delay;
        let started = self.packets.into_iter();
        let on_wire = started.map(|sent| (sent.finish.saturating_add(delay), sent.packet));
        Interrupted {
            on_wire: on_wire.collect(),
            wire_bytes_in_service,
            free,
            waiting,
            serializer,
        }
    }

    /// Adds what was counted here to `counters`.
    pub(super) fn add_to(&self, counters: &mut Counters) {
        let in_service = self.in_service();
        let unfinished = self.packets.len() - in_service;
        let unfinished_bytes = self.packets.get(in_service).map_or(0, |sent| {
            self.accepted_bytes - sent.bytes_up_to + u64::from(self.wire_bytes(&sent.packet))
        });
        counters.offered_packets += self.accepted_packets + self.dropped_packets;
        counters.wire_packets += self.accepted_packets - unfinished as u64;
        counters.wire_bytes += self.accepted_bytes - unfinished_bytes;
        counters.delivered_packets += self.accepted_packets - self.packets.len() as u64;
        counters.add_drops(DropReason::QueueFull, self.dropped_packets);
    }
}
