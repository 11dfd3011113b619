//! Queue disciplines. They hold packets that wait for the serializer; packets in service or in
//! flight are held elsewhere.

mod codel;
mod fifo;
mod fq_codel;
mod pie;
mod red;

pub(super) use fifo::{Limit, Queued};

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::link::{DropReason, Packet};
use codel::CodelQueue;
use fq_codel::FqCodelQueue;
use pie::PieQueue;
use red::RedQueue;

/// Packets that a discipline dropped after it had accepted them.
pub(super) type Discarded<P> = Vec<(P, DropReason)>;

/// What a discipline knows about the serializer behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    /// Mean rate of the serializer in bit/s. `None` if infinite.
    pub(super) rate_bps: Option<f64>,
}

/// A queue discipline.
pub(super) trait Discipline<P>: Send {
    /// Accepts a packet that arrives at `packet.since`, or returns why it is dropped.
    fn enqueue(
        &mut self,
        packet: Queued<P>,
        generator: &mut Generator,
        discarded: &mut Discarded<P>,
    ) -> Result<(), DropReason>;

    /// Removes and returns the packet that starts at `now`.
    fn dequeue(&mut self, now: Nanos, discarded: &mut Discarded<P>) -> Option<Queued<P>>;

    /// Accepts a packet from another discipline without deciding about it.
    fn restore(&mut self, packet: Queued<P>);

    /// Removes and returns the newest packet of the queue, or of the largest queue if there are
    /// several.
    fn remove_last(&mut self) -> Option<Queued<P>>;

    /// Sets new parameters and keeps the state. Returns false if they belong to another discipline.
    fn set_parameters(&mut self, queue: &resolved::Queue, service: Service) -> bool;

    fn packets(&self) -> u64;

    fn bytes(&self) -> u64;
}

/// Returns an empty queue of the kind of `queue`. `None` for drop-tail, in which packets wait in
/// place.
pub(super) fn new_discipline<P: Packet>(
    queue: &resolved::Queue,
    service: Service,
) -> Option<Box<dyn Discipline<P>>> {
    let limit = Limit::new(queue);
    Some(match queue {
        resolved::Queue::DropTail(_) => return None,
        resolved::Queue::Codel(parameters) => Box::new(CodelQueue::new(parameters, limit)),
        resolved::Queue::FqCodel(parameters) => Box::new(FqCodelQueue::new(parameters, limit)),
        resolved::Queue::Red(parameters) => Box::new(RedQueue::new(parameters, limit, service)),
        resolved::Queue::Pie(parameters) => Box::new(PieQueue::new(parameters, limit)),
    })
}
