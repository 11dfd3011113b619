//! Links on which it is known when a packet is offered when it will arrive: drop-tail, a constant rate, no loss, no jitter.

use std::collections::VecDeque;

use super::queue::{Limit, Queued};
use super::serializer::RateSerializer;
use super::{Counters, DropReason, Enqueued, Packet};
use crate::time::Nanos;

/// Queue, serializer and delay line in one: a packet enters once, and nothing is to be done until it arrives.
///
/// What an instant needs to know (who waits, who is in service) follows from when packets leave the serializer.
// Among thousands of links, cache lines are what a packet-hop waits for: what an arrival reads is in the first, what else an offer
// reads is in the second.
#[repr(C, align(64))]
pub(super) struct FixedRateFifo<P> {
    /// What has not yet been taken at the far end, in order.
    packets: VecDeque<Sent<P>>,
    delay: Nanos,
    /// When all that was accepted has left the serializer.
    free: Nanos,
    accepted_packets: u64,
    overhead_bytes: u32,
    /// `None`: infinitely fast.
    serializer: Option<RateSerializer>,
    limit: Limit,
    accepted_bytes: u64,
    /// The instant to which counters and gauges were brought.
    now: Nanos,
    dropped_packets: u64,
}

/// What such a link does to packets.
#[derive(Clone, Debug)]
pub(super) struct FixedRate {
    pub(super) serializer: Option<RateSerializer>,
    pub(super) overhead_bytes: u32,
    pub(super) delay: Nanos,
    pub(super) limit: Limit,
}

/// A packet that was accepted.
// Together with a packet of the simulator, one cache line.
#[repr(align(64))]
struct Sent<P> {
    packet: P,
    /// When it was offered.
    since: Nanos,
    /// When its last bit leaves the serializer.
    finish: Nanos,
    /// Bytes on the wire of all that were accepted up to this one.
    bytes_up_to: u64,
}

/// Where everything stands when something about the link changes.
pub(super) struct Interrupted<P> {
    /// What has left the serializer or is in service, by its arrival.
    pub(super) on_wire: Vec<(Nanos, P)>,
    pub(super) wire_bytes_in_service: Option<u32>,
    /// When the serializer has done with what is in service.
    pub(super) free: Nanos,
    pub(super) waiting: Vec<Queued<P>>,
    /// As if nothing that waits had been offered.
    pub(super) serializer: Option<RateSerializer>,
}

impl<P: Packet> FixedRateFifo<P> {
    /// An empty one; its serializer is free from `free` on.
    pub(super) fn new(parameters: FixedRate, free: Nanos) -> Self {
        Self {
            packets: VecDeque::new(),
            delay: parameters.delay,
            free,
            accepted_packets: 0,
            overhead_bytes: parameters.overhead_bytes,
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
        packet.ip_bytes().saturating_add(self.overhead_bytes)
    }

    fn admits(&mut self, now: Nanos, wire_bytes: u32) -> bool {
        let limit = self.limit;
        // No more wait than there are; most often that is few enough.
        if !limit.has_bytes() && !limit.is_exceeded(self.packets.len() as u64 + 1, 0) {
            return true;
        }
        self.advance(now);
        let bytes = self.queue_bytes() + u64::from(wire_bytes);
        !limit.is_exceeded(self.queue_packets() + 1, bytes)
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// When the next packet arrives.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        let first = self.packets.front()?;
        Some(first.finish.saturating_add(self.delay))
    }

    /// The next packet that arrived up to `now`, and when.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let at = self.next_arrival().filter(|at| *at <= now)?;
        let sent = self.packets.pop_front()?;
        Some((at, sent.packet))
    }

    pub(super) fn advance(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Where the first packet stands whose last bit has not left the serializer: the one in service.
    fn in_service(&self) -> usize {
        let has_left = |sent: &Sent<P>| sent.finish <= self.now;
        self.packets.partition_point(has_left)
    }

    pub(super) fn queue_packets(&self) -> u64 {
        let unfinished = self.packets.len() - self.in_service();
        unfinished.saturating_sub(1) as u64
    }

    /// When the first packet that waits starts: when the one in service has left.
    pub(super) fn next_start(&self) -> Option<Nanos> {
        let in_service = self.packets.get(self.in_service());
        in_service.map(|sent| sent.finish)
    }

    pub(super) fn queue_bytes(&self) -> u64 {
        let in_service = self.packets.get(self.in_service());
        in_service.map_or(0, |sent| self.accepted_bytes - sent.bytes_up_to)
    }

    /// Packets in service or on the wire.
    pub(super) fn in_flight(&self) -> u64 {
        self.packets.len() as u64 - self.queue_packets()
    }

    /// Stops at the instant to which it was brought.
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

    /// Adds what was counted here.
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
