//! Drop-tail: an arriving packet that does not fit is dropped.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::fifo::{Fifo, Limit, Queued};
use super::{Discarded, Discipline, Service};
use crate::link::DropReason;

pub(in crate::link) struct DropTailQueue<P> {
    fifo: Fifo<P>,
    limit: Limit,
}

impl<P> DropTailQueue<P> {
    pub(in crate::link) fn new(limit: Limit) -> Self {
        Self {
            fifo: Fifo::new(),
            limit,
        }
    }
}

impl<P: Send> Discipline<P> for DropTailQueue<P> {
    fn enqueue(
        &mut self,
        packet: Queued<P>,
        _: &mut Generator,
        _: &mut Discarded<P>,
    ) -> Result<(), DropReason> {
        if !self.limit.admits(&self.fifo, &packet) {
            return Err(DropReason::QueueFull);
        }
        self.fifo.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, _: Nanos, _: &mut Discarded<P>) -> Option<Queued<P>> {
        self.fifo.pop()
    }

    fn restore(&mut self, packet: Queued<P>) {
        self.fifo.push(packet);
    }

    fn remove_last(&mut self) -> Option<Queued<P>> {
        self.fifo.pop_last()
    }

    fn set_parameters(&mut self, queue: &resolved::Queue, _: Service) -> bool {
        let is_drop_tail = matches!(queue, resolved::Queue::DropTail(_));
        if is_drop_tail {
            self.limit = Limit::new(queue);
        }
        is_drop_tail
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
