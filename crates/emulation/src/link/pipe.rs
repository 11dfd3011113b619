//! The pipe of a station: packets that wait and packets in flight.
//!
//! In a drop-tail queue, a packet stays in its place until it arrives, which saves moving it from a
//! queue to a delay line. Other disciplines hold the packets that wait themselves.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::carrier::earlier;
use super::queue::{self, Discarded, Discipline, Limit, Queued, Service};
use super::{DropReason, Packet};

/// Packets that wait, those in service, and packets in flight. Packets arrive in the order in which
/// they were sent, except those that may overtake.
pub(super) struct Pipe<P> {
    waiting: Waiting<P>,
    /// The packets in flight, those in service, those that wait in place.
    in_order: VecDeque<Held<P>>,
    in_flight: usize,
    in_service: usize,
    overtaking: BinaryHeap<Flight<P>>,
    last_arrival: Nanos,
    entered: u64,
}

/// Where packets wait.
enum Waiting<P> {
    /// Behind the packets in flight, as far as the limit allows.
    InPlace { limit: Limit, bytes: u64 },
    /// In a queue of its own, from which a packet is taken before it is served.
    Discipline(Box<dyn Discipline<P>>),
}

impl<P: Packet> Waiting<P> {
    fn new(queue: &resolved::Queue, service: Service) -> Self {
        match queue::new_discipline(queue, service) {
            Some(discipline) => Self::Discipline(discipline),
            None => Self::InPlace {
                limit: Limit::new(queue),
                bytes: 0,
            },
        }
    }

    /// Sets new parameters and keeps the packets. Returns false if they belong to another
    /// discipline.
    fn set_parameters(&mut self, queue: &resolved::Queue, service: Service) -> bool {
        match self {
            Self::InPlace { limit, .. } => {
                *limit = Limit::new(queue);
                matches!(queue, resolved::Queue::DropTail(_))
            }
            Self::Discipline(discipline) => discipline.set_parameters(queue, service),
        }
    }
}

/// The sizes of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) ip_bytes: u32,
    pub(super) wire_bytes: u32,
}

/// A packet in order.
struct Held<P> {
    packet: P,
    wire_bytes: u32,
    /// When the packet arrives if it is in flight, otherwise since when it waits.
    instant: Nanos,
}

impl<P> From<Queued<P>> for Held<P> {
    #[inline]
    fn from(queued: Queued<P>) -> Self {
        Self {
            packet: queued.packet,
            wire_bytes: queued.wire_bytes,
            instant: queued.since,
        }
    }
}

impl<P> From<Held<P>> for Queued<P> {
    fn from(held: Held<P>) -> Self {
        Self {
            packet: held.packet,
            wire_bytes: held.wire_bytes,
            since: held.instant,
        }
    }
}

impl<P: Packet> Pipe<P> {
    /// Returns an empty pipe with the given queue.
    pub(super) fn new(queue: &resolved::Queue, service: Service) -> Self {
        Self {
            waiting: Waiting::new(queue, service),
            in_order: VecDeque::new(),
            in_flight: 0,
            in_service: 0,
            overtaking: BinaryHeap::new(),
            last_arrival: 0,
            entered: 0,
        }
    }

    /// Accepts a packet that arrives at `packet.since`, or returns why it is dropped.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        packet: Queued<P>,
        generator: &mut Generator,
        discarded: &mut Discarded<P>,
    ) -> Result<(), DropReason> {
        let packets = self.waiting_in_place() + 1;
        match &mut self.waiting {
            Waiting::InPlace { limit, bytes } => {
                let more_bytes = *bytes + u64::from(packet.wire_bytes);
                if limit.is_exceeded(packets, more_bytes) {
                    return Err(DropReason::QueueFull);
                }
                *bytes = more_bytes;
                self.in_order.push_back(packet.into());
                Ok(())
            }
            Waiting::Discipline(queue) => queue.enqueue(packet, generator, discarded),
        }
    }

    #[inline]
    fn waiting_in_place(&self) -> u64 {
        (self.in_order.len() - self.in_flight - self.in_service) as u64
    }

    /// Returns the number of packets that wait.
    #[inline]
    pub(super) fn waiting_packets(&self) -> u64 {
        match &self.waiting {
            Waiting::InPlace { .. } => self.waiting_in_place(),
            Waiting::Discipline(queue) => queue.packets(),
        }
    }

    /// Returns the bytes on the link of the packets that wait.
    pub(super) fn waiting_bytes(&self) -> u64 {
        match &self.waiting {
            Waiting::InPlace { bytes, .. } => *bytes,
            Waiting::Discipline(queue) => queue.bytes(),
        }
    }

    /// Puts the next packet that waits into service at `now`. Returns its sizes, or `None` if no
    /// packet waits or the queue dropped all its packets.
    #[inline]
    pub(super) fn serve_next(&mut self, now: Nanos, discarded: &mut Discarded<P>) -> Option<Sizes> {
        if let Waiting::Discipline(_) = self.waiting {
            self.dequeue(now, discarded);
        }
        let held = self.in_order.get(self.in_flight + self.in_service)?;
        if let Waiting::InPlace { bytes, .. } = &mut self.waiting {
            *bytes -= u64::from(held.wire_bytes);
        }
        self.in_service += 1;
        Some(Sizes {
            ip_bytes: held.packet.ip_bytes(),
            wire_bytes: held.wire_bytes,
        })
    }

    /// Takes the next packet from a queue of its own, if there is one that the queue does not drop,
    /// and puts it behind those in service.
    fn dequeue(&mut self, now: Nanos, discarded: &mut Discarded<P>) {
        if let Waiting::Discipline(queue) = &mut self.waiting {
            let packet = queue.dequeue(now, discarded);
            self.in_order.extend(packet.map(Held::from));
        }
    }

    /// Puts a packet into service that does not come from the queue. No other is in service.
    pub(super) fn serve(&mut self, packet: P) {
        let held = Held {
            packet,
            wire_bytes: 0,
            instant: 0,
        };
        self.in_order.insert(self.in_flight, held);
        self.in_service = 1;
    }

    /// Sends the first packet in service, which arrives at `arrival`, or with the last packet
    /// already in flight if that arrives later.
    #[inline]
    pub(super) fn send(&mut self, arrival: Nanos) {
        self.last_arrival = self.last_arrival.max(arrival);
        if self.in_service > 0
            && let Some(held) = self.in_order.get_mut(self.in_flight)
        {
            held.instant = self.last_arrival;
            self.in_flight += 1;
            self.in_service -= 1;
        }
    }

    /// Sends the first packet in service, which arrives at `arrival`, regardless of the packets
    /// already in flight.
    pub(super) fn send_overtaking(&mut self, arrival: Nanos) {
        if let Some(packet) = self.take_served() {
            self.last_arrival = self.last_arrival.max(arrival);
            self.entered += 1;
            self.overtaking.push(Flight {
                arrival,
                entered: self.entered,
                packet,
            });
        }
    }

    /// Removes and returns the first packet in service, if there is one.
    pub(super) fn take_served(&mut self) -> Option<P> {
        self.in_service = self.in_service.checked_sub(1)?;
        self.in_order.remove(self.in_flight).map(|held| held.packet)
    }

    /// Lets a packet wait that comes from another queue, without deciding about it.
    pub(super) fn restore(&mut self, packet: Queued<P>) {
        match &mut self.waiting {
            Waiting::InPlace { bytes, .. } => {
                *bytes += u64::from(packet.wire_bytes);
                self.in_order.push_back(packet.into());
            }
            Waiting::Discipline(queue) => queue.restore(packet),
        }
    }

    /// Gives the queue new parameters. Packets stay, except those beyond the new limit, which are
    /// dropped from the tail.
    pub(super) fn reconfigure(
        &mut self,
        queue: &resolved::Queue,
        service: Service,
        discarded: &mut Discarded<P>,
    ) {
        if !self.waiting.set_parameters(queue, service) {
            let waiting = self.drain();
            self.waiting = Waiting::new(queue, service);
            waiting.into_iter().for_each(|packet| self.restore(packet));
        }
        let limit = Limit::new(queue);
        while limit.is_exceeded(self.waiting_packets(), self.waiting_bytes()) {
            let Some(last) = self.remove_last() else {
                break;
            };
            discarded.push((last.packet, DropReason::QueueFull));
        }
    }

    /// Empties the queue and returns its packets in order of arrival.
    pub(super) fn drain(&mut self) -> Vec<Queued<P>> {
        let mut waiting: Vec<_> = std::iter::from_fn(|| self.remove_last()).collect();
        waiting.reverse();
        waiting.sort_by_key(|packet| packet.since);
        waiting
    }

    /// Removes and returns the newest packet that waits, or that of the largest queue if there are
    /// several.
    fn remove_last(&mut self) -> Option<Queued<P>> {
        let in_place = self.waiting_in_place();
        match &mut self.waiting {
            Waiting::InPlace { bytes, .. } => {
                let last = (in_place > 0).then(|| self.in_order.pop_back())??;
                *bytes -= u64::from(last.wire_bytes);
                Some(last.into())
            }
            Waiting::Discipline(queue) => queue.remove_last(),
        }
    }

    #[inline]
    pub(super) fn first_arrival(&self) -> Option<Nanos> {
        let first = self.in_order.front().filter(|_| self.in_flight > 0);
        let in_order = first.map(|held| held.instant);
        if self.overtaking.is_empty() {
            return in_order;
        }
        earlier(
            in_order,
            self.overtaking.peek().map(|flight| flight.arrival),
        )
    }

    /// Removes and returns the packet that arrives first, with its arrival.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Nanos, P)> {
        if self.overtaking.is_empty() {
            return self.pop_in_order();
        }
        let first = self.first_arrival()?;
        // At a tie the overtaking packet goes first, because a packet sent in order afterwards must
        // not pass it.
        if self
            .overtaking
            .peek()
            .is_some_and(|flight| flight.arrival == first)
        {
            let flight = self.overtaking.pop()?;
            return Some((flight.arrival, flight.packet));
        }
        self.pop_in_order()
    }

    #[inline]
    fn pop_in_order(&mut self) -> Option<(Nanos, P)> {
        self.in_flight = self.in_flight.checked_sub(1)?;
        let held = self.in_order.pop_front()?;
        Some((held.instant, held.packet))
    }

    /// Returns the number of packets in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight + self.overtaking.len()
    }

    /// Removes and returns the packets in flight that have not arrived before `now`, in the order
    /// of their arrivals. They do not delay later ones.
    pub(super) fn cut(&mut self, now: Nanos) -> impl Iterator<Item = P> {
        let flying: Vec<_> = std::iter::from_fn(|| self.pop()).collect();
        let (arrived, lost): (Vec<_>, Vec<_>) = flying.into_iter().partition(|(at, _)| *at < now);
        self.in_flight = arrived.len();
        for (instant, packet) in arrived.into_iter().rev() {
            self.in_order.push_front(Held {
                packet,
                wire_bytes: 0,
                instant,
            });
        }
        self.last_arrival = 0;
        lost.into_iter().map(|(_, packet)| packet)
    }
}

struct Flight<P> {
    arrival: Nanos,
    entered: u64,
    packet: P,
}

impl<P> Ord for Flight<P> {
    /// Reversed, because the heap returns the greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.arrival, other.entered).cmp(&(self.arrival, self.entered))
    }
}

impl<P> PartialOrd for Flight<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flight<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flight<P> {}
