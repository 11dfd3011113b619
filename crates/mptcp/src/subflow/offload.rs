//! Segmentation offload: which segments leave together, and when one is deferred (`tcp_write_xmit`,
//! `tcp_tso_autosize` and `tcp_tso_should_defer` of Linux).
//!
//! The engine still emits the segments of a super-packet one by one. The network sees two effects:
//! a window that opens by one segment at a time is used in pairs, and PSH ends each super-packet of
//! several segments.

use super::recovery::Phase;
use super::{Output, Segmentation, Subflow};
use crate::cc::Window;
use crate::time::{MICROSECOND, MILLISECOND, Nanos};

/// The largest super-packet, with headers (`GSO_LEGACY_MAX_SIZE`).
const MOST_BYTES: u32 = 65_536;
/// The room for headers in it (`MAX_TCP_HEADER` and one byte).
const HEADROOM_BYTES: u32 = 321;
/// A super-packet holds the bytes of 1/1024 s at the pacing rate (`sk_pacing_shift`).
const PACING_PARTS: f64 = 1024.0;
/// In addition it holds the maximum for a minimum RTT below 512 us, half of it below 1024 us, and
/// so on (`net.ipv4.tcp_tso_rtt_log`).
const ROUND_TRIP_SHIFT: u32 = 9;
/// Segments that a super-packet may hold at any pacing rate (`net.ipv4.tcp_min_tso_segs`).
const LEAST_SEGMENTS: u32 = 2;
/// A subflow that has sent nothing for longer does not defer.
const RECENT: Nanos = MILLISECOND;
/// A subflow that may send this part of its window does not defer
/// (`net.ipv4.tcp_tso_win_divisor`).
const WINDOW_PARTS: u32 = 3;

/// The super-packet that is being sent, and the socket buffer from which it is taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offload {
    /// Segments of the super-packet.
    segments: u32,
    /// Segments of it that are not sent yet.
    left: u32,
    /// Segments left in the buffer. A super-packet never spans two buffers, so a single segment
    /// leaves at the end of a buffer with an odd number of segments.
    in_buffer: u32,
}

impl Offload {
    /// Counts one segment of the current super-packet as sent. Returns whether it is the last of
    /// several segments, which carries PSH.
    pub fn take(&mut self) -> bool {
        let is_last = self.left == 1 && self.segments > 1;
        self.left = self.left.saturating_sub(1);
        self.in_buffer = self.in_buffer.saturating_sub(1);
        is_last
    }
}

/// Returns the maximum number of segments in a super-packet. `pacing_rate` is in bytes per second.
fn most_segments(pacing_rate: f64, min_rtt: Option<Nanos>, segment_bytes: u32) -> u32 {
    let in_time = (pacing_rate / PACING_PARTS).min(f64::from(MOST_BYTES)) as u32;
    let halvings = min_rtt.map_or(u64::MAX, |min| (min / MICROSECOND) >> ROUND_TRIP_SHIFT);
    let nearby =
        u32::try_from(halvings).map_or(0, |shift| MOST_BYTES.checked_shr(shift).unwrap_or(0));
    let most = MOST_BYTES - HEADROOM_BYTES;
    let bytes = in_time.saturating_add(nearby).min(most);
    (bytes / segment_bytes).max(LEAST_SEGMENTS)
}

impl Subflow {
    /// Returns whether a segment of new data may be sent now. If not, the segment waits for an
    /// acknowledgment, because it can then be sent together with others in one super-packet. Begins
    /// a super-packet if none is being sent.
    pub(super) fn joins_packet(&mut self, output: &Output<'_, '_>) -> bool {
        if self.config.segmentation != Segmentation::Offload || self.offload.left > 0 {
            return true;
        }
        if self.offload.in_buffer == 0 {
            self.offload.in_buffer = self.buffer_segments();
        }
        let window = output.control.window();
        let most = most_segments(self.pacing.rate(window), self.rtt.min(), self.segment_bytes);
        let allowed = self.allowed_bytes(window) / self.segment_bytes;
        let there = self
            .offload
            .in_buffer
            .min(self.queue.bytes().div_ceil(self.segment_bytes));
        if there > 1
            && allowed < most
            && allowed < there
            && self.waits_for_others(window, output.now)
        {
            return false;
        }
        let segments = most.min(allowed).min(there).max(1);
        (self.offload.segments, self.offload.left) = (segments, segments);
        true
    }

    /// Returns the segments of a socket buffer: as many as the largest super-packet holds, and at
    /// most half the peer's largest window.
    fn buffer_segments(&self) -> u32 {
        let bytes = (MOST_BYTES - HEADROOM_BYTES).min(self.peer_window.largest / 2);
        (bytes / self.segment_bytes).max(1)
    }

    /// Returns the bytes that cwnd and the receive window allow.
    fn allowed_bytes(&self, window: &Window) -> u32 {
        let of_congestion = self.unused_cwnd_bytes(window);
        self.usable_window().min(of_congestion.max(0.0) as u32)
    }

    fn unused_cwnd_bytes(&self, window: &Window) -> f64 {
        window.cwnd_bytes - f64::from(self.pipe_bytes())
    }

    /// Returns whether the unused part of cwnd is smaller than that of the peer's window.
    pub(super) fn is_cwnd_smaller(&self, window: &Window) -> bool {
        self.unused_cwnd_bytes(window) < f64::from(self.usable_window())
    }

    /// Returns whether the next acknowledgment is expected soon and will allow more.
    fn waits_for_others(&self, window: &Window, now: Nanos) -> bool {
        let is_repairing = matches!(self.recovery.phase, Phase::FastRecovery | Phase::Loss);
        if is_repairing || self.flight.is_empty() || now - self.last_sent_at > RECENT {
            return false;
        }
        let whole = self.peer_window.bytes.min(window.cwnd_bytes as u32);
        let under_way = now - self.flight.record(0).sent_at;
        self.allowed_bytes(window) < whole / WINDOW_PARTS
            && under_way >= self.rtt.srtt().unwrap_or(0) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_at_5_mbit_and_a_whole_packet_at_10_gbit_or_next_door() {
        assert_eq!(most_segments(600e3, Some(40 * MILLISECOND), 1448), 2);
        assert_eq!(most_segments(15e6, Some(40 * MILLISECOND), 1448), 10);
        assert_eq!(most_segments(1.5e9, Some(40 * MILLISECOND), 1448), 45);
        assert_eq!(most_segments(600e3, Some(100 * MICROSECOND), 1448), 45);
        // Three times 512 us: an eighth of 64 KiB, and the 585 bytes of its pace.
        assert_eq!(most_segments(600e3, Some(2 * MILLISECOND), 1448), 6);
        assert_eq!(most_segments(600e3, None, 1448), 2);
    }
}
