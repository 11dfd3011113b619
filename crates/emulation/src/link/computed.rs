//! Links on which the fate of a packet is known when it is offered, because nothing that happens
//! later changes it.

use std::collections::VecDeque;

use experiment::time::Nanos;

use super::queue::{Limit, Queued};
use super::serializer::RateSerializer;
use super::wire_size::WireSize;
use super::{Counters, DropReason, Enqueued, Packet};

/// How the packets of such a link are sent, one after the other.
pub(super) trait Service: Sized {
    /// What is remembered of a packet.
    type Times: Copy;

    /// Sends a packet that is offered at `now`, when the packets before it have left at `free`.
    fn send(&mut self, now: Nanos, free: Nanos, wire_bytes: u32) -> Self::Times;

    /// Undoes the last [`Self::send`], before which the serializer was free from `free` on.
    fn take_back(&mut self, times: &Self::Times, wire_bytes: u32, free: Nanos);

    /// Returns when the last bit of a packet has left.
    fn finish(times: &Self::Times) -> Nanos;

    /// Returns when a packet arrives.
    fn arrival(&self, times: &Self::Times) -> Nanos;

    /// Returns whether a packet is lost.
    fn is_lost(_times: &Self::Times) -> bool {
        false
    }

    /// Returns how many of the packets have left the queue at `now`.
    fn begun<P>(packets: &Sent<P, Self::Times>, now: Nanos) -> usize;

    /// Returns how many of the packets count as sent at `now`.
    fn counted<P>(packets: &Sent<P, Self::Times>, now: Nanos) -> usize;

    /// Returns when the packet starts that has `begun` packets before it.
    fn start<P>(packets: &Sent<P, Self::Times>, begun: usize) -> Option<Nanos>;

    /// Notes that the first packet that is lost was taken out.
    fn take_loss(&mut self) {}

    /// Returns the packets lost up to `now`: those that are still held, and those that were taken
    /// out.
    fn losses(&self, _now: Nanos) -> (u64, u64) {
        (0, 0)
    }
}

/// Queue, serializer and delay line in one. A packet enters once, and nothing happens to it until
/// it arrives.
///
/// Which packets are queued or in service at an instant follows from their times.
// With thousands of links, a packet-hop is bound by cache misses. Fields read by an arrival are in
// the first cache line, further fields read by an offer in the second.
#[repr(C, align(64))]
pub(super) struct ComputedFifo<P, S: Service> {
    /// Packets not yet polled at the far end, in order.
    packets: Sent<P, S::Times>,
    /// When all accepted packets have left the serializer.
    free: Nanos,
    accepted_packets: u64,
    pub(super) service: S,
    admission: Admission,
    accepted_bytes: u64,
    /// The instant of counters and gauges.
    now: Nanos,
    dropped_packets: u64,
}

/// What a packet counts, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    pub(super) wire_size: WireSize,
    pub(super) limit: Limit,
}

/// Packets in the order in which they were accepted.
pub(super) type Sent<P, T> = VecDeque<SentPacket<P, T>>;

/// A packet that was accepted.
// Fits into one cache line together with a packet of the simulator if `times` is one instant.
#[repr(align(64))]
pub(super) struct SentPacket<P, T> {
    packet: P,
    /// When the packet was offered.
    since: Nanos,
    pub(super) times: T,
    /// Bytes, overhead included, of all packets accepted up to and including this one.
    bytes_up_to: u64,
}

/// The state of the packets when something about the link changes.
pub(super) struct Interrupted<P, S> {
    /// Packets that have left the queue, with their arrival.
    pub(super) on_wire: Vec<(Nanos, P)>,
    /// Packets that have left the queue and are lost.
    pub(super) lost: Vec<P>,
    pub(super) wire_bytes_in_service: Option<u32>,
    /// When the serializer has finished the packet in service.
    pub(super) free: Nanos,
    pub(super) waiting: Vec<Queued<P>>,
    /// The service as it would be if the queued packets had never been offered.
    pub(super) service: S,
}

/// What a channel reports of a station whose packets are computed, as of the last call to
/// [`ComputedFifo::advance`].
pub(super) trait Gauges {
    /// Adds what was counted here to `counters`.
    fn add_to(&self, counters: &mut Counters);

    fn queue_packets(&self) -> u64;

    fn queue_bytes(&self) -> u64;

    /// Returns the number of packets in service or in the delay line.
    fn in_flight(&self) -> u64;

    /// Returns when the first queued packet starts.
    fn next_start(&self) -> Option<Nanos>;
}

impl<P: Packet, S: Service> ComputedFifo<P, S> {
    /// Returns an empty queue whose serializer is free from `free` on.
    pub(super) fn new(service: S, admission: Admission, free: Nanos) -> Self {
        Self {
            packets: VecDeque::new(),
            free,
            accepted_packets: 0,
            service,
            admission,
            accepted_bytes: 0,
            now: 0,
            dropped_packets: 0,
        }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, now: Nanos, packet: P) -> Enqueued {
        let wire_bytes = self.wire_bytes(&packet);
        if !self.admits(now, wire_bytes) {
            self.dropped_packets += 1;
            return Enqueued::Dropped(DropReason::QueueFull);
        }
        let times = self.service.send(now, self.free, wire_bytes);
        self.free = S::finish(&times);
        self.accepted_packets += 1;
        self.accepted_bytes += u64::from(wire_bytes);
        self.packets.push_back(SentPacket {
            packet,
            since: now,
            times,
            bytes_up_to: self.accepted_bytes,
        });
        Enqueued::Queued
    }

    fn wire_bytes(&self, packet: &P) -> u32 {
        self.admission.wire_size.of(packet)
    }

    #[inline]
    fn admits(&mut self, now: Nanos, wire_bytes: u32) -> bool {
        let limit = self.admission.limit;
        // An upper bound of the queue: all packets held. Usually it already admits the packet.
        let holds_few = !limit.has_bytes() && !limit.is_exceeded(self.packets.len() as u64 + 1, 0);
        holds_few || self.admits_to_queue(now, wire_bytes)
    }

    /// Returns whether the packets that wait at `now` leave room for another.
    fn admits_to_queue(&mut self, now: Nanos, wire_bytes: u32) -> bool {
        let limit = self.admission.limit;
        self.advance(now);
        let bytes = self.queue_bytes() + u64::from(wire_bytes);
        !limit.is_exceeded(self.queue_packets() + 1, bytes)
    }

    /// Returns whether no packet is queued, in service or in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns when the next packet arrives.
    #[inline]
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        let first = self.packets.front()?;
        Some(self.service.arrival(&first.times))
    }

    /// Returns the next packet that arrived up to `now`, with its arrival.
    #[inline]
    pub(super) fn poll(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        let at = self.next_arrival().filter(|at| *at <= now)?;
        let sent = self.packets.pop_front()?;
        Some((at, sent.packet))
    }

    /// Removes and returns the first packet that is lost.
    pub(super) fn take_lost(&mut self) -> Option<P> {
        let place = self
            .packets
            .iter()
            .position(|sent| S::is_lost(&sent.times))?;
        self.service.take_loss();
        self.packets.remove(place).map(|sent| sent.packet)
    }

    pub(super) fn advance(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Returns the index of the first packet that waits.
    fn begun(&self) -> usize {
        S::begun(&self.packets, self.now)
    }

    /// Returns the times of the packets that wait, as of the last call to [`Self::advance`].
    pub(super) fn waiting(&self) -> impl Iterator<Item = &S::Times> {
        self.packets.range(self.begun()..).map(|sent| &sent.times)
    }

    /// Returns the bytes, overhead included, of the packets from `index` on.
    fn bytes_from(&self, index: usize) -> u64 {
        self.packets.get(index).map_or(0, |sent| {
            self.accepted_bytes - sent.bytes_up_to + u64::from(self.wire_bytes(&sent.packet))
        })
    }

    /// Stops at `self.now` and hands out all packets.
    pub(super) fn interrupt(mut self) -> Interrupted<P, S> {
        let begun = self.begun();
        let free = S::start(&self.packets, begun).unwrap_or(self.free);
        let waiting = self.packets.split_off(begun);
        let last = self.packets.back();
        let in_service = last.filter(|sent| S::finish(&sent.times) > self.now);
        let wire_bytes_in_service = in_service.map(|sent| self.wire_bytes(&sent.packet));
        for sent in waiting.iter().rev() {
            let wire_bytes = self.admission.wire_size.of(&sent.packet);
            self.service.take_back(&sent.times, wire_bytes, free);
        }
        let waiting = waiting.into_iter().map(|sent| Queued {
            wire_bytes: self.admission.wire_size.of(&sent.packet),
            packet: sent.packet,
            since: sent.since,
        });
        let waiting = waiting.collect();
        let begun = self.packets.into_iter();
        let (lost, on_wire): (Vec<_>, Vec<_>) = begun.partition(|sent| S::is_lost(&sent.times));
        let arriving = |sent: SentPacket<P, _>| (self.service.arrival(&sent.times), sent.packet);
        Interrupted {
            on_wire: on_wire.into_iter().map(arriving).collect(),
            lost: lost.into_iter().map(|sent| sent.packet).collect(),
            wire_bytes_in_service,
            free,
            waiting,
            service: self.service,
        }
    }
}

impl<P: Packet, S: Service> Gauges for ComputedFifo<P, S> {
    fn add_to(&self, counters: &mut Counters) {
        let counted = S::counted(&self.packets, self.now);
        let uncounted = (self.packets.len() - counted) as u64;
        let (held, taken_out) = self.service.losses(self.now);
        counters.offered_packets += self.accepted_packets + self.dropped_packets;
        counters.wire_packets += self.accepted_packets - uncounted;
        counters.wire_bytes += self.accepted_bytes - self.bytes_from(counted);
        counters.delivered_packets += self.accepted_packets - self.packets.len() as u64 - taken_out;
        counters.add_drops(DropReason::QueueFull, self.dropped_packets);
        counters.add_drops(DropReason::Loss, held + taken_out);
    }

    fn queue_packets(&self) -> u64 {
        (self.packets.len() - self.begun()) as u64
    }

    fn queue_bytes(&self) -> u64 {
        self.bytes_from(self.begun())
    }

    fn in_flight(&self) -> u64 {
        let (lost, _) = self.service.losses(self.now);
        self.begun() as u64 - lost
    }

    fn next_start(&self) -> Option<Nanos> {
        S::start(&self.packets, self.begun())
    }
}

/// A constant rate and a constant delay, without loss.
// The delay is in the first cache line of its queue.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct FixedRate {
    pub(super) delay: Nanos,
    /// `None` if infinitely fast.
    pub(super) serializer: Option<RateSerializer>,
}

impl FixedRate {
    /// Returns how many of the packets have left the serializer at `now`.
    fn finished<P>(packets: &Sent<P, Nanos>, now: Nanos) -> usize {
        packets.partition_point(|sent| sent.times <= now)
    }
}

impl Service for FixedRate {
    /// When the last bit of the packet leaves the serializer.
    type Times = Nanos;

    #[inline]
    fn send(&mut self, now: Nanos, free: Nanos, wire_bytes: u32) -> Nanos {
        let start = free.max(now);
        let serializer = self.serializer.as_mut();
        serializer.map_or(start, |rate| rate.transmit(start, wire_bytes))
    }

    fn take_back(&mut self, _: &Nanos, wire_bytes: u32, free: Nanos) {
        if let Some(rate) = &mut self.serializer {
            rate.take_back(wire_bytes, free);
        }
    }

    #[inline]
    fn finish(finish: &Nanos) -> Nanos {
        *finish
    }

    #[inline]
    fn arrival(&self, finish: &Nanos) -> Nanos {
        finish.saturating_add(self.delay)
    }

    /// The first packet that has not left the serializer is in it.
    fn begun<P>(packets: &Sent<P, Nanos>, now: Nanos) -> usize {
        packets.len().min(Self::finished(packets, now) + 1)
    }

    fn counted<P>(packets: &Sent<P, Nanos>, now: Nanos) -> usize {
        Self::finished(packets, now)
    }

    fn start<P>(packets: &Sent<P, Nanos>, begun: usize) -> Option<Nanos> {
        let before = packets.get(begun.checked_sub(1)?);
        before.map(|sent| sent.times)
    }
}
