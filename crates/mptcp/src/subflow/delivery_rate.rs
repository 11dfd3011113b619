//! Samples of the rate of delivery (draft-ietf-ccwg-bbr, section 4.1).

use super::flight::Record;
use crate::cc::DeliveryRate;
use crate::time::{Nanos, SECOND, seconds};

/// What was delivered when a segment was sent (section 4.1.2.2). There is one for each segment in flight, so it is small.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentState {
    /// P.delivered modulo 2^31, which is more than a window; the highest bit is P.is_app_limited.
    delivered: u32,
    /// How long before it was sent P.delivered_time was.
    delivered_age: Age,
    /// How long before it was sent P.first_sent_time was.
    first_sent_age: Age,
}

const APPLICATION_LIMITED: u32 = 1 << 31;

impl SentState {
    fn is_application_limited(self) -> bool {
        self.delivered & APPLICATION_LIMITED != 0
    }

    /// Bytes delivered since it was sent, when `delivered` is all.
    fn delivered_since(self, delivered: u64) -> u32 {
        (delivered as u32).wrapping_sub(self.delivered) & !APPLICATION_LIMITED
    }
}

/// A time span in 32 bits: exact up to two seconds, to a microsecond above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Age(u32);

impl Age {
    /// Set if the rest counts units of 2^10 ns.
    const IS_COARSE: u32 = 1 << 31;

    fn new(span: Nanos) -> Self {
        match span < Nanos::from(Self::IS_COARSE) {
            true => Self(span as u32),
            false => {
                Self(Self::IS_COARSE | (span >> 10).min(Nanos::from(Self::IS_COARSE) - 1) as u32)
            }
        }
    }

    fn span(self) -> Nanos {
        let value = Nanos::from(self.0 & !Self::IS_COARSE);
        match self.0 & Self::IS_COARSE == 0 {
            true => value,
            false => value << 10,
        }
    }
}

/// What was delivered in all/// What was delivered in all (section 4.1.2.1).
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    /// C.delivered, in bytes.
    bytes: u64,
    /// C.delivered_time.
    at: Nanos,
    /// C.first_sent_time.
    first_sent_at: Nanos,
    /// C.app_limited: until that much is delivered, samples are limited by the application.
    limited_until_bytes: Option<u64>,
}

impl Deliveries {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A segment is sent; `is_idle` says that nothing else is in flight.
    pub fn sent(&mut self, now: Nanos, is_idle: bool) -> SentState {
        if is_idle {
            (self.first_sent_at, self.at) = (now, now);
        }
        let limited = u32::from(self.limited_until_bytes.is_some()) * APPLICATION_LIMITED;
        SentState {
            delivered: self.bytes as u32 & !APPLICATION_LIMITED | limited,
            delivered_age: Age::new(now - self.at),
            first_sent_age: Age::new(now.saturating_sub(self.first_sent_at)),
        }
    }

    /// There is less to send than the window takes, with so much in flight (section 4.1.2.4).
    pub fn application_limited(&mut self, in_flight_bytes: u32) {
        self.limited_until_bytes = Some((self.bytes + u64::from(in_flight_bytes)).max(1));
    }

    /// An acknowledgment delivered so many bytes; of them `newest` was sent last, at `sent_at` (section 4.1.2.3).
    pub fn delivered(
        &mut self,
        now: Nanos,
        bytes: u32,
        (sent_at, newest): (Nanos, SentState),
        min_rtt: Option<Nanos>,
    ) -> Option<DeliveryRate> {
        self.bytes += u64::from(bytes);
        self.at = now;
        if self.limited_until_bytes.is_some_and(|end| self.bytes > end) {
            self.limited_until_bytes = None;
        }
        self.first_sent_at = sent_at;
        let acknowledging = now - sent_at + newest.delivered_age.span();
        let interval = acknowledging.max(newest.first_sent_age.span());
        // Too short: aggregated or spurious, and no sample.
        if interval == 0 || min_rtt.is_some_and(|min_rtt| interval < min_rtt) {
            return None;
        }
        let bytes = newest.delivered_since(self.bytes);
        Some(DeliveryRate {
            bytes_per_second: f64::from(bytes) / seconds(interval),
            is_application_limited: newest.is_application_limited(),
            delivered_before_bytes: self.bytes - u64::from(bytes),
        })
    }
}

/// What one acknowledgment delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub bytes: u32,
    /// Whether anything was newly reported out of order.
    pub is_selective: bool,
    /// Of those sent once and acknowledged cumulatively: when the first and the last were sent.
    cumulative: Option<(Nanos, Nanos)>,
    /// Of those sent once and reported out of order: when the first was sent.
    selective: Option<(Nanos, Nanos)>,
    /// Whether one acknowledged cumulatively had been sent again.
    pub has_retransmitted: bool,
    /// The one that was sent last, and when.
    pub newest: Option<(Nanos, SentState)>,
}

impl Delivery {
    pub fn add(&mut self, record: &Record, is_selective: bool) {
        self.bytes += record.end().distance_from(record.seq) as u32;
        self.is_selective |= is_selective;
        if self.newest.is_none_or(|(at, _)| record.sent_at >= at) {
            self.newest = Some((record.sent_at, record.sent));
        }
        if record.was_retransmitted() {
            self.has_retransmitted |= !is_selective;
            return;
        }
        let times = if is_selective {
            &mut self.selective
        } else {
            &mut self.cumulative
        };
        let at = record.sent_at;
        *times = Some(times.map_or((at, at), |(first, _)| (first, at)));
    }

    /// Round-trip times by Karn's rule (RFC 6298, section 3): of the first segment for the timeout, of the last for windows.
    pub fn round_trips(&self, now: Nanos) -> Option<(Nanos, Nanos)> {
        let times = self.cumulative.filter(|_| !self.has_retransmitted);
        let (first, last) = times.or(self.selective)?;
        Some((now - first, now - last))
    }
}

/// A rate's interval between two bytes of that many each, in nanoseconds.
pub(super) fn interval(bytes: u32, bytes_per_second: f64) -> Nanos {
    (f64::from(bytes) * SECOND as f64 / bytes_per_second.max(1.0)) as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_exact_for_seconds_and_good_for_half_an_hour() {
        for span in [0, 1, SECOND + 1, (1 << 31) - 1] {
            assert_eq!(Age::new(span).span(), span);
        }
        assert_eq!(Age::new(1 << 31).span(), 1 << 31);
        assert_eq!(Age::new(5 * SECOND + 1).span() / 1024, 5 * SECOND / 1024);
        assert_eq!(Age::new(1024 * SECOND).span(), 1024 * SECOND);
        assert!(Age::new(Nanos::MAX).span() > 2000 * SECOND);
    }
}
