//! CoDel (RFC 8289): drops at the head while the sojourn time stays above the target.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::fifo::{Fifo, Limit, Queued};
use super::{Discarded, Discipline, Service};
use crate::link::DropReason;

/// A new drop state resumes the drop count of the previous one if it begins within this many
/// intervals of the next drop planned there.
const RESUME_INTERVALS: u64 = 16;

pub(super) struct CodelQueue<P> {
    fifo: Fifo<P>,
    limit: Limit,
    timing: Timing,
    control: Control,
    largest_packet: u32,
}

/// The two parameters of CoDel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) target_ns: Nanos,
    pub(super) interval_ns: Nanos,
}

impl<P> CodelQueue<P> {
    pub(super) fn new(parameters: &resolved::Codel, limit: Limit) -> Self {
        Self {
            fifo: Fifo::new(),
            limit,
            timing: Timing::of(parameters),
            control: Control::default(),
            largest_packet: 0,
        }
    }
}

impl Timing {
    fn of(parameters: &resolved::Codel) -> Self {
        Self {
            target_ns: parameters.target_ns,
            interval_ns: parameters.interval_ns,
        }
    }
}

impl<P: Send> Discipline<P> for CodelQueue<P> {
    fn enqueue(
        &mut self,
        packet: Queued<P>,
        _: &mut Generator,
        _: &mut Discarded<P>,
    ) -> Result<(), DropReason> {
        if !self.limit.admits(&self.fifo, &packet) {
            return Err(DropReason::QueueFull);
        }
        self.largest_packet = self.largest_packet.max(packet.wire_bytes);
        self.fifo.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, discarded: &mut Discarded<P>) -> Option<Queued<P>> {
        self.control.dequeue(
            now,
            &mut self.fifo,
            self.timing,
            self.largest_packet,
            discarded,
        )
    }

    fn restore(&mut self, packet: Queued<P>) {
        self.largest_packet = self.largest_packet.max(packet.wire_bytes);
        self.fifo.push(packet);
    }

    fn remove_last(&mut self) -> Option<Queued<P>> {
        self.fifo.pop_last()
    }

    fn set_parameters(&mut self, queue: &resolved::Queue, _: Service) -> bool {
        let resolved::Queue::Codel(parameters) = queue else {
            return false;
        };
        self.limit = Limit::new(queue);
        self.timing = Timing::of(parameters);
        true
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}

/// The state of the control law (RFC 8289, section 5). Each queue under CoDel has one.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// When the sojourn time will have been above the target for a whole interval.
    first_above: Option<Nanos>,
    dropping: bool,
    drop_next: Nanos,
    /// Drops since the drop state began.
    count: u64,
    /// The value of `count` when the last drop state began.
    last_count: u64,
}

impl Control {
    /// Returns the next packet, after dropping the packets that the control law selects. Never
    /// drops the last packet.
    pub(super) fn dequeue<P>(
        &mut self,
        now: Nanos,
        fifo: &mut Fifo<P>,
        timing: Timing,
        largest_packet: u32,
        discarded: &mut Discarded<P>,
    ) -> Option<Queued<P>> {
        let Some(mut head) = fifo.pop() else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        let may_drop = |control: &mut Self, head: &Queued<P>, fifo: &Fifo<P>| {
            let sojourn = now.saturating_sub(head.since);
            let persistent =
                sojourn >= timing.target_ns && fifo.bytes() > u64::from(largest_packet);
            control.is_above_for_an_interval(now, persistent, timing.interval_ns)
        };
        let above = may_drop(self, &head, fifo);
        if above && !self.dropping {
            discarded.push((head.packet, DropReason::Aqm));
            head = fifo.pop()?;
            may_drop(self, &head, fifo);
            self.start_dropping(now, timing.interval_ns);
            return Some(head);
        }
        self.dropping = above;
        while self.dropping && now >= self.drop_next {
            discarded.push((head.packet, DropReason::Aqm));
            self.count += 1;
            head = fifo.pop()?;
            self.dropping = may_drop(self, &head, fifo);
            if self.dropping {
                self.drop_next = next_drop(self.drop_next, timing.interval_ns, self.count);
            }
        }
        Some(head)
    }

    fn is_above_for_an_interval(&mut self, now: Nanos, is_above: bool, interval: Nanos) -> bool {
        match self.first_above {
            _ if !is_above => {
                self.first_above = None;
                false
            }
            None => {
                self.first_above = Some(now.saturating_add(interval));
                false
            }
            Some(first_above) => now >= first_above,
        }
    }

    fn start_dropping(&mut self, now: Nanos, interval: Nanos) {
        self.dropping = true;
        let dropped_last_time = self.count - self.last_count;
        let recent = now.saturating_sub(self.drop_next) < RESUME_INTERVALS.saturating_mul(interval);
        self.count = if recent && dropped_last_time > 1 {
            dropped_last_time
        } else {
            1
        };
        self.drop_next = next_drop(now, interval, self.count);
        self.last_count = self.count;
    }
}

/// Returns the time of the next drop. The gap shrinks with the square root of the drop count,
/// because a responsive load then decreases linearly.
fn next_drop(from: Nanos, interval: Nanos, count: u64) -> Nanos {
    from.saturating_add((interval as f64 / (count as f64).sqrt()) as Nanos)
}
