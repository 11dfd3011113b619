//! FQ-CoDel (RFC 8290): deficit round robin over flows, each with its own CoDel. Flows that just
//! began go first.

use std::collections::VecDeque;

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::codel::{Control, Timing};
use super::fifo::{Fifo, Limit, Queued};
use super::{Discarded, Discipline, Service};
use crate::link::{DropReason, Packet};

/// The most packets dropped at once when the queue overflows. More than one, because finding the
/// largest flow is slow.
const OVERFLOW_BATCH: u64 = 64;

pub(super) struct FqCodelQueue<P> {
    parameters: resolved::FqCodel,
    limit: Limit,
    /// For each hash bucket, 1 + the index of its flow. 0 if the bucket was never used.
    buckets: Vec<u32>,
    flows: Vec<Flow<P>>,
    /// Indices of the flows that began since their last turn. `old` holds the other flows on the
    /// lists.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: u64,
    bytes: u64,
    largest_packet: u32,
}

struct Flow<P> {
    fifo: Fifo<P>,
    control: Control,
    /// Bytes that the flow may still send in this round.
    deficit: i64,
    is_listed: bool,
}

impl<P> FqCodelQueue<P> {
    pub(super) fn new(parameters: &resolved::FqCodel, limit: Limit) -> Self {
        Self {
            parameters: *parameters,
            limit,
            buckets: vec![0; parameters.flows as usize],
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            largest_packet: 0,
        }
    }

    /// Returns the index of the flow of `key`. A flow is allocated when its first packet arrives.
    fn flow_of(&mut self, key: u64) -> usize {
        let bucket = &mut self.buckets[bucket_of(key, self.parameters.flows)];
        if *bucket == 0 {
            self.flows.push(Flow {
                fifo: Fifo::new(),
                control: Control::default(),
                deficit: 0,
                is_listed: false,
            });
            *bucket = self.flows.len() as u32;
        }
        *bucket as usize - 1
    }

    fn append(&mut self, index: usize, packet: Queued<P>) {
        self.packets += 1;
        self.bytes += u64::from(packet.wire_bytes);
        self.largest_packet = self.largest_packet.max(packet.wire_bytes);
        let flow = &mut self.flows[index];
        flow.fifo.push(packet);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.deficit = i64::from(self.parameters.quantum_bytes);
            self.new.push_back(index);
        }
    }

    fn largest_flow(&mut self) -> Option<&mut Flow<P>> {
        self.flows.iter_mut().max_by_key(|flow| flow.fifo.bytes())
    }

    /// Drops half of the largest flow from its head, at most `OVERFLOW_BATCH` packets.
    fn shed(&mut self, discarded: &mut Discarded<P>) {
        let Some(flow) = self.largest_flow() else {
            return;
        };
        let count = flow.fifo.packets().div_ceil(2).min(OVERFLOW_BATCH);
        let shed: Vec<_> = (0..count).filter_map(|_| flow.fifo.pop()).collect();
        for packet in shed {
            self.forget(&packet);
            discarded.push((packet.packet, DropReason::QueueFull));
        }
    }

    fn forget(&mut self, packet: &Queued<P>) {
        self.packets -= 1;
        self.bytes -= u64::from(packet.wire_bytes);
    }

    /// Dequeues one packet of a flow and accounts for the packets its CoDel dropped.
    fn dequeue_from(
        &mut self,
        index: usize,
        now: Nanos,
        discarded: &mut Discarded<P>,
    ) -> Option<Queued<P>> {
        let timing = Timing {
            target_ns: self.parameters.target_ns,
            interval_ns: self.parameters.interval_ns,
        };
        let Flow {
            fifo,
            control,
            deficit,
            ..
        } = &mut self.flows[index];
        let (packets, bytes) = (fifo.packets(), fifo.bytes());
        let head = control.dequeue(now, fifo, timing, self.largest_packet, discarded);
        self.packets -= packets - fifo.packets();
        self.bytes -= bytes - fifo.bytes();
        *deficit -= head
            .as_ref()
            .map_or(0, |packet| i64::from(packet.wire_bytes));
        head
    }

    /// Moves the flow whose turn ends to the tail of the old flows, or removes it from the lists.
    fn end_turn(&mut self, was_new: bool, stays: bool) {
        let list = if was_new {
            &mut self.new
        } else {
            &mut self.old
        };
        let Some(index) = list.pop_front() else {
            return;
        };
        self.flows[index].is_listed = stays;
        if stays {
            self.old.push_back(index);
        }
    }
}

impl<P: Packet> Discipline<P> for FqCodelQueue<P> {
    fn enqueue(
        &mut self,
        packet: Queued<P>,
        _: &mut Generator,
        discarded: &mut Discarded<P>,
    ) -> Result<(), DropReason> {
        self.restore(packet);
        while self.limit.is_exceeded(self.packets, self.bytes) {
            self.shed(discarded);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, discarded: &mut Discarded<P>) -> Option<Queued<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let index = *self.new.front().or(self.old.front())?;
            if self.flows[index].deficit <= 0 {
                self.flows[index].deficit += i64::from(self.parameters.quantum_bytes);
                self.end_turn(is_new, true);
            } else if let Some(packet) = self.dequeue_from(index, now, discarded) {
                return Some(packet);
            } else {
                // A new flow that becomes empty first becomes old. Otherwise it could return as new
                // and starve the others.
                self.end_turn(is_new, is_new);
            }
        }
    }

    fn restore(&mut self, packet: Queued<P>) {
        let index = self.flow_of(packet.packet.flow_key());
        self.append(index, packet);
    }

    fn remove_last(&mut self) -> Option<Queued<P>> {
        let last = self.largest_flow()?.fifo.pop_last()?;
        self.forget(&last);
        Some(last)
    }

    fn set_parameters(&mut self, queue: &resolved::Queue, _: Service) -> bool {
        match queue {
            // With another number of buckets every flow must be hashed again, so the queue is
            // replaced.
            resolved::Queue::FqCodel(parameters) if parameters.flows == self.parameters.flows => {
                self.parameters = *parameters;
                self.limit = Limit::new(queue);
                true
            }
            _ => false,
        }
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the bucket of `key`. Keys are consecutive in some of their bits (ports, application
/// numbers), so all bits are mixed first with the finalizer of SplitMix64. Lemire's reduction then
/// takes the high bits.
fn bucket_of(key: u64, buckets: u32) -> usize {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let key = key ^ key >> 31;
    ((u128::from(key) * u128::from(buckets)) >> 64) as usize
}
