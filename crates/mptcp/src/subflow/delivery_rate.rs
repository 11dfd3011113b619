//! Samples of the rate of delivery (draft-ietf-ccwg-bbr, section 4.1).

use super::flight::Record;
use crate::cc::DeliveryRate;
use crate::time::{Nanos, SECOND, seconds};

/// What was delivered when a segment was sent (section 4.1.2.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentState {
    /// P.sent_time: the last transmission.
    pub at: Nanos,
    /// P.delivered; its highest bit is P.is_app_limited.
    delivered: u64,
    /// P.delivered_time.
    delivered_at: Nanos,
    /// P.first_sent_time.
    first_sent_at: Nanos,
}

const APPLICATION_LIMITED: u64 = 1 << 63;

impl SentState {
    fn delivered_bytes(&self) -> u64 {
        self.delivered & !APPLICATION_LIMITED
    }
}

/// What was delivered in all (section 4.1.2.1).
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
        let limited = u64::from(self.limited_until_bytes.is_some()) * APPLICATION_LIMITED;
        SentState {
            at: now,
            delivered: self.bytes | limited,
            delivered_at: self.at,
            first_sent_at: self.first_sent_at,
        }
    }

    /// There is less to send than the window takes, with so much in flight (section 4.1.2.4).
    pub fn application_limited(&mut self, in_flight_bytes: u32) {
        self.limited_until_bytes = Some((self.bytes + u64::from(in_flight_bytes)).max(1));
    }

    /// An acknowledgment delivered so many bytes; `newest` of them was sent last (section 4.1.2.3).
    pub fn delivered(
        &mut self,
        now: Nanos,
        bytes: u32,
        newest: &SentState,
        min_rtt: Option<Nanos>,
    ) -> Option<DeliveryRate> {
        self.bytes += u64::from(bytes);
        self.at = now;
        if self.limited_until_bytes.is_some_and(|end| self.bytes > end) {
            self.limited_until_bytes = None;
        }
        self.first_sent_at = newest.at;
        let sending = newest.at - newest.first_sent_at.min(newest.at);
        let acknowledging = now - newest.delivered_at;
        let interval = sending.max(acknowledging);
        // Too short: aggregated or spurious, and no sample.
        if interval == 0 || min_rtt.is_some_and(|min_rtt| interval < min_rtt) {
            return None;
        }
        let bytes = self.bytes - newest.delivered_bytes();
        Some(DeliveryRate {
            bytes_per_second: bytes as f64 / seconds(interval),
            is_application_limited: newest.delivered & APPLICATION_LIMITED != 0,
            delivered_before_bytes: newest.delivered_bytes(),
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
    /// The one that was sent last.
    pub newest: Option<SentState>,
}

impl Delivery {
    pub fn add(&mut self, record: &Record, is_selective: bool) {
        self.bytes += record.end().distance_from(record.seq) as u32;
        self.is_selective |= is_selective;
        if self.newest.is_none_or(|newest| record.sent.at >= newest.at) {
            self.newest = Some(record.sent);
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
        let at = record.sent.at;
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
