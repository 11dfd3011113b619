//! Serializers: how long a packet occupies the link.

use std::num::NonZeroU64;

use experiment::resolved::{Direction, Trace};
use experiment::time::{NANOS_PER_SECOND, Nanos};

/// Puts packets on the link one after the other.
#[derive(Debug)]
pub(super) enum Serializer {
    Infinite,
    Rate(RateSerializer),
    Trace(TraceSerializer),
}

impl Serializer {
    /// Returns the serializer of a direction. A trace takes precedence over the rate of the medium,
    /// and that over the rate of the link.
    pub(super) fn new(direction: &Direction, medium_rate_bps: Option<u64>) -> Self {
        match (&direction.trace, medium_rate_bps.or(direction.rate_bps)) {
            (Some(trace), _) => Self::Trace(TraceSerializer::new(trace)),
            (None, Some(rate_bps)) => Self::Rate(RateSerializer::new(rate_bps)),
            (None, None) => Self::Infinite,
        }
    }

    /// Returns the first instant, not before `ready`, at which a packet can start.
    pub(super) fn earliest_start(&self, ready: Nanos) -> Nanos {
        match self {
            Self::Infinite | Self::Rate(_) => ready,
            Self::Trace(trace) => trace.earliest_start(ready),
        }
    }

    /// Sends `bytes` from `start`, an instant returned by `earliest_start`. Returns when the last
    /// bit has left.
    pub(super) fn transmit(&mut self, start: Nanos, bytes: u32) -> Nanos {
        match self {
            Self::Infinite => start,
            Self::Rate(rate) => rate.transmit(start, bytes),
            Self::Trace(trace) => trace.transmit(start, bytes),
        }
    }

    /// Returns the long-run rate in bit/s. `None` if infinite.
    pub(super) fn mean_rate_bps(&self) -> Option<f64> {
        match self {
            Self::Infinite => None,
            Self::Rate(rate) => Some(rate.rate_bps.get() as f64),
            Self::Trace(trace) => Some(trace.mean_rate_bps()),
        }
    }
}

/// A constant rate. Instants are rounded up to whole nanoseconds. The error does not accumulate
/// within a busy period.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSerializer {
    rate_bps: NonZeroU64,
    /// The duration of a byte in nanoseconds is `ns_per_byte` + `remainder_per_byte` / `rate_bps`.
    ns_per_byte: Nanos,
    remainder_per_byte: u64,
    finished: Nanos,
    /// The amount by which `finished` was rounded up, in units of 1 / `rate_bps` nanoseconds. Less
    /// than one nanosecond.
    rounded_up: u64,
}

impl RateSerializer {
    fn new(rate_bps: u64) -> Self {
        const WORK_PER_BYTE: u64 = 8 * NANOS_PER_SECOND;
        let rate_bps = NonZeroU64::new(rate_bps).expect("validated: no rate is 0");
        Self {
            rate_bps,
            ns_per_byte: WORK_PER_BYTE / rate_bps,
            remainder_per_byte: WORK_PER_BYTE % rate_bps,
            finished: 0,
            rounded_up: 0,
        }
    }

    pub(super) fn transmit(&mut self, start: Nanos, bytes: u32) -> Nanos {
        let (whole_ns, remainder) = self.duration(bytes);
        let paid = if start == self.finished {
            self.rounded_up
        } else {
            0
        };
        let partial_ns = u64::from(remainder > paid);
        self.rounded_up = if remainder > paid {
            self.rate_bps.get() - (remainder - paid)
        } else {
            paid - remainder
        };
        self.finished = start.saturating_add(whole_ns).saturating_add(partial_ns);
        self.finished
    }

    /// Undoes the last transmission of `bytes`. The transmission before it ended at `finished`,
    /// without a pause in between.
    pub(super) fn take_back(&mut self, bytes: u32, finished: Nanos) {
        let (_, remainder) = self.duration(bytes);
        let paid = u128::from(self.rounded_up) + u128::from(remainder);
        self.rounded_up = (paid % u128::from(self.rate_bps.get())) as u64;
        self.finished = finished;
    }

    /// Returns the duration of `bytes` in whole nanoseconds, and the remainder in units of 1 /
    /// `rate_bps` nanoseconds.
    fn duration(&self, bytes: u32) -> (Nanos, u64) {
        let whole_ns = u64::from(bytes).saturating_mul(self.ns_per_byte);
        // The common case.
        if self.remainder_per_byte == 0 {
            return (whole_ns, 0);
        }
        let rest = u128::from(bytes) * u128::from(self.remainder_per_byte);
        let rate = u128::from(self.rate_bps.get());
        let (more_ns, remainder) = match u64::try_from(rest) {
            Ok(rest) => (rest / self.rate_bps, rest % self.rate_bps),
            Err(_) => ((rest / rate) as u64, (rest % rate) as u64),
        };
        (whole_ns.saturating_add(more_ns), remainder)
    }
}

/// Delivery opportunities of a fixed number of bytes. Small packets share one, a large packet takes
/// several, and unused bytes are lost.
#[derive(Debug)]
pub(super) struct TraceSerializer {
    opportunities_ns: Vec<Nanos>,
    period_ns: Nanos,
    opportunity_bytes: u32,
    /// Number of the current opportunity, counted over all periods. `free_bytes` is what it has
    /// left.
    current: u64,
    free_bytes: u32,
}

impl TraceSerializer {
    fn new(trace: &Trace) -> Self {
        Self {
            opportunities_ns: trace.opportunities_ns.clone(),
            period_ns: trace.period_ns,
            opportunity_bytes: trace.opportunity_bytes,
            current: 0,
            free_bytes: trace.opportunity_bytes,
        }
    }

    fn earliest_start(&self, ready: Nanos) -> Nanos {
        self.instant(self.opportunity_from(ready))
    }

    fn transmit(&mut self, start: Nanos, bytes: u32) -> Nanos {
        let first = self.opportunity_from(start);
        if first != self.current {
            self.move_to(first);
        }
        let mut unsent = bytes;
        while unsent > self.free_bytes {
            unsent -= self.free_bytes;
            self.move_to(self.current.saturating_add(1));
        }
        self.free_bytes -= unsent;
        let finish = self.instant(self.current);
        if self.free_bytes == 0 {
            self.move_to(self.current.saturating_add(1));
        }
        finish
    }

    fn move_to(&mut self, opportunity: u64) {
        self.current = opportunity;
        self.free_bytes = self.opportunity_bytes;
    }

    /// Returns the first opportunity at or after `ready` that is not yet used up.
    fn opportunity_from(&self, ready: Nanos) -> u64 {
        if self.instant(self.current) >= ready {
            return self.current;
        }
        // The subtraction of 1 keeps an opportunity at the very end of a period in that period.
        let period = ready.saturating_sub(1) / self.period_ns;
        let offset = ready - period * self.period_ns;
        let index = self
            .opportunities_ns
            .partition_point(|instant| *instant < offset);
        period
            .saturating_mul(self.opportunities_ns.len() as u64)
            .saturating_add(index as u64)
    }

    fn instant(&self, opportunity: u64) -> Nanos {
        let per_period = self.opportunities_ns.len() as u64;
        let offset = self.opportunities_ns[(opportunity % per_period) as usize];
        (opportunity / per_period)
            .saturating_mul(self.period_ns)
            .saturating_add(offset)
    }

    fn mean_rate_bps(&self) -> f64 {
        let bits = self.opportunities_ns.len() as f64 * f64::from(self.opportunity_bytes) * 8.0;
        bits * NANOS_PER_SECOND as f64 / self.period_ns as f64
    }
}
