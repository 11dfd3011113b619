//! TCP small queues: a limit on the data of a subflow that waits in its host before the first link
//! (Linux's `tcp_small_queue_check`).
//!
//! The driver reports segments that wait ([`Subflow::waits_in_host`]) and that have left
//! ([`Subflow::departed`]). Without such reports nothing is held back.

use super::{Output, Subflow, segment_memory_bytes};
use crate::cc::Window;

/// Segments that may always wait, however slow the subflow is.
const LEAST_SEGMENTS: f64 = 2.0;

/// The data that the subflow sends in 1/1024 s may wait (`sk_pacing_shift`).
const PACING_PARTS: f64 = 1024.0;

/// The most that may wait, in bytes (`net.ipv4.tcp_limit_output_bytes`).
const MOST_BYTES: f64 = 4_194_304.0;

/// The factor of the limit for retransmissions.
const RETRANSMISSION_FACTOR: f64 = 2.0;

/// The number of unacknowledged segments up to which nothing is held back, so that at least one is
/// in flight whatever waits.
const ALWAYS_SENT: usize = 1;

/// Counts the segments of a subflow that wait in its host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SmallQueue {
    /// Memory of the waiting segments, as Linux counts it.
    waiting_bytes: u32,
    /// Whether data is held back because too much data of the subflow waits in the host.
    pub is_throttled: bool,
}

impl SmallQueue {
    pub fn is_empty(self) -> bool {
        self.waiting_bytes == 0
    }

    fn is_beyond(self, limit_bytes: f64) -> bool {
        f64::from(self.waiting_bytes) > limit_bytes
    }
}

/// Returns the memory that may wait, in bytes, for a subflow that sends `pacing_rate` bytes per
/// second in segments of `segment_memory_bytes`.
fn limit_bytes(pacing_rate: f64, segment_memory_bytes: u32) -> f64 {
    let least = LEAST_SEGMENTS * f64::from(segment_memory_bytes);
    least.max(pacing_rate / PACING_PARTS).min(MOST_BYTES)
}

impl Subflow {
    /// Reports that a segment with `payload_bytes` of payload waits in the host. Segments without
    /// payload do not count.
    pub fn waits_in_host(&mut self, payload_bytes: u32) {
        self.small_queue.waiting_bytes += memory_bytes(payload_bytes);
    }

    /// Reports that a segment with `payload_bytes` of payload that waited has left the host.
    /// Returns whether the subflow may now send data that was held back. `window` is its congestion
    /// window.
    pub fn departed(&mut self, payload_bytes: u32, window: &Window) -> bool {
        let left = memory_bytes(payload_bytes);
        let waiting = self.small_queue.waiting_bytes.saturating_sub(left);
        self.small_queue.waiting_bytes = waiting;
        let resumes = self.small_queue.is_throttled && !self.is_host_full(window, false);
        if resumes {
            self.small_queue.is_throttled = false;
            self.rest = super::Rest::Unknown;
        }
        resumes
    }

    /// Returns whether the subflow is held back because too much of its data waits in the host.
    pub fn is_throttled(&self) -> bool {
        self.small_queue.is_throttled
    }

    /// Returns whether the next segment is held back because too much data of the subflow waits in
    /// the host, and records the answer for [`Subflow::is_throttled`]. The limit for
    /// retransmissions is twice as large.
    pub(super) fn is_held_back(
        &mut self,
        output: &Output<'_, '_>,
        is_retransmission: bool,
    ) -> bool {
        if self.small_queue.is_empty() {
            return false;
        }
        let is_full = self.flight.segments() > ALWAYS_SENT
            && self.is_host_full(output.control.window(), is_retransmission);
        self.small_queue.is_throttled = is_full;
        is_full
    }

    fn is_host_full(&self, window: &Window, is_retransmission: bool) -> bool {
        let segment = segment_memory_bytes(self.segment_bytes);
        let limit = limit_bytes(self.pacing.rate(window), segment);
        let factor = if is_retransmission {
            RETRANSMISSION_FACTOR
        } else {
            1.0
        };
        self.small_queue.is_beyond(factor * limit)
    }
}

fn memory_bytes(payload_bytes: u32) -> u32 {
    match payload_bytes {
        0 => 0,
        _ => segment_memory_bytes(payload_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_segments_or_a_1024th_of_a_second_whichever_is_more() {
        let segment = segment_memory_bytes(1448);
        assert_eq!(limit_bytes(1e6, segment), 4608.0);
        assert_eq!(limit_bytes(1.2 * 12.5e6, segment), 14_648.437_5);
        assert_eq!(limit_bytes(f64::INFINITY, segment), MOST_BYTES);
    }
}
