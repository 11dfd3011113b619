//! Serializers: how long a packet occupies the link.

use std::num::NonZeroU64;

use experiment::resolved::Direction;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::trace::TraceSerializer;

/// Puts packets on the link one after the other.
#[derive(Debug)]
pub(super) enum Serializer {
    Infinite,
    Rate(RateSerializer),
    Trace(TraceSerializer),
}

impl Serializer {
    /// Returns the serializer of a direction. The capacity of a trace, of which `start_ns` is the
    /// start of the run, takes precedence over the rate of the medium, and that over the rate of
    /// the link.
    pub(super) fn new(
        direction: &Direction,
        medium_rate_bps: Option<u64>,
        start_ns: Nanos,
    ) -> Self {
        let trace = direction.trace.as_ref().filter(|one| one.has_capacity());
        match (trace, medium_rate_bps.or(direction.rate_bps)) {
            (Some(trace), _) => Self::Trace(TraceSerializer::new(trace, start_ns)),
            (None, Some(rate_bps)) => Self::Rate(RateSerializer::new(rate_bps)),
            (None, None) => Self::Infinite,
        }
    }

    /// Records that a packet comes to an empty queue at `now`.
    pub(super) fn record_arrival(&mut self, now: Nanos) {
        if let Self::Trace(trace) = self {
            trace.record_arrival(now);
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
