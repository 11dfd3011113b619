//! The subflows of a connection as used in coupled formulas: windows in packets, times in seconds.

use super::{Context, Window};
use crate::time::seconds;

/// A subflow in the formulas of coupled congestion controls. Not to be confused with a path of the
/// network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Number of the subflow in its connection: its index into [`Context::all`].
    pub subflow: usize,
    /// Congestion window w in full-sized segments, not rounded.
    pub window_packets: f64,
    /// Payload of a full-sized segment in bytes.
    pub mss_bytes: u32,
    /// Smoothed round-trip time in seconds, above 0.
    pub rtt_s: f64,
    /// OLIA's l in packets: the larger of the number acknowledged since the last loss and the
    /// number between the last two losses.
    pub loss_interval_packets: f64,
}

impl Path {
    fn new(subflow: usize, window: &Window) -> Self {
        let loss_interval = window
            .acked_since_loss_bytes
            .max(window.acked_between_losses_bytes);
        Self {
            subflow,
            window_packets: settled_bytes(window) / f64::from(window.mss_bytes),
            mss_bytes: window.mss_bytes,
            rtt_s: window.srtt.map_or(0.0, seconds),
            loss_interval_packets: loss_interval as f64 / f64::from(window.mss_bytes),
        }
    }

    /// Returns the rate x = w/rtt in packets per second.
    pub fn rate(&self) -> f64 {
        self.window_packets / self.rtt_s
    }
}

/// Returns the window that recovery ends with: ssthresh, or cwnd if that is smaller, as after a
/// timeout. Formulas use it because cwnd still changes during recovery.
fn settled_bytes(window: &Window) -> f64 {
    if window.in_recovery {
        window.cwnd_bytes.min(window.ssthresh_bytes)
    } else {
        window.cwnd_bytes
    }
}

/// Returns the sum of the congestion windows of `paths`, in packets.
pub fn total_packets(paths: &[Path]) -> f64 {
    paths.iter().map(|path| path.window_packets).sum()
}

/// Returns the increase (w_r/rtt_r^2) / (sum of w/rtt)^2 in packets per acknowledged packet, for
/// path r, which is `paths[subflow]`.
///
/// LIA uses the maximum over all paths as its increase; OLIA and BALIA add to this value. For a
/// single path it is exactly 1/w.
pub fn linked_increase(paths: &[Path], subflow: usize) -> f64 {
    let path = &paths[subflow];
    let sum = sum_in_rtts_of(path, paths);
    path.window_packets / sum / sum
}

/// Returns how many packets all `paths` together send within one round-trip time of `path`.
pub fn sum_in_rtts_of(path: &Path, paths: &[Path]) -> f64 {
    let packets = |other: &Path| other.window_packets * (path.rtt_s / other.rtt_s);
    paths.iter().map(packets).sum()
}

/// The paths of a hook, in a reused buffer.
#[derive(Debug, Default)]
pub(super) struct Paths(Vec<Path>);

impl Paths {
    /// Returns the subflows that count and the index of the one that the hook concerns. A subflow
    /// without a round-trip time is treated as the only one.
    pub fn of(&mut self, context: &Context<'_>) -> (&[Path], usize) {
        self.0.clear();
        if !context.this().counts() {
            self.0.push(Path {
                rtt_s: 1.0,
                ..Path::new(context.subflow(), context.this())
            });
            return (&self.0, 0);
        }
        let windows = context.all().iter().enumerate();
        let counted = windows.filter(|(_, window)| window.counts());
        self.0
            .extend(counted.map(|(subflow, window)| Path::new(subflow, window)));
        let this = self
            .0
            .partition_point(|path| path.subflow < context.subflow());
        (&self.0, this)
    }
}
