//! Congestion controls of the out-of-tree kernel (multipath-tcp/mptcp v0.9x) with its integer
//! arithmetic, including flaws, to reproduce papers that used it. Windows are whole packets; times
//! are eighths of a microsecond, as in its `srtt_us`.

pub mod balia;
pub mod lia;
pub mod olia;
pub mod wvegas;

use super::whole_packets::{packets, set_packets};
use super::{Acked, Congestion, Context, Window};

/// `TCP_INFINITE_SSTHRESH`.
const INFINITE_SSTHRESH: u32 = i32::MAX as u32;

/// A subflow in the formulas of the out-of-tree kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Congestion window in packets (`snd_cwnd`).
    pub window_packets: u32,
    /// Smoothed round-trip time in eighths of a microsecond, above 0 (`srtt_us`).
    pub srtt_eighths_us: u32,
}

impl Path {
    fn new(window: &Window) -> Self {
        let eighths = window.srtt.unwrap_or(0) / 125;
        Self {
            window_packets: packets(window),
            srtt_eighths_us: u32::try_from(eighths).unwrap_or(u32::MAX).max(1),
        }
    }
}

/// Returns the numbers and windows of the subflows that are usable and have a round-trip time.
fn counted<'a>(context: &'a Context<'_>) -> impl DoubleEndedIterator<Item = (usize, &'a Window)> {
    let windows = context.all().iter().enumerate();
    windows.filter(|(_, window)| window.counts())
}

/// `cnt_established`: returns the number of usable subflows.
fn established(context: &Context<'_>) -> u32 {
    context
        .all()
        .iter()
        .map(|window| u32::from(window.is_usable))
        .sum()
}

fn ssthresh_packets(window: &Window) -> u32 {
    (window.ssthresh_bytes / f64::from(window.mss_bytes)) as u32
}

/// Sets ssthresh. Values of at least [`INFINITE_SSTHRESH`] mean that there is none.
fn set_ssthresh_packets(context: &mut Context<'_>, packets: u32) {
    let bytes = f64::from(packets) * f64::from(context.this().mss_bytes);
    let is_infinite = packets >= INFINITE_SSTHRESH;
    context.set_ssthresh(if is_infinite { f64::INFINITY } else { bytes }, 1.0);
}

fn acked_packets(context: &Context<'_>, acked: &Acked) -> u32 {
    acked.bytes.div_ceil(context.this().mss_bytes)
}

/// `tcp_reno_ssthresh`: returns ssthresh after a loss.
fn reno_ssthresh(window_packets: u32) -> u32 {
    (window_packets / 2).max(2)
}

/// Returns whether the window was in slow start, and if so grows it. It ends above ssthresh, as in
/// Linux 4.1, on which v0.91 is based.
fn slow_start(context: &mut Context<'_>, acked: &Acked) -> bool {
    let (window, ssthresh) = (packets(context.this()), ssthresh_packets(context.this()));
    if window > ssthresh {
        return false;
    }
    let grown = window + acked_packets(context, acked);
    set_packets(context, grown.min(ssthresh.saturating_add(1)));
    true
}

/// Sets ssthresh. After a timeout, the window becomes one packet; otherwise it shrinks to ssthresh
/// step by step.
fn reduce(context: &mut Context<'_>, congestion: Congestion, ssthresh_packets: u32) {
    set_ssthresh_packets(context, ssthresh_packets);
    if congestion == Congestion::Timeout {
        context.collapse();
    }
}

/// `snd_cwnd_cnt`: progress towards the next packet of growth.
#[derive(Clone, Copy, Debug, Default)]
struct Counter(u32);

impl Counter {
    /// Counts an acknowledgment, whatever it covers. Returns whether the window grew. LIA and BALIA
    /// check before they count, so growth takes one more acknowledgment than `threshold`.
    fn count_ack(&mut self, context: &mut Context<'_>, threshold: u32) -> bool {
        let grows = self.0 >= threshold;
        if grows {
            set_packets(context, packets(context.this()) + 1);
            self.0 = 0;
        } else {
            self.0 += 1;
        }
        grows
    }

    /// `tcp_reno_cong_avoid`: grows the window as Reno does.
    fn reno(&mut self, context: &mut Context<'_>, acked: &Acked) {
        if !acked.is_window_limited || slow_start(context, acked) {
            return;
        }
        let window = packets(context.this());
        self.0 += acked_packets(context, acked);
        if self.0 >= window {
            set_packets(context, window + self.0 / window);
            self.0 %= window;
        }
    }
}
