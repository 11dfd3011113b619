//! Proportional rate reduction (RFC 6937, RFC 9937): cwnd reaches ssthresh at the end of recovery
//! and not before.

/// Counts bytes since the beginning of a recovery, for proportional rate reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prr {
    /// RecoverFS: bytes outstanding at the beginning of recovery.
    pub recover_fs: u64,
    /// prr_delivered: bytes delivered to the receiver since the beginning of recovery.
    pub delivered: u64,
    /// prr_out: bytes sent since the beginning of recovery.
    pub out: u64,
}

impl Prr {
    /// Creates the counters for a recovery that begins with `outstanding_bytes` outstanding.
    pub fn new(outstanding_bytes: u64) -> Self {
        Self {
            recover_fs: outstanding_bytes.max(1),
            ..Self::default()
        }
    }

    /// Returns how many bytes may be sent in answer to an acknowledgment (RFC 9937, section 6).
    ///
    /// `ssthresh` is the target of cwnd, `pipe` the data in flight and `mss` the size of a segment.
    /// `newly_delivered` is the data that the acknowledgment delivered; it must already be counted
    /// in `delivered`. `is_safe` means that the acknowledgment advanced SND.UNA and showed no
    /// further loss, so one more segment may be sent. RFC 6937 treats every acknowledgment as safe.
    /// All values are in bytes.
    pub fn send_count(
        &self,
        ssthresh: f64,
        pipe: f64,
        newly_delivered: f64,
        mss: f64,
        is_safe: bool,
    ) -> f64 {
        if pipe > ssthresh {
            let due = (self.delivered as f64 * ssthresh / self.recover_fs as f64).ceil();
            return (due - self.out as f64).max(0.0);
        }
        let behind = (self.delivered as f64 - self.out as f64).max(newly_delivered);
        let slow_start = if is_safe { mss } else { 0.0 };
        (behind + slow_start).min(ssthresh - pipe)
    }
}
