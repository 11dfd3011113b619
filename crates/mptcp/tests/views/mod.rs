//! Subflows and connections as a scheduler sees them.

use mptcp::sched::{Range, Reason, SubflowView, View};
use mptcp::time::MILLISECOND;

pub const MSS_BYTES: u32 = 1428;

/// Returns an established subflow with an empty window of ten segments and a buffer that is never
/// full.
pub fn subflow(id: u32) -> SubflowView {
    SubflowView {
        id,
        is_usable: true,
        is_backup: false,
        is_stale: false,
        in_loss: false,
        is_open: true,
        srtt: 20 * MILLISECOND,
        rttvar: MILLISECOND,
        mss_bytes: MSS_BYTES,
        cwnd_bytes: 10 * MSS_BYTES,
        ssthresh_bytes: u32::MAX,
        in_flight_bytes: 0,
        queued_bytes: 0,
        unacked_bytes: 0,
        buffer_bytes: u32::MAX,
        is_throttled: false,
        pacing_rate: 1e6,
        sent_bytes: 0,
        resent_bytes: 0,
        missed_intervals: 0,
        has_carried_head: false,
    }
}

/// Returns a view of `len` bytes of new data that fit into the peer's window. Nothing was sent yet.
pub fn new_data(subflows: &[SubflowView], len: u64) -> View<'_> {
    View {
        now: 0,
        reason: Reason::NewData,
        subflows,
        head: Range { start: 0, len },
        acked_bytes: 0,
        written_bytes: len,
        assigned_bytes: 0,
        window_bytes: 1 << 30,
    }
}
