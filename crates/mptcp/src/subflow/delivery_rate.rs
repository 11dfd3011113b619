//! Samples of the delivery rate (draft-ietf-ccwg-bbr, section 4.1).

use super::flight::Record;
use crate::cc::DeliveryRate;
use crate::time::{Nanos, SECOND, seconds};

/// The delivery state when a segment was sent (draft-ietf-ccwg-bbr, section 4.1.2.2). Each segment
/// in flight has one, so it is small.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentState {
    /// P.delivered modulo 2^31, which is more than a window. The highest bit is P.is_app_limited.
    delivered: u32,
    /// The time from P.delivered_time until the segment was sent.
    delivered_age: Age,
    /// The time from P.first_sent_time until the segment was sent.
    first_sent_age: Age,
}

const APPLICATION_LIMITED: u32 = 1 << 31;

impl SentState {
    fn is_application_limited(self) -> bool {
        self.delivered & APPLICATION_LIMITED != 0
    }

    /// Returns the bytes delivered since the segment was sent, when `delivered` bytes are delivered
    /// in all.
    fn delivered_since(self, delivered: u64) -> u32 {
        (delivered as u32).wrapping_sub(self.delivered) & !APPLICATION_LIMITED
    }
}

/// A time span in 32 bits: exact below 2^31 ns (2.1 s), above that in units of 2^10 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Age(u32);

impl Age {
    /// Set if the other bits count units of 2^10 ns.
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

/// Cumulative delivery state (draft-ietf-ccwg-bbr, section 4.1.2.1).
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    /// C.delivered, in bytes.
    bytes: u64,
    /// C.delivered_time.
    at: Nanos,
    /// C.first_sent_time.
    first_sent_at: Nanos,
    /// C.app_limited: samples are limited by the application until this many bytes have been
    /// delivered.
    limited_until_bytes: Option<u64>,
}

impl Deliveries {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that a segment is sent at `now`, and returns the delivery state to keep with it.
    /// `is_idle` means that no other segment is in flight.
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

    /// Records that the application supplies less data than the window allows, with
    /// `in_flight_bytes` in flight (draft-ietf-ccwg-bbr, section 4.1.2.4). Samples of segments sent
    /// before these bytes are delivered are limited by the application.
    pub fn application_limited(&mut self, in_flight_bytes: u32) {
        self.limited_until_bytes = Some((self.bytes + u64::from(in_flight_bytes)).max(1));
    }

    /// Records that an acknowledgment delivered `bytes`. Returns a sample of the delivery rate, or
    /// `None` if the sample is not valid (draft-ietf-ccwg-bbr, section 4.1.2.3).
    ///
    /// `sent_at` is the time at which the last-sent of the delivered segments was sent, and
    /// `newest` its delivery state at that time. A sample over an interval shorter than `min_rtt`
    /// is not valid.
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
        // An interval this short comes from aggregation or a spurious retransmission and gives no
        // sample.
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

/// Describes the data that one acknowledgment delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub bytes: u32,
    /// Whether the acknowledgment newly SACKed data.
    pub is_selective: bool,
    /// Of the segments sent once and acknowledged cumulatively: when the first and the last were
    /// sent.
    cumulative: Option<(Nanos, Nanos)>,
    /// Of the segments sent once and SACKed: when the first and the last were sent.
    selective: Option<(Nanos, Nanos)>,
    /// Whether a cumulatively acknowledged segment had been retransmitted.
    pub has_retransmitted: bool,
    /// Of the delivered segments, the one that was sent last: when it was sent, and its delivery
    /// state at that time.
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

    /// Returns two RTT samples in nanoseconds: first one for the RTO, from the segment sent first;
    /// then one for congestion windows, from the segment sent last. Returns `None` if Karn's rule
    /// forbids a sample (RFC 6298, section 3).
    pub fn round_trips(&self, now: Nanos) -> Option<(Nanos, Nanos)> {
        let times = self.cumulative.filter(|_| !self.has_retransmitted);
        let (first, last) = times.or(self.selective)?;
        Some((now - first, now - last))
    }
}

/// Returns the time in nanoseconds that `bytes` take at `bytes_per_second`.
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
