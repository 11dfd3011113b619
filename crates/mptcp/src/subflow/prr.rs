//! Proportional rate reduction (RFC 6937, RFC 9937): cwnd reaches ssthresh at the end of recovery, and no sooner.

/// Numbers of bytes since recovery began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prr {
    /// RecoverFS: what was outstanding when it began.
    pub recover_fs: u64,
    /// prr_delivered: delivered since.
    pub delivered: u64,
    /// prr_out: sent since.
    pub out: u64,
}

impl Prr {
    /// Recovery begins with so many bytes outstanding.
    pub fn new(outstanding_bytes: u64) -> Self {
        Self {
            recover_fs: outstanding_bytes.max(1),
            ..Self::default()
        }
    }

    /// How many bytes an acknowledgment allows to be sent (RFC 9937, section 6). `pipe` is in flight, `newly_delivered` came
    /// with the acknowledgment and is counted in `delivered` already. With `is_safe`, the acknowledgment advanced and told of
    /// no further loss, and one segment more may go; RFC 6937 takes every acknowledgment for safe. All in bytes.
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
