//! TCP small queues: how much of a subflow may wait in its host, before the first link (`tcp_small_queue_check` of Linux).
//!
//! Who sends the segments tells what waits there ([`Subflow::waits_in_host`]) and what has left ([`Subflow::departed`]). Where it says
//! nothing, nothing waits, and nothing is held back.

use super::{Output, Subflow, segment_memory_bytes};
use crate::cc::Window;

/// Segments that may wait however slow the subflow is.
const LEAST_SEGMENTS: f64 = 2.0;

/// What it sends in a 1024th of a second may wait (`sk_pacing_shift`).
const PACING_PARTS: f64 = 1024.0;

/// The most that may wait (`net.ipv4.tcp_limit_output_bytes`).
const MOST_BYTES: f64 = 4_194_304.0;

/// So much more for what is sent again.
const RETRANSMISSION_FACTOR: f64 = 2.0;

/// So many segments that are not acknowledged hold back nothing: at least one is on its way whatever waits.
const ALWAYS_SENT: usize = 1;

/// What waits in the host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SmallQueue {
    /// Memory of the segments, as Linux counts it.
    waiting_bytes: u32,
    /// Something was held back, and nothing has left since.
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

/// The memory that may wait, in bytes, of a subflow that sends so many bytes a second in segments of that memory.
fn limit_bytes(pacing_rate: f64, segment_memory_bytes: u32) -> f64 {
    let least = LEAST_SEGMENTS * f64::from(segment_memory_bytes);
    least.max(pacing_rate / PACING_PARTS).min(MOST_BYTES)
}

impl Subflow {
    /// A segment of it with so much payload waits in the host. Acknowledgments count for nothing.
    pub fn waits_in_host(&mut self, payload_bytes: u32) {
        self.small_queue.waiting_bytes += memory_bytes(payload_bytes);
    }

    /// One that waited has left the host; whether the subflow may now send what was held back.
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

    /// Whether it is held back because so much of it waits in the host.
    pub fn is_throttled(&self) -> bool {
        self.small_queue.is_throttled
    }

    /// Whether data is held back; then it is noted.
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
