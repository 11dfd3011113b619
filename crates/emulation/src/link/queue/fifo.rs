//! A first-in, first-out queue that counts its bytes, and queue limits.

use std::collections::VecDeque;

use experiment::resolved;
use experiment::time::Nanos;

/// A packet that waits for the serializer.
#[derive(Debug)]
pub(in crate::link) struct Queued<P> {
    pub(in crate::link) packet: P,
    /// Bytes on the link, overhead included.
    pub(in crate::link) wire_bytes: u32,
    /// When the packet arrived.
    pub(in crate::link) since: Nanos,
}

#[derive(Debug)]
pub(super) struct Fifo<P> {
    waiting: VecDeque<Queued<P>>,
    bytes: u64,
}

impl<P> Fifo<P> {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, packet: Queued<P>) {
        self.bytes += u64::from(packet.wire_bytes);
        self.waiting.push_back(packet);
    }

    pub(super) fn pop(&mut self) -> Option<Queued<P>> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.wire_bytes);
        Some(packet)
    }

    pub(super) fn pop_last(&mut self) -> Option<Queued<P>> {
        let packet = self.waiting.pop_back()?;
        self.bytes -= u64::from(packet.wire_bytes);
        Some(packet)
    }

    pub(super) fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The limits of a queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::link) struct Limit {
    packets: u64,
    bytes: u64,
}

impl Limit {
    pub(in crate::link) fn new(queue: &resolved::Queue) -> Self {
        let (packets, bytes) = queue.limits();
        Self {
            packets: packets.unwrap_or(u64::MAX),
            bytes: bytes.unwrap_or(u64::MAX),
        }
    }

    pub(in crate::link) fn has_bytes(&self) -> bool {
        self.bytes != u64::MAX
    }

    pub(in crate::link) fn is_exceeded(&self, packets: u64, bytes: u64) -> bool {
        packets > self.packets || bytes > self.bytes
    }

    /// Returns whether `packet` fits into `fifo`.
    pub(super) fn admits<P>(&self, fifo: &Fifo<P>, packet: &Queued<P>) -> bool {
        !self.is_exceeded(
            fifo.packets() + 1,
            fifo.bytes() + u64::from(packet.wire_bytes),
        )
    }
}
