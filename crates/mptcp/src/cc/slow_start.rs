//! Slow start, shared by all controls that use a window.

use super::Context;

/// Returns the number of bytes by which an acknowledgment of `acked_bytes` grows the window in slow
/// start: at most `limit_packets` segments of `mss_bytes` (RFC 3465, section 2.2).
pub fn increase_bytes(acked_bytes: f64, mss_bytes: u32, limit_packets: f64) -> f64 {
    acked_bytes.min(limit_packets * f64::from(mss_bytes))
}

/// Grows the window up to ssthresh. Returns the bytes that are left for congestion avoidance.
pub(super) fn grow(context: &mut Context<'_>, acked_bytes: f64, limit_packets: f64) -> f64 {
    let window = context.this();
    if !window.in_slow_start() {
        return acked_bytes;
    }
    let room = window.ssthresh_bytes - window.cwnd_bytes;
    let increase = increase_bytes(acked_bytes, window.mss_bytes, limit_packets);
    if increase < room {
        context.grow(increase);
        return 0.0;
    }
    context.set_cwnd(window.ssthresh_bytes);
    increase - room
}
